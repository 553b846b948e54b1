//! Rows on their way to the database: many at once, so that a thread hands over few things.

use super::schema::InsertStatement;

/// As many cells are handed over at once.
const CELLS: usize = 1 << 14;
/// Or as much text \[byte\].
const TEXT_BYTES: usize = 1 << 20;

/// What is in a column of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SqlCell {
    Null,
    Integer(i64),
    Real(f64),
    Word(&'static str),
    /// A part of [`Batch::text`].
    Text {
        from: usize,
        to: usize,
    },
}

impl From<i64> for SqlCell {
    #[inline]
    fn from(value: i64) -> SqlCell {
        SqlCell::Integer(value)
    }
}

impl From<u32> for SqlCell {
    #[inline]
    fn from(value: u32) -> SqlCell {
        SqlCell::Integer(value.into())
    }
}

impl From<i32> for SqlCell {
    #[inline]
    fn from(value: i32) -> SqlCell {
        SqlCell::Integer(value.into())
    }
}

impl From<bool> for SqlCell {
    #[inline]
    fn from(value: bool) -> SqlCell {
        SqlCell::Integer(value.into())
    }
}

/// The database has no higher number than 2^63 - 1: a count of more is that.
impl From<u64> for SqlCell {
    #[inline]
    fn from(value: u64) -> SqlCell {
        SqlCell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&'static str> for SqlCell {
    /// An empty one is none.
    #[inline]
    fn from(word: &'static str) -> SqlCell {
        match word.is_empty() {
            true => SqlCell::Null,
            false => SqlCell::Word(word),
        }
    }
}

impl<T: Into<SqlCell>> From<Option<T>> for SqlCell {
    #[inline]
    fn from(value: Option<T>) -> SqlCell {
        value.map_or(SqlCell::Null, Into::into)
    }
}

/// Rows of any tables, in their order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub rows: Vec<InsertStatement>,
    pub cells: Vec<SqlCell>,
    /// UTF-8 without NUL.
    pub text: Vec<u8>,
    /// There is no other behind it.
    pub is_last: bool,
}

impl Batch {
    /// A row, with all its cells.
    #[inline]
    pub(super) fn row(&mut self, statement: InsertStatement, cells: &[SqlCell]) {
        debug_assert_eq!(statement.cells(), cells.len(), "{statement:?}");
        self.rows.push(statement);
        self.cells.extend_from_slice(cells);
    }

    /// A text of a trace for a cell: what is no UTF-8 in it, and NUL, becomes U+FFFD.
    pub(super) fn text(&mut self, text: &[u8]) -> SqlCell {
        let from = self.text.len();
        match std::str::from_utf8(text) {
            Ok(_) if !text.contains(&0) => self.text.extend_from_slice(text),
            _ => {
                let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
                self.text.extend_from_slice(text.as_bytes());
            }
        }
        SqlCell::Text { from, to: self.text.len() }
    }

    /// The same; no text is no cell.
    pub(super) fn some_text(&mut self, text: &[u8]) -> SqlCell {
        match text.is_empty() {
            true => SqlCell::Null,
            false => self.text(text),
        }
    }

    /// What `write` adds, which is UTF-8 without NUL; `None`: nothing. What has more than
    /// so many bytes is left out.
    pub(super) fn written(
        &mut self,
        bytes_max: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<SqlCell>, TooLong> {
        let from = self.text.len();
        write(&mut self.text);
        let to = self.text.len();
        if to - from > bytes_max {
            self.text.truncate(from);
            return Err(TooLong);
        }
        Ok(Some(SqlCell::Text { from, to }).filter(|_| to > from))
    }

    pub(super) fn is_full(&self) -> bool {
        self.cells.len() >= CELLS || self.text.len() >= TEXT_BYTES
    }
}

/// A text has more bytes than a cell is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;
