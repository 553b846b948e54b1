//! Tracks which events the kernel's trace contains completely over its whole time. System calls that create, copy and
//! close descriptors must be complete, or readers would name files wrongly; switches between threads must be, since a
//! missing one looks like none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use strata_ctf::environment::{DescriptorCalls, Whole};
use strata_kernel::syscalls::{self, compat, Syscall};
use strata_kernel::{SelectedEvent, UnrecordedEvent};
use strata_timeline::is_of_descriptors;

use crate::plan::tracked::Tracked;
use crate::session::lock::lock;

/// Name of the event that shows which thread has a CPU.
const SWITCH: &str = "sched_switch";

/// Tracks which events are recorded completely, now and before; shared with the writers of metadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedWhole(Arc<Mutex<WholeState>>);

#[derive(Clone, Copy, Debug, Default)]
struct WholeState {
    now: Whole,
    is_paused: bool,
    is_changing: bool,
    has_begun: bool,
    /// Number of times that records were left out since the beginning.
    gaps: u64,
}

/// The statement of a trace about events that it contains completely, and the number of gaps before the statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) whole: Whole,
    gaps: u64,
}

impl RecordedWhole {
    /// Sets the events that are recorded completely, before recording begins.
    pub(crate) fn set(&self, whole: Whole) {
        lock(&self.0).now = whole;
    }

    /// Notes that recording begins. From now on, a change of the events affects traces.
    pub(crate) fn begin(&self) {
        lock(&self.0).has_begun = true;
    }

    /// Notes that the selected events are about to change. Traces that exist now, or begin before
    /// [`RecordedWhole::changed`], do not have these events completely.
    pub(crate) fn change(&self) {
        let mut state = lock(&self.0);
        state.is_changing = true;
        state.gaps += u64::from(state.has_begun);
    }

    /// Notes that the selected events have changed. `whole`: those that are now recorded completely, or `None` if the
    /// change failed.
    pub(crate) fn changed(&self, whole: Option<Whole>) {
        let mut state = lock(&self.0);
        state.is_changing = false;
        state.now = whole.unwrap_or(state.now);
    }

    /// Notes that recording pauses or resumes.
    pub(crate) fn pause(&self, is_paused: bool) {
        let mut state = lock(&self.0);
        state.is_paused = is_paused;
        state.gaps += u64::from(state.has_begun && is_paused);
    }

    /// Returns the statement about complete events for a trace that begins now.
    pub(crate) fn of_new(&self) -> Said {
        let state = *lock(&self.0);
        let whole = match state.is_paused || state.is_changing {
            true => no_more_than_some(state.now),
            false => state.now,
        };
        Said { whole, gaps: state.gaps }
    }

    /// Returns the statement about complete events for a trace with all records since the beginning.
    pub(crate) fn of_all(&self) -> Said {
        let said = self.of_new();
        match said.gaps {
            0 => said,
            _ => Said { whole: SOME, ..said },
        }
    }

    /// Returns the corrected statement for a trace that has made the statement `said`; `None` if that is still true.
    pub(crate) fn since(&self, said: Said) -> Option<Said> {
        let gaps = lock(&self.0).gaps;
        let is_over = said.whole != SOME && said.gaps != gaps;
        is_over.then_some(Said { whole: SOME, gaps })
    }
}

/// The statement of a trace in which records of any event may be missing.
const SOME: Whole = Whole { descriptor_calls: DescriptorCalls::Some, switches: false };

fn no_more_than_some(whole: Whole) -> Whole {
    match whole.descriptor_calls {
        DescriptorCalls::All => SOME,
        _ => Whole { switches: false, ..whole },
    }
}

/// Returns which events are recorded completely if `events` are selected and `tracked` are the tracked processes.
pub(crate) fn of(events: &[SelectedEvent], tracked: &Tracked) -> Whole {
    let mut switches = events.iter().filter(|one| one.event.name == SWITCH);
    let is_each = |one: &SelectedEvent| {
        one.filter.is_none() && !one.event.is_followed && one.sampling.is_all()
    };
    Whole {
        descriptor_calls: calls_of(events),
        switches: (tracked.is_everybody() || tracked.with_machine) && switches.any(is_each),
    }
}

fn calls_of(events: &[SelectedEvent]) -> DescriptorCalls {
    let compat: &[Syscall] = match compat::are_there() {
        true => compat::table(),
        false => &[],
    };
    let all = syscalls::table().iter().chain(compat).map(Syscall::event_name);
    let whole = |one: &SelectedEvent| {
        let is_filtered = one.filter.is_some() || one.exit_filter.is_some();
        one.entry && one.exit && !is_filtered && one.sampling.is_all()
    };
    let selected: HashMap<&str, bool> =
        events.iter().map(|one| (one.event.name.as_str(), whole(one))).collect();
    counted(all, |name| selected.get(name).copied())
}

/// Returns how completely system calls for descriptors are recorded. `selected`: for the name of a call, whether all of
/// its records are; `None` if the call is not selected.
fn counted(
    all: impl Iterator<Item = String>,
    selected: impl Fn(&str) -> Option<bool>,
) -> DescriptorCalls {
    let (mut any, mut is_whole) = (false, true);
    for name in all.filter(|name| is_of_descriptors(name)) {
        let found = selected(&name);
        any |= found.is_some();
        is_whole &= found == Some(true);
    }
    match (any, is_whole) {
        (false, _) => DescriptorCalls::None,
        (true, true) => DescriptorCalls::All,
        (true, false) => DescriptorCalls::Some,
    }
}

/// Returns what is recorded completely, `whole`, without the events that could not be recorded.
pub(crate) fn without(whole: Whole, problems: &[UnrecordedEvent]) -> Whole {
    let is_call = |problem: &UnrecordedEvent| {
        syscalls::event_of(&problem.event).is_some_and(|call| is_of_descriptors(&call))
    };
    let fewer = no_more_than_some(whole);
    Whole {
        descriptor_calls: match problems.iter().any(is_call) {
            true => fewer.descriptor_calls,
            false => whole.descriptor_calls,
        },
        switches: whole.switches && !problems.iter().any(|problem| problem.event == SWITCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_filter::Filter;
    use strata_kernel::{KernelEvent, Probe};

    const ALL: Whole = Whole { descriptor_calls: DescriptorCalls::All, switches: true };

    #[test]
    fn switches_are_all_if_they_are_recorded_of_everybody_and_without_a_filter() {
        let switch = |filter: Option<&str>, is_followed| {
            let event = KernelEvent {
                name: SWITCH.to_owned(),
                system: "sched".to_owned(),
                kernel_name: SWITCH.to_owned(),
                fields: Vec::new(),
                exit_fields: Vec::new(),
                probe: Probe::Sample { rate: 1 },
                is_followed,
                sources: Vec::new(),
                exit_sources: Vec::new(),
            };
            let filter = filter.map(|text| Filter::parse(text).unwrap());
            SelectedEvent { filter, ..SelectedEvent::all_records(event) }
        };
        let everybody = Tracked::default();
        let some = Tracked { uids: Some(vec![0]), ..Tracked::default() };
        let is_each = |events: &[SelectedEvent], tracked| of(events, tracked).switches;
        assert!(is_each(&[switch(None, false)], &everybody));
        assert!(!is_each(&[switch(None, false)], &some));
        let with_machine = Tracked { with_machine: true, ..some.clone() };
        assert!(is_each(&[switch(None, false)], &with_machine));
        assert!(!is_each(&[switch(Some("next_tid == 5"), false)], &everybody));
        assert!(!is_each(&[switch(None, true)], &everybody));
        assert!(!is_each(&[], &everybody));
    }

    #[test]
    fn calls_of_descriptors_are_all_only_if_each_is_recorded_whole() {
        let all = ["openat", "close", "dup2", "getpid", "compat_close"].map(str::to_owned);
        let of = |selected: &[(&str, bool)]| {
            let find = |name: &str| selected.iter().find(|one| one.0 == name).map(|one| one.1);
            counted(all.clone().into_iter(), find)
        };
        let each = [("openat", true), ("close", true), ("dup2", true), ("compat_close", true)];
        assert_eq!(of(&each), DescriptorCalls::All);
        for at in 0..each.len() {
            let mut fewer = each.to_vec();
            fewer[at].1 = false;
            assert_eq!(of(&fewer), DescriptorCalls::Some, "{at} filtered");
            fewer.remove(at);
            assert_eq!(of(&fewer), DescriptorCalls::Some, "{at} left out");
        }
        assert_eq!(of(&[("getpid", true)]), DescriptorCalls::None);
        assert_eq!(of(&[]), DescriptorCalls::None);
    }

    #[test]
    fn call_that_was_refused_is_not_recorded() {
        let all_but = |event: &str| {
            let problem = UnrecordedEvent { event: event.to_owned(), reason: String::new() };
            without(ALL, &[problem])
        };
        for event in ["syscall_entry_close", "syscall_exit_dup2", "compat_syscall_entry_openat"] {
            assert_eq!(all_but(event).descriptor_calls, DescriptorCalls::Some, "{event}");
        }
        for event in ["process 4711", "syscall_entry_getpid", "sched_switch", "close"] {
            assert_eq!(all_but(event).descriptor_calls, DescriptorCalls::All, "{event}");
            assert_eq!(all_but(event).switches, event != "sched_switch", "{event}");
        }
        assert_eq!(without(Whole::default(), &[]), Whole::default());
    }

    #[test]
    fn trace_says_all_only_if_that_was_so_all_the_time() {
        let recorded = RecordedWhole::default();
        assert_eq!(recorded.of_new().whole, Whole::default());
        // The rules of a session come before it begins.
        recorded.change();
        assert_eq!(recorded.of_new().whole, Whole::default());
        recorded.changed(Some(ALL));
        recorded.begin();
        let first = recorded.of_new();
        assert_eq!((first.whole, recorded.since(first)), (ALL, None));
        assert_eq!(recorded.of_all(), first);

        recorded.change();
        assert_eq!(recorded.since(first).unwrap().whole, SOME);
        assert_eq!(recorded.of_new().whole, SOME);
        recorded.changed(Some(ALL));
        // It is not whole any more; the next one is, but not what has all from the begin on.
        let said = recorded.since(first).unwrap();
        assert_eq!((said.whole, recorded.since(said)), (SOME, None));
        let second = recorded.of_new();
        assert_eq!((second.whole, recorded.since(second)), (ALL, None));
        assert_eq!(recorded.of_all().whole, SOME);

        recorded.pause(true);
        assert_eq!(recorded.since(second).unwrap().whole, SOME);
        let third = recorded.of_new();
        recorded.pause(false);
        assert_eq!((third.whole, recorded.since(third)), (SOME, None));
        assert_eq!(recorded.of_new().whole, ALL);
    }

    #[test]
    fn trace_without_such_calls_says_some_once_there_may_be_some() {
        let recorded = RecordedWhole::default();
        recorded.set(Whole::default());
        recorded.begin();
        let said = recorded.of_new();
        recorded.change();
        recorded.changed(Some(ALL));
        assert_eq!(recorded.since(said).unwrap().whole, SOME);
        // What could not be changed is as it was.
        recorded.change();
        recorded.changed(None);
        assert_eq!(recorded.of_new().whole, ALL);
    }
}
