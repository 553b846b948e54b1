//! State of a change in progress: processes that still have the old filter, and sessions that are ending.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use strata_user::Clock;

use crate::applications::traced_process::Traced;
use crate::plan::tracked::Tracked;
use crate::report::NotReached;

/// A process that still records with the former filter.
#[derive(Debug)]
pub(super) struct WaitingChange {
    pub(super) process: Arc<Traced>,
    pub(super) since: Instant,
    /// True once it was reported that the change takes long.
    pub(super) is_told: bool,
    /// Set if there was no memory for a second set of buffers.
    pub(super) short: Option<MissingRoom>,
}

/// The memory that a second set of buffers needs \[byte\], with the remark about it.
#[derive(Debug)]
pub(super) struct MissingRoom {
    pub(super) bytes: u64,
    pub(super) said: NotReached,
}

/// Changes of the rules that are not complete in all processes.
#[derive(Debug, Default)]
pub(super) struct Changing {
    /// True if the rules have changed since the beginning.
    pub(super) was_changed: bool,
    /// Generations of the sessions that the killed session created in processes.
    before: HashSet<u64>,
    pub(super) tracked: Arc<Tracked>,
    /// Time since which the recorder is ending and invites no further processes \[ns of `CLOCK_MONOTONIC`\]; `None`
    /// before that.
    pub(super) ended_ns: Option<u64>,
    /// Time of the last complete change \[ns of `CLOCK_MONOTONIC`\]. A process that started earlier may have
    /// inherited the change in part only.
    pub(super) settled_ns: u64,
    pub(super) waiting: Vec<WaitingChange>,
    /// Sessions in processes that others have replaced, as long as threads may still write to them.
    pub(super) leaving: Vec<Arc<Traced>>,
    pub(super) next: Option<Instant>,
}

impl Changing {
    /// Creates the state after a session was killed, perhaps during a change. `left`: the generations that it
    /// created, whose sessions may follow its rules in part only.
    pub(super) fn after(left: HashSet<u64>) -> Changing {
        let settled_ns = if left.is_empty() { 0 } else { Clock::monotonic_ns() };
        Changing { was_changed: !left.is_empty(), settled_ns, before: left, ..Changing::default() }
    }

    /// Returns whether the killed session has created this generation.
    pub(super) fn is_of_before(&self, generation: u64) -> bool {
        self.before.contains(&generation)
    }

    /// Returns the time of the next step; `None` if no change is in progress.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_idle = self.waiting.is_empty() && self.leaving.is_empty();
        self.next.filter(|_| !is_idle)
    }
}
