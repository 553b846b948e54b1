//! What threads are called where records begin to be shown: by those before, and by the first ones.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Event, EventClass, FieldRef, Message, Reader, Scope, TimeRange};

use super::call::{call_of, text, told, Told};
use super::key::Key;
use super::who::Comm;

/// Records that are looked at: what was there when recording began is said by the first ones.
const BEFORE: usize = 1 << 17;

/// Records of those that are shown that are looked at: what was there is said while recording begins.
const AHEAD: usize = 1 << 14;

/// What records of a class say.
struct Says {
    told: Vec<Told>,
    /// The thread of an `execve` that returns: it has another name then.
    executed: Option<FieldRef>,
}

impl Says {
    fn new(class: &EventClass) -> Says {
        let is_execve = |(call, is_exit): (String, bool)| is_exit && call.ends_with("execve");
        let tid = || class.find_in(Scope::CommonContext, "tid");
        let executed =
            call_of(class.name()).filter(|call| is_execve(call.clone())).and_then(|_| tid());
        Says { told: told(class), executed }
    }
}

/// Names of threads.
#[derive(Debug, Default)]
pub struct Seed {
    names: HashMap<(usize, i64), Comm>,
}

impl Seed {
    /// What the traces say. Nothing is said of what is damaged.
    pub fn read(reader: &Reader, range: TimeRange, stop: &(dyn Fn() -> bool + Sync)) -> Seed {
        let mut seed = Seed::default();
        if let Some(to) = range.from.checked_sub(1) {
            let before = TimeRange { from: i64::MIN, to };
            each(reader, before, false, stop, &mut |event, says| seed.before(event, says));
        }
        // Of these nobody knows what they were called first.
        let mut unknown = HashSet::new();
        each(reader, range, true, stop, &mut |event, says| seed.ahead(event, says, &mut unknown));
        seed
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

    pub(super) fn names(&self) -> impl Iterator<Item = (Key, Comm)> + '_ {
        self.names.iter().map(|(&(trace, tid), &name)| (Key::thread(trace, tid), name))
    }
}

fn thread(event: &Event<'_>, tid: &FieldRef) -> Option<(usize, i64)> {
    Some((event.stream().trace().index(), event.integer(tid)?))
}

fn name(event: &Event<'_>, told: &Told) -> Option<Comm> {
    let name = text(event, &told.name)?;
    match told.is_program {
        true => Comm::of_program(name),
        false => Comm::new(name),
    }
}

/// Look at the first records of a time; ahead, up to where some are not there.
fn each(
    reader: &Reader,
    range: TimeRange,
    is_ahead: bool,
    stop: &(dyn Fn() -> bool + Sync),
    look: &mut dyn FnMut(&Event<'_>, &Says),
) {
    let mut classes: Vec<Option<Says>> = Vec::new();
    classes.resize_with(reader.event_classes(), || None);
    let mut events = reader.events(range);
    for _ in 0..if is_ahead { AHEAD } else { BEFORE } {
        match events.next() {
            Some(Message::Event(event)) => {
                if let Some(says) = classes.get_mut(event.class().index()) {
                    look(&event, says.get_or_insert_with(|| Says::new(event.class())));
                }
            }
            Some(Message::Packet(_)) if !stop() => {}
            Some(Message::Discarded(_)) if !is_ahead => {}
            _ => return,
        }
    }
}
