//! Who waits for memory of the session's buffers (`--max-memory`): found none, and is let in when there is some.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use strata_user::Application;

use crate::report::NotReached;

/// Programs that wait: each is held by a descriptor. Who comes later is not recorded.
const WAITING_MAX: usize = 256;
/// Whether those that wait have ended is looked at so often.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Those who wait, in the order in which they came.
#[derive(Default)]
pub(super) struct WaitingForRoom {
    waiting: VecDeque<WaitingProgram>,
    next_look: Option<Instant>,
}

/// One of them.
pub(super) struct WaitingProgram {
    pub(super) application: Application,
    /// What was said of it.
    pub(super) said: NotReached,
    /// What its buffers need.
    pub(super) bytes: u64,
}

impl WaitingForRoom {
    /// False: too many do, and this one will not be recorded.
    pub(super) fn push(&mut self, one: WaitingProgram) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(one);
        }
        has_room
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The first one, if there is memory for it now. Of one that has ended what was said stays.
    pub(super) fn next(&mut self, has: impl Fn(u64) -> bool) -> Option<WaitingProgram> {
        let now = Instant::now();
        if self.next_look.is_none_or(|next| now >= next) {
            self.next_look = Some(now + LOOK_PERIOD);
            self.waiting.retain(|one| one.application.is_alive());
        }
        while !self.waiting.front().filter(|one| has(one.bytes))?.application.is_alive() {
            self.waiting.pop_front();
        }
        self.waiting.pop_front()
    }
}
