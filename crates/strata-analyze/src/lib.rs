//! Event records for people and other tools: as text, JSON and CSV, in reports, and counted.
//!
//! ```text
//! strata_ctf::read::Reader
//!   ├─ pipeline ── render     text, JSON, CSV: a record at a time
//!   │         └─── short      a line for each record, one line for both ends of a system call
//!   ├─ stats                  counts of records, bytes and losses by event and stream
//!   └─ strata_timeline::Timeline ── reports     system calls, threads, waits, locks, files, CPUs, memory, spans ...
//! debug_info: names of functions, lines and variables at addresses, for all of these
//! ```
//!
//! The modules at the top are shared: [`command_descendants`] finds the recorded command and what it started,
//! [`derived_facts`] gives filters what no record has by itself (process names, durations), [`counters`] resolves
//! counters that the user names, [`duration_text`] parses lengths of time.
//!
//! Nothing here prints or parses a command line, and nothing depends on a recorder: a trace of any tracer will do.
//! What a trace says is hostile. So every table that a trace can fill has a limit, and a report says when it has
//! reached it.
//!
//! The workers of a [`pipeline`] render slices of time in parallel, and their texts are joined in order. A timeline and the
//! report that observes it run in one thread.
//!
//! # Example
//! All reports have this shape (`reader` is a [`Reader`](strata_ctf::read::Reader) of some traces):
//!
//! ```text
//! let mut counter = CpuCounter::new(range, columns);
//! let passed = strata_timeline::pass::pass(&reader, &asked, &mut counter, &go_on, &mut damage)?;
//! let report = counter.finish(passed.timeline.world(), By::Process, &is_wanted);
//! ```

#![forbid(unsafe_code)]

pub mod command_descendants;
pub mod counters;
pub mod debug_info;
pub mod derived_facts;
pub mod duration_text;
pub mod fast_hash;
#[cfg(test)]
mod hand_tests;
pub mod pipeline;
pub mod render;
pub mod reports;
pub mod short;
pub mod stack_copy;
pub mod stats;
