//! Decodes event records from the bytes of a packet.
//!
//! ```text
//! schema ──compile──> Plan: ops, steps             once, for each part that packets and records have
//! bytes ──skip──> where a record's parts end       for each record: StreamDecoder::record()
//! bytes ──walk──> fields                           for callers: Event::visit(), Event::value()
//! ```
//!
//! Bytes and schema may have any content. Each position is checked against the bytes in memory, and a packet that does
//! not fit is [`Bad`].

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
