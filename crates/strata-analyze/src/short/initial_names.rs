//! The names of threads and the files of descriptors at the first record that is shown. They come from earlier records,
//! and from the first shown ones.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Event, FieldRef, Message, Reader, Scope, TimeRange};
use strata_timeline::{Follower, Steps};

use super::call_classes::{call_of, text, told, ToldName};
use super::completion_key::ThreadOrCpu;
use super::thread_column::Comm;
use strata_timeline::{first_steps, Taker, FIRST_RECORDS};

/// The most earlier records that are read. If there are more, nothing is known about descriptors.
const BEFORE: usize = 1 << 21;

/// The fields of a class' records that give names or change descriptors.
struct Says {
    told: Vec<ToldName>,
    /// The field with the thread of an `execve` that returns, after which the thread has another name.
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

/// Names of threads and their open files, as they are known at the first record that is shown.
#[derive(Debug, Default)]
pub struct Seed {
    names: HashMap<(usize, i64), Comm>,
    pub(super) descriptors: Follower,
}

impl Seed {
    /// Reads names and files from the traces. Damage is ignored.
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

    /// Reads which descriptors were open when recording began, from the first records that are shown.
    fn begin(&mut self, reader: &Reader, range: TimeRange, stop: &(dyn Fn() -> bool + Sync)) {
        self.descriptors.begin(&first_steps(reader, range, stop).unwrap_or_default());
    }

    /// Takes the names of threads from a record before those that are shown.
    fn before(&mut self, event: &Event<'_>, says: &Says) {
        for told in &says.told {
            if let (Some(thread), Some(name)) = (thread(event, &told.tid), name(event, told)) {
                self.names.insert(thread, name);
            }
        }
    }

    /// Takes names from one of the first shown records. A thread's name is taken to be its earlier name as well, unless
    /// a record says that the name is new.
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

/// Passes the first records of a time range to `look`; with `is_ahead`, only up to the first loss. Returns true if
/// these were all records and none was discarded.
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
    for _ in 0..if is_ahead { FIRST_RECORDS } else { BEFORE } {
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
