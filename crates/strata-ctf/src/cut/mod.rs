//! Cutting a trace: some of its event records as a smaller trace of the same description.
//!
//! The metadata stays as it is, and so do the bytes of each record, but for what its place in the packet
//! decides: padding, and a timestamp that would mean another time behind another record. Packets are made
//! anew: their sizes, times, numbers and counts are those of what is in them.

mod class;
mod copy;
mod cutter;
mod error;
mod file;
mod head;
mod stream;
mod writer;

pub use cutter::Cutter;
pub use error::CutError;
