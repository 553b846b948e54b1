//! The holders of a mutex while a thread waited for it: all threads that held it in that time, not only the last one.
//!
//! In a convoy each waiter is woken by its neighbour, which has just got the lock itself. The neighbour's wait is time
//! of an earlier holder. So of a wait that ended at T by thread W, W held the lock only since its own last wait for it
//! ended; before that the thread that ended *that* wait held it, and so on.

use std::collections::HashMap;

use strata_timeline::{ThreadId, World};

/// The most pairs of thread and lock for which the last wait is kept.
const WAITS_MAX: usize = 1 << 16;
/// The most successive holders of a lock that are determined for one wait.
const HANDS_MAX: usize = 64;

/// A thread's last wait for a lock: the time at which it ended, and the thread that ended it.
type LastWait = (i64, Option<ThreadId>);

/// The last waits for mutexes, from which it follows which thread held a mutex.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    /// The last waits, by process, address and thread.
    waits: HashMap<(ThreadId, u64, ThreadId), LastWait>,
}

impl Holders {
    /// Notes a finished wait for the lock at `address`. Returns the threads that held the lock meanwhile, the last one
    /// first, each with its time \[ns\]; `None` is an unknown holder. The times add up to the length of the wait.
    pub(super) fn waited(
        &mut self,
        world: &World,
        address: u64,
        waiter: ThreadId,
        (from, to): (i64, i64),
        ended_by: Option<ThreadId>,
    ) -> Vec<(Option<ThreadId>, u64)> {
        let parts = self.parts(world, address, waiter, (from, to), ended_by);
        let key = (world.process_of(waiter), address, waiter);
        if self.waits.len() < WAITS_MAX || self.waits.contains_key(&key) {
            self.waits.insert(key, (to, ended_by));
        }
        parts
    }

    fn parts(
        &self,
        world: &World,
        address: u64,
        waiter: ThreadId,
        (from, to): (i64, i64),
        ended_by: Option<ThreadId>,
    ) -> Vec<(Option<ThreadId>, u64)> {
        let (mut parts, mut until, mut holder) = (Vec::new(), to, ended_by);
        for _ in 0..HANDS_MAX {
            let Some(has) = holder else { break };
            let last = self.waits.get(&(world.process_of(has), address, has));
            // A wait that ended after that is one for another turn.
            let Some(&(got, before)) = last.filter(|(got, _)| *got > from && *got < until) else {
                break;
            };
            parts.push((holder, until.abs_diff(got)));
            until = got;
            // Who waits now and had it before has let it go in between: who had it then is not known.
            holder = before.filter(|&before| before != waiter);
        }
        parts.push((holder, until.abs_diff(from)));
        parts
    }
}
