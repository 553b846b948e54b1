//! The arguments of a few system calls. Their records are read again, since no report keeps the arguments of all calls.

use std::fmt::Write as _;

use strata_ctf::read::{
    DeferredClass, DeferredField, Event, FieldInfo, FieldRef, Message, Reader, Scope, TimeRange,
    Visit,
};
use strata_timeline::{begins_of, kernel_name, Sources, StreamSource};

use crate::render::line::Lines;
use crate::short::values::{is_working_directory, socket_address};

/// The most characters of one text that are shown.
const TEXT_MAX: usize = 64;
/// The most characters of all arguments of a call together.
const ALL_MAX: usize = 400;
/// The greatest size of a socket's address that is shown, which is the greatest that the kernel has \[byte\].
const ADDRESS_MAX: usize = 128;
/// The most records with the same time that are searched for one record.
const RECORDS_MAX: u32 = 10_000;
/// The longest time between the record of a deferred argument and the end of its call \[ns\]. The recorder writes
/// both together, but may be interrupted in between.
const IN_FRONT: i64 = 10_000_000;
/// The most records within [`IN_FRONT`] that are searched for deferred arguments.
const LATER_MAX: u32 = 100_000;

/// Returns the arguments of a system call as text, such as `dfd = AT_FDCWD, filename = "x"`. The call is given by its
/// name, its thread and the times of its begin and end.
#[must_use]
pub fn arguments(
    reader: &Reader,
    call: &str,
    tid: i32,
    (begin, end): (i64, i64),
) -> Option<String> {
    let names = begins_of(call);
    let is_name = |name: &str| names.iter().any(|wanted| wanted == kernel_name(name));
    let later = deferred(reader, call, tid, (begin, end));
    look(reader, begin, is_name, (Some(tid), true), later)
}

/// Returns the fields of a call's entry that were written later, in separate records shortly before the call's end.
fn deferred(
    reader: &Reader,
    call: &str,
    tid: i32,
    (begin, end): (i64, i64),
) -> Vec<(FieldRef, DeferredField)> {
    let is_any = |class: &&strata_ctf::read::EventClass| DeferredClass::new(class).is_some();
    if !reader.traces().iter().any(|trace| trace.event_classes().any(|class| is_any(&class))) {
        return Vec::new();
    }
    let sources = Sources::new(reader).streams;
    let from = begin.max(end.saturating_sub(IN_FRONT));
    let mut events = reader.events(TimeRange { from, to: end });
    let (mut found, mut left) = (Vec::new(), LATER_MAX);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        left -= 1;
        if left == 0 {
            break;
        }
        let Some(class) = DeferredClass::new(event.class()) else { continue };
        let is_its = class.call(&event).is_some_and(|of| of == call);
        if is_its && is_of(&event, sources.get(event.stream().index()), tid) {
            found.extend(class.entry_fields(&event));
        }
    }
    found
}

/// Returns the fields of a record as text. The record is given by its event, thread and time.
#[must_use]
pub fn fields(reader: &Reader, event: &str, tid: Option<i32>, time: i64) -> Option<String> {
    look(reader, time, |name| name == event, (tid, false), Vec::new())
}

fn look(
    reader: &Reader,
    time: i64,
    is_name: impl Fn(&str) -> bool,
    (tid, of_call): (Option<i32>, bool),
    deferred: Vec<(FieldRef, DeferredField)>,
) -> Option<String> {
    let sources = Sources::new(reader).streams;
    let mut events = reader.events(TimeRange { from: time, to: time });
    let mut left = RECORDS_MAX;
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        left = left.checked_sub(1)?;
        let source = sources.get(event.stream().index());
        if is_name(event.class().name()) && tid.is_none_or(|tid| is_of(&event, source, tid)) {
            let text = ArgumentText { of_call, ..ArgumentText::default() };
            let mut text = Completed { text, deferred, skips: false };
            event.visit(Scope::Payload, &mut text);
            return Some(text.text.finish());
        }
    }
    None
}

/// Returns false if the record names another thread. A thread id from a PID namespace (`vtid`) is not compared,
/// since it differs from that of the host.
fn is_of(event: &Event<'_>, source: Option<&StreamSource>, tid: i32) -> bool {
    let field = ["tid", "perf_tid", "vtid"].iter().find_map(|name| event.class().find(name));
    let found = field.and_then(|field| event.integer(&field));
    let known = source.map_or(found, |source| source.thread(found).0);
    known.is_none_or(|known| known == i64::from(tid))
}

/// A visitor that collects an event's fields as text for people.
#[derive(Default)]
struct ArgumentText {
    text: String,
    /// The number of open brackets.
    depth: usize,
    is_full: bool,
    /// True if the fields are arguments of a system call.
    of_call: bool,
    /// The family of a socket's address, which precedes the address.
    family: Option<u64>,
    /// The bytes of an address of which some have been visited.
    address: Option<Vec<u8>>,
}

impl ArgumentText {
    fn finish(mut self) -> String {
        if self.is_full {
            self.text.push('…');
        }
        self.text
    }

    fn field(&mut self, field: &FieldInfo, value: &str) {
        let name = field.name();
        // Of another field, which has it.
        if name.starts_with('_') && name.ends_with("_length") || name.starts_with("perf_") {
            return;
        }
        if self.text.len() > ALL_MAX {
            self.is_full = true;
            return;
        }
        if !self.text.is_empty() && !self.text.ends_with(['[', '{']) {
            self.text.push_str(", ");
        }
        if !field.is_element() && !name.is_empty() {
            let _ = write!(self.text, "{name} = ");
        }
        self.text.push_str(value);
    }

    fn begin(&mut self, field: &FieldInfo, bracket: &str) {
        self.field(field, bracket);
        self.depth += 1;
    }

    fn end(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        if !self.is_full {
            self.text.push(bracket);
        }
    }

    fn number(&mut self, field: &FieldInfo, value: i128, plain: &str) {
        if self.of_call && field.name().ends_with("fd") && is_working_directory(value as u64) {
            return self.field(field, "AT_FDCWD");
        }
        let mut text = String::new();
        if field.labels.is_some() {
            if let Some(mut flags) = field.flags_of(value) {
                text = flags.by_ref().collect::<Vec<_>>().join("|");
                if flags.rest() != 0 {
                    let _ = write!(text, "|{:#x}", flags.rest());
                }
            } else if let Some(label) = field.labels_of(value).next() {
                text = label.to_owned();
            }
        }
        self.field(field, if text.is_empty() { plain } else { &text });
    }
}

impl Visit for ArgumentText {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if let (Some(address), true) = (&mut self.address, field.is_element()) {
            if address.len() < ADDRESS_MAX {
                address.push(value as u8);
            }
            return;
        }
        if field.name().ends_with("family") {
            self.family = Some(value);
        }
        let plain = match field.base {
            strata_model::Base::Sixteen => format!("{value:#x}"),
            _ => value.to_string(),
        };
        self.number(field, value.into(), &plain);
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.number(field, value.into(), &value.to_string());
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.field(field, &value.to_string());
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut shown: String = text.chars().take(TEXT_MAX).flat_map(char::escape_debug).collect();
        if text.chars().nth(TEXT_MAX).is_some() {
            shown.push('…');
        }
        self.field(field, &format!("\"{shown}\""));
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.field(field, &format!("({} bytes)", bytes.len()));
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field, "{");
    }

    fn end_structure(&mut self, _: &FieldInfo) {
        self.end('}');
    }

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        if self.of_call
            && self.family.is_some()
            && self.depth == 0
            && field.name().ends_with("addr")
        {
            self.address = Some(Vec::new());
            return self.begin(field, "");
        }
        self.begin(field, "[");
    }

    fn end_array(&mut self, _: &FieldInfo) {
        if let Some(bytes) = self.address.take() {
            let mut shown = Lines::default();
            socket_address(&mut shown, self.family.take(), &bytes);
            self.depth = self.depth.saturating_sub(1);
            if !self.is_full {
                self.text.push_str(&String::from_utf8_lossy(shown.as_bytes()));
            }
            return;
        }
        self.end(']');
    }
}

/// A visitor that passes on the fields of a record, with the values of those that were recorded later.
struct Completed {
    text: ArgumentText,
    deferred: Vec<(FieldRef, DeferredField)>,
    /// True while the elements of a replaced list are skipped.
    skips: bool,
}

impl Completed {
    /// Passes on the value of this field that was recorded later. Returns false if there is none.
    fn tells(&mut self, field: &FieldInfo) -> bool {
        let is_it = |(of, _): &&(FieldRef, DeferredField)| {
            !field.is_element() && of.info().name() == field.name()
        };
        let found = self.deferred.iter().find(is_it);
        found.map(|(of, value)| value.tell(of, &mut self.text)).is_some()
    }
}

impl Visit for Completed {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if !self.skips && !self.tells(field) {
            self.text.unsigned(field, value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        if !self.skips && !self.tells(field) {
            self.text.signed(field, value);
        }
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.text.real(field, value);
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if !self.tells(field) {
            self.text.text(field, bytes);
        }
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.text.blob(field, bytes);
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.text.begin_structure(field);
    }

    fn end_structure(&mut self, field: &FieldInfo) {
        self.text.end_structure(field);
    }

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        self.skips = self.tells(field);
        if !self.skips {
            self.text.begin_array(field, length);
        }
    }

    fn end_array(&mut self, field: &FieldInfo) {
        if !std::mem::take(&mut self.skips) {
            self.text.end_array(field);
        }
    }
}
