//! Traces as an SQLite database: event records, and what a timeline finds in them, as tables.
//!
//! ```text
//! Event ── Exporter (timeline, Rows) ── Batch of rows ── writer: a thread with the database
//! ```
//!
//! The database is written at its path without a journal. To make it appear only when it is complete, the caller
//! renames it afterwards.

mod batch;
mod exporter;
mod json_field;
mod locks;
mod rows;
mod schema;
mod stacks;
#[cfg(test)]
mod tests;
mod text;
mod writer;

pub use exporter::{Exporter, Options, Summary};
pub use json_field::{field_json, record_json};
pub use schema::{empty_timeline, of_event_table, TimelineNames, VERSION as SCHEMA_VERSION};
