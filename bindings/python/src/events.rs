//! Iterates over the event records of a trace.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use strata_analyze::derived_facts::BoundSelection;
use strata_ctf::read::{DiscardedKind, Message, Reader, Selection, TimeRange};
use strata_filter::Filter;
use strata_sql::{Database, Found, Options, SqlError};

use crate::database_pool::{DatabasePool, Question, StopRequest};
use crate::errors;
use crate::event::{Event, EventBatch};
use crate::rows::Rows;
use crate::wait;

/// Number of records in the first batch, and in the largest. An event that is kept keeps its whole batch in memory.
const RECORDS: (usize, usize) = (16, 512);
/// Size of a batch beyond which it is passed on \[byte\].
const BYTES: usize = 256 << 10;
/// The most batches that wait to be taken.
const WAITING: usize = 4;
/// Number of messages between two checks for a request to stop.
const LOOK_INTERVAL: u32 = 4096;
/// The most damages whose texts are kept.
const DAMAGE_KEPT: usize = 20;

enum Answer {
    Events(EventBatch),
    End(Found),
}

/// Selection of event records.
#[derive(Clone)]
pub(crate) struct EventRequest {
    pub range: TimeRange,
    pub filter: Option<Filter>,
    pub names: Option<Vec<String>>,
}

impl EventRequest {
    /// Returns the names of the events that can be selected, by the descriptions of their classes.
    fn names(&self, reader: &Reader) -> Vec<String> {
        let mut selection = self.filter.as_ref().map_or_else(Selection::all, Selection::new);
        let classes = reader.traces().iter().flat_map(|trace| trace.event_classes());
        let mut names: Vec<String> = classes
            .filter(|class| self.names.as_ref().is_none_or(|names| has(names, class.name())))
            .filter(|class| selection.may_accept(class))
            .map(|class| class.name().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the question for the records as rows: with a column for each field, if only one event can be selected.
    fn question(&self, reader: &Reader, database: &Database) -> Result<Question, SqlError> {
        let names = self.names(reader);
        if let [name] = &*names {
            if let Some(table) = database.table_of_event(name) {
                let tables = database.tables()?;
                let columns = tables.iter().find(|other| other.name == table);
                let columns = columns.map(|table| table.columns.as_slice()).unwrap_or_default();
                let columns =
                    columns.iter().filter(|(name, _)| !NO_COLUMNS.contains(&name.as_str()));
                let columns = Some(columns.map(|(name, _)| name.clone()).collect());
                return Ok(Question::Events { table: table.to_owned(), columns, names: None });
            }
        }
        let names = names.iter().map(|name| name.replace('\0', "\u{fffd}"));
        Ok(Question::Events {
            table: "events".to_owned(),
            columns: Some(COLUMNS.map(str::to_owned).to_vec()),
            names: self.names.is_some().then(|| names.collect()),
        })
    }
}

/// Columns of the rows if more than one event can be selected.
const COLUMNS: [&str; 6] = ["time_ns", "trace", "cpu", "name", "fields", "context"];
/// Columns of an event's table that other columns repeat, or that take another pass over the traces.
const NO_COLUMNS: [&str; 7] = ["pid", "process", "tid", "thread", "fields", "context", "functions"];

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

/// The event records of a trace, by time.
#[pyclass(module = "strata")]
pub(crate) struct EventIterator {
    reader: Arc<Reader>,
    /// The records to read.
    request: EventRequest,
    /// True once a thread reads them.
    is_begun: bool,
    /// The same records as rows, once these were asked for.
    rows: Option<Rows>,
    answers: Option<Mutex<Receiver<Answer>>>,
    is_ended: Arc<AtomicBool>,
    batch: Arc<EventBatch>,
    index: usize,
    discarded: u64,
    damage: Vec<String>,
    left_out: Vec<String>,
}

impl Drop for EventIterator {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

impl EventIterator {
    pub(crate) fn new(reader: &Arc<Reader>, request: EventRequest) -> EventIterator {
        EventIterator {
            reader: Arc::clone(reader),
            request,
            is_begun: false,
            rows: None,
            answers: None,
            is_ended: Arc::new(AtomicBool::new(false)),
            batch: Arc::new(EventBatch::default()),
            index: 0,
            discarded: 0,
            damage: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Returns the records as rows of a query: all of them, also if some were given as events.
    fn rows(&mut self, py: Python<'_>) -> PyResult<&mut Rows> {
        if self.rows.is_none() {
            let (reader, request) = (Arc::clone(&self.reader), self.request.clone());
            let stop = StopRequest::default();
            let asked = Arc::clone(&stop);
            let made = wait::run(py, "filter", move || {
                let (range, filter) = (request.range, request.filter.clone());
                let options = Options { range, filter, ..Options::default() };
                let pool = Arc::new(DatabasePool::new(Arc::clone(&reader), options));
                let question = pool.with(&asked, |database| request.question(&reader, database))?;
                Ok((pool, question))
            });
            let made = made.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let (pool, question) = made.map_err(|error: SqlError| errors::of_query(&error))?;
            self.rows = Some(Rows::ask(py, &pool, &question)?);
        }
        self.rows.as_mut().ok_or_else(|| PyValueError::new_err("there are no rows"))
    }

    /// Starts the thread that reads records.
    fn begin(&mut self) -> PyResult<()> {
        let (to_send, answers) = sync_channel(WAITING);
        let worker = Worker {
            reader: Arc::clone(&self.reader),
            request: self.request.clone(),
            to_send,
            is_ended: Arc::clone(&self.is_ended),
        };
        thread::Builder::new().name("events".to_owned()).spawn(move || worker.run())?;
        self.answers = Some(Mutex::new(answers));
        self.is_begun = true;
        Ok(())
    }
}

#[pymethods]
impl EventIterator {
    fn __iter__(events: PyRef<'_, Self>) -> PyRef<'_, Self> {
        events
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        if !self.is_begun {
            self.begin()?;
        }
        while self.index >= self.batch.len() {
            let Some(answers) = &self.answers else { return Ok(None) };
            match wait::next(py, answers)? {
                Some(Answer::Events(batch)) => {
                    self.batch = Arc::new(batch);
                    self.index = 0;
                }
                Some(Answer::End(found)) => {
                    self.answers = None;
                    self.discarded = found.records;
                    self.damage.clone_from(&found.damage);
                    self.left_out.clone_from(&found.left_out);
                    errors::warn_of(py, &found)?;
                }
                None => {
                    self.answers = None;
                    return Err(errors::QueryError::new_err(
                        "reading has ended by a fault of strata",
                    ));
                }
            }
        }
        let event = Event::new(&self.reader, &self.batch, self.index);
        self.index += 1;
        Ok(Some(event))
    }

    /// The Arrow C stream of the records, by which pyarrow, polars, DuckDB and pandas take them without a copy.
    ///
    /// If only one event can be selected, each of its fields is a column; otherwise `fields` and `context` are JSON.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &mut self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.rows(py)?.__arrow_c_stream__(py, requested_schema)
    }

    /// The Arrow schema of the records.
    fn __arrow_c_schema__<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.rows(py)?.__arrow_c_schema__(py)
    }

    /// Records that the tracer discarded in what was read; known when the last event was given.
    #[getter]
    fn discarded(&self) -> u64 {
        self.discarded
    }

    /// What the filter could not judge, since there is too much of it in the traces, as texts; known when the last event was given.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// Texts of the first damages of what was read; known when the last event was given.
    #[getter]
    fn damage(&self) -> Vec<String> {
        self.damage.clone()
    }
}

struct Worker {
    reader: Arc<Reader>,
    request: EventRequest,
    to_send: SyncSender<Answer>,
    is_ended: Arc<AtomicBool>,
}

impl Worker {
    /// Compiles the filter. Returns `None` if it was stopped.
    fn selection(&self) -> Option<BoundSelection> {
        let stop = || self.is_ended.load(Ordering::Relaxed);
        let EventRequest { range, filter, .. } = &self.request;
        BoundSelection::read(&self.reader, filter.as_ref(), None, *range, &stop)
    }

    fn run(self) {
        let Some(BoundSelection { mut selection, facts }) = self.selection() else { return };
        // By index of the event class: its index in its trace, and true if its records are wanted.
        let mut classes = vec![(0, false); self.reader.event_classes()];
        for trace in self.reader.traces() {
            for (number, class) in trace.event_classes().enumerate() {
                let is_named = |names: &Vec<String>| names.iter().any(|name| name == class.name());
                let is_wanted =
                    self.request.names.as_ref().is_none_or(is_named) && selection.may_accept(class);
                if let Some(of) = classes.get_mut(class.index()) {
                    *of = (number, is_wanted);
                }
            }
        }
        let mut found = Found::default();
        let mut batch = EventBatch::default();
        let mut records = RECORDS.0;
        let mut left = LOOK_INTERVAL;
        let ended = self.reader.events(self.request.range).run(|message| {
            left -= 1;
            if left == 0 {
                left = LOOK_INTERVAL;
                if self.is_ended.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
            }
            match message {
                Message::Event(event) => {
                    let (number, is_wanted) =
                        classes.get(event.class().index()).copied().unwrap_or_default();
                    if !is_wanted || !selection.accepts(&event) {
                        return ControlFlow::Continue(());
                    }
                    batch.push(&event, number);
                    if batch.len() < records && batch.bytes() < BYTES {
                        return ControlFlow::Continue(());
                    }
                    records = (records * 4).min(RECORDS.1);
                    let full = std::mem::take(&mut batch);
                    if self.to_send.send(Answer::Events(full)).is_err() {
                        return ControlFlow::Break(());
                    }
                }
                Message::Packet(_) => {}
                Message::Discarded(discarded) => {
                    let count = match discarded.kind {
                        DiscardedKind::Records => &mut found.records,
                        DiscardedKind::Packets => &mut found.packets,
                    };
                    *count = count.saturating_add(discarded.count);
                }
                Message::Damage(damage) if damage.is_note() || damage.is_remark() => {}
                Message::Damage(damage) => {
                    found.damages += 1;
                    if found.damage.len() < DAMAGE_KEPT {
                        found.damage.push(damage.to_string());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        if ended.is_break() {
            return;
        }
        if batch.len() > 0 {
            let _ = self.to_send.send(Answer::Events(batch));
        }
        let not_seen = [
            (
                selection.deferred_left_out(),
                "argument of a system call in a record behind the entry",
            ),
            (
                facts.map_or(0, |facts| facts.left_out()),
                "fact of who made a record, or how long it took",
            ),
        ];
        for (count, what) in not_seen.into_iter().filter(|(count, _)| *count > 0) {
            found.left_out.push(format!(
                "{count}×, there was no room for one more {what}: the filter has not seen it"
            ));
        }
        // An error means that nobody waits for records any more.
        let _ = self.to_send.send(Answer::End(found));
    }
}
