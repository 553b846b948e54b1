//! Decodes event records from the bytes of a packet.
//!
//! ```text
//! schema ──compile──> Plan: ops, steps             once, for each part that packets and records have
//! bytes ──skip──> where a record's parts end       for each record: StreamDecoder::record()
//! bytes ──walk──> fields                           for callers: Event::visit(), Event::value()
//! ```
//!
//! The two ways are apart because most records are only counted, filtered by one field, or passed over: `skip_part` needs
//! the end of a record, and takes no step for a field of fixed size. A field that somebody asks for is found by its
//! [`FieldPath`], once by name, and then read at its place (`field_path`); all fields of a record are shown by
//! `decode_fields`. `plan` explains both lists, and `compile` makes them.
//!
//! ```text
//! trace::Decoder            all plans of a trace; packet headers
//!   └─ stream::StreamDecoder   from record to record: header (its id chooses the class), contexts, payload
//!        ├─ state                 the time, and values that lengths and variants of later fields need (registers)
//!        └─ record_view           what a caller gets, valid until the next record
//! ```
//!
//! Bytes and schema may have any content. Each position is checked against the bytes in memory (`window`, which may hold
//! less than a packet), and a packet that does not fit is [`Bad`]: what was decoded before it stays, and the reader goes on
//! with the next packet.
//!
//! A decoder belongs to one thread; plans are shared by all that read the trace.

mod bits;
mod classes;
mod compile;
mod decode_fields;
mod field_path;
mod header;
mod plan;
mod record_view;
mod registers;
mod skip_part;
mod state;
mod stop_reason;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
mod window;

pub(crate) use bits::{find_nul, leb128, mask as low_bits, read as read_bits, Leb};
pub use field_path::FieldPath;
pub(crate) use field_path::Fixed;
pub(crate) use record_view::{ClassPlans, RecordView};
pub(crate) use skip_part::later;
pub(crate) use state::{DecodeState, RecordPlace, RecordShape};
pub(crate) use stop_reason::NoRecord;
pub use stop_reason::{Bad, BadKind};
pub(crate) use stream::{PacketContext, StreamDecoder};
pub(crate) use trace::Decoder;
pub(crate) use window::{align_up, Window};
