//! What the begins of open spans said: their fields, ids and names, until the timeline reports their ends.
//!
//! The timeline reports a span by the time, thread and key of its begin, by which the note on it is found here. The notes
//! of each thread say which span another one is a part of.

use std::collections::HashMap;

use strata_timeline::{Span, SpanKey, ThreadId, UnpairedSpan};

use super::attributes::Attributes;
use super::classes::Ids;
use super::ids::SpanId;
use super::proto::SpanEvent;

/// The most notes that are kept. A span without one is exported without the fields of its begin.
const NOTES_MAX: usize = 1 << 17;
/// The most open spans of a thread among which the one around another is searched.
const SEARCHED_MAX: usize = 64;
/// The most events of one span, which is what SDKs of OpenTelemetry have as well.
const EVENTS_MAX: usize = 128;

/// A note on an open span.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The name of the spans of the event.
    pub(super) of: String,
    /// The begin \[ns since 1970\].
    pub(super) begin: i64,
    pub(super) thread: Option<ThreadId>,
    pub(super) key: Option<SpanKey>,
    pub(super) ids: Ids,
    /// True if the ids are those of OpenTelemetry.
    pub(super) is_told: bool,
    /// True if the ids of the trace are those of OpenTelemetry.
    pub(super) is_of_request: bool,
    pub(super) parent: Option<SpanId>,
    /// The name by OpenTelemetry.
    pub(super) name: Option<String>,
    pub(super) kind: i32,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    pub(super) omitted_events: u32,
    /// What the error said that the span ended with.
    pub(super) error: Option<String>,
}

impl Note {
    pub(super) fn add_event(&mut self, event: impl FnOnce() -> SpanEvent) {
        match self.events.len() < EVENTS_MAX {
            true => self.events.push(event()),
            false => self.omitted_events = self.omitted_events.saturating_add(1),
        }
    }
}

/// The notes on all open spans.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: HashMap<u64, Note>,
    next: u64,
    by_begin: HashMap<i64, Vec<u64>>,
    by_ids: HashMap<Ids, u64>,
    by_thread: HashMap<ThreadId, Vec<u64>>,
}

impl Notes {
    /// Adds a note. Returns false if there are too many.
    pub(super) fn add(&mut self, note: Note) -> bool {
        if self.notes.len() >= NOTES_MAX {
            return false;
        }
        let number = self.next;
        self.next += 1;
        self.by_begin.entry(note.begin).or_default().push(number);
        if note.is_told {
            self.by_ids.insert(note.ids, number);
        }
        if let Some(thread) = note.thread {
            self.by_thread.entry(thread).or_default().push(number);
        }
        self.notes.insert(number, note);
        true
    }

    /// Returns the number of notes on spans that began at a time.
    pub(super) fn at(&self, begin: i64) -> usize {
        self.by_begin.get(&begin).map_or(0, Vec::len)
    }

    /// Returns the note on the open span with these ids.
    pub(super) fn of_ids(&mut self, ids: &Ids) -> Option<&mut Note> {
        self.notes.get_mut(self.by_ids.get(ids)?)
    }

    /// Returns the ids of the span that is around whatever begins in a thread now, and whether it is of a request: of its open spans the latest, if all
    /// of them are parts of each other. Where a thread works on several requests at a time, it cannot be known.
    pub(super) fn around(&self, thread: ThreadId) -> Option<(Ids, bool)> {
        let open = self.by_thread.get(&thread)?;
        if open.len() > SEARCHED_MAX {
            return None;
        }
        let mut before: Option<&Note> = None;
        let notes = open.iter().filter_map(|number| self.notes.get(number));
        // Of what has a key, and may go on in other threads, only OpenTelemetry says what is a part of what.
        for note in notes.filter(|note| note.key.is_none() || note.is_told) {
            // Without a key, a span is nested in those of its thread.
            let is_part = note.key.is_none() || note.parent == before.map(|it| it.ids.span);
            if before.is_some() && !is_part {
                return None;
            }
            before = Some(note);
        }
        before.map(|note| (note.ids, note.is_of_request))
    }

    /// Removes and returns the note on a span that has ended.
    pub(super) fn take(&mut self, span: &Span, name: &str) -> Option<Note> {
        let is_of = |note: &Note| {
            let is_named = name.is_empty() || note.of == name;
            note.thread == span.begun_by && note.key == span.key && is_named
        };
        self.remove(span.begin, is_of)
    }

    /// Removes the note on a span that has no end.
    pub(super) fn forget(&mut self, span: &UnpairedSpan, name: &str) {
        let is_of =
            |note: &Note| note.thread == span.thread && (name.is_empty() || note.of == name);
        self.remove(span.time, is_of);
    }

    fn remove(&mut self, begin: i64, is_wanted: impl Fn(&Note) -> bool) -> Option<Note> {
        let at_begin = self.by_begin.get_mut(&begin)?;
        let is_it = |number: &u64| self.notes.get(number).is_some_and(&is_wanted);
        let place = at_begin.iter().rposition(is_it)?;
        let number = at_begin.remove(place);
        if at_begin.is_empty() {
            self.by_begin.remove(&begin);
        }
        let note = self.notes.remove(&number)?;
        if self.by_ids.get(&note.ids) == Some(&number) {
            self.by_ids.remove(&note.ids);
        }
        if let Some(of_thread) = note.thread.and_then(|thread| self.by_thread.get_mut(&thread)) {
            if let Some(place) = of_thread.iter().rposition(|it| *it == number) {
                of_thread.remove(place);
            }
            if let (true, Some(thread)) = (of_thread.is_empty(), note.thread) {
                self.by_thread.remove(&thread);
            }
        }
        Some(note)
    }
}
