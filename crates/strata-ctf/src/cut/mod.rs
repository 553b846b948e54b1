//! Cuts a trace: writes some of its event records as a smaller trace with the same metadata.
//!
//! ```text
//! Reader ── chosen records ── Cutter ── by stream: stream.rs ── packet_head, field_copy ── writer ── file
//! ```
//!
//! The bytes of each record stay the same, except for padding, and for a timestamp that would be read as another time
//! after a different record. Packets are made anew, with sizes, times, numbers and counts of the records in them.
//!
//! A [`Cutter`] gets the records of each stream in their order, and writes them to a folder that exists and is empty: one
//! trace to the folder itself, several to folders below it. Records wait in memory up to a limit for each stream and one
//! for all. A record that cannot be copied faithfully, such as one whose time the metadata cannot express alone, ends the
//! cut with a [`CutError`].
//!
//! ```text
//! let mut cutter = Cutter::new(&reader, folder, range)?    metadata are copied as they are
//! for each message:  cutter.event(&event)?                 a wanted record; packets are written when they are full
//!                    cutter.discarded(&gap)?               counted in the packets that follow
//! let records = cutter.finish()?                           writes the rest
//! ```
//!
//! # Why metadata are not changed
//! A reader that can read the whole trace can read its part: field classes, clocks and ids stay. So the head of a
//! packet must be written in whatever form the metadata describe it (`packet_head`), by any tracer, with fields
//! that have roles (a size, a time) set anew and all others copied from a packet of the same stream. `strata
//! export --to ctf` is the only user; docs/guide/export.md describes it.

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
