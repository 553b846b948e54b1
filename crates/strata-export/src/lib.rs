//! Traces in the formats of other tools: Perfetto's, and an SQLite database.
//!
//! ```text
//! Reader ── messages in order ─┬─ perfetto::Exporter ── packets ── any io::Write
//!                              └─ sql::Exporter ── rows ── a thread with the database
//!    both with a strata_timeline::Timeline inside, which interprets records
//! ```
//!
//! Both exporters have the same use: make one for a reader, pass each message to `event` or `skip`, and call
//! `finish`, which returns a summary of what could not be exported. They read no file and print nothing; `strata
//! export` does.
//!
//! This crate is separate, so that programs that only read traces or make reports need neither an encoder of protocol
//! buffers nor a database.

#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../strata-analyze/src/hand_tests.rs"]
mod hand_tests;
pub mod perfetto;
pub mod sql;
