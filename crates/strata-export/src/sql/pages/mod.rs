//! Writes tables and indexes in SQLite's file format, in the order of their rows.
//!
//! ```text
//! Record (one row) ── TableTree ── Node (one page) ── PageFile
//!      └─ IndexGroups ── IndexTree ── Node
//! ```
//!
//! SQLite makes the file, with all tables and indexes empty, and completes it at the end. In between, pages are
//! appended here: leaves in the order of their rows, and an inner page when it is full. The highest page of a b-tree
//! replaces the empty one that SQLite has made. The format is that of <https://sqlite.org/fileformat2.html>.

mod file;
mod groups;
mod index;
mod node;
mod record;
mod table;

pub(super) use file::{PageFile, PAGE};
pub(super) use groups::{EntryFile, IndexColumns, IndexGroups};
pub(super) use record::Record;
pub(super) use table::TableTree;
