//! Iterates over the event records of a trace.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;

use pyo3::prelude::*;
use strata_analyze::derived_facts::DerivedFacts;
use strata_ctf::read::{DiscardedKind, Message, Reader, Selection, TimeRange};
use strata_filter::Filter;
use strata_sql::Found;

use crate::errors;
use crate::event::{Event, EventBatch};
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

/// The event records of a trace, by time.
#[pyclass(module = "strata")]
pub(crate) struct EventIterator {
    reader: Arc<Reader>,
    answers: Option<Mutex<Receiver<Answer>>>,
    is_ended: Arc<AtomicBool>,
    batch: Arc<EventBatch>,
    index: usize,
    discarded: u64,
    damage: Vec<String>,
}

impl Drop for EventIterator {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

impl EventIterator {
    /// Starts the thread that reads records.
    pub(crate) fn begin(reader: &Arc<Reader>, request: EventRequest) -> PyResult<EventIterator> {
        let (to_send, answers) = sync_channel(WAITING);
        let is_ended = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            reader: Arc::clone(reader),
            request,
            to_send,
            is_ended: Arc::clone(&is_ended),
        };
        thread::Builder::new().name("events".to_owned()).spawn(move || worker.run())?;
        Ok(EventIterator {
            reader: Arc::clone(reader),
            answers: Some(Mutex::new(answers)),
            is_ended,
            batch: Arc::new(EventBatch::default()),
            index: 0,
            discarded: 0,
            damage: Vec::new(),
        })
    }
}

#[pymethods]
impl EventIterator {
    fn __iter__(events: PyRef<'_, Self>) -> PyRef<'_, Self> {
        events
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
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
                    let missing = errors::missing(&found);
                    self.damage = found.damage;
                    if let Some(text) = missing {
                        errors::warn(py, &text)?;
                    }
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

    /// Records that the tracer discarded in what was read; known when the last event was given.
    #[getter]
    fn discarded(&self) -> u64 {
        self.discarded
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
    /// Compiles the filter, and reads the facts that it needs and that records do not have themselves. Returns `None`
    /// if it was stopped.
    fn selection(&self) -> Option<Selection> {
        let Some(filter) = &self.request.filter else { return Some(Selection::all()) };
        let stop = || self.is_ended.load(Ordering::Relaxed);
        let range = self.request.range;
        let mut selection = Selection::of_time(filter, &self.reader, range, &stop);
        let asked = selection.asked_words(&self.reader);
        if asked.is_empty() {
            return Some(selection);
        }
        let facts = DerivedFacts::read(&self.reader, &asked, None, range, &stop)?;
        Some(selection.with_derived(Arc::new(facts), false))
    }

    fn run(self) {
        let Some(mut selection) = self.selection() else { return };
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
        // An error means that nobody waits for records any more.
        let _ = self.to_send.send(Answer::End(found));
    }
}
