//! Collects what the timeline reports while it takes one record, for the exporter, which writes it afterwards: the timeline
//! and the exporter's output cannot be borrowed at once.

use strata_timeline::{CounterValue, Observer, ThreadId, Unfollowed, World};

/// The results that the timeline has reported for the present record, about threads and counters.
#[derive(Debug, Default)]
pub(super) struct RecordNews {
    pub(super) known: Vec<ThreadId>,
    pub(super) exits: Vec<ThreadId>,
    pub(super) unfollowed: Vec<Unfollowed>,
    pub(super) counters: Vec<CounterValue>,
}

impl RecordNews {
    pub(super) fn is_of_threads(&self) -> bool {
        !(self.known.is_empty() && self.exits.is_empty() && self.unfollowed.is_empty())
    }
}

impl Observer for RecordNews {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;
    const CALLS: bool = false;

    fn known(&mut self, _: &World, thread: ThreadId) {
        self.known.push(thread);
    }

    fn exits(&mut self, _: &World, thread: ThreadId) {
        self.exits.push(thread);
    }

    fn unfollowed(&mut self, _: &World, of: &Unfollowed) {
        self.unfollowed.push(*of);
    }

    fn counter(&mut self, _: &World, value: &CounterValue) {
        self.counters.push(*value);
    }
}
