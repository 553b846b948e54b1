//! The threads and descriptors that existed when recording began. Records say this only later, since a state dump is
//! written while other records are already made.
//!
//! ```text
//! first records:  write(7) by thread 12 ... open() = 8 ... dump: thread 12 is of process 10; 7 is /tmp/log, 8 is /etc/hosts
//! known before the first record:  12 ─▶ 10,  (10, 7) ─▶ /tmp/log        8 is left out: it was opened since
//! ```
//!
//! [`FactsBefore`] is made from the first records of the traces, before the timeline gets the first one. The engine
//! takes a fact when it first meets the thread or process, and then it is used up. A descriptor counts only if no
//! earlier record has opened or closed it. If records of a machine are missing, nothing is known of it.
//!
//! One thread makes it and one engine uses it up. The first records of a trace are read for it in advance
//! ([`first_steps`](crate::first_steps)), so that a timeline never looks ahead afterwards. Only
//! `engine/initial_state.rs` takes facts from here.

use std::collections::{HashMap, HashSet};

use crate::descriptors::call_effects::AT_FDCWD;
use crate::descriptors::steps::{OpenDescriptor, Step, StepKind};
use crate::ids::calls::{kind, CallKind};
use crate::records::facts::{More, Part};
use crate::world::state::Object;

/// The threads and descriptors that existed before the first record of a trace, as far as they follow from its first
/// records.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactsBefore {
    /// The descriptors by machine and process. The key's flag is true for a process that begins in one of the first
    /// records, and has these descriptors from then on.
    opened: HashMap<(u8, i64, bool), Vec<OpenDescriptor>>,
    /// The process of each thread, by machine and thread.
    processes: HashMap<(u8, i64), i64>,
}

impl FactsBefore {
    /// Finds the descriptors of a state dump that no earlier record has opened or closed. The records are in the order
    /// of time, each with its trace and its thread. `machine` returns the machine of a trace.
    pub(crate) fn new(
        machine: impl Fn(usize) -> u8,
        first: &[(usize, Option<i64>, Step)],
    ) -> FactsBefore {
        let mut before = FactsBefore::default();
        let process = &mut before.processes;
        for (trace, _, Step(what)) in first {
            match *what {
                StepKind::There { tid, process: of, .. } => {
                    process.insert((machine(*trace), tid), of);
                }
                StepKind::Fork { child, process: Some(of), .. } => {
                    process.insert((machine(*trace), child), of);
                }
                _ => {}
            }
        }
        // By process; of `None` nobody knows which. All descriptors of it: `None`, too.
        let mut touched: HashSet<(u8, Option<i64>, Option<i64>)> = HashSet::new();
        // Processes that have begun: of one with the same number before it, other records tell.
        let mut new: HashSet<(u8, i64)> = HashSet::new();
        for (trace, tid, Step(what)) in first {
            let machine = machine(*trace);
            let of = tid.and_then(|tid| process.get(&(machine, tid)).copied());
            let mut touch = |descriptor| touched.insert((machine, of, descriptor));
            match what {
                StepKind::Enter { call, object, .. } => match (kind(call), object) {
                    (CallKind::Close, Object::Descriptor(number)) => {
                        touch(Some(i64::from(*number)));
                    }
                    (CallKind::Close | CallKind::CloseRange | CallKind::Unshare, _) => {
                        touch(None);
                    }
                    // The working folder is told of as a descriptor of this number.
                    (CallKind::Folder, _) => {
                        touch(Some(i64::from(AT_FDCWD)));
                    }
                    _ => {}
                },
                StepKind::Leave { call, result, more } => {
                    const GIVES: [CallKind; 4] =
                        [CallKind::Open, CallKind::Make, CallKind::Duplicate, CallKind::Control];
                    let made = result.filter(|made| GIVES.contains(&kind(call)) && *made >= 0);
                    let two =
                        [Part::First, Part::Second].map(|part| More::Copied(more).number(part));
                    for made in two.into_iter().flatten().chain(made) {
                        touch(Some(made));
                    }
                }
                StepKind::Fork { child, process: Some(of), .. } if child == of => {
                    new.insert((machine, *child));
                }
                StepKind::Opened { process, opened } => {
                    let (one, any) = (Some(opened.descriptor), Some(*process));
                    let ways = [(any, one), (any, None), (None, one), (None, None)];
                    let mut ways = ways.into_iter();
                    if !ways.any(|(of, descriptor)| touched.contains(&(machine, of, descriptor))) {
                        let is_new = new.contains(&(machine, *process));
                        let of = before.opened.entry((machine, *process, is_new)).or_default();
                        of.push(opened.clone());
                    }
                }
                _ => {}
            }
        }
        // What is the process of other threads is its own process.
        let firsts: HashSet<(u8, i64)> =
            process.iter().map(|(&(machine, _), &process)| (machine, process)).collect();
        process.retain(|of, process| of.1 == *process || !firsts.contains(of));
        before
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.opened.is_empty() && self.processes.is_empty()
    }

    /// Returns the processes that had descriptors before the first record.
    pub(crate) fn there(&self) -> Vec<(u8, i64)> {
        let of =
            |&(machine, process, is_new): &(u8, i64, bool)| (!is_new).then_some((machine, process));
        self.opened.keys().filter_map(of).collect()
    }

    /// Removes and returns the process of a thread that existed before the first record.
    pub(crate) fn take_process(&mut self, machine: u8, tid: i64) -> Option<i64> {
        self.processes.remove(&(machine, tid))
    }

    /// Removes and returns the descriptors that a process had; with `is_new`, those of a process that begins now.
    pub(crate) fn take(&mut self, machine: u8, process: i64, is_new: bool) -> Vec<OpenDescriptor> {
        self.opened.remove(&(machine, process, is_new)).unwrap_or_default()
    }

    /// Forgets everything about a machine, since records of it were discarded.
    pub(crate) fn forget(&mut self, machine: u8) {
        self.opened.retain(|of, _| of.0 != machine);
        self.processes.retain(|of, _| of.0 != machine);
    }
}

#[cfg(test)]
mod tests;
