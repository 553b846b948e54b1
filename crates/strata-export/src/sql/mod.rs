//! Traces as an SQLite database: event records, and what a timeline finds in them, as tables.
//!
//! ```text
//! Event ── Exporter ─┬─ rows of the record itself, in the table `event`                  json_field
//!                    └─ Timeline ── rows: states, calls, spans, counters                 rows, locks, stacks
//!                         └─▶ Batch of rows ── writer: a thread ─┬─ SQLite: the empty tables, and what changes at the end
//!                                                                └─ appended_rows ── pages: all rows and indexes
//! ```
//!
//! The schema is in `schema`, with its version; docs/guide/export-sqlite.md describes the tables. `strata sql` has
//! the same tables in a temporary database ([`empty_timeline`], [`of_event_table`]), so that a query gives the same answer on both.
//!
//! The reading thread makes rows and the writing thread appends them, many at once, since a message costs more than a row. Batches
//! are bounded by cells and bytes; if the database is slower than the reader, the reader waits.
//!
//! The database is written at its path without a journal. To make it appear only when it is complete, the caller
//! renames it afterwards. Texts are bytes of a trace: what is not UTF-8 is replaced, and nothing of it is part of an SQL statement.
//!
//! If a statement fails, as on a full disk, the writer's thread ends, the next batch finds its channel closed,
//! and the caller gets the thread's error. docs/decisions/0111 says what of the file SQLite writes, and what not.
//!
//! `tests` make databases of traces written by hand, and compare queries with known results and with the reports
//! of `strata analyze`.

mod appended_rows;
mod batch;
mod exporter;
mod json_field;
mod locks;
mod pages;
mod row_taker;
mod rows;
mod schema;
mod stacks;
#[cfg(test)]
mod tests;
mod text;
mod writer;
#[cfg(test)]
mod writer_tests;

pub use exporter::{Exporter, Options, Summary};
pub use json_field::{field_json, record_json};
pub use row_taker::{RowTaker, SharedTaker, TakenTable, TakenValue};
pub use schema::{empty_timeline, of_event_table, TimelineNames, VERSION as SCHEMA_VERSION};
