//! Rows of a query that are passed to Python.

use std::borrow::Cow;

use strata_sql::{Cell, EventRows, EventValue};

/// Value of a row. Texts and bytes are ranges of [`RowBatch::bytes`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchCell {
    Null,
    Integer(i64),
    Real(f64),
    Text(usize, usize),
    Blob(usize, usize),
}

/// Rows, one after the other, each with as many cells as the query has columns.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    pub rows: usize,
    pub cells: Vec<BatchCell>,
    pub bytes: Vec<u8>,
}

impl RowBatch {
    /// Adds the cells of a row.
    pub(crate) fn push(&mut self, cells: &[Cell<'_>]) {
        for cell in cells {
            let cell = match *cell {
                Cell::Null => BatchCell::Null,
                Cell::Integer(value) => BatchCell::Integer(value),
                Cell::Real(value) => BatchCell::Real(value),
                Cell::Text(text) => {
                    let (from, to) = self.keep(text);
                    BatchCell::Text(from, to)
                }
                Cell::Blob(bytes) => {
                    let (from, to) = self.keep(bytes);
                    BatchCell::Blob(from, to)
                }
            };
            self.cells.push(cell);
        }
        self.rows += 1;
    }

    /// Makes a batch of rows of event records, whose texts it takes.
    pub(crate) fn of_events(rows: &mut EventRows<'_>) -> RowBatch {
        let mut bytes = rows.take_bytes();
        // Where the names of classes are in the bytes, once they are there.
        let mut names: Vec<Option<(usize, usize)>> = Vec::new();
        let mut cells = Vec::new();
        cells.extend(rows.values().map(|value| match value {
            EventValue::Null => BatchCell::Null,
            EventValue::Integer(value) => BatchCell::Integer(value),
            EventValue::Real(value) => BatchCell::Real(value),
            EventValue::Text(from, to) => BatchCell::Text(from as usize, to as usize),
            EventValue::Blob(from, to) => BatchCell::Blob(from as usize, to as usize),
            EventValue::Name(class, name) => {
                let class = class as usize;
                if names.len() <= class {
                    names.resize(class + 1, None);
                }
                let (from, to) = names.get(class).copied().flatten().unwrap_or_else(|| {
                    let from = bytes.len();
                    bytes.extend_from_slice(name.as_bytes());
                    (from, bytes.len())
                });
                if let Some(place) = names.get_mut(class) {
                    *place = Some((from, to));
                }
                BatchCell::Text(from, to)
            }
        }));
        RowBatch { rows: rows.rows(), cells, bytes }
    }

    fn keep(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }

    /// Returns the bytes of a text or a blob.
    pub(crate) fn part(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Returns the text of a cell. A query can make texts that are no UTF-8, such as by a cast of bytes.
    pub(crate) fn text(&self, from: usize, to: usize) -> Cow<'_, str> {
        let part = self.part(from, to);
        // Checks a whole text quicker than what replaces parts of it.
        std::str::from_utf8(part).map_or_else(|_| String::from_utf8_lossy(part), Cow::Borrowed)
    }
}
