//! Rows of event records, as a scan passes them on.

use rusqlite::types::ValueRef;

use crate::catalog::Catalog;

/// The longest text of a column; a longer one is NULL \[byte\].
const VALUE_BYTES: usize = 16 << 20;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScanCell {
    Null,
    Integer(i64),
    Real(f64),
    /// Name of the event class with this number.
    Class(u32),
    /// Part of [`RowBatch::bytes`], which is UTF-8.
    Text {
        from: u32,
        to: u32,
    },
    Blob {
        from: u32,
        to: u32,
    },
}

/// Rows, one after the other, each with as many cells as the scan has columns.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    pub rows: usize,
    /// Number of each row's record, which is the same in every scan.
    pub ids: Vec<i64>,
    pub cells: Vec<ScanCell>,
    pub bytes: Vec<u8>,
}

impl RowBatch {
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.ids.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    /// Makes a cell of the text that `write` appends to the bytes; NULL if `write` returns false or the text is too
    /// long.
    pub(crate) fn written(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> ScanCell {
        let from = self.bytes.len();
        let is_there = write(&mut self.bytes);
        let to = self.bytes.len();
        match (u32::try_from(from), u32::try_from(to)) {
            (Ok(from), Ok(to)) if is_there && (to - from) as usize <= VALUE_BYTES => {
                ScanCell::Text { from, to }
            }
            _ => {
                self.bytes.truncate(from);
                ScanCell::Null
            }
        }
    }

    /// Makes a cell of a text of the trace; bytes that are no UTF-8, and NUL, become U+FFFD.
    pub(crate) fn text(&mut self, text: &[u8]) -> ScanCell {
        self.written(|out| {
            match std::str::from_utf8(text) {
                Ok(_) if !text.contains(&0) => out.extend_from_slice(text),
                _ => {
                    let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
                    out.extend_from_slice(text.as_bytes());
                }
            }
            true
        })
    }

    /// Returns the value of a cell of the batch. `catalog` has the names of events.
    #[inline]
    pub(crate) fn value<'b>(&'b self, cell: ScanCell, catalog: &'b Catalog) -> ValueRef<'b> {
        let part =
            |from: u32, to: u32| self.bytes.get(from as usize..to as usize).unwrap_or_default();
        match cell {
            ScanCell::Null => ValueRef::Null,
            ScanCell::Integer(value) => ValueRef::Integer(value),
            ScanCell::Real(value) => ValueRef::Real(value),
            ScanCell::Class(class) => {
                let name = catalog.names.get(class as usize);
                ValueRef::Text(name.map_or(&[][..], |name| name.as_bytes()))
            }
            ScanCell::Text { from, to } => ValueRef::Text(part(from, to)),
            ScanCell::Blob { from, to } => ValueRef::Blob(part(from, to)),
        }
    }

    /// Returns about how much memory the batch takes \[byte\].
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.cells) + size_of_val(&*self.ids) + self.bytes.len()
    }

    /// Puts the rows in the opposite order.
    pub(crate) fn reverse(&mut self) {
        self.ids.reverse();
        // The cells of a row are to stay in their order.
        let width = self.cells.len().checked_div(self.rows).unwrap_or_default();
        self.cells.reverse();
        if width > 1 {
            self.cells.chunks_exact_mut(width).for_each(<[ScanCell]>::reverse);
        }
    }
}
