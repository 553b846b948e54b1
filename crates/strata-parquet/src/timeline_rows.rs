//! Rows of the timeline's large tables, taken from the pass over the traces.
//!
//! ```text
//! a pass over the traces ── row, timed_out ─┬─ SortedRows: one for each table, by begin or time
//!                                           └─ FileSums: calls by thread and object
//! the threads' last names ── write ── the rows that the view of `strata sql` has
//! ```
//!
//! The views join each row with the names of its threads, and these are known when the pass is over: rows wait until then,
//! sorted in files. The row of a wait that was ended by something else than was first reported is changed before its thread
//! waits again, so the last wait of each thread is held back.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use strata_sql::{Cell, RowSink, RowTaker, Tables, TakenTable};

use crate::file_sums::FileSums;
use crate::kept_values::{next, put};
use crate::sorted_rows::SortedRows;
use crate::threads::{Thread, Threads};

/// What a column shows, of a value at `C`: a column of the table that the timeline fills, or its place in a kept row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown<C> {
    /// The time by which rows are sorted.
    Key,
    /// This value.
    Value(C),
    /// The time from the key until this one.
    Until(C),
    /// The time from this one until the key.
    Since(C),
    /// Names and numbers of this thread.
    Process(C),
    Pid(C),
    ThreadName(C),
    Tid(C),
    /// Number of the row, in the order in which rows are made.
    Number,
}

/// A table of `strata sql` as it is made of taken rows.
#[derive(Debug)]
struct Shape {
    name: &'static str,
    of: TakenTable,
    /// The column of `of` that sorts the rows.
    key: &'static str,
    columns: &'static [(&'static str, Shown<&'static str>)],
}

/// The tables, as the views of strata-export's `schema` define them. `tests/interop/parquet` compares both.
const SHAPES: [Shape; 5] = [
    Shape {
        name: "calls",
        of: TakenTable::Syscall,
        key: "begin_ns",
        columns: &[
            ("begin_ns", Shown::Key),
            ("end_ns", Shown::Value("end_ns")),
            ("duration_ns", Shown::Until("end_ns")),
            ("process", Shown::Process("thread")),
            ("pid", Shown::Pid("thread")),
            ("thread", Shown::ThreadName("thread")),
            ("tid", Shown::Tid("thread")),
            ("name", Shown::Value("name")),
            ("result", Shown::Value("result")),
            ("error", Shown::Value("error")),
            ("object_kind", Shown::Value("object_kind")),
            ("object", Shown::Value("object")),
            ("target", Shown::Value("target")),
        ],
    },
    Shape {
        name: "states",
        of: TakenTable::State,
        key: "begin_ns",
        columns: &[
            ("begin_ns", Shown::Key),
            ("end_ns", Shown::Value("end_ns")),
            ("duration_ns", Shown::Until("end_ns")),
            ("process", Shown::Process("thread")),
            ("pid", Shown::Pid("thread")),
            ("thread", Shown::ThreadName("thread")),
            ("tid", Shown::Tid("thread")),
            ("state", Shown::Value("state")),
            ("cpu", Shown::Value("cpu")),
            ("sleep", Shown::Value("sleep")),
            ("call", Shown::Value("call")),
            ("object", Shown::Value("object")),
            ("ended_by", Shown::Value("ended_by")),
            ("stack", Shown::Value("stack")),
        ],
    },
    Shape {
        name: "wakeups",
        of: TakenTable::State,
        key: "end_ns",
        columns: &[
            ("time_ns", Shown::Key),
            ("waited_ns", Shown::Since("begin_ns")),
            ("waker_process", Shown::Process("waker")),
            ("waker", Shown::ThreadName("waker")),
            ("waker_tid", Shown::Tid("waker")),
            ("process", Shown::Process("thread")),
            ("thread", Shown::ThreadName("thread")),
            ("tid", Shown::Tid("thread")),
            ("call", Shown::Value("call")),
            ("object", Shown::Value("object")),
            ("ended_by", Shown::Value("ended_by")),
            ("is_sure", Shown::Value("is_sure")),
        ],
    },
    Shape {
        name: "cpu_run",
        of: TakenTable::CpuRun,
        key: "begin_ns",
        columns: &[
            ("id", Shown::Number),
            ("machine", Shown::Value("machine")),
            ("cpu", Shown::Value("cpu")),
            ("thread", Shown::Value("thread")),
            ("begin_ns", Shown::Key),
            ("end_ns", Shown::Value("end_ns")),
            ("duration_ns", Shown::Until("end_ns")),
            ("is_switch", Shown::Value("is_switch")),
        ],
    },
    Shape {
        name: "spans",
        of: TakenTable::Span,
        key: "begin_ns",
        columns: &[
            ("begin_ns", Shown::Key),
            ("end_ns", Shown::Value("end_ns")),
            ("duration_ns", Shown::Until("end_ns")),
            ("process", Shown::Process("begin_thread")),
            ("pid", Shown::Pid("begin_thread")),
            ("thread", Shown::ThreadName("begin_thread")),
            ("tid", Shown::Tid("begin_thread")),
            ("name", Shown::Value("name")),
            ("key", Shown::Value("key")),
            ("address", Shown::Value("address")),
            ("result", Shown::Value("result")),
        ],
    },
];

/// The table that sums calls.
const FILES: &str = "files";
/// The most columns of a table in [`SHAPES`], and of a table whose rows are taken.
const COLUMNS_MAX: usize = 17;

/// Returns true if a table can be made of taken rows.
pub(crate) fn is_made_of_rows(table: &Tables) -> bool {
    let has_columns = |shape: &Shape| {
        let names = shape.columns.iter().map(|(name, _)| *name);
        names.eq(table.columns.iter().map(|(name, _)| name.as_str()))
    };
    table.name == FILES || SHAPES.iter().any(|shape| shape.name == table.name && has_columns(shape))
}

/// The rows of one table.
#[derive(Debug)]
struct KeptRows {
    name: &'static str,
    of: TakenTable,
    /// The value that sorts the rows, of those that are taken.
    key: usize,
    /// The values that are kept, of those that are taken. A row's number is kept before them.
    values: Vec<usize>,
    has_number: bool,
    columns: Vec<Shown<usize>>,
    rows: SortedRows,
    count: i64,
}

impl KeptRows {
    fn new(shape: &Shape, folder: &Path) -> Option<KeptRows> {
        let has_number = shape.columns.iter().any(|(_, shown)| *shown == Shown::Number);
        let first = usize::from(has_number);
        let mut values: Vec<usize> = Vec::new();
        let mut place = |column: &str| {
            let value = shape.of.column(column)?;
            let known = values.iter().position(|other| *other == value);
            Some(
                first
                    + known.unwrap_or_else(|| {
                        values.push(value);
                        values.len() - 1
                    }),
            )
        };
        let columns = shape.columns.iter().map(|(_, shown)| {
            Some(match *shown {
                Shown::Key => Shown::Key,
                Shown::Number => Shown::Number,
                Shown::Value(column) => Shown::Value(place(column)?),
                Shown::Until(column) => Shown::Until(place(column)?),
                Shown::Since(column) => Shown::Since(place(column)?),
                Shown::Process(column) => Shown::Process(place(column)?),
                Shown::Pid(column) => Shown::Pid(place(column)?),
                Shown::ThreadName(column) => Shown::ThreadName(place(column)?),
                Shown::Tid(column) => Shown::Tid(place(column)?),
            })
        });
        let columns = columns.collect::<Option<_>>()?;
        Some(KeptRows {
            name: shape.name,
            of: shape.of,
            key: shape.of.column(shape.key)?,
            values,
            has_number,
            columns,
            rows: SortedRows::new(folder),
            count: 0,
        })
    }

    #[inline]
    fn push(&mut self, values: &[Cell<'_>]) -> io::Result<()> {
        let Some(Cell::Integer(key)) = values.get(self.key).copied() else {
            return Err(io::Error::other(format!("a row of '{}' has no time", self.name)));
        };
        self.count += 1;
        let KeptRows { values: kept, has_number, count, rows, .. } = self;
        rows.push(key, |out| {
            if *has_number {
                put(out, Cell::Integer(*count));
            }
            for &value in kept.iter() {
                put(out, values.get(value).copied().unwrap_or(Cell::Null));
            }
        })
    }

    fn write(
        self,
        threads: &Threads,
        stop: &dyn Fn() -> bool,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let KeptRows { values, has_number, columns, rows, .. } = self;
        let count = values.len() + usize::from(has_number);
        rows.drain(stop, |key, mut bytes| {
            let mut values = [Cell::Null; COLUMNS_MAX];
            values.iter_mut().take(count).for_each(|value| *value = next(&mut bytes));
            let value = |place: usize| values.get(place).copied().unwrap_or(Cell::Null);
            let thread = |place: usize| threads.of(value(place));
            let mut cells = [Cell::Null; COLUMNS_MAX];
            for (cell, place) in cells.iter_mut().zip(&columns) {
                *cell = match *place {
                    Shown::Key => Cell::Integer(key),
                    // It is kept before the others.
                    Shown::Number => value(0),
                    Shown::Value(place) => value(place),
                    Shown::Until(place) => match value(place) {
                        Cell::Integer(end) => Cell::Integer(end.wrapping_sub(key)),
                        _ => Cell::Null,
                    },
                    Shown::Since(place) => match value(place) {
                        Cell::Integer(begin) => Cell::Integer(key.wrapping_sub(begin)),
                        _ => Cell::Null,
                    },
                    Shown::Process(place) => thread(place).map_or(Cell::Null, Thread::process),
                    Shown::Pid(place) => thread(place).map_or(Cell::Null, Thread::pid),
                    Shown::ThreadName(place) => thread(place).map_or(Cell::Null, Thread::name),
                    Shown::Tid(place) => thread(place).map_or(Cell::Null, Thread::tid),
                };
            }
            sink.row(cells.get(..columns.len()).unwrap_or(&cells)).map(drop)
        })
    }
}

/// The last wait of a thread.
#[derive(Debug, Default)]
struct HeldWait {
    id: i64,
    /// All values of its row.
    values: Vec<u8>,
    has_timed_out: bool,
}

/// Places of values in a row of states.
#[derive(Clone, Copy, Debug)]
struct StatePlaces {
    id: usize,
    thread: usize,
    state: usize,
    ended_by: usize,
    waker: usize,
    is_sure: usize,
}

/// Takes the rows of the tables that can be made of them.
#[derive(Debug)]
pub(crate) struct TimelineRows {
    tables: Vec<KeptRows>,
    files: Option<FileSums>,
    places: StatePlaces,
    /// The last wait of each thread, by the thread's number, and the thread of each of these waits.
    held: HashMap<i64, HeldWait>,
    thread_of: HashMap<i64, i64>,
}

impl TimelineRows {
    /// Prepares to take the rows for tables of these names. Files for them are made in `folder`.
    pub(crate) fn new<'t>(
        tables: impl Iterator<Item = &'t str>,
        folder: &Path,
    ) -> Option<TimelineRows> {
        let column = |name| TakenTable::State.column(name);
        let places = StatePlaces {
            id: column("id")?,
            thread: column("thread")?,
            state: column("state")?,
            ended_by: column("ended_by")?,
            waker: column("waker")?,
            is_sure: column("is_sure")?,
        };
        let (mut kept, mut files) = (Vec::new(), None);
        for name in tables {
            if name == FILES {
                files = Some(FileSums::new(folder)?);
            } else if let Some(shape) = SHAPES.iter().find(|shape| shape.name == name) {
                kept.push(KeptRows::new(shape, folder)?);
            }
        }
        let (held, thread_of) = (HashMap::new(), HashMap::new());
        Some(TimelineRows { tables: kept, files, places, held, thread_of })
    }

    #[inline]
    fn push(&mut self, of: TakenTable, values: &[Cell<'_>]) -> io::Result<()> {
        let StatePlaces { state, ended_by, .. } = self.places;
        for table in self.tables.iter_mut().filter(|table| table.of == of) {
            let value = |place: usize| values.get(place).copied().unwrap_or(Cell::Null);
            let is_row = table.name != "wakeups"
                || value(state) == Cell::Text(b"blocked") && value(ended_by) != Cell::Null;
            if is_row {
                table.push(values)?;
            }
        }
        match &mut self.files {
            Some(files) if of == TakenTable::Syscall => files.add(values),
            _ => Ok(()),
        }
    }

    /// Holds a wait back, and lets the thread's wait before it go.
    fn hold(&mut self, id: i64, thread: i64, values: &[Cell<'_>]) -> io::Result<()> {
        let mut before = self.held.remove(&thread).unwrap_or_default();
        if !before.values.is_empty() {
            self.thread_of.remove(&before.id);
            self.let_go(&before)?;
        }
        before.values.clear();
        values.iter().for_each(|value| put(&mut before.values, *value));
        self.held.insert(thread, HeldWait { id, values: before.values, has_timed_out: false });
        self.thread_of.insert(id, thread);
        Ok(())
    }

    fn let_go(&mut self, wait: &HeldWait) -> io::Result<()> {
        let mut bytes = &*wait.values;
        let mut values = [Cell::Null; COLUMNS_MAX];
        let mut count = 0;
        for value in values.iter_mut().take_while(|_| !bytes.is_empty()) {
            *value = next(&mut bytes);
            count += 1;
        }
        if wait.has_timed_out {
            let StatePlaces { ended_by, waker, is_sure, .. } = self.places;
            let changes =
                [(ended_by, Cell::Text(b"timer")), (waker, Cell::Null), (is_sure, Cell::Null)];
            for (place, change) in changes {
                if let Some(value) = values.get_mut(place) {
                    *value = change;
                }
            }
        }
        self.push(TakenTable::State, values.get(..count).unwrap_or(&values))
    }

    /// Ends the taking: no row is changed any more.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let mut left: Vec<HeldWait> = std::mem::take(&mut self.held).into_values().collect();
        left.sort_by_key(|wait| wait.id);
        left.iter().try_for_each(|wait| self.let_go(wait))
    }

    /// Passes the rows of a table to `sink`, in their order. Returns false if it has none of this table.
    ///
    /// # Errors
    /// A file cannot be read, `stop` has returned true, or an error of `sink`.
    pub(crate) fn write(
        &mut self,
        table: &str,
        threads: &Threads,
        stop: &dyn Fn() -> bool,
        sink: &mut dyn RowSink,
    ) -> io::Result<bool> {
        if table == FILES {
            let Some(files) = self.files.take() else { return Ok(false) };
            files.write(threads, stop, sink)?;
        } else {
            let Some(index) = self.tables.iter().position(|kept| kept.name == table) else {
                return Ok(false);
            };
            self.tables.swap_remove(index).write(threads, stop, sink)?;
        }
        sink.end()?;
        Ok(true)
    }
}

impl RowTaker for TimelineRows {
    fn row(&mut self, table: TakenTable, values: &[Cell<'_>]) -> io::Result<()> {
        let StatePlaces { id, thread, state, .. } = self.places;
        if table == TakenTable::State && values.get(state) == Some(&Cell::Text(b"blocked")) {
            if let (Some(Cell::Integer(id)), Some(Cell::Integer(thread))) =
                (values.get(id), values.get(thread))
            {
                return self.hold(*id, *thread, values);
            }
        }
        self.push(table, values)
    }

    fn timed_out(&mut self, id: i64) -> io::Result<()> {
        let wait = self.thread_of.get(&id).and_then(|thread| self.held.get_mut(thread));
        let Some(wait) = wait else {
            return Err(io::Error::other(format!("state {id} has changed, which is no last wait")));
        };
        wait.has_timed_out = true;
        Ok(())
    }
}
