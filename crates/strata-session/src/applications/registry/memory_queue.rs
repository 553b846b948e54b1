//! The queue of processes that wait for memory of the session's buffers (`--max-memory`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use strata_user::Application;

use crate::report::NotReached;

/// The most programs that wait, each of which is held by a descriptor. Further programs are not recorded.
const WAITING_MAX: usize = 256;
/// The period of checking whether waiting programs have ended.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Programs that wait for memory for their buffers, in the order of their arrival.
#[derive(Default)]
pub(super) struct WaitingForRoom {
    waiting: VecDeque<WaitingProgram>,
    next_look: Option<Instant>,
}

/// A program that waits for memory.
pub(super) struct WaitingProgram {
    pub(super) application: Application,
    /// The remark about the program that was reported.
    pub(super) said: NotReached,
    /// The memory that its buffers need \[byte\].
    pub(super) bytes: u64,
}

impl WaitingForRoom {
    /// Adds a program. Returns false if too many are waiting, so that this one will not be recorded.
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

    /// Removes and returns the first program if there is memory for it now. The remarks on programs that have ended
    /// stay in the report.
    pub(super) fn next(
        &mut self,
        now: Instant,
        has: impl Fn(u64) -> bool,
    ) -> Option<WaitingProgram> {
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
