//! What threads are called, and what descriptors are for, where records begin to be shown: by those before, and by the
//! first ones.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Event, FieldRef, Message, Reader, Scope, TimeRange};
use strata_timeline::{Follower, Steps};

use super::call::{call_of, text, told, ToldName};
use super::key::ThreadOrCpu;
use super::who::Comm;
use crate::ahead::{first_steps, Taker, AHEAD};

/// Records that are looked at: what was there when recording began is said by the first ones. Of descriptors nothing is
/// known where there are more before those that are shown.
const BEFORE: usize = 1 << 21;

/// What records of a class say.
struct Says {
    told: Vec<ToldName>,
    /// The thread of an `execve` that returns: it has another name then.
    executed: Option<FieldRef>,
    steps: Taker,
}

impl Says {
    fn new(event: &Event<'_>, steps: &mut Steps) -> Says {
        let (class, trace) = (event.class(), event.stream().trace());
        let is_execve = |(call, is_exit): (String, bool)| is_exit && call.ends_with("execve");
        let tid = || class.find_in(Scope::CommonContext, "tid");
        let executed =
            call_of(class.name()).filter(|call| is_execve(call.clone())).and_then(|_| tid());
        Says { told: told(class), executed, steps: Taker::new(class, trace, steps) }
    }
}

/// What is known.
#[derive(Debug, Default)]
pub struct Seed {
    names: HashMap<(usize, i64), Comm>,
    pub(super) descriptors: Follower,
}

impl Seed {
    /// What the traces say. Nothing is said of what is damaged.
    pub fn read(reader: &Reader, range: TimeRange, stop: &(dyn Fn() -> bool + Sync)) -> Seed {
        let (names, descriptors) = (HashMap::new(), Follower::new(reader));
        let mut seed = Seed { names, descriptors };
        if let Some(to) = range.from.checked_sub(1) {
            let before = TimeRange { from: i64::MIN, to };
            let first = first_steps(reader, before, stop);
            let is_begun = first.is_some();
            seed.descriptors.begin(&first.unwrap_or_default());
            let is_all = each(reader, before, false, stop, &mut |event, says, steps| {
                seed.before(event, says);
                if let Some((trace, tid, step)) = says.steps.take(event, steps) {
                    seed.descriptors.follow(trace, tid, &step);
                }
            });
            if !is_all {
                seed.descriptors = Follower::new(reader);
            } else if !is_begun {
                seed.begin(reader, range, stop);
            }
        } else {
            seed.begin(reader, range, stop);
        }
        // Of these nobody knows what they were called first.
        let mut unknown = HashSet::new();
        each(reader, range, true, stop, &mut |event, says, _| {
            seed.ahead(event, says, &mut unknown);
        });
        seed
    }

    /// What was open when recording began is what the first records of those that are shown say.
    fn begin(&mut self, reader: &Reader, range: TimeRange, stop: &(dyn Fn() -> bool + Sync)) {
        self.descriptors.begin(&first_steps(reader, range, stop).unwrap_or_default());
    }

    /// A record in front of those that are shown.
    fn before(&mut self, event: &Event<'_>, says: &Says) {
        for told in &says.told {
            if let (Some(thread), Some(name)) = (thread(event, &told.tid), name(event, told)) {
                self.names.insert(thread, name);
            }
        }
    }

    /// One of them: who is called so now, was before, unless something says that it is new.
    fn ahead(&mut self, event: &Event<'_>, says: &Says, unknown: &mut HashSet<(usize, i64)>) {
        if let Some(thread) = says.executed.as_ref().and_then(|tid| thread(event, tid)) {
            unknown.insert(thread);
        }
        for told in &says.told {
            let Some(thread) = thread(event, &told.tid) else { continue };
            if told.is_new {
                unknown.insert(thread);
            } else if let Some(name) = name(event, told).filter(|_| !unknown.contains(&thread)) {
                self.names.entry(thread).or_insert(name);
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (ThreadOrCpu, Comm)> + '_ {
        self.names.iter().map(|(&(trace, tid), &name)| (ThreadOrCpu::thread(trace, tid), name))
    }
}

fn thread(event: &Event<'_>, tid: &FieldRef) -> Option<(usize, i64)> {
    Some((event.stream().trace().index(), event.integer(tid)?))
}

fn name(event: &Event<'_>, told: &ToldName) -> Option<Comm> {
    let name = text(event, &told.name)?;
    match told.is_program {
        true => Comm::of_program(name),
        false => Comm::new(name),
    }
}

/// Look at the first records of a time; ahead, up to where some are not there. Whether these were all.
fn each(
    reader: &Reader,
    range: TimeRange,
    is_ahead: bool,
    stop: &(dyn Fn() -> bool + Sync),
    look: &mut dyn FnMut(&Event<'_>, &Says, &mut Steps),
) -> bool {
    let mut classes: Vec<Option<Says>> = Vec::new();
    classes.resize_with(reader.event_classes(), || None);
    let mut steps = Steps::default();
    let mut events = reader.events(range);
    let mut is_whole = true;
    for _ in 0..if is_ahead { AHEAD } else { BEFORE } {
        match events.next() {
            Some(Message::Event(event)) => {
                if let Some(slot) = classes.get_mut(event.class().index()) {
                    let says = slot.get_or_insert_with(|| Says::new(&event, &mut steps));
                    look(&event, says, &mut steps);
                }
            }
            Some(Message::Packet(_)) if !stop() => {}
            Some(Message::Discarded(_)) if !is_ahead => is_whole = false,
            None => return is_whole,
            _ => return false,
        }
    }
    false
}
