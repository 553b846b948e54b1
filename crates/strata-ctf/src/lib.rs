//! The Common Trace Format: reads CTF 1.8 and 2 of any tracer, and writes CTF 1.8 and 2.
//!
//! A trace is a folder with a file `metadata`, which describes the records, and files of packets, one for each stream.
//! A stream has what one CPU (or another producer) wrote, in the order of time. A packet is a header, a context with
//! times, sizes and the number of discarded records, and then event records.
//!
//! ```text
//! reading   metadata ─ read::metadata ─▶ strata_model::schema ──────────────────┐
//!           packets  ───────────────────────────────────────────────────────▶ read ─▶ messages in the order of time
//! writing   strata_model::Trace ─▶ write ─▶ metadata and packet headers; records are copied as the ring has them
//! cutting   read ─▶ cut ─▶ a smaller trace, with chosen records as they were
//! ```
//!
//! # Modules
//! - [`read`] decodes traces. A [`read::Reader`] opens several traces at once, and gives their events merged by time.
//! - [`read::metadata`] parses what describes a trace: the TSDL of CTF 1.8 and the JSON of CTF 2.
//! - [`mod@write`] makes metadata, environments and packet headers. It does no I/O: `strata-collect` has the files.
//! - [`cut`] copies chosen records of a trace into a smaller trace.
//! - [`walk`] follows the records of one of Strata's own packets that is in no file yet, for snapshots and restarted sessions.
//! - [`end_mark`] has how a recording ended and what is missing from it, [`progress_mark`] how far a recording is written that
//!   has not ended. [`kernel_symbols`] and [`state_dump`] read what Strata puts beside the packets.
//!
//! # Hostile input
//! Every byte of a trace may be wrong, on purpose. Nothing here panics, loops without end or allocates more than the input
//! justifies. What cannot be read is skipped, and reported as [`read::Damage`] with its place; the rest is shown. The crate has no
//! `unsafe` code, and each of its parsers is a target of `tests/fuzz`.
//!
//! # Threads
//! Nothing here starts a thread. Iterators borrow an open [`read::Reader`], and each has its own windows
//! into the files, so that several threads may read disjoint ranges of time at once, as `strata-analyze` does.
//!
//! `docs/design/reading.md` explains how much time decoding takes, and for what.
#![deny(missing_docs, clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

mod attributes;
pub mod cut;
pub mod end_mark;
mod flags;
pub mod kernel_symbols;
pub mod packet_records;
pub mod progress_mark;
pub mod read;
pub mod state_dump;
pub mod write;

pub use strata_model as model;
pub use write::{environment, metadata, packet};
