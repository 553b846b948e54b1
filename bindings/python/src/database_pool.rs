//! Databases of one set of traces, each used by one query at a time.
//!
//! A query may still be open when another one begins, such as in the loop over the first one's rows. SQLite's
//! connection is busy then, so the second query gets a database of its own. Both databases return to the pool.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use strata_ctf::read::Reader;
use strata_sql::{Cell, Database, EventRequest, EventRows, Found, Options, RowSink, SqlError};

use crate::batch::RowBatch;

/// Number of rows in the first batch, which is small so that the first row arrives at once, and in the largest.
const ROWS: (usize, usize) = (16, 4096);
/// Size of the texts of a batch beyond which it is passed on \[byte\].
const TEXT_BYTES: usize = 1 << 20;
/// The most batches that wait between the query and Python.
const WAITING: usize = 3;
/// The most databases that are kept for later queries.
const KEPT: usize = 4;

/// What is asked of a database.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// The rows of a statement.
    Query(String),
    /// Rows of a table of event records, without a statement: these columns, or all, of events of these names, or all.
    Events { table: String, columns: Option<Vec<String>>, names: Option<Vec<String>> },
}

impl Question {
    fn ask(&self, database: &mut Database, sink: &mut dyn RowSink) -> Result<(), SqlError> {
        match self {
            Question::Query(text) => database.query(text, sink),
            Question::Events { table, columns, names } => {
                let (columns, names) = (columns.as_deref(), names.as_deref());
                match database.rows_of_events(&EventRequest { table, columns, names }, sink)? {
                    true => Ok(()),
                    false => Err(SqlError::Query(format!("no such table: '{table}'"))),
                }
            }
        }
    }
}

/// Message of a query's thread. Messages come in the order of these variants; the last one is [`Answer::End`].
pub(crate) enum Answer {
    /// Names of the columns, and the types that tables declare for them.
    Columns(Vec<String>, Vec<Option<String>>),
    Rows(RowBatch),
    /// End of the rows, with the error if the query failed.
    End(Result<Found, SqlError>),
}

/// A request to stop one query, or the making of one database: true once somebody has asked for it.
pub(crate) type StopRequest = Arc<AtomicBool>;

/// A database, with the place where it looks for the request to stop its present query.
struct Pooled {
    database: Database,
    stop: Arc<Mutex<StopRequest>>,
}

fn set(place: &Mutex<StopRequest>, request: &StopRequest) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(request);
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
    stop: StopRequest,
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl DatabasePool {
    pub(crate) fn new(reader: Arc<Reader>, options: Options) -> DatabasePool {
        DatabasePool { reader, options, free: Mutex::new(Vec::new()) }
    }

    /// Takes a database that no query uses, or makes one: for a filter, that may read the traces.
    fn take(&self, request: &StopRequest) -> Result<Pooled, SqlError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(pooled) = free {
            set(&pooled.stop, request);
            return Ok(pooled);
        }
        let stop = Arc::new(Mutex::new(Arc::clone(request)));
        let place = Arc::clone(&stop);
        let is_stopped =
            move || place.lock().unwrap_or_else(PoisonError::into_inner).load(Ordering::Relaxed);
        let (reader, options) = (Arc::clone(&self.reader), self.options.clone());
        let database = Database::with_options(reader, options, Arc::new(is_stopped))?;
        Ok(Pooled { database, stop })
    }

    fn give_back(&self, pooled: Pooled) {
        // What its threads still compute for later queries goes on.
        set(&pooled.stop, &StopRequest::default());
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(pooled);
        }
    }

    /// Calls `look` with a database that no query uses.
    ///
    /// # Errors
    /// SQLite has no memory, or it was stopped.
    pub(crate) fn with<T>(
        &self,
        request: &StopRequest,
        look: impl FnOnce(&Database) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let pooled = self.take(request)?;
        let seen = look(&pooled.database);
        self.give_back(pooled);
        seen
    }

    /// Runs a query in a separate thread.
    ///
    /// # Errors
    /// The system can make no thread.
    pub(crate) fn start(self: &Arc<Self>, question: Question) -> Result<RunningQuery, SqlError> {
        let (to_send, answers) = sync_channel(WAITING);
        let stop = StopRequest::default();
        let request = Arc::clone(&stop);
        let pool = Arc::clone(self);
        let run = move || {
            let mut sink = BatchSink::new(to_send);
            let mut pooled = match pool.take(&request) {
                Ok(pooled) => pooled,
                Err(error) => return sink.end(Err(error)),
            };
            let end = question.ask(&mut pooled.database, &mut sink);
            let found = end.map(|()| pooled.database.found());
            pool.give_back(pooled);
            sink.end(found);
        };
        let spawned = thread::Builder::new().name("query".to_owned()).spawn(run);
        spawned.map_err(SqlError::Output)?;
        Ok(RunningQuery { answers: Mutex::new(answers), stop })
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

    fn event_rows(&mut self, rows: &mut EventRows<'_>) -> io::Result<ControlFlow<()>> {
        Ok(match self.to_send.send(Answer::Rows(RowBatch::of_events(rows))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
