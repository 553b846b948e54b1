//! The objects that processes had mapped before their state dump.
//!
//! A state dump takes a while, and other records are made before it. What it says about a process was true earlier too,
//! unless something has changed. Changes are in a stream of their own, which exists (perhaps empty) if changes were
//! watched, and says since when. Without that stream, or if a record of it was discarded, nothing is known. Both
//! streams are short, and no other stream is read for this.

use std::collections::{HashMap, HashSet};

use strata_ctf::environment::LOSS_MODE;
use strata_ctf::read::{Events, Message, Reader, Stream, TimeRange, Trace};
use strata_ctf::state_dump;
use strata_model::EnvValue;

use super::kernel::{under, ProcessChange, ProcessNews, OBJECTS};
use super::process_objects::ProcessObjects;
use super::stack_fields::{CodeEventClass, CodeFiles};

/// The most processes, and the most threads, that are remembered.
const PROCESSES: usize = 1 << 14;
const THREADS: usize = 1 << 16;
/// The most changes of one process that are compared with the state dump.
const CHANGES: usize = 1 << 10;
/// The most messages of a trace's state dump, and of its changes, that are read.
const MESSAGES: usize = 1 << 20;

/// The objects of a process before the dump, and its changes.
#[derive(Debug)]
struct KnownProcess {
    had: ProcessObjects,
    /// The ranges of addresses that the process has mapped since watching began.
    changed: Vec<(u64, u64)>,
    /// True if the process has begun, or has executed another program, since watching began. Its earlier objects are
    /// unknown.
    is_new: bool,
}

/// The objects of a trace's processes, from the time at which the tracer began to watch mappings until the first state
/// dump after that.
#[derive(Debug, Default)]
pub(super) struct ObjectsBefore {
    /// The begin of watching \[ns since 1970\]; `to` is the time of the first dump after it. `None` if nothing is
    /// known.
    from: Option<i64>,
    to: Option<i64>,
    known: HashMap<i64, KnownProcess>,
    /// The process of each thread that existed when watching began.
    threads: HashMap<i64, i64>,
    new_threads: HashSet<i64>,
}

impl ObjectsBefore {
    /// Reads the objects of a trace. Damage is ignored.
    pub fn read(reader: &Reader, trace: &Trace, files: &mut CodeFiles) -> ObjectsBefore {
        let mut before = ObjectsBefore::default();
        let is_of = |stream: &Stream| stream.trace().index() == trace.index();
        let mut own = reader.streams().iter().filter(|stream| is_of(stream));
        let Some(first) = own.clone().find(|stream| stream.name() == state_dump::FILE) else {
            return before;
        };
        // What was before is not all there, and a snapshot says by itself what is known of it.
        let overwrites = matches!(trace.schema().environment(LOSS_MODE), Some(EnvValue::Text(mode)) if mode == "overwrite");
        if overwrites || own.any(|stream| stream.name() == state_dump::CHANGES_FILE) {
            return before;
        }
        let number = |stream: &Stream| stream.id()?.checked_sub(first.id()?);
        let is_again = |stream: &Stream| stream.name() == state_dump::AGAIN_FILE;
        let is_dump = |stream: &Stream| {
            is_of(stream) && (stream.index() == first.index() || is_again(stream))
        };
        let is_change =
            |stream: &Stream| is_of(stream) && number(stream) == Some(state_dump::CHANGES_BEHIND);
        // Only what changes before the last dump matters.
        let mut last = None;
        let mut dumps = reader.events_of_streams(TimeRange::ALL, &is_dump);
        let is_all = each(&mut dumps, &mut |message| {
            if let Message::Event(event) = message {
                last = last.max(event.time());
            }
            true
        });
        let Some(to) = last.filter(|_| is_all) else { return before };
        let mut classes: Vec<Option<CodeEventClass>> = Vec::new();
        classes.resize_with(reader.event_classes(), || None);
        let both = |stream: &Stream| is_dump(stream) || is_change(stream);
        let range = TimeRange { from: i64::MIN, to };
        let is_all = each(&mut reader.events_of_streams(range, &both), &mut |message| {
            let event = match message {
                Message::Event(event) => event,
                Message::Packet(packet) => {
                    let is_of_changes = reader.streams().get(packet.stream).is_some_and(is_change);
                    if is_of_changes && packet.number == 0 {
                        before.from = packet.begin;
                    }
                    return !is_of_changes || packet.discarded.unwrap_or(0) == 0;
                }
                Message::Discarded(_) | Message::Damage(_) => return false,
            };
            let Some(slot) = classes.get_mut(event.class().index()) else { return true };
            let class = slot.get_or_insert_with(|| CodeEventClass::new(event.class(), &event));
            let news = class
                .kind
                .as_ref()
                .and_then(|(kind, fields)| ProcessNews::of(*kind, fields, &event, files));
            let Some(news) = news else { return true };
            if !is_dump(event.stream()) {
                before.changed(news, files);
            } else if before.from.is_some_and(|from| event.time() >= Some(from)) {
                before.to = before.to.or(event.time());
                before.dumped(news, files);
            }
            true
        });
        match is_all {
            true => before,
            false => ObjectsBefore::default(),
        }
    }

    /// Returns whether the objects at a time are known; `None` for a time before watching began.
    pub fn is_known(&self, time: i64) -> Option<bool> {
        let (Some(from), Some(to)) = (self.from, self.to) else { return Some(false) };
        (time >= from).then_some(time <= to)
    }

    /// Removes and returns the processes whose objects are known, each with its objects.
    pub fn processes(&mut self) -> impl Iterator<Item = (i64, ProcessObjects)> + '_ {
        let known = self.known.drain().map(|(pid, known)| (pid, known.had));
        known.filter(|(_, had)| !had.is_empty())
    }

    /// Returns the threads that existed before the dump, each with its process.
    pub fn threads(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.threads.iter().map(|(tid, pid)| (*tid, *pid))
    }

    fn known(&mut self, pid: i64, files: &CodeFiles) -> Option<&mut KnownProcess> {
        let has_room = self.known.len() < PROCESSES || self.known.contains_key(&pid);
        let new = || KnownProcess {
            had: ProcessObjects::new(files.budget()),
            changed: Vec::new(),
            is_new: false,
        };
        has_room.then(|| self.known.entry(pid).or_insert_with(new))
    }

    fn dumped(&mut self, ProcessNews { pid, tid, what }: ProcessNews, files: &CodeFiles) {
        // Of more than can be remembered none is known to be old.
        let has_room = self.threads.len() < THREADS && self.new_threads.len() < THREADS;
        if let Some(tid) = tid.filter(|tid| has_room && !self.new_threads.contains(tid)) {
            self.threads.entry(tid).or_insert(pid);
        }
        let ProcessChange::Mapped(object) = what else { return };
        let Some(known) = self.known(pid, files).filter(|known| !known.is_new) else { return };
        let (begin, end) = (object.begin, object.begin.saturating_add(object.bytes));
        let is_changed = known.changed.iter().any(|&(from, to)| begin < to && from < end);
        // A later dump says nothing of what an earlier one has said.
        if !is_changed
            && known.had.len() < OBJECTS
            && under(&known.had, begin, end).next().is_none()
        {
            known.had.insert(object);
        }
    }

    fn changed(&mut self, ProcessNews { pid, tid, what }: ProcessNews, files: &CodeFiles) {
        if let ProcessChange::Thread | ProcessChange::Forked { .. } = what {
            self.new_threads.extend(tid.filter(|_| self.new_threads.len() < THREADS));
        }
        let Some(known) = self.known(pid, files) else { return };
        match what {
            ProcessChange::Executed | ProcessChange::Forked { .. } => known.is_new = true,
            ProcessChange::Mapped(object) if known.changed.len() < CHANGES => {
                let end = object.begin.saturating_add(object.bytes);
                known.changed.push((object.begin, end));
            }
            ProcessChange::Mapped(_) => known.is_new = true,
            ProcessChange::Thread => {}
        }
    }
}

/// Passes messages to `look` until it returns false, or the limit is reached. Returns true if all messages were
/// passed.
fn each(events: &mut Events<'_>, look: &mut dyn FnMut(Message<'_>) -> bool) -> bool {
    for _ in 0..MESSAGES {
        match events.next() {
            Some(message) if look(message) => {}
            Some(_) => return false,
            None => return true,
        }
    }
    false
}
