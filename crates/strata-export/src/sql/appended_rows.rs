//! Appends rows to the tables of a database that SQLite has made.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::batch::{Batch, SqlCell};
use super::pages::{EntryFile, IndexColumns, IndexGroups, PageFile, Record, TableTree};
use super::row_taker::{pass, SharedTaker, TakenTable};
use super::schema::{InsertStatement, SqlTable, INDEXES, TABLES};

/// Changes to waits that have rows, in their order: ended by a timer, or by a request. The table is removed again.
pub(super) const CHANGES: SqlTable = SqlTable {
    name: "change_of_wait",
    columns: &[("wait", "INTEGER NOT NULL"), ("request", "INTEGER")],
    lasts: false,
};

/// An index of a table.
#[derive(Debug)]
struct TableIndex {
    name: &'static str,
    groups: IndexGroups,
    root: u32,
}

/// The rows of a table.
#[derive(Debug)]
struct TableRows {
    table: &'static SqlTable,
    tree: TableTree,
    root: u32,
    /// The cell with the row's number; rows of other tables are numbered from 1.
    key: Option<usize>,
    /// For each column, whether it may be null, and whether SQLite stores real numbers in it as integers.
    columns: Vec<(bool, bool)>,
    indexes: Vec<TableIndex>,
}

/// All rows, and the file to which they are appended.
#[derive(Debug)]
pub(super) struct AppendedRows {
    file: PageFile,
    entries: EntryFile,
    /// The tables in the order of [`TABLES`], and [`CHANGES`].
    tables: Vec<TableRows>,
    record: Record,
}

/// Returns the columns of an index, which are given as `table (column, column)`.
fn index_columns(table: &SqlTable, on: &str) -> Option<IndexColumns> {
    let (name, columns) = on.strip_suffix(')')?.split_once(" (")?;
    if name != table.name {
        return None;
    }
    let cell = |column: &str| table.columns.iter().position(|(name, _)| *name == column);
    let mut repeated: Vec<&str> = columns.split(", ").collect();
    // Of these, rows come in their order: the times of a thread or a CPU, and stacks when they are numbered.
    let increases = |column: &&str| column.ends_with("_ns") || table.name == "frame";
    let increasing = match repeated.last().is_some_and(increases) {
        true => repeated.pop(),
        false => None,
    };
    Some(IndexColumns {
        repeated: repeated.into_iter().map(cell).collect::<Option<_>>()?,
        increasing: match increasing {
            Some(column) => Some(cell(column)?),
            None => None,
        },
    })
}

impl TableRows {
    /// Prepares a table for its rows. `roots` has the first page of each table and index.
    fn new(table: &'static SqlTable, roots: &HashMap<String, u32>) -> io::Result<TableRows> {
        let root = |name: &str| {
            let missing = || io::Error::other(format!("SQLite has not made '{name}'"));
            roots.get(name).copied().ok_or_else(missing)
        };
        let mut indexes = Vec::new();
        for (name, on) in INDEXES {
            if let Some(columns) = index_columns(table, on) {
                let groups = IndexGroups::new(columns);
                indexes.push(TableIndex { name, groups, root: root(name)? });
            }
        }
        let columns = table.columns.iter();
        let columns = columns.map(|(_, of)| (!of.contains("NOT NULL"), of.starts_with("NUMERIC")));
        Ok(TableRows {
            table,
            tree: TableTree::new(),
            root: root(table.name)?,
            key: table.columns.iter().position(|(name, _)| *name == "id"),
            columns: columns.collect(),
            indexes,
        })
    }

    /// Makes the record of a row's cells, as SQLite would store them. Returns the row's number.
    #[inline]
    fn record(&self, cells: &[SqlCell], text: &[u8], record: &mut Record) -> io::Result<i64> {
        let mut number = self.tree.last().map_or(1, |last| last.saturating_add(1));
        record.clear();
        if self.key.is_none() {
            record.null();
        }
        for (index, (&cell, &(may_be_null, is_numeric))) in
            cells.iter().zip(&self.columns).enumerate()
        {
            match cell {
                SqlCell::Integer(value) if self.key == Some(index) => {
                    number = value;
                    record.null();
                }
                SqlCell::Null if may_be_null => record.null(),
                SqlCell::Null => return Err(self.no_value(index)),
                SqlCell::Integer(value) => record.integer(value),
                SqlCell::Real(value) => match integer_of(value).filter(|_| is_numeric) {
                    Some(integer) => record.integer(integer),
                    None => record.real(value),
                },
                SqlCell::Word(word) => record.text(word.as_bytes()),
                SqlCell::Text { from, to } => {
                    record.text(text.get(from..to).unwrap_or_default());
                }
            }
        }
        Ok(number)
    }

    #[cold]
    fn no_value(&self, column: usize) -> io::Error {
        let name = self.table.columns.get(column).map_or("", |(name, _)| name);
        io::Error::other(format!("a row of '{}' has no value for '{name}'", self.table.name))
    }
}

/// Returns a real number as the integer that SQLite stores in its place.
fn integer_of(value: f64) -> Option<i64> {
    let integer = value as i64;
    let is_same = integer as f64 == value && integer > i64::MIN && integer < i64::MAX;
    is_same.then_some(integer)
}

impl AppendedRows {
    /// Opens a database with all tables and indexes, which are empty. `roots` has their first pages.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or a table is missing.
    pub(super) fn new(path: &Path, roots: &HashMap<String, u32>) -> io::Result<AppendedRows> {
        let mut of_entries = path.as_os_str().to_owned();
        of_entries.push("-index");
        let tables = TABLES.iter().chain([&CHANGES]).map(|table| TableRows::new(table, roots));
        Ok(AppendedRows {
            file: PageFile::open(path)?,
            entries: EntryFile::new(of_entries.into()),
            tables: tables.collect::<io::Result<_>>()?,
            record: Record::default(),
        })
    }

    /// Appends the rows of a batch, except those that `taker` takes. Adds the statements that change all rows to
    /// `changes`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or `taker` has failed.
    pub(super) fn add(
        &mut self,
        batch: &Batch,
        taker: Option<&SharedTaker>,
        changes: &mut Vec<InsertStatement>,
    ) -> io::Result<()> {
        let mut taker = taker.map(SharedTaker::lock);
        let mut rest = &*batch.cells;
        for &statement in &batch.rows {
            let (cells, others) = rest.split_at(statement.cells().min(rest.len()));
            rest = others;
            if let Some(taker) = taker.as_deref_mut() {
                match (statement, cells) {
                    (InsertStatement::TimedOut, [SqlCell::Integer(wait)]) => {
                        taker.timed_out(*wait)?;
                        continue;
                    }
                    // No view of states has the request.
                    (InsertStatement::WaitedFor, _) => continue,
                    _ => {}
                }
                if let Some(table) = TakenTable::of(statement) {
                    pass(taker, table, cells, batch)?;
                    continue;
                }
            }
            match (statement, cells) {
                (InsertStatement::TimedOut, [wait]) => {
                    self.row(TABLES.len(), &[*wait, SqlCell::Null], &batch.text)?;
                }
                (InsertStatement::WaitedFor, [request, wait]) => {
                    self.row(TABLES.len(), &[*wait, *request], &batch.text)?;
                }
                (statement, []) => changes.push(statement),
                (statement, cells) => self.row(statement as usize, cells, &batch.text)?,
            }
        }
        Ok(())
    }

    #[inline]
    fn row(&mut self, table: usize, cells: &[SqlCell], text: &[u8]) -> io::Result<()> {
        let Some(rows) = self.tables.get_mut(table) else { return Ok(()) };
        let number = rows.record(cells, text, &mut self.record)?;
        rows.tree.add(&mut self.file, number, self.record.whole())?;
        for index in &mut rows.indexes {
            index.groups.add(cells, text, number, &mut self.entries)?;
        }
        Ok(())
    }

    /// Writes the remaining rows, and the indexes. Returns the names of indexes that SQLite must sort.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or [`io::ErrorKind::Interrupted`] if it was stopped.
    pub(super) fn finish(
        mut self,
        stopped: &mut dyn FnMut() -> bool,
    ) -> io::Result<Vec<&'static str>> {
        let mut unsorted = Vec::new();
        for table in self.tables {
            table.tree.finish(&mut self.file, table.root)?;
            for TableIndex { name, groups, root } in table.indexes {
                if !groups.write(&self.entries, &mut self.file, root, stopped)? {
                    unsorted.push(name);
                }
            }
        }
        self.file.finish()?;
        Ok(unsorted)
    }
}
