//! Hidden threads: threads that are given CPUs and never found running. They are counted, and some are reported.
//!
//! A switch to a thread is recorded, and the next switch on that CPU is from another thread: the records between them
//! are missing. This happens if a filter leaves out the records of a thread, or the kernel does not let them be
//! recorded. `Hidden` counts such switches by thread. If the traces say that every switch is recorded, all of these
//! threads are reported; otherwise only if the other switches of the machine fit together.

use std::collections::{HashMap, HashSet};

use crate::ids::thread_id::ThreadId;
use crate::world::threads::Threads;

/// The least number of switches to a hidden thread for it to be reported, if no trace says that every switch is
/// recorded.
const UNSURE_MIN: u64 = 2;

/// The completeness of the switches of a machine, as its traces say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switches {
    /// The traces do not say.
    #[default]
    NotSaid,
    /// Some switches are missing: filters apply, only some threads are recorded, or not all the time.
    Some,
    /// Every switch is recorded.
    All,
}

/// A thread that is given CPUs but makes no record on any of them: a switch to it is recorded, and the next switch on
/// that CPU is from another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenThread {
    /// The hidden thread.
    pub thread: ThreadId,
    /// The number of switches to the thread.
    pub count: u64,
    /// The total time from each switch to the next record of the CPU \[ns\]. The thread had the CPU at most this long.
    pub nanos: u64,
    /// True if the traces say that every switch is recorded. If false, a filter may have left out the switches from
    /// this thread.
    pub is_sure: bool,
}

/// A switch to a thread after which the next switch of the CPU is from another thread. No record says how the first
/// thread left the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// The CPU's number in its machine.
    pub cpu: u32,
    /// The thread that was given the CPU, [`ThreadId::IDLE`] included.
    pub thread: ThreadId,
    /// The time of the switch \[ns since 1970\].
    pub from: i64,
    /// The thread that has the CPU at the next switch; `None` if no thread has such a number.
    pub next: Option<FoundOnCpu>,
}

/// A thread that was found on a CPU without a switch to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOnCpu {
    /// The thread, [`ThreadId::IDLE`] included.
    pub thread: ThreadId,
    /// The time up to which the thread's state is known, or the same as `time` if it was not known before \[ns since
    /// 1970\].
    pub since: i64,
    /// The time of its first record on the CPU.
    pub time: i64,
}

/// A recorded switch that gave a CPU to a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub thread: ThreadId,
    pub from: i64,
    /// Another thread that was found on the CPU since then.
    pub found: Option<FoundOnCpu>,
    /// The index of the trace that has the switch.
    pub trace: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfMachine {
    switches: Switches,
    /// The number of switches that fit: each is from the thread of the previous switch.
    followed: u64,
    /// The number of switches from another thread than that of the previous switch.
    unfollowed: u64,
    /// The number of these after a switch to the idle thread. A hidden thread cannot explain them.
    idle_unfollowed: u64,
}

/// Counts the switches to hidden threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    /// The number of unfollowed switches to each thread, and their total time \[ns\].
    given: HashMap<ThreadId, (u64, u64)>,
    machines: Vec<OfMachine>,
    /// The time from which switches are counted.
    from: Option<i64>,
}

impl Hidden {
    pub(crate) fn of(switches: &[Switches]) -> Hidden {
        let machine = |&switches: &Switches| OfMachine { switches, ..OfMachine::default() };
        Hidden { machines: switches.iter().map(machine).collect(), ..Hidden::default() }
    }

    /// Sets what the traces say by now about the switches of each machine. The counts stay.
    pub(crate) fn know(&mut self, switches: &[Switches]) {
        self.machines.resize_with(self.machines.len().max(switches.len()), OfMachine::default);
        for (of, &switches) in self.machines.iter_mut().zip(switches) {
            of.switches = switches;
        }
    }

    pub(crate) fn count_from(&mut self, from: i64) {
        self.from = Some(from);
    }

    /// Counts a switch from the thread of the previous switch.
    #[inline]
    pub(crate) fn is_followed(&mut self, machine: u8) {
        if let Some(of) = self.machines.get_mut(usize::from(machine)) {
            of.followed += 1;
        }
    }

    /// Counts a switch from another thread than that of the previous switch. The trace does not say what that thread
    /// did, and how it left the CPU.
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

    /// Returns true if a thread was given a CPU before and has not made any record on one.
    pub(crate) fn is_hidden(&self, threads: &Threads, thread: ThreadId) -> bool {
        let is_seen = || threads.get(thread).is_none_or(|thread| thread.is_seen);
        self.given.contains_key(&thread) && !is_seen()
    }

    /// Returns the threads to be reported, the longest time first.
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
