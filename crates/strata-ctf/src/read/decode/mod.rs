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
mod header;
mod path;
mod plan;
mod registers;
mod skip;
mod state;
mod stop;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
mod view;
mod walk;
mod window;

pub(crate) use bits::{find_nul, leb128, mask as low_bits, read as read_bits, Leb};
pub use path::FieldPath;
pub(crate) use path::Fixed;
pub(crate) use skip::later;
pub(crate) use state::{DecodeState, RecordPlace, RecordShape};
pub(crate) use stop::NoRecord;
pub use stop::{Bad, BadKind};
pub(crate) use stream::{PacketContext, StreamDecoder};
pub(crate) use trace::Decoder;
pub(crate) use view::{ClassPlans, RecordView};
pub(crate) use window::{align_up, Window};
