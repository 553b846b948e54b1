//! Reports as data, and the renderers that need nothing but the data.
//!
//! Each report of `strata analyze` defines its columns once: a [`Columns`] has a title for people, a key for programs,
//! a [`Unit`] and a function for each of them. A [`Document`] has the rows of all its tables, facts about the whole
//! report, and notes. One renderer each makes text for a terminal, JSON and CSV of a document; code that shows reports
//! elsewhere, in a page or in SQL, takes the same document.
//!
//! ```text
//! counters  ──▶ rows ──▶ Columns ──▶ Document ──▶ json.rs, csv.rs, a table for a terminal
//! (Times, Histogram, Label: what rows of all reports are made of)
//! ```
//!
//! ```
//! use strata_report::{Columns, Document, Unit, Value};
//!
//! let columns = Columns::new()
//!     .both("file", "name", Unit::Text, |row: &(&str, u64)| Value::text(row.0))
//!     .both("bytes", "read_bytes", Unit::Bytes, |row| Value::Uint(row.1));
//! let table = columns.rows(&[("/etc/passwd", 4096)]);
//! let mut document = Document::new("1 file");
//! document.rows(table, 1);
//! assert_eq!(strata_report::csv(&document), "name,read_bytes\n/etc/passwd,4096\n");
//! ```
#![forbid(unsafe_code)]

mod csv;
mod document;
mod histogram;
mod json;
mod label;
mod table;
mod times;
mod value;

pub use csv::csv;
pub use document::{Document, Part};
pub use histogram::{Histogram, QUANTILE_ERROR};
pub use json::{label_keys, members, record_json};
pub use label::Label;
pub use table::{Column, Columns, Figure, Shape, Table, Unit};
pub use times::Times;
pub use value::{Branch, Record, Value};
