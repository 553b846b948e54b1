//! Threads that are given CPUs and never seen to have one: how often, how long, and whether a trace lets one say so.

use std::collections::{HashMap, HashSet};

use crate::id::ThreadId;
use crate::threads::Threads;

/// Where no trace says that each switch is in it, a thread is told that was given a CPU so often.
const UNSURE_MIN: u64 = 2;

/// Whether all switches of a machine's CPUs are recorded, as its traces say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switches {
    /// They say nothing of it.
    #[default]
    NotSaid,
    /// Not all: there are filters, or only some threads are recorded, or not all the time.
    Some,
    /// Each one.
    All,
}

/// A thread that is given CPUs, while no record is made by it on any of them: the switch to it is there, and the next
/// one of that CPU is from another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenThread {
    /// Its place in [`Threads`].
    pub thread: ThreadId,
    /// How often it was given one.
    pub count: u64,
    /// How long these were its own at most, all together: up to their next records \[ns\].
    pub nanos: u64,
    /// The traces say that each switch is in them. If not, a filter may have left out those from this thread.
    pub is_sure: bool,
}

/// A CPU was given to a thread, and the next switch there is from another one: how the first one has left it is in no
/// record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// The CPU's number in its machine.
    pub cpu: u32,
    /// Who was given it; [`ThreadId::IDLE`] too.
    pub thread: ThreadId,
    /// When \[ns since 1970\].
    pub from: i64,
    /// Who has it at the next switch; `None`: no thread has such a number.
    pub next: Option<FoundOnCpu>,
}

/// Who was found on a CPU that it was not given in any record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOnCpu {
    /// The thread; [`ThreadId::IDLE`] too.
    pub thread: ThreadId,
    /// Up to when what it did is known, if it was known before; else as `time` \[ns since 1970\].
    pub since: i64,
    /// When its first record there is.
    pub time: i64,
}

/// A thread has a CPU by a switch that was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub thread: ThreadId,
    pub from: i64,
    /// Of whom else that CPU's first record is that is not its own.
    pub found: Option<FoundOnCpu>,
    /// By the number of the trace that has the switch.
    pub trace: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfMachine {
    switches: Switches,
    /// The next switch was from the thread that the last one was to.
    followed: u64,
    /// It was from another one.
    unfollowed: u64,
    /// The same, where the CPU was given to nobody: no kernel hides that.
    idle_unfollowed: u64,
}

/// What is counted of them.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// How often, and how long.
    given: HashMap<ThreadId, (u64, u64)>,
    machines: Vec<OfMachine>,
    /// What ends before is not counted.
    from: Option<i64>,
}

impl Hidden {
    pub(crate) fn of(switches: &[Switches]) -> Hidden {
        let machine = |&switches: &Switches| OfMachine { switches, ..OfMachine::default() };
        Hidden { machines: switches.iter().map(machine).collect(), ..Hidden::default() }
    }

    pub(crate) fn count_from(&mut self, from: i64) {
        self.from = Some(from);
    }

    /// A switch is followed by one from the same thread.
    #[inline]
    pub(crate) fn is_followed(&mut self, machine: u8) {
        if let Some(of) = self.machines.get_mut(usize::from(machine)) {
            of.followed += 1;
        }
    }

    /// It is not: what its thread did is not in the trace, and neither is how it left the CPU.
    pub(crate) fn is_unfollowed(&mut self, machine: u8, given: &Given, to: i64) {
        let Some(of) = self.machines.get_mut(usize::from(machine)) else { return };
        if given.thread == ThreadId::IDLE {
            of.idle_unfollowed += 1;
            return;
        }
        of.unfollowed += 1;
        let from = given.from.max(self.from.unwrap_or(given.from));
        let to = given.found.map_or(to, |found| found.time);
        if to < from {
            return;
        }
        let (count, nanos) = self.given.entry(given.thread).or_default();
        *count += 1;
        *nanos = nanos.saturating_add(to.abs_diff(from));
    }

    /// Whether a thread that has a CPU was given one before, and was never seen there.
    pub(crate) fn is_hidden(&self, threads: &Threads, thread: ThreadId) -> bool {
        let is_seen = || threads.get(thread).is_none_or(|thread| thread.is_seen);
        self.given.contains_key(&thread) && !is_seen()
    }

    /// All of them, by falling time.
    pub(crate) fn all(&self, threads: &Threads) -> Vec<HiddenThread> {
        // Where switches from threads are absent that are seen elsewhere, something else has left them out.
        let seen = self.given.keys().filter_map(|&id| threads.get(id)).filter(|it| it.is_seen);
        let torn: HashSet<u8> = seen.map(|thread| thread.machine).collect();
        let found = self.given.iter().filter_map(|(&id, &(count, nanos))| {
            let thread = threads.get(id).filter(|thread| !thread.is_seen)?;
            let of = self.machines.get(usize::from(thread.machine))?;
            let is_told = match of.switches {
                Switches::All => true,
                Switches::Some => false,
                // A tracer's filter by thread leaves out switches of idle CPUs, and one by names most of all.
                Switches::NotSaid => {
                    of.idle_unfollowed == 0
                        && of.followed > of.unfollowed
                        && !torn.contains(&thread.machine)
                        && count >= UNSURE_MIN
                }
            };
            let is_sure = of.switches == Switches::All;
            is_told.then_some(HiddenThread { thread: id, count, nanos, is_sure })
        });
        let mut found: Vec<HiddenThread> = found.collect();
        found.sort_by_key(|it| (std::cmp::Reverse(it.nanos), it.thread.index()));
        found
    }
}
