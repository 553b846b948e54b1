//! What the begins of open spans said: their fields, ids and names, until the timeline reports their ends.
//!
//! The timeline reports a span by the time, thread and key of its begin, by which the note on it is found here. The notes
//! of each thread say which span another one is a part of.
//!
//! The number of notes is limited, and so are the bytes of all of them, since a program may begin any number of spans with
//! large fields and end none.

use std::collections::HashMap;

use prost::Message as _;
use strata_timeline::{Span, SpanKey, ThreadId, UnpairedSpan};

use super::attributes::Attributes;
use super::classes::Ids;
use super::ids::SpanId;
use super::proto::{KeyValue, SpanEvent};

/// The most notes on open spans that are kept. A span without one is exported without the fields of its begin.
const NOTES_MAX: usize = 1 << 17;
/// The most bytes of all notes. A note on a span beyond the limit has its ids only.
const BYTES_MAX: usize = 256 << 20;
/// The most notes on spans with the same begin that are searched for one.
const SAME_BEGIN_MAX: usize = 1 << 10;
/// The most open spans of a thread that are searched for the one around a new span.
const SEARCHED_MAX: usize = 64;
/// The most events of one span, which is what SDKs of OpenTelemetry have as well.
const EVENTS_MAX: usize = 128;
/// The size of one span's events at which no further events are kept \[byte\].
const EVENT_BYTES_MAX: usize = 256 << 10;

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
    /// True if the span's ids come from OpenTelemetry, and were not computed.
    pub(super) is_told: bool,
    /// True if the trace id comes from OpenTelemetry, so that the span belongs to a request.
    pub(super) is_of_request: bool,
    pub(super) parent: Option<SpanId>,
    /// The span's name in OpenTelemetry.
    pub(super) name: Option<String>,
    pub(super) kind: i32,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    /// The size of the events.
    pub(super) event_bytes: usize,
    pub(super) omitted_events: u32,
    /// The description of the error with which the span ended.
    pub(super) error: Option<String>,
}

impl Note {
    /// Returns the approximate size of the parts that a program determines \[byte\].
    fn bytes(&self) -> usize {
        let texts = [&self.name, &self.error].into_iter().flatten().map(String::len).sum::<usize>();
        self.of.len() + texts + self.attributes.memory() + self.event_bytes
    }

    /// Removes everything from the note except what is needed to find the span.
    fn strip(&mut self) {
        self.attributes.omit_all();
        self.name = None;
    }
}

/// Returns the approximate size of an event in memory \[byte\].
fn event_bytes(event: &SpanEvent) -> usize {
    let own = std::mem::size_of::<SpanEvent>() + event.encoded_len();
    own + event.attributes.len() * std::mem::size_of::<KeyValue>()
}

/// The notes on all open spans.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: HashMap<u64, Note>,
    next: u64,
    /// The size of all notes.
    bytes: usize,
    /// The latest time at which a span began, and the number of spans that began then, including ended ones.
    latest: Option<(i64, usize)>,
    by_begin: HashMap<i64, Vec<u64>>,
    by_ids: HashMap<Ids, u64>,
    by_thread: HashMap<ThreadId, Vec<u64>>,
}

impl Notes {
    /// Adds a note. Returns false if the limits are reached, so that the note, or all except its ids, is not kept.
    pub(super) fn add(&mut self, mut note: Note) -> bool {
        self.latest = Some((note.begin, self.at(note.begin) + 1));
        let at_begin = self.by_begin.get(&note.begin).map_or(0, Vec::len);
        if self.notes.len() >= NOTES_MAX || at_begin >= SAME_BEGIN_MAX {
            return false;
        }
        let has_room = self.bytes + note.bytes() <= BYTES_MAX;
        if !has_room {
            note.strip();
        }
        self.bytes += note.bytes();
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
        has_room
    }

    /// Returns the number of spans that have begun at a time; of an earlier time, only those that are open.
    pub(super) fn at(&self, begin: i64) -> usize {
        match self.latest {
            Some((time, count)) if time == begin => count,
            _ => self.by_begin.get(&begin).map_or(0, Vec::len),
        }
    }

    /// Adds an event to the open span with these ids.
    pub(super) fn add_event(&mut self, ids: &Ids, event: impl FnOnce() -> SpanEvent) {
        let Some(note) = self.by_ids.get(ids).and_then(|number| self.notes.get_mut(number)) else {
            return;
        };
        let has_room = note.events.len() < EVENTS_MAX && note.event_bytes < EVENT_BYTES_MAX;
        if !has_room || self.bytes >= BYTES_MAX {
            note.omitted_events = note.omitted_events.saturating_add(1);
            return;
        }
        let event = event();
        let bytes = event_bytes(&event);
        note.event_bytes += bytes;
        self.bytes += bytes;
        note.events.push(event);
    }

    /// Marks the open span with these ids as failed, with the reason if there is room for it.
    pub(super) fn fail(&mut self, ids: &Ids, why: String) {
        let Some(note) = self.by_ids.get(ids).and_then(|number| self.notes.get_mut(number)) else {
            return;
        };
        let before = note.error.take().map_or(0, |error| error.len());
        self.bytes = self.bytes.saturating_sub(before);
        let why = if self.bytes < BYTES_MAX { why } else { String::new() };
        self.bytes += why.len();
        note.error = Some(why);
    }

    /// Returns the ids of the span around a span that begins in a thread now, and whether it belongs to a request.
    /// That is the thread's latest open span, if all its open spans are nested; otherwise `None`.
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
        self.bytes = self.bytes.saturating_sub(note.bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::attributes::Attributes;
    use crate::otlp::proto::AnyValue;

    fn note(begin: i64, text: usize) -> Note {
        let mut attributes = Attributes::default();
        attributes.add("text", AnyValue::text("a".repeat(text)));
        let number = u64::try_from(begin).unwrap();
        Note {
            of: "shop:job".to_owned(),
            begin,
            thread: None,
            key: Some(SpanKey::Number(begin.into())),
            ids: Ids { trace: [1; 16], span: number.to_be_bytes() },
            is_told: true,
            is_of_request: true,
            parent: None,
            name: Some("job".to_owned()),
            kind: 1,
            attributes,
            events: Vec::new(),
            event_bytes: 0,
            omitted_events: 0,
            error: None,
        }
    }

    fn event(text: usize) -> SpanEvent {
        let value = Some(AnyValue::text("a".repeat(text)));
        let attributes = vec![KeyValue { key: "text".to_owned(), value }];
        SpanEvent { attributes, ..SpanEvent::default() }
    }

    #[test]
    fn notes_take_a_limited_number_of_bytes_and_give_them_back() {
        let mut notes = Notes::default();
        let large = 60 << 10;
        // As if others had taken all but the room for ten.
        let others = BYTES_MAX - 10 * (large + 1024);
        notes.bytes = others;
        let wholes = (0..20).filter(|&at| notes.add(note(at, large))).count();
        assert_eq!(wholes, 10);
        assert!(notes.bytes < BYTES_MAX);
        // One for which there was no room has its ids and nothing else, and says so. At the limit, nothing is added.
        let (ids, bytes) = (note(19, 0).ids, std::mem::replace(&mut notes.bytes, BYTES_MAX));
        notes.add_event(&ids, || event(10));
        notes.fail(&ids, "why".to_owned());
        assert_eq!(std::mem::replace(&mut notes.bytes, bytes), BYTES_MAX);
        let found = notes.remove(19, |_| true).unwrap();
        assert_eq!((found.ids, found.attributes.omitted, found.omitted_events), (ids, 1, 1));
        assert!(found.attributes.all.is_empty() && found.name.is_none());
        assert_eq!(found.error.as_deref(), Some(""));
        for at in 0..19 {
            notes.remove(at, |_| true).unwrap();
        }
        assert_eq!(notes.bytes, others);
        assert!(notes.notes.is_empty() && notes.by_begin.is_empty() && notes.by_ids.is_empty());
    }

    #[test]
    fn events_and_errors_of_a_span_are_counted_and_limited() {
        let mut notes = Notes::default();
        let ids = note(1, 10).ids;
        assert!(notes.add(note(1, 10)));
        let before = notes.bytes;
        for _ in 0..100 {
            notes.add_event(&ids, || event(16 << 10));
        }
        notes.fail(&ids, "first".to_owned());
        notes.fail(&ids, "second".to_owned());
        let note = notes.notes.get(&0).unwrap();
        let kept = note.events.len();
        assert!((10..20).contains(&kept), "{kept}");
        assert_eq!(
            (note.omitted_events, note.error.as_deref()),
            (100 - kept as u32, Some("second"))
        );
        assert_eq!(notes.bytes, before + note.event_bytes + "second".len());
        notes.remove(1, |_| true).unwrap();
        assert_eq!(notes.bytes, 0);
    }

    #[test]
    fn spans_of_one_time_are_told_apart_and_limited() {
        let mut notes = Notes::default();
        assert_eq!(notes.at(7), 0);
        assert!(notes.add(note(7, 1)));
        assert!(notes.remove(7, |_| true).is_some());
        // It has ended, and is another one all the same.
        assert_eq!(notes.at(7), 1);
        for _ in 0..SAME_BEGIN_MAX {
            assert!(notes.add(note(7, 1)));
        }
        assert!(!notes.add(note(7, 1)));
        assert!(notes.add(note(8, 1)));
        assert_eq!(notes.at(8), 1);
    }
}
