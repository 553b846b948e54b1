//! Cuts a trace: writes some of its event records as a smaller trace with the same metadata.
//!
//! The bytes of each record stay the same, except for padding, and for a timestamp that would be read as another time
//! after a different record. Packets are made anew, with sizes, times, numbers and counts of the records in them.

mod class;
mod cutter;
mod error;
mod field_copy;
mod file;
mod packet_head;
mod stream;
mod writer;

pub use cutter::Cutter;
pub use error::CutError;
