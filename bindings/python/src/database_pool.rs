//! Databases of one set of traces, each used by one query at a time.
//!
//! A query may still be open when another one begins, such as in the loop over the first one's rows. SQLite's
//! connection is busy then, so the second query gets a database of its own. Both databases return to the pool.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use strata_ctf::read::Reader;
use strata_sql::{Cell, Database, Found, Options, RowSink, SqlError};

use crate::batch::RowBatch;

/// Number of rows in the first batch, which is small so that the first row arrives at once, and in the largest.
const ROWS: (usize, usize) = (16, 4096);
/// Size of the texts of a batch beyond which it is passed on \[byte\].
const TEXT_BYTES: usize = 1 << 20;
/// The most batches that wait between the query and Python.
const WAITING: usize = 3;
/// The most databases that are kept for later queries.
const KEPT: usize = 4;

/// Message of a query's thread. Messages come in the order of these variants; the last one is [`Answer::End`].
pub(crate) enum Answer {
    /// Names of the columns, and the types that tables declare for them.
    Columns(Vec<String>, Vec<Option<String>>),
    Rows(RowBatch),
    /// End of the rows, with the error if the query failed.
    End(Result<Found, SqlError>),
}

/// A database, with the numbers by which its running query is stopped.
struct Pooled {
    database: Database,
    /// Number of the running query.
    running: Arc<AtomicU64>,
    /// Number up to which all queries are to stop.
    stopped: Arc<AtomicU64>,
}

/// The databases of one set of traces.
pub(crate) struct DatabasePool {
    reader: Arc<Reader>,
    options: Options,
    free: Mutex<Vec<Pooled>>,
}

/// A running query. Dropping it stops the query.
pub(crate) struct RunningQuery {
    pub answers: Mutex<Receiver<Answer>>,
    stopped: Arc<AtomicU64>,
    number: u64,
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.stopped.fetch_max(self.number, Ordering::Relaxed);
    }
}

impl DatabasePool {
    pub(crate) fn new(reader: Arc<Reader>, options: Options) -> DatabasePool {
        DatabasePool { reader, options, free: Mutex::new(Vec::new()) }
    }

    fn take(&self) -> Result<Pooled, SqlError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(pooled) = free {
            return Ok(pooled);
        }
        let (running, stopped) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let (of, up_to) = (Arc::clone(&running), Arc::clone(&stopped));
        let stop = move || up_to.load(Ordering::Relaxed) >= of.load(Ordering::Relaxed);
        let (reader, options) = (Arc::clone(&self.reader), self.options.clone());
        let database = Database::with_options(reader, options, Arc::new(stop))?;
        Ok(Pooled { database, running, stopped })
    }

    fn give_back(&self, pooled: Pooled) {
        pooled.running.fetch_add(1, Ordering::Relaxed);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(pooled);
        }
    }

    /// Calls `look` with a database that no query uses.
    ///
    /// # Errors
    /// SQLite has no memory.
    pub(crate) fn with<T>(
        &self,
        look: impl FnOnce(&Database) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let pooled = self.take()?;
        let seen = look(&pooled.database);
        self.give_back(pooled);
        seen
    }

    /// Runs a query in a separate thread.
    ///
    /// # Errors
    /// SQLite has no memory, or the system can make no thread.
    pub(crate) fn start(self: &Arc<Self>, query: String) -> Result<RunningQuery, SqlError> {
        let mut pooled = self.take()?;
        let (to_send, answers) = sync_channel(WAITING);
        let stopped = Arc::clone(&pooled.stopped);
        let number = pooled.running.load(Ordering::Relaxed);
        let pool = Arc::clone(self);
        let run = move || {
            let mut sink = BatchSink::new(to_send);
            let end = pooled.database.query(&query, &mut sink);
            let found = end.map(|()| pooled.database.found());
            pool.give_back(pooled);
            sink.end(found);
        };
        let spawned = thread::Builder::new().name("query".to_owned()).spawn(run);
        spawned.map_err(SqlError::Output)?;
        Ok(RunningQuery { answers: Mutex::new(answers), stopped, number })
    }
}

/// Collects rows in batches, and sends full ones to Python.
struct BatchSink {
    to_send: SyncSender<Answer>,
    types: Vec<Option<String>>,
    statements: usize,
    batch: RowBatch,
    rows: usize,
}

impl BatchSink {
    fn new(to_send: SyncSender<Answer>) -> BatchSink {
        let batch = RowBatch::default();
        BatchSink { to_send, types: Vec::new(), statements: 0, batch, rows: ROWS.0 }
    }

    fn end(mut self, mut found: Result<Found, SqlError>) {
        if found.is_ok() && self.statements == 0 {
            found = Err(SqlError::Query("the query has no statement".to_owned()));
        }
        if self.batch.rows > 0 {
            let _ = self.to_send.send(Answer::Rows(std::mem::take(&mut self.batch)));
        }
        // An error means that nobody waits for the query any more.
        let _ = self.to_send.send(Answer::End(found));
    }
}

impl RowSink for BatchSink {
    fn types(&mut self, types: &[Option<&str>]) {
        self.types = types.iter().map(|of| of.map(str::to_owned)).collect();
    }

    fn columns(&mut self, names: &[&str]) -> io::Result<()> {
        self.statements += 1;
        if self.statements > 1 {
            return Err(io::Error::other(
                "a query is one statement: pass each to a call of its own",
            ));
        }
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let columns = Answer::Columns(names, std::mem::take(&mut self.types));
        self.to_send.send(columns).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        self.batch.push(cells);
        if self.batch.rows < self.rows && self.batch.bytes.len() < TEXT_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        self.rows = (self.rows * 4).min(ROWS.1);
        let batch = std::mem::take(&mut self.batch);
        Ok(match self.to_send.send(Answer::Rows(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
