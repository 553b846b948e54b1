//! Which of the system calls that give, copy and take away descriptors are in the kernel's trace: all, for its whole
//! time, or readers do not say what a descriptor was opened for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use strata_ctf::environment::DescriptorCalls;
use strata_kernel::syscalls::{self, compat, Syscall};
use strata_kernel::{Problem, SelectedEvent};
use strata_timeline::is_of_descriptors;

use crate::session::lock::lock;

/// What is recorded of them now, and was; for who describes traces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    now: DescriptorCalls,
    is_paused: bool,
    is_changing: bool,
    has_begun: bool,
    /// How often there were records missing since it has begun.
    gaps: u64,
}

/// What a trace says of them, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) calls: DescriptorCalls,
    gaps: u64,
}

impl Recorded {
    /// Before anything is.
    pub(crate) fn set(&self, calls: DescriptorCalls) {
        lock(&self.0).now = calls;
    }

    /// From now on a change of what is recorded is one within a trace.
    pub(crate) fn begin(&self) {
        lock(&self.0).has_begun = true;
    }

    /// What is recorded is about to change. Traces that have begun are not whole from here on, and those that begin
    /// before [`Recorded::changed`] are not, either.
    pub(crate) fn change(&self) {
        let mut state = lock(&self.0);
        state.is_changing = true;
        state.gaps += u64::from(state.has_begun);
    }

    /// It has.
    pub(crate) fn changed(&self, calls: Option<DescriptorCalls>) {
        let mut state = lock(&self.0);
        state.is_changing = false;
        state.now = calls.unwrap_or(state.now);
    }

    /// Nothing is recorded, or it is again.
    pub(crate) fn pause(&self, is_paused: bool) {
        let mut state = lock(&self.0);
        state.is_paused = is_paused;
        state.gaps += u64::from(state.has_begun && is_paused);
    }

    /// What a trace says that begins now.
    pub(crate) fn of_new(&self) -> Said {
        let state = *lock(&self.0);
        let calls = match state.is_paused || state.is_changing {
            true => no_more_than_some(state.now),
            false => state.now,
        };
        Said { calls, gaps: state.gaps }
    }

    /// What a trace says that has what was recorded since it began.
    pub(crate) fn of_all(&self) -> Said {
        let said = self.of_new();
        match said.gaps {
            0 => said,
            _ => Said { calls: DescriptorCalls::Some, ..said },
        }
    }

    /// What a trace is to say that has said this; `None`: it is still so.
    pub(crate) fn since(&self, said: Said) -> Option<Said> {
        let gaps = lock(&self.0).gaps;
        let is_over = said.calls != DescriptorCalls::Some && said.gaps != gaps;
        is_over.then_some(Said { calls: DescriptorCalls::Some, gaps })
    }
}

fn no_more_than_some(calls: DescriptorCalls) -> DescriptorCalls {
    match calls {
        DescriptorCalls::All => DescriptorCalls::Some,
        other => other,
    }
}

/// What these events have of them.
pub(crate) fn of(events: &[SelectedEvent]) -> DescriptorCalls {
    let compat: &[Syscall] = match compat::are_there() {
        true => compat::table(),
        false => &[],
    };
    let all = syscalls::table().iter().chain(compat).map(Syscall::event_name);
    let whole = |one: &SelectedEvent| {
        one.entry && one.exit && one.filter.is_none() && one.exit_filter.is_none()
    };
    let selected: HashMap<&str, bool> =
        events.iter().map(|one| (one.event.name.as_str(), whole(one))).collect();
    counted(all, |name| selected.get(name).copied())
}

/// Of all system calls by name; `selected`: whether all of its records are.
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

/// The same, without what is not recorded after all.
pub(crate) fn without(calls: DescriptorCalls, problems: &[Problem]) -> DescriptorCalls {
    let is_one = |problem: &Problem| {
        syscalls::event_of(&problem.event).is_some_and(|call| is_of_descriptors(&call))
    };
    match problems.iter().any(is_one) {
        true => no_more_than_some(calls),
        false => calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let problem = Problem { event: event.to_owned(), reason: String::new() };
            without(DescriptorCalls::All, &[problem])
        };
        for event in ["syscall_entry_close", "syscall_exit_dup2", "compat_syscall_entry_openat"] {
            assert_eq!(all_but(event), DescriptorCalls::Some, "{event}");
        }
        for event in ["process 4711", "syscall_entry_getpid", "sched_switch", "close"] {
            assert_eq!(all_but(event), DescriptorCalls::All, "{event}");
        }
        assert_eq!(without(DescriptorCalls::None, &[]), DescriptorCalls::None);
    }

    #[test]
    fn trace_says_all_only_if_that_was_so_all_the_time() {
        let recorded = Recorded::default();
        assert_eq!(recorded.of_new().calls, DescriptorCalls::None);
        // The rules of a session come before it begins.
        recorded.change();
        assert_eq!(recorded.of_new().calls, DescriptorCalls::None);
        recorded.changed(Some(DescriptorCalls::All));
        recorded.begin();
        let first = recorded.of_new();
        assert_eq!((first.calls, recorded.since(first)), (DescriptorCalls::All, None));
        assert_eq!(recorded.of_all(), first);

        recorded.change();
        assert_eq!(recorded.since(first).unwrap().calls, DescriptorCalls::Some);
        assert_eq!(recorded.of_new().calls, DescriptorCalls::Some);
        recorded.changed(Some(DescriptorCalls::All));
        // It is not whole any more; the next one is, but not what has all from the begin on.
        let said = recorded.since(first).unwrap();
        assert_eq!((said.calls, recorded.since(said)), (DescriptorCalls::Some, None));
        let second = recorded.of_new();
        assert_eq!((second.calls, recorded.since(second)), (DescriptorCalls::All, None));
        assert_eq!(recorded.of_all().calls, DescriptorCalls::Some);

        recorded.pause(true);
        assert_eq!(recorded.since(second).unwrap().calls, DescriptorCalls::Some);
        let third = recorded.of_new();
        recorded.pause(false);
        assert_eq!((third.calls, recorded.since(third)), (DescriptorCalls::Some, None));
        assert_eq!(recorded.of_new().calls, DescriptorCalls::All);
    }

    #[test]
    fn trace_without_such_calls_says_some_once_there_may_be_some() {
        let recorded = Recorded::default();
        recorded.set(DescriptorCalls::None);
        recorded.begin();
        let said = recorded.of_new();
        recorded.change();
        recorded.changed(Some(DescriptorCalls::All));
        assert_eq!(recorded.since(said).unwrap().calls, DescriptorCalls::Some);
        // What could not be changed is as it was.
        recorded.change();
        recorded.changed(None);
        assert_eq!(recorded.of_new().calls, DescriptorCalls::All);
    }
}
