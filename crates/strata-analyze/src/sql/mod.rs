//! Traces as an SQLite database: event records, and what a timeline tells of them, as tables.
//!
//! ```text
//! Event ── Exporter (timeline, Rows) ── Batch of rows ── writer: a thread with the database
//! ```
//!
//! The database is made at its path without a journal, so that whoever is to see it whole gives it its name afterwards.

mod batch;
mod exporter;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod writer;

pub use exporter::{Exporter, Options, Summary};
