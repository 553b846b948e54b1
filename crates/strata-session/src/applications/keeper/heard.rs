//! Who has announced itself by the socket that everybody finds, and waits to be let in.
//!
//! The kernel has room for so many that have connected (`somaxconn`); whoever finds none is heard of by nobody, and a program
//! that lives for a moment has ended before it is searched for. So they are taken out of the socket between any two that
//! are let in, which takes far longer than to begin and end. Those that are too many for us, too, are counted, and said.

use std::collections::VecDeque;

use rustix::process::{getrlimit, Resource};

/// Programs that wait: each is held by two descriptors. Fewer where we may not have eight times as many: who is recorded
/// has some, too.
const WAITING_MAX: u64 = 4096;

/// Those who wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Heard<T> {
    waiting: VecDeque<T>,
    most: usize,
}

impl<T> Heard<T> {
    pub(super) fn new() -> Heard<T> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = usize::try_from((files / 8).clamp(64, WAITING_MAX)).unwrap_or(64);
        Heard { waiting: VecDeque::new(), most }
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.most
    }

    pub(super) fn push(&mut self, one: T) {
        self.waiting.push_back(one);
    }

    /// The first ones, at most so many. True: there are more.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<T>) -> bool {
        let some = self.waiting.len().min(most);
        into.extend(self.waiting.drain(..some));
        !self.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heard_are_taken_in_their_order_and_no_more_than_there_is_room_for() {
        let mut heard = Heard::new();
        let most = heard.most;
        assert!((64..=4096).contains(&most));
        (0..most).for_each(|one| {
            assert!(heard.has_room());
            heard.push(one);
        });
        assert!(!heard.has_room());
        let mut taken = Vec::new();
        assert!(heard.take(10, &mut taken) && heard.has_room());
        assert!(!heard.take(most, &mut taken) && heard.is_empty());
        assert_eq!(taken, (0..most).collect::<Vec<_>>());
    }
}
