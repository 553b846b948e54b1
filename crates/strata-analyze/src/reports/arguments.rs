//! The arguments of a few system calls: their records are read again, since no report keeps those of all.

use std::fmt::Write as _;

use strata_ctf::read::{Event, FieldInfo, Message, Reader, Scope, TimeRange, Visit};
use strata_timeline::{begins_of, kernel_name, Sources, StreamSource};

use crate::render::line::Lines;
use crate::short::values::{is_working_directory, socket_address};

/// Characters of a text that are shown.
const TEXT_MAX: usize = 64;
/// Characters of all arguments.
const ALL_MAX: usize = 400;
/// Of an address of a socket, bytes: the kernel has no longer one.
const ADDRESS_MAX: usize = 128;
/// Records of one time that are looked at.
const RECORDS_MAX: u32 = 10_000;

/// The arguments of a system call of this name that this thread began at this time: `dfd = AT_FDCWD, filename = "x"`.
#[must_use]
pub fn arguments(reader: &Reader, call: &str, tid: i32, begin: i64) -> Option<String> {
    let names = begins_of(call);
    let is_name = |name: &str| names.iter().any(|wanted| wanted == kernel_name(name));
    look(reader, begin, is_name, (Some(tid), true))
}

/// The fields of a record of this event, thread and time.
#[must_use]
pub fn fields(reader: &Reader, event: &str, tid: Option<i32>, time: i64) -> Option<String> {
    look(reader, time, |name| name == event, (tid, false))
}

fn look(
    reader: &Reader,
    time: i64,
    is_name: impl Fn(&str) -> bool,
    (tid, of_call): (Option<i32>, bool),
) -> Option<String> {
    let sources = Sources::new(reader).streams;
    let mut events = reader.events(TimeRange { from: time, to: time });
    let mut left = RECORDS_MAX;
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        left = left.checked_sub(1)?;
        let source = sources.get(event.stream().index());
        if is_name(event.class().name()) && tid.is_none_or(|tid| is_of(&event, source, tid)) {
            let mut text = ArgumentText { of_call, ..ArgumentText::default() };
            event.visit(Scope::Payload, &mut text);
            return Some(text.finish());
        }
    }
    None
}

/// Whether the record does not say that it is another thread's. In a PID namespace of its own, a program knows its threads
/// by other numbers: those say nothing.
fn is_of(event: &Event<'_>, source: Option<&StreamSource>, tid: i32) -> bool {
    let field = ["tid", "perf_tid", "vtid"].iter().find_map(|name| event.class().find(name));
    let found = field.and_then(|field| event.integer(&field));
    let known = source.map_or(found, |source| source.thread(found).0);
    known.is_none_or(|known| known == i64::from(tid))
}

/// Fields as a person reads them.
#[derive(Default)]
struct ArgumentText {
    text: String,
    /// Brackets that are open.
    depth: usize,
    is_full: bool,
    /// Arguments of a system call.
    of_call: bool,
    /// The family of a socket's address, told before that.
    family: Option<u64>,
    /// The bytes of an address, while they are told.
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
