//! Threads that have left their CPUs to wait: since when, and by which record.

use std::collections::HashMap;

use strata_ctf::read::Event;
use strata_timeline::{State, ThreadId, World};

/// Whether records of this name say that a thread leaves its CPU.
pub(super) fn is_switch(name: &str) -> bool {
    name.rsplit(':').next() == Some("sched_switch")
}

/// Since when the thread of a switch's record waits; `None`: it still wants a CPU, or has ended.
pub(super) fn waits_since(world: &World, event: &Event<'_>, who: ThreadId) -> Option<i64> {
    let thread = world.threads.get(who)?;
    let is_new = Some(thread.since) == event.time();
    (is_new && matches!(thread.state, State::Blocked(_))).then_some(thread.since)
}

/// Of each thread, what is known of its latest wait; as many as a timeline has threads.
#[derive(Debug)]
pub(super) struct Left<S>(HashMap<ThreadId, (S, i64)>);

impl<S> Default for Left<S> {
    fn default() -> Left<S> {
        Left(HashMap::new())
    }
}

impl<S> Left<S> {
    /// It waits since then.
    pub(super) fn put(&mut self, thread: ThreadId, what: S, since: i64) {
        self.0.insert(thread, (what, since));
    }

    /// Of its wait since then.
    pub(super) fn get(&self, thread: ThreadId, since: i64) -> Option<&S> {
        self.0.get(&thread).filter(|(_, at)| *at == since).map(|(what, _)| what)
    }

    /// The same, which is not needed any more.
    pub(super) fn take(&mut self, thread: ThreadId, since: i64) -> Option<S> {
        self.0.remove(&thread).filter(|(_, at)| *at == since).map(|(what, _)| what)
    }
}
