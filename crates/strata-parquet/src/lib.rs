//! Writes traces as Parquet files: the tables of `strata sql`, in a dataset in which each trace is a partition.
//!
//! ```text
//! DIR/TABLE/date=2026-11-29/host=NAME/trace=ID/part-0.parquet
//!
//! Database (strata-sql) ── rows ── TableWriter: a row group in memory ── file under a hidden name ── rename
//! ```

mod column;
mod dataset;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use dataset::{Export, Written};
pub use tables::{Kind, TableColumn};
pub use writer::TableWriter;
