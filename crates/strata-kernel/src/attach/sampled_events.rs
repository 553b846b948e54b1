//! The events of which a session records samples, and how many of each were left out, also by programs that are gone.

use crate::attach::attached_programs::RunningPrograms;
use crate::attach::sample_counts::SampleCounts;
use crate::attach::shared_control::SyscallTable;
use crate::decide::program_plan::unknown_places;
use crate::decide::sampling::Sampling;
use crate::discover::syscalls::{self, compat};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use strata_abi::kernel::{CALL_ENTRY, CALL_EXIT, UNKNOWN};

/// An event of which a sample is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledEvent {
    /// Name of the event; for a system call, without an end.
    pub event: String,
    /// The latest sampling of the event.
    pub sampling: Sampling,
    /// Number of events that only sampling has left out. The entry and exit of a system call are one event.
    pub left_out: u64,
}

/// The sampled events of one program, or pair of programs, by their places in its map of counts.
#[derive(Clone, Debug)]
struct CountedEvents {
    counts: Arc<SampleCounts>,
    events: Vec<(u32, String)>,
}

/// The sampled events of a session, which may be read from any thread.
#[derive(Clone, Debug, Default)]
pub struct SampledEvents(Arc<Mutex<SampledState>>);

#[derive(Debug, Default)]
struct SampledState {
    running: Vec<CountedEvents>,
    /// Events of programs that the last change replaced, and that may have run a little longer.
    replaced: Vec<CountedEvents>,
    /// For each event, its sampling, and the sum over programs that were replaced earlier.
    gone: BTreeMap<String, (Sampling, u64)>,
}

impl SampledEvents {
    /// Returns the sampled events with their counts so far, sorted by name.
    #[must_use]
    pub fn read(&self) -> Vec<SampledEvent> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = state.gone.clone();
        for program in state.replaced.iter().chain(&state.running) {
            add(&mut all, program);
        }
        let event = |(event, (sampling, left_out))| SampledEvent { event, sampling, left_out };
        all.into_iter().map(event).collect()
    }

    /// Returns, for each event, the number left out by programs that were replaced, for [`SampledEvents::set_gone`].
    pub(crate) fn of_gone(&self) -> Vec<(String, u64)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = state.gone.clone();
        state.replaced.iter().for_each(|program| add(&mut all, program));
        all.into_iter().map(|(name, (_, count))| (name, count)).collect()
    }

    /// Sets, for each event, the number left out by programs that no longer exist.
    pub(crate) fn set_gone(&self, before: &[(String, u64)]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |(name, count): &(String, u64)| (name.clone(), (Sampling::ALL, *count));
        state.gone = before.iter().map(sum).collect();
    }

    /// Sets the programs that run now.
    pub(crate) fn set<'r>(&self, running: impl Iterator<Item = &'r RunningPrograms>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let SampledState { running: known, replaced, gone } = &mut *state;
        for program in std::mem::take(replaced) {
            add(gone, &program);
        }
        let new: Vec<CountedEvents> = running.filter_map(CountedEvents::of).collect();
        for mut program in std::mem::replace(known, new) {
            let same = known.iter_mut().find(|one| Arc::ptr_eq(&one.counts, &program.counts));
            if let Some(same) = same {
                // Calls that a running pair records no longer keep their counts.
                program.events.retain(|event| !same.events.contains(event));
                same.events.append(&mut program.events);
            } else {
                replaced.push(program);
            }
        }
    }
}

fn add(all: &mut BTreeMap<String, (Sampling, u64)>, program: &CountedEvents) {
    let counts = &program.counts;
    for (place, name) in &program.events {
        let sum = all.entry(name.clone()).or_insert((counts.sampling(), 0));
        sum.0 = counts.sampling();
        sum.1 = sum.1.saturating_add(counts.left_out(*place));
    }
}

impl CountedEvents {
    /// Returns the events of running programs; `None` if they record all events.
    fn of(running: &RunningPrograms) -> Option<CountedEvents> {
        let counts = Arc::clone(running.sampled.as_ref()?);
        let events = match &running.calls {
            Some(calls) => calls_of(&calls.table),
            None => running.events.iter().map(|name| (0, name.clone())).take(1).collect(),
        };
        Some(CountedEvents { counts, events })
    }
}

/// Returns the recorded calls of a table, with their places.
fn calls_of(table: &SyscallTable) -> Vec<(u32, String)> {
    let is_recorded = |place: u32| {
        let call = table.get(place as usize);
        call.is_some_and(|call| call.flags & (CALL_ENTRY | CALL_EXIT) != 0)
    };
    let known = syscalls::table().iter().chain(compat::table());
    let known = known.map(|call| (call.place(), call.event_name()));
    // A call with a number of no known one has its own place, and all of them one name.
    let unknown = unknown_places().into_iter().chain([UNKNOWN]);
    let unknown = unknown.map(|place| (place, "unknown".to_owned()));
    known.chain(unknown).filter(|(place, _)| is_recorded(*place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_abi::kernel::{Syscall, SYSCALLS};

    #[test]
    fn each_place_of_the_table_is_counted_once() {
        let call = Syscall { flags: CALL_EXIT, ..Syscall::default() };
        let mut places: Vec<u32> =
            calls_of(&[call; SYSCALLS as usize]).into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..SYSCALLS).collect::<Vec<_>>());
    }
}
