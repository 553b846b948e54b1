//! Traces in the formats of other tools: Perfetto's, OpenTelemetry's, and an SQLite database.
//!
//! ```text
//! Reader ── messages in order ─┬─ perfetto::Exporter ── packets ── any io::Write
//!                              ├─ otlp::Exporter ── spans, in requests ── any function
//!                              └─ sql::Exporter ── rows ── a thread with the database
//!    all with a strata_timeline::Timeline inside, which interprets records
//! ```
//!
//! All exporters have the same use: make one for a reader, pass each message to `event` or `skip`, and call
//! `finish`, which returns a summary of what could not be exported. They read no file and print nothing; `strata
//! export` does.
//!
//! This crate is separate, so that programs that only read traces or make reports need neither an encoder of protocol
//! buffers nor a database.
//!
//! # An example
//! ```text
//! let mut exporter = perfetto::Exporter::new(&reader, &options, file);
//! for message in events { exporter.event(..) or skip(..) }       a record that the filter left out still changes states
//! let summary = exporter.finish()?;                               numbers for the message after the export
//! ```
//!
//! Both take names and values as they are in the trace, which may be hostile: texts are escaped or bound as
//! values, numbers have limits, and memory does not grow with the trace. docs/guide/export.md and
//! export-sqlite.md say what users get; `tests/interop` opens the results with the tools that they are for.

#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../strata-analyze/src/hand_tests.rs"]
mod hand_tests;
pub mod otlp;
pub mod perfetto;
pub mod sql;
