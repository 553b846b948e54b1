//! Rows that a program takes for itself, so that they are not in the database.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::{Batch, SqlCell};
use super::schema::InsertStatement;

/// A value of a row: as SQLite has it.
pub type TakenValue<'v> = rusqlite::types::ValueRef<'v>;

/// A table whose rows can be taken. No other table is changed by its rows, and it changes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenTable {
    /// States of threads. See [`RowTaker::timed_out`].
    State,
    /// Runs of CPUs.
    CpuRun,
    /// System calls.
    Syscall,
    /// Spans.
    Span,
}

impl TakenTable {
    /// All of them.
    pub const ALL: [TakenTable; 4] =
        [TakenTable::State, TakenTable::CpuRun, TakenTable::Syscall, TakenTable::Span];

    pub(super) fn of(statement: InsertStatement) -> Option<TakenTable> {
        match statement {
            InsertStatement::State => Some(TakenTable::State),
            InsertStatement::CpuRun => Some(TakenTable::CpuRun),
            InsertStatement::Syscall => Some(TakenTable::Syscall),
            InsertStatement::Span => Some(TakenTable::Span),
            _ => None,
        }
    }

    fn statement(self) -> InsertStatement {
        match self {
            TakenTable::State => InsertStatement::State,
            TakenTable::CpuRun => InsertStatement::CpuRun,
            TakenTable::Syscall => InsertStatement::Syscall,
            TakenTable::Span => InsertStatement::Span,
        }
    }

    /// Returns the table's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.statement().table().map_or("", |table| table.name)
    }

    /// Returns the place of a column among the values of a row; `None` if it is computed, or there is none.
    #[must_use]
    pub fn column(self, name: &str) -> Option<usize> {
        self.statement().table()?.columns.iter().position(|(column, _)| *column == name)
    }
}

/// Takes rows while a timeline makes them, in a thread of its own.
pub trait RowTaker: Send {
    /// Takes the next row of a table.
    ///
    /// # Errors
    /// The row cannot be kept.
    fn row(&mut self, table: TakenTable, values: &[TakenValue<'_>]) -> io::Result<()>;

    /// Changes the row of [`TakenTable::State`] with this `id`, which is the last one of its thread that is blocked: a timer has
    /// ended it. Then `ended_by` is 'timer', and `waker`, `is_sure` and `interrupt` are NULL.
    ///
    /// # Errors
    /// The row cannot be kept.
    fn timed_out(&mut self, id: i64) -> io::Result<()>;
}

/// A taker of rows that the thread which writes the database uses as well.
pub struct SharedTaker<T: ?Sized = dyn RowTaker>(Arc<Mutex<T>>);

impl<T: ?Sized> Clone for SharedTaker<T> {
    fn clone(&self) -> Self {
        SharedTaker(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> fmt::Debug for SharedTaker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTaker").finish_non_exhaustive()
    }
}

impl<T: RowTaker + 'static> SharedTaker<T> {
    /// Shares a taker.
    pub fn new(taker: T) -> SharedTaker<T> {
        SharedTaker(Arc::new(Mutex::new(taker)))
    }

    /// Returns the same taker, for who needs to know no more of it.
    #[must_use]
    pub fn any(&self) -> SharedTaker {
        SharedTaker(Arc::clone(&self.0) as Arc<Mutex<dyn RowTaker>>)
    }

    /// Returns the taker, once nobody else has it.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        let whole = Arc::into_inner(self.0)?;
        Some(whole.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SharedTaker {
    pub(super) fn lock(&self) -> MutexGuard<'_, dyn RowTaker + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes a row to `taker`.
pub(super) fn pass(
    taker: &mut dyn RowTaker,
    table: TakenTable,
    cells: &[SqlCell],
    batch: &Batch,
) -> io::Result<()> {
    let mut values = [TakenValue::Null; CELLS_MAX];
    for (value, cell) in values.iter_mut().zip(cells) {
        *value = match *cell {
            SqlCell::Null => TakenValue::Null,
            SqlCell::Integer(number) => TakenValue::Integer(number),
            SqlCell::Real(number) => TakenValue::Real(number),
            SqlCell::Word(word) => TakenValue::Text(word.as_bytes()),
            SqlCell::Text { from, to } => {
                TakenValue::Text(batch.text.get(from..to).unwrap_or_default())
            }
        };
    }
    taker.row(table, values.get(..cells.len()).unwrap_or(&values))
}

/// The most cells of a row of [`TakenTable::ALL`].
const CELLS_MAX: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_taken_tables_have_room() {
        for table in TakenTable::ALL {
            assert!(table.statement().cells() <= CELLS_MAX, "{table:?}");
            assert_eq!(TakenTable::of(table.statement()), Some(table));
            assert_eq!(table.column("begin_ns").is_some(), table.column("end_ns").is_some());
            assert_eq!(table.column("duration_ns"), None, "{table:?}");
        }
        assert_eq!(TakenTable::State.name(), "state");
        assert_eq!(TakenTable::State.column("thread"), Some(1));
    }
}
