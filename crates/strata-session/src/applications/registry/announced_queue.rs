//! The queue of processes that have announced themselves and wait to be admitted.
//!
//! The kernel only keeps a limited number of connections that wait (`somaxconn`). A process that finds no room there is
//! not noticed, and a short program has ended before a search could find it. So announcements are taken from the socket
//! between any two admissions, which take far longer than a short program runs. Processes that exceed the limit of this
//! queue are counted and reported.

use std::collections::VecDeque;

use rustix::process::{getrlimit, Resource};

/// The most announced processes that wait for admission. Each takes two descriptors, and recorded processes need
/// descriptors too, so the limit is at most an eighth of the allowed descriptors.
const WAITING_MAX: u64 = 4096;

/// Announced processes that wait for admission, in the order of their arrival.
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

    /// Moves the first waiting processes, up to `most`, into `into`. Returns whether more are waiting.
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
