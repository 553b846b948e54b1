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

mod catalog;
mod choice;
mod database;
mod error;
mod findings;
mod functions;
mod last_rows;
mod parameters;
mod row_batch;
mod scan;
mod shared_data;
mod span_join;
mod symbols;
mod table;
#[cfg(test)]
mod tests;
mod timeline_tables;

pub use choice::Options;
pub use database::{Cell, Database, RowSink, Tables};
pub use error::SqlError;
pub use findings::Found;
pub use parameters::Parameters;
pub use shared_data::StopCheck;
pub use strata_analyze::counters::CounterRule;
pub use strata_analyze::debug_info::SourceOptions;
pub use strata_export::sql::SCHEMA_VERSION;
pub use strata_timeline::PairRule;
