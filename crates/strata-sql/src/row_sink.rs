//! Rows on their way to who has asked for them.

use std::io;
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use crate::catalog::Catalog;
use crate::row_batch::{RowBatch, ScanCell};

/// A value of a row.
pub type Cell<'c> = ValueRef<'c>;

/// Receiver of the rows of a query.
pub trait RowSink {
    /// Called before [`RowSink::columns`] with the types that tables declare for the columns; `None` for a computed
    /// column.
    fn types(&mut self, _types: &[Option<&str>]) {}

    /// Begins the answer of a statement with these columns.
    ///
    /// # Errors
    /// The output cannot be written.
    fn columns(&mut self, names: &[&str]) -> io::Result<()>;

    /// Receives the next row. Returns [`ControlFlow::Break`] if it needs no more.
    ///
    /// # Errors
    /// The output cannot be written.
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>>;

    /// Receives the next rows of event records, many at once, if they are read without a query.
    ///
    /// # Errors
    /// The output cannot be written.
    fn event_rows(&mut self, rows: &mut EventRows<'_>) -> io::Result<ControlFlow<()>> {
        rows.each_row(|cells| self.row(cells))
    }

    /// Ends the answer of a statement, which has no more rows.
    ///
    /// # Errors
    /// The output cannot be written.
    fn end(&mut self) -> io::Result<()>;
}

/// Rows of event records, as a scan has made them.
#[derive(Debug)]
pub struct EventRows<'b> {
    batch: &'b mut RowBatch,
    catalog: &'b Catalog,
    /// Number of columns, which is at least 1.
    width: usize,
}

/// A value of a row of [`EventRows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventValue<'b> {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A real number, which is no NaN.
    Real(f64),
    /// Name of an event, and the number of its class, which no event of another name has.
    Name(u32, &'b str),
    /// Begin and end of a text in [`EventRows::bytes`].
    Text(u32, u32),
    /// Begin and end of a blob in the same bytes.
    Blob(u32, u32),
}

impl<'b> EventRows<'b> {
    pub(crate) fn new(batch: &'b mut RowBatch, catalog: &'b Catalog, width: usize) -> Self {
        EventRows { batch, catalog, width: width.max(1) }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batch.rows
    }

    /// Returns all values, one row after the other.
    pub fn values(&self) -> impl Iterator<Item = EventValue<'_>> {
        self.batch.cells.iter().map(|cell| self.event_value(*cell))
    }

    /// Returns the values of a column.
    pub fn column(&self, index: usize) -> impl Iterator<Item = EventValue<'_>> {
        let cells = self.batch.cells.get(index..).unwrap_or_default();
        cells.iter().step_by(self.width).map(|cell| self.event_value(*cell))
    }

    #[inline]
    fn event_value(&self, cell: ScanCell) -> EventValue<'_> {
        match cell {
            ScanCell::Null => EventValue::Null,
            ScanCell::Integer(value) => EventValue::Integer(value),
            ScanCell::Real(value) => EventValue::Real(value),
            ScanCell::Class(class) => {
                let name = self.catalog.names.get(class as usize);
                EventValue::Name(class, name.map_or("", String::as_str))
            }
            ScanCell::Text { from, to } => EventValue::Text(from, to),
            ScanCell::Blob { from, to } => EventValue::Blob(from, to),
        }
    }

    /// Returns the bytes of all texts, which are UTF-8, and blobs.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.batch.bytes
    }

    /// Takes the bytes of all texts and blobs. Afterwards they are empty in these rows.
    #[must_use]
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.batch.bytes)
    }

    /// Passes the cells of each row to `each`.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn each_row(
        &self,
        mut each: impl FnMut(&[Cell<'_>]) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<ControlFlow<()>> {
        let mut cells = Vec::with_capacity(self.width);
        for row in self.batch.cells.chunks_exact(self.width) {
            cells.clear();
            cells.extend(row.iter().map(|cell| self.batch.value(*cell, self.catalog)));
            if each(&cells)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
