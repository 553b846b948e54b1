//! The names of threads over time, for event records that contain only a thread's number.
//!
//! Names may be in records of any stream, and workers render any part of a trace at any time. So all workers first read
//! the streams that may contain names. The names do not change afterwards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use strata_ctf::environment::THREAD_NAME_OF;
use strata_ctf::read::{Event, EventClass, FieldRef, Message, Reader, Scope, StreamPart, Value};
use strata_model::EnvValue;

use super::field_selection;
use super::field_selection::scope;

/// The size of a stream's part that one worker reads at once \[byte\].
const PART_BYTES: u64 = 4 << 20;
/// The most names and changes of names that are kept; each takes some 100 bytes.
const NAMES_MAX: usize = 1 << 20;

/// The events that contain a thread's name, each with the name of its field for the thread's id, and of that for the
/// name.
const TOLD: [(&str, &str, &str); 10] = [
    ("strata:thread_name", "tid", "name"),
    ("lttng_statedump_process_state", "tid", "name"),
    ("lttng_statedump_vm_exec", "tid", "name"),
    ("sched_switch", "prev_tid", "prev_comm"),
    ("sched_switch", "next_tid", "next_comm"),
    ("sched_process_fork", "parent_tid", "parent_comm"),
    ("sched_process_fork", "child_tid", "child_comm"),
    ("sched_wakeup", "tid", "comm"),
    ("sched_process_exit", "tid", "comm"),
    ("task_rename", "pid", "newcomm"),
];

/// A thread's name, and the time from which it has that \[ns since 1970\].
#[derive(Debug)]
struct NamedFrom {
    from: i64,
    name: Box<[u8]>,
}

/// The names of a trace's threads, by their numbers.
type OfTrace = HashMap<i64, Vec<NamedFrom>>;

/// The names that the threads of traces had over time.
#[derive(Debug, Default)]
pub struct ThreadNames {
    /// The names of each trace's threads, by [`strata_ctf::read::Trace::index`].
    traces: Vec<OfTrace>,
    kept: usize,
    left_out: u64,
}

/// The fields of a class with a thread's number and with its name.
type NamingFields = Vec<(FieldRef, FieldRef)>;

fn told(class: &EventClass) -> NamingFields {
    let find = |name| class.find_in(Scope::Payload, name);
    let of_class = TOLD.iter().filter(|(event, ..)| *event == class.name());
    of_class.filter_map(|(_, tid, name)| Some((find(tid)?, find(name)?))).collect()
}

fn number(event: &Event<'_>, field: &FieldRef) -> Option<i64> {
    match event.value(field)? {
        Value::Unsigned(value) => i64::try_from(value).ok(),
        Value::Signed(value) => Some(value),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadNames {
    /// Reads the names from all traces of a reader, on `threads` threads, until `stop` returns true. Damage is ignored
    /// here, since it is reported when the traces are read afterwards.
    pub fn read(reader: &Reader, threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> ThreadNames {
        let mut all = ThreadNames {
            traces: reader.traces().iter().map(|_| OfTrace::new()).collect(),
            ..ThreadNames::default()
        };
        let mut say_names = Vec::new();
        for (trace, names) in reader.traces().iter().zip(&mut all.traces) {
            let schema = trace.schema();
            let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
            say_names.push(events.any(|event| TOLD.iter().any(|(name, ..)| *name == event.name)));
            for (entry, value) in &schema.environment {
                let tid = entry.strip_prefix(THREAD_NAME_OF).and_then(|tid| tid.parse().ok());
                if let (Some(tid), EnvValue::Text(name)) = (tid, value) {
                    names.insert(
                        tid,
                        vec![NamedFrom { from: i64::MIN, name: name.as_bytes().into() }],
                    );
                }
            }
        }
        let trace_of = |stream: usize| {
            let trace = reader.streams().get(stream)?.trace().index();
            say_names.get(trace).filter(|says| **says).map(|_| trace)
        };
        if !say_names.contains(&true) {
            return all;
        }
        let parts = Mutex::new(reader.parts(PART_BYTES));
        let found = Mutex::new(&mut all);
        let work = || {
            let mut classes: Vec<Option<NamingFields>> = Vec::new();
            classes.resize_with(reader.event_classes(), || None);
            loop {
                let part = lock(&parts).next();
                let Some(part) = part else { return };
                if stop() {
                    return;
                }
                if let Some(trace) = trace_of(part.stream()) {
                    let names = names_of(reader, &part, &mut classes);
                    lock(&found).add(trace, names);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        all.sort();
        all
    }

    fn add(&mut self, trace: usize, names: Vec<(i64, NamedFrom)>) {
        let room = NAMES_MAX.saturating_sub(self.kept);
        self.kept += names.len().min(room);
        self.left_out += names.len().saturating_sub(room) as u64;
        let Some(of_trace) = self.traces.get_mut(trace) else { return };
        for (tid, named) in names.into_iter().take(room) {
            of_trace.entry(tid).or_default().push(named);
        }
    }

    fn sort(&mut self) {
        for names in self.traces.iter_mut().flat_map(HashMap::values_mut) {
            names.sort_by_key(|named| named.from);
            names.dedup_by(|later, before| later.name == before.name);
        }
    }

    /// Returns the number of names for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the name of the recording thread at the record's time; `None` if it is unknown or empty.
    pub(super) fn of(&self, event: &Event<'_>, tid: &FieldRef) -> Option<&[u8]> {
        let names = self.traces.get(event.stream().trace().index())?;
        let names = names.get(&number(event, tid)?)?;
        let at = event.time().unwrap_or(i64::MAX);
        let before = names.partition_point(|named| named.from <= at).checked_sub(1)?;
        names.get(before).map(|named| &*named.name).filter(|name| !name.is_empty())
    }
}

/// Returns the field that says which thread has recorded a class' event records, and the part that has the field.
pub(super) fn thread_of(class: &EventClass) -> Option<(field_selection::RecordPart, FieldRef)> {
    let parts = [field_selection::RecordPart::Common, field_selection::RecordPart::Context];
    let find = |name| parts.iter().find_map(|&it| Some((it, class.find_in(scope(it), name)?)));
    find("vtid").or_else(|| find("tid"))
}

/// Returns the names in a part of a stream. For each thread, only changes of its name are included.
fn names_of(
    reader: &Reader,
    part: &StreamPart,
    classes: &mut [Option<NamingFields>],
) -> Vec<(i64, NamedFrom)> {
    let mut last: HashMap<i64, Box<[u8]>> = HashMap::new();
    let mut names = Vec::new();
    let mut events = reader.events_of_part(part);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        let Some(known) = classes.get_mut(event.class().index()) else { continue };
        for (tid, name) in known.get_or_insert_with(|| told(event.class())).iter() {
            let (Some(tid), Some(Value::Text(name))) = (number(&event, tid), event.value(name))
            else {
                continue;
            };
            let same = last.get(&tid).is_some_and(|last| **last == *name);
            if same || names.len() >= NAMES_MAX {
                continue;
            }
            last.insert(tid, name.into());
            let from = event.time().unwrap_or(i64::MIN);
            names.push((tid, NamedFrom { from, name: name.into() }));
        }
    }
    names
}
