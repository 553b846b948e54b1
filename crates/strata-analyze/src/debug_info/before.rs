//! What processes had mapped before a state dump has told it.
//!
//! Records come before the dump where it takes a while until the dump is made. What it says of a process has been so before,
//! too, as far as nothing has changed it; and what changes is in a stream of its own, which is there, perhaps empty, where it
//! was watched, and says from when on. Without it, or where something of it found no room, nothing is known. Both streams are
//! short: of all others nothing is read for this.

use std::collections::{HashMap, HashSet};

use strata_ctf::environment::LOSS_MODE;
use strata_ctf::read::{Events, Message, Reader, Stream, TimeRange, Trace};
use strata_ctf::state_dump;
use strata_model::EnvValue;

use super::classes::{CodeEventClass, ProcessObjects};
use super::kernel::{under, ProcessChange, ProcessNews, OBJECTS};

/// Processes, and threads, that are remembered.
const PROCESSES: usize = 1 << 14;
const THREADS: usize = 1 << 16;
/// Changes of one process that are compared with what the dump says of it.
const CHANGES: usize = 1 << 10;
/// Messages of a trace's dumps, and of what changes before these, that are looked at.
const MESSAGES: usize = 1 << 20;

/// What is known of a process.
#[derive(Debug, Default)]
struct KnownProcess {
    had: ProcessObjects,
    /// Since it is watched it has mapped something there, from and to.
    changed: Vec<(u64, u64)>,
    /// Since then it is another program, or has begun: nothing is known of before.
    is_new: bool,
}

/// What the processes of a trace had from when on it was watched until the first dump after that.
#[derive(Debug, Default)]
pub(super) struct ObjectsBefore {
    /// \[ns since 1970\]; `None`: nothing is known.
    from: Option<i64>,
    to: Option<i64>,
    known: HashMap<i64, KnownProcess>,
    /// Processes of threads.
    threads: HashMap<i64, i64>,
    new_threads: HashSet<i64>,
}

impl ObjectsBefore {
    /// Of a trace. Nothing is said of what is damaged.
    pub fn read(reader: &Reader, trace: &Trace) -> ObjectsBefore {
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
                .and_then(|(kind, fields)| ProcessNews::of(*kind, fields, &event));
            let Some(news) = news else { return true };
            if !is_dump(event.stream()) {
                before.changed(news);
            } else if before.from.is_some_and(|from| event.time() >= Some(from)) {
                before.to = before.to.or(event.time());
                before.dumped(news);
            }
            true
        });
        match is_all {
            true => before,
            false => ObjectsBefore::default(),
        }
    }

    /// Is it known what there was at a time? `None`: not yet.
    pub fn is_known(&self, time: i64) -> Option<bool> {
        let (Some(from), Some(to)) = (self.from, self.to) else { return Some(false) };
        (time >= from).then_some(time <= to)
    }

    /// What a process had, if anything is known of that.
    pub fn processes(&mut self) -> impl Iterator<Item = (i64, ProcessObjects)> + '_ {
        let known = self.known.drain().map(|(pid, known)| (pid, known.had));
        known.filter(|(_, had)| !had.is_empty())
    }

    /// Threads that were there, and their processes.
    pub fn threads(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.threads.iter().map(|(tid, pid)| (*tid, *pid))
    }

    fn known(&mut self, pid: i64) -> Option<&mut KnownProcess> {
        let has_room = self.known.len() < PROCESSES || self.known.contains_key(&pid);
        has_room.then(|| self.known.entry(pid).or_default())
    }

    fn dumped(&mut self, ProcessNews { pid, tid, what }: ProcessNews) {
        // Of more than can be remembered none is known to be old.
        let has_room = self.threads.len() < THREADS && self.new_threads.len() < THREADS;
        if let Some(tid) = tid.filter(|tid| has_room && !self.new_threads.contains(tid)) {
            self.threads.entry(tid).or_insert(pid);
        }
        let ProcessChange::Mapped(object) = what else { return };
        let Some(known) = self.known(pid).filter(|known| !known.is_new) else { return };
        let (begin, end) = (object.begin, object.begin.saturating_add(object.bytes));
        let is_changed = known.changed.iter().any(|&(from, to)| begin < to && from < end);
        // A later dump says nothing of what an earlier one has said.
        if !is_changed
            && known.had.len() < OBJECTS
            && under(&known.had, begin, end).next().is_none()
        {
            known.had.insert(begin, object);
        }
    }

    fn changed(&mut self, ProcessNews { pid, tid, what }: ProcessNews) {
        if let ProcessChange::Thread | ProcessChange::Forked { .. } = what {
            self.new_threads.extend(tid.filter(|_| self.new_threads.len() < THREADS));
        }
        let Some(known) = self.known(pid) else { return };
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

/// Looks at messages for as long as it wants more, but not at more than may be. Was that all of them?
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
