//! Writes traces as Parquet files: the tables of `strata sql`, in a dataset in which each trace is a partition.
//!
//! ```text
//! DIR/TABLE/date=2026-11-29/host=NAME/trace=ID/part-0.parquet
//!
//! Database (strata-sql) ─┬─ rows of queries and of events ─────────────────────┬─ TableWriter: a row group in memory
//!                        └─ pass for the timeline ── TimelineRows ── sorted rows ┘    └─ file under a hidden name ── rename
//! ```
//!
//! Event records, and the timeline's tables that may be large, do not go through SQLite: nothing of them is asked but all of it.
//! `timeline_rows` takes those rows in the pass that fills SQLite's tables, sorts them in files, and joins the names of threads.
//!
//! [`Export`] is one trace and one dataset. The partition is made of the trace: its date, its host, and its identity, so that an
//! export that is repeated meets its own files and no others, and replaces them if that was asked for. A file appears when it is complete, by a rename; readers of the
//! dataset never see a part of one, and a broken export leaves what was there before.
//!
//! Columns have the types of SQL's tables ([`TableColumn`]); a column that a table of another version lacks is null for readers, as
//! usual in a dataset. A part of a trace is a partition of its own, beside the whole one ([`Part`]). The memory is that of one row group of one table, whatever the size of the trace.
//!
//! This is a program of its own (decision 0053): Arrow's code is larger than all of `strata`, and few need it.
//!
//! # Threads
//! One thread asks the database and fills row groups; the database's scan has its own thread. A column's type is
//! decided by the table and not by its values, so files of different traces fit together in one dataset.

mod column;
mod dataset;
mod dictionary;
mod file_sums;
mod kept_values;
mod part;
mod sorted_rows;
mod tables;
#[cfg(test)]
mod tests;
mod threads;
mod timeline_rows;
mod writer;

pub use dataset::{Export, Written};
pub use part::Part;
pub use tables::{Kind, TableColumn};
pub use writer::{FileOrigin, TableWriter};
