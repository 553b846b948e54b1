//! The records by which threads left their CPUs to wait, with the time of each.

use std::collections::HashMap;

use strata_ctf::read::Event;
use strata_timeline::{State, ThreadId, World};

/// Returns true for the event by which a thread leaves its CPU.
pub fn is_switch(name: &str) -> bool {
    name.rsplit(':').next() == Some("sched_switch")
}

/// Returns the begin of the wait of a switch's thread; `None` if the thread is still runnable, or has ended.
pub fn waits_since(world: &World, event: &Event<'_>, who: ThreadId) -> Option<i64> {
    let thread = world.threads.get(who)?;
    let is_new = Some(thread.since) == event.time();
    (is_new && matches!(thread.state, State::Blocked(_))).then_some(thread.since)
}

/// Notes of type `S` on the latest wait of each thread.
#[derive(Debug)]
pub struct Left<S>(HashMap<ThreadId, (S, i64)>);

impl<S> Default for Left<S> {
    fn default() -> Left<S> {
        Left(HashMap::new())
    }
}

impl<S> Left<S> {
    /// Keeps the note `what` on a thread's wait that began at `since`.
    pub fn put(&mut self, thread: ThreadId, what: S, since: i64) {
        self.0.insert(thread, (what, since));
    }

    /// Returns the note on a thread's wait that began at `since`.
    pub fn get(&self, thread: ThreadId, since: i64) -> Option<&S> {
        self.0.get(&thread).filter(|(_, at)| *at == since).map(|(what, _)| what)
    }

    /// Removes and returns the note on a thread's wait that began at `since`.
    pub fn take(&mut self, thread: ThreadId, since: i64) -> Option<S> {
        self.0.remove(&thread).filter(|(_, at)| *at == since).map(|(what, _)| what)
    }
}
