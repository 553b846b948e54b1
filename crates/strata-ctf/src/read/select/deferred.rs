//! System call arguments that are recorded after the entry, for filters that test them on the entry.
//!
//! ```text
//! entry openat(dirfd=-100, pathname=0x7f.., ...)     ◀── filter: pathname == "/etc/passwd" is asked here,
//! later record: pathname="/etc/passwd"                    and the text is known only here
//! exit = 3
//! ```
//!
//! A filter decides about an entry when it is read, but [the missing arguments](super::super::deferred_arguments)
//! come later. So if a filter tests such a field, the records are read once before, and the missing values are kept
//! by the place of the entry. Reading goes on behind the time range until the calls of the range have returned, for a
//! limited number of records.
//!
//! The number of entries, the size of their texts and the number of threads are limited. What had no room is counted,
//! and the filter then tests only what the entry itself has.
//!
//! # Callers and cost
//! [`Selection`](super::Selection) calls [`DeferredFields::read`] once, in the thread that prepares a reading;
//! the result is then only read, and all workers share it. For a filter that tests no such field there is no
//! second reading: `None` says so after a look at the classes. Decision 0047 (docs/decisions) says why values are
//! read in advance and records are not held back.

use std::collections::HashMap;

use super::super::deferred_arguments::{DeferredArgument, DeferredClass, DeferredField};
use super::super::{Event, EventClass, FieldRef, Message, Reader, TimeRange, Value};
use crate::model::schema::Scope;
use crate::model::syscalls::{arguments, ArgumentKind};
use crate::model::ByteOrder;

/// The most entries whose missing fields are kept.
const ENTRIES_MAX: usize = 1 << 18;
/// The greatest size of all texts that are kept \[byte\].
const BYTES_MAX: usize = 64 << 20;
/// The most threads whose last entry is remembered.
const OPEN_MAX: usize = 1 << 18;
/// The most records that are read after the time range, while calls of the range have not returned.
const BEHIND: u64 = 1 << 20;
/// The number of records after which `stop` is called again.
const LOOK: u64 = 1 << 14;

/// Prefixes of the names of entries, each with the prefix of the names of their calls.
const ENDS: [(&str, &str); 2] = [("syscall_entry_", ""), ("compat_syscall_entry_", "compat_")];

/// Identifies an entry: its stream, its begin \[byte of the file\], and its time.
type Place = (usize, u64, Option<i64>);

fn place(event: &Event<'_>) -> Place {
    (event.stream().index(), event.offset(), event.time())
}

/// The value of a field that was recorded later.
#[derive(Clone, Debug, PartialEq)]
enum LaterValue {
    Text(Box<[u8]>),
    Unsigned(u64),
    Signed(i64),
}

/// The missing fields of one entry.
#[derive(Clone, Debug)]
pub(super) struct EntryFields(Vec<(FieldRef, LaterValue)>);

impl EntryFields {
    /// Returns the value of a field that the entry itself does not have.
    pub(super) fn value(&self, field: &FieldRef) -> Option<Value<'_>> {
        let (_, kept) = self.0.iter().find(|(kept, _)| kept.is_same(field))?;
        Some(match kept {
            LaterValue::Text(text) => Value::Text(text),
            LaterValue::Unsigned(value) => Value::Unsigned(*value),
            LaterValue::Signed(value) => Value::Signed(*value),
        })
    }
}

/// The missing fields of all entries.
#[derive(Debug, Default)]
pub(super) struct DeferredFields {
    of: HashMap<Place, EntryFields>,
    bytes: usize,
    /// Number of entries whose missing fields exceeded the limits.
    left_out: u64,
}

/// The role of a class's records in the search.
enum Role<'r> {
    Skip,
    Entry { class: &'r EventClass, tid: FieldRef, call: String, asked: Vec<FieldRef> },
    Exit { tid: FieldRef, call: String },
    Deferred { tid: FieldRef, class: DeferredClass },
}

/// An entry whose call has not returned.
struct OpenEntry {
    place: Place,
    /// The index of the entry's class.
    class: usize,
}

impl DeferredFields {
    /// Reads the missing fields of all entries in a time range. `asked` returns the fields of a class that the filter
    /// tests. Returns `None` if none of these can be missing.
    pub(super) fn read(
        reader: &Reader,
        range: TimeRange,
        asked: &mut dyn FnMut(&EventClass) -> Vec<FieldRef>,
        stop: &dyn Fn() -> bool,
    ) -> Option<DeferredFields> {
        let roles = roles(reader, asked)?;
        let mut found = DeferredFields::default();
        let mut open: HashMap<(usize, i64), OpenEntry> = HashMap::new();
        let mut events = reader.events(TimeRange { from: range.from, to: i64::MAX });
        let (mut seen, mut behind) = (0_u64, 0);
        while let Some(message) = events.next() {
            let event = match message {
                Message::Event(event) => event,
                Message::Packet(_) => continue,
                // A call may have returned during the gap.
                Message::Discarded(_) | Message::Damage(_) => {
                    open.clear();
                    continue;
                }
            };
            seen += 1;
            if event.time().is_some_and(|time| time > range.to) {
                behind += 1;
                if open.is_empty() || behind > BEHIND {
                    break;
                }
            }
            if seen % LOOK == 0 && stop() {
                break;
            }
            let index = event.class().index();
            let Some(role) = roles.get(index) else { continue };
            let thread = |tid| Some((event.stream().trace().index(), event.integer(tid)?));
            match role {
                Role::Skip => {}
                Role::Entry { tid, .. } => {
                    let Some(thread) = thread(tid).filter(|_| behind == 0) else { continue };
                    if open.len() < OPEN_MAX || open.contains_key(&thread) {
                        open.insert(thread, OpenEntry { place: place(&event), class: index });
                    } else {
                        found.left_out += 1;
                    }
                }
                Role::Exit { tid, call } => {
                    let Some(thread) = thread(tid) else { continue };
                    let is_its = open.get(&thread).is_some_and(|open| is_of(&roles, open, call));
                    if is_its {
                        open.remove(&thread);
                    }
                }
                Role::Deferred { tid, class } => {
                    let Some(open) = thread(tid).and_then(|thread| open.get(&thread)) else {
                        continue;
                    };
                    let call = class.call(&event);
                    let is_its = call.is_none_or(|call| is_of(&roles, open, call));
                    if let Some(argument) = class.argument(&event).filter(|_| is_its) {
                        found.add(open, &argument, class.order(), roles.get(open.class));
                    }
                }
            }
        }
        Some(found)
    }

    fn add(
        &mut self,
        open: &OpenEntry,
        argument: &DeferredArgument,
        order: ByteOrder,
        role: Option<&Role<'_>>,
    ) {
        let Some(Role::Entry { class, asked, .. }) = role else { return };
        let Some(payload) = &class.schema().payload else { return };
        let mut kept = Vec::new();
        for (name, value) in argument.fields(payload, order) {
            let mut keep = |name: &str, value: LaterValue| {
                let field = class.find_in(Scope::Payload, name);
                let field = field.filter(|it| asked.iter().any(|asked| asked.is_same(it)));
                kept.extend(field.map(|field| (field, value)));
            };
            match value {
                DeferredField::Text(text) => keep(name, LaterValue::Text(text.into())),
                DeferredField::Unsigned(value) => keep(name, LaterValue::Unsigned(value)),
                DeferredField::Signed(value) => keep(name, LaterValue::Signed(value)),
                DeferredField::Bytes(bytes) => {
                    for (at, byte) in bytes.iter().enumerate() {
                        keep(&format!("{name}[{at}]"), LaterValue::Unsigned((*byte).into()));
                    }
                }
            }
        }
        if kept.is_empty() {
            return;
        }
        let bytes: usize = kept.iter().map(|(_, kept)| kept.bytes()).sum();
        let is_known = self.of.contains_key(&open.place);
        if !is_known && self.of.len() >= ENTRIES_MAX || self.bytes + bytes > BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.of.entry(open.place).or_insert_with(|| EntryFields(Vec::new())).0.extend(kept);
    }

    /// Returns the missing fields of an entry, if it has any.
    pub(super) fn of(&self, event: &Event<'_>) -> Option<&EntryFields> {
        self.of.get(&place(event))
    }

    /// Returns the number of entries whose missing fields exceeded the limits.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl LaterValue {
    fn bytes(&self) -> usize {
        match self {
            LaterValue::Text(text) => text.len(),
            LaterValue::Unsigned(_) | LaterValue::Signed(_) => size_of::<u64>(),
        }
    }
}

fn is_of(roles: &[Role<'_>], open: &OpenEntry, call: &str) -> bool {
    matches!(roles.get(open.class), Some(Role::Entry { call: of, .. }) if of == call)
}

/// Returns the role of each class; `None` if no tested field can be in a record of its own.
fn roles<'r>(
    reader: &'r Reader,
    asked: &mut dyn FnMut(&EventClass) -> Vec<FieldRef>,
) -> Option<Vec<Role<'r>>> {
    let mut roles: Vec<Role<'r>> = Vec::new();
    roles.resize_with(reader.event_classes(), || Role::Skip);
    let mut is_any = false;
    for trace in reader.traces() {
        let classes = || trace.event_classes();
        let deferred: Vec<(&EventClass, DeferredClass)> =
            classes().filter_map(|class| Some((class, DeferredClass::new(class)?))).collect();
        if deferred.is_empty() {
            continue;
        }
        let mut calls = Vec::new();
        for class in classes() {
            let Some(call) = entered(class.name()) else { continue };
            let asked = deferrable(class, &call, asked(class), &deferred);
            let (Some(tid), false) = (tid(class), asked.is_empty()) else { continue };
            calls.push(call.clone());
            if let Some(role) = roles.get_mut(class.index()) {
                *role = Role::Entry { class, tid, call, asked };
            }
        }
        if calls.is_empty() {
            continue;
        }
        is_any = true;
        for class in classes() {
            let role = roles.get_mut(class.index());
            let call = left(class.name()).filter(|call| calls.contains(call));
            if let (Some(role), Some(call), Some(tid)) = (role, call, tid(class)) {
                *role = Role::Exit { tid, call };
            }
        }
        for (class, deferred) in deferred {
            if let (Some(role), Some(tid)) = (roles.get_mut(class.index()), tid(class)) {
                *role = Role::Deferred { tid, class: deferred };
            }
        }
    }
    is_any.then_some(roles)
}

fn tid(class: &EventClass) -> Option<FieldRef> {
    let scopes = [Scope::SpecificContext, Scope::CommonContext];
    scopes.iter().find_map(|scope| class.find_in(*scope, "tid"))
}

/// Returns the call whose entries have this name.
fn entered(event: &str) -> Option<String> {
    ENDS.iter().find_map(|(begin, front)| Some(format!("{front}{}", event.strip_prefix(begin)?)))
}

/// Returns the call whose exits have this name.
fn left(event: &str) -> Option<String> {
    entered(&event.replacen("syscall_exit_", "syscall_entry_", 1))
        .filter(|_| event.contains("syscall_exit_"))
}

/// Returns the fields of `asked` that may be in a record of their own.
fn deferrable(
    class: &EventClass,
    call: &str,
    asked: Vec<FieldRef>,
    deferred: &[(&EventClass, DeferredClass)],
) -> Vec<FieldRef> {
    let Some(payload) = class.schema().payload.as_ref().filter(|_| !asked.is_empty()) else {
        return Vec::new();
    };
    let has = |kind: ArgumentKind| {
        deferred.iter().any(|(_, deferred)| deferred.may_have(kind) && deferred.may_be_of(call))
    };
    let all = arguments(payload).into_iter().filter(|argument| has(argument.kind));
    let names = all.flat_map(|argument| argument.members);
    let names: Vec<&str> =
        names.filter_map(|at| payload.members.get(at)).map(|it| it.name.as_str()).collect();
    let fields = names.iter().filter_map(|name| class.find_in(Scope::Payload, name));
    let fields: Vec<FieldRef> = fields.collect();
    asked.into_iter().filter(|asked| fields.iter().any(|it| it.is_around(asked))).collect()
}

#[cfg(test)]
mod tests;
