//! Queries traces in SQL: SQLite with virtual tables that read packets while a query runs, and with the tables of a
//! timeline.
//!
//! ```text
//! Database ── SQLite ─┬─ events, and one table for each event class ── EventScan (a thread) ── Reader
//!                     ├─ event_counts: counted when a query first names it
//!                     └─ state, syscall, span …: as `strata export --to sqlite` writes them, in a temporary file,
//!                        when a query first names one
//! ```
//!
//! A query reads: the authorizer refuses all else, so no text of a query opens or writes a file.
//!
//! # Flow of a query
//! 1. `catalog` tells SQLite the names of all tables, without reading a packet. A table of events gets its
//!    columns from the schema.
//! 2. SQLite plans the query, and asks `table` which conditions it can use. Bounds of time and names of events
//!    are used to skip packets; all others SQLite checks itself.
//! 3. [`EventScan`](scan) starts a thread that reads records and sends rows in batches, with the columns that the
//!    query needs and no others.
//! 4. A table of the timeline is filled when a query first names it, by one pass over all traces.
//!
//! # Threads and ends
//! A [`Database`] belongs to one thread. [`StopCheck`] is asked between rows and batches, so that Ctrl-C ends a
//! query within moments. What rows cannot show (damage, discarded records) is in [`Found`] after each query.
//! docs/decisions/0055 says why tables are virtual.

mod catalog;
mod choice;
mod database;
mod error;
mod findings;
mod functions;
mod last_rows;
mod parameters;
mod row_batch;
mod row_sink;
mod scan;
mod scan_cache;
mod shared_data;
mod span_join;
mod statement_end;
mod symbols;
mod table;
#[cfg(test)]
mod tests;
mod timeline_tables;

pub use choice::Options;
pub use database::{Database, EventRequest, Tables};
pub use error::SqlError;
pub use findings::Found;
pub use parameters::Parameters;
pub use row_sink::{Cell, EventRows, EventValue, RowSink};
pub use shared_data::{Remark, StopCheck};
pub use statement_end::ends_statement;
pub use strata_analyze::counters::CounterRule;
pub use strata_analyze::debug_info::SourceOptions;
pub use strata_export::sql::{RowTaker, SharedTaker, TakenTable, SCHEMA_VERSION};
pub use strata_timeline::PairRule;
pub use timeline_tables::temporary_folder;
