//! Batches of rows for the database: the writing thread receives many rows at once.

use super::schema::InsertStatement;

/// The number of cells after which a batch is passed on.
const CELLS: usize = 1 << 14;
/// The most bytes of text in a batch.
const TEXT_BYTES: usize = 1 << 20;

/// The value of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SqlCell {
    Null,
    Integer(i64),
    Real(f64),
    Word(&'static str),
    /// A text, as a range of [`Batch::text`].
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

/// Numbers above 2^63 - 1, the greatest of the database, become that number.
impl From<u64> for SqlCell {
    #[inline]
    fn from(value: u64) -> SqlCell {
        SqlCell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&'static str> for SqlCell {
    /// An empty word becomes NULL.
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

/// Rows of any tables, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub rows: Vec<InsertStatement>,
    pub cells: Vec<SqlCell>,
    /// The texts of cells, in UTF-8 without NUL.
    pub text: Vec<u8>,
    /// True for the last batch.
    pub is_last: bool,
}

impl Batch {
    /// Adds a row with its cells.
    #[inline]
    pub(super) fn row(&mut self, statement: InsertStatement, cells: &[SqlCell]) {
        debug_assert_eq!(statement.cells(), cells.len(), "{statement:?}");
        self.rows.push(statement);
        self.cells.extend_from_slice(cells);
    }

    /// Returns a cell with a text of the trace. Invalid UTF-8 and NUL become U+FFFD.
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

    /// Returns a cell with this text; NULL if the text is empty.
    pub(super) fn some_text(&mut self, text: &[u8]) -> SqlCell {
        match text.is_empty() {
            true => SqlCell::Null,
            false => self.text(text),
        }
    }

    /// Returns a cell with the text that `write` adds, which is UTF-8 without NUL; `None` if it adds
    /// nothing. Fails, and adds nothing, if the text has more than `bytes_max` bytes.
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

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.text.clear();
        // One record may have had texts far beyond the limit of a batch.
        self.text.shrink_to(2 * TEXT_BYTES);
        self.is_last = false;
    }

    pub(super) fn is_full(&self) -> bool {
        self.cells.len() >= CELLS || self.text.len() >= TEXT_BYTES
    }
}

/// The error for a text that is longer than a cell may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;
