//! A change of what is recorded that is under way: whose filter is still the one before, and who leaves.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use strata_user::Clock;

use crate::applications::traced::Traced;
use crate::plan::tracked::Tracked;
use crate::report::NotReached;

/// A process whose filter is still the one before.
#[derive(Debug)]
pub(super) struct WaitingChange {
    pub(super) process: Arc<Traced>,
    pub(super) since: Instant,
    /// It was said.
    pub(super) is_told: bool,
    /// It has found no memory.
    pub(super) short: Option<MissingRoom>,
}

/// What a second set of buffers would need \[byte\], and what was said of it.
#[derive(Debug)]
pub(super) struct MissingRoom {
    pub(super) bytes: u64,
    pub(super) said: NotReached,
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Changing {
    /// What is recorded is not what it was at the begin.
    pub(super) was_changed: bool,
    /// Generations of the session that was killed before this one.
    before: HashSet<u64>,
    pub(super) tracked: Arc<Tracked>,
    /// When the recorder began to come to its end, and asked nobody any more, `CLOCK_MONOTONIC` \[ns\].
    pub(super) ended_ns: Option<u64>,
    /// Who began before may have inherited a part of the change only, `CLOCK_MONOTONIC` \[ns\].
    pub(super) settled_ns: u64,
    pub(super) waiting: Vec<WaitingChange>,
    /// Sessions whose place another one has taken, as long as threads may write to them.
    pub(super) leaving: Vec<Arc<Traced>>,
    pub(super) next: Option<Instant>,
}

impl Changing {
    /// A session that was killed, perhaps in the midst of a change: these of its generations are in part as its rules say.
    pub(super) fn after(left: HashSet<u64>) -> Changing {
        let settled_ns = if left.is_empty() { 0 } else { Clock::monotonic_ns() };
        Changing { was_changed: !left.is_empty(), settled_ns, before: left, ..Changing::default() }
    }

    /// Was it made by the session that was killed?
    pub(super) fn is_of_before(&self, generation: u64) -> bool {
        self.before.contains(&generation)
    }

    /// When to go on; `None`: nothing is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_idle = self.waiting.is_empty() && self.leaving.is_empty();
        self.next.filter(|_| !is_idle)
    }
}
