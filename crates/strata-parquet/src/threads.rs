//! The threads of a timeline, whose names rows show.

use std::io;
use std::ops::ControlFlow;

use strata_sql::{Cell, Database, RowSink, SqlError};

/// A thread's last names, and its numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    process_name: Option<Vec<u8>>,
    pid: Option<i64>,
    name: Option<Vec<u8>>,
    tid: Option<i64>,
    /// The number of the process' first thread.
    home: Option<i64>,
}

fn text(text: &Option<Vec<u8>>) -> Cell<'_> {
    text.as_deref().map_or(Cell::Null, Cell::Text)
}

impl Thread {
    pub(crate) fn process(&self) -> Cell<'_> {
        text(&self.process_name)
    }

    pub(crate) fn pid(&self) -> Cell<'_> {
        self.pid.map_or(Cell::Null, Cell::Integer)
    }

    pub(crate) fn name(&self) -> Cell<'_> {
        text(&self.name)
    }

    pub(crate) fn tid(&self) -> Cell<'_> {
        self.tid.map_or(Cell::Null, Cell::Integer)
    }

    pub(crate) fn home(&self) -> Option<i64> {
        self.home
    }
}

/// All threads, by their numbers in the timeline.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<Option<Thread>>);

impl Threads {
    /// Asks for the threads of a timeline, which must be finished.
    ///
    /// # Errors
    /// Those of the query.
    pub(crate) fn read(database: &mut Database) -> Result<Threads, SqlError> {
        let mut threads = Threads::default();
        let query =
            "SELECT id, process_name, pid, thread_name, tid, process FROM thread ORDER BY id";
        database.query(query, &mut threads)?;
        Ok(threads)
    }

    /// Returns the thread with the number in a cell.
    #[inline]
    pub(crate) fn of(&self, number: Cell<'_>) -> Option<&Thread> {
        match number {
            Cell::Integer(number) => self.0.get(usize::try_from(number).ok()?)?.as_ref(),
            _ => None,
        }
    }
}

impl RowSink for Threads {
    fn columns(&mut self, _: &[&str]) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        let [Cell::Integer(id), process_name, pid, name, tid, home] = *cells else {
            return Err(io::Error::other("a thread has no number"));
        };
        let text = |cell| if let Cell::Text(text) = cell { Some(text.to_vec()) } else { None };
        let number = |cell| if let Cell::Integer(number) = cell { Some(number) } else { None };
        let id = usize::try_from(id).map_err(io::Error::other)?;
        // The numbers of threads have no gaps.
        self.0.resize(id, None);
        self.0.push(Some(Thread {
            process_name: text(process_name),
            pid: number(pid),
            name: text(name),
            tid: number(tid),
            home: number(home),
        }));
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
