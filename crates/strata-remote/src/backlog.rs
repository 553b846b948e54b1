//! Messages that a relay has not acknowledged yet, in their order.

use std::collections::VecDeque;
use std::sync::Arc;

/// An encoded message.
pub(crate) type Frame = Arc<[u8]>;

/// The messages of one recording that wait for acknowledgement. Their numbers begin at 0 and count messages.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    frames: VecDeque<Frame>,
    /// Number of the first frame.
    first: u64,
    /// Number of the frame that is sent next on the present connection.
    next: u64,
    bytes: usize,
}

impl Backlog {
    /// Appends a message.
    pub(crate) fn push(&mut self, frame: Frame) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// Returns the message to send next; `None` if all were sent.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let at = usize::try_from(self.next - self.first).ok()?;
        let frame = self.frames.get(at)?;
        self.next += 1;
        Some(Arc::clone(frame))
    }

    /// Continues with message `next` on a new connection whose relay has all messages before it. Returns false if that
    /// is not possible.
    pub(crate) fn resume(&mut self, next: u64) -> bool {
        if !(self.first..=self.end()).contains(&next) {
            return false;
        }
        self.drop_before(next);
        self.next = next;
        true
    }

    /// Removes the messages before `next`. Returns false if they were not sent.
    pub(crate) fn acknowledge(&mut self, next: u64) -> bool {
        let is_possible = next <= self.next;
        if is_possible {
            self.drop_before(next);
        }
        is_possible
    }

    fn drop_before(&mut self, next: u64) {
        while self.first < next {
            let Some(frame) = self.frames.pop_front() else { return };
            self.bytes -= frame.len();
            self.first += 1;
        }
    }

    /// Number of the first message that is kept.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number that the next new message gets.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// Number of messages that are kept.
    pub(crate) fn messages(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Size of the messages that are kept \[byte\].
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_until_they_are_acknowledged_and_are_sent_again_on_a_new_connection() {
        let mut backlog = Backlog::default();
        for byte in 0..5u8 {
            backlog.push(vec![byte; 10].into());
        }
        let mut taken = || backlog.take().map(|frame| frame[0]);
        assert_eq!([taken(), taken(), taken()], [Some(0), Some(1), Some(2)]);
        assert!(backlog.acknowledge(2));
        assert_eq!((backlog.first(), backlog.end(), backlog.bytes()), (2, 5, 30));
        assert!(!backlog.acknowledge(4), "it was not sent yet");
        // The relay had 2, whose acknowledgement did not arrive.
        assert!(backlog.resume(3));
        assert_eq!(backlog.take().map(|frame| frame[0]), Some(3));
        // Another connection, which acknowledges again what was acknowledged.
        assert!(backlog.resume(3) && backlog.acknowledge(1));
        let rest: Vec<u8> = std::iter::from_fn(|| backlog.take()).map(|frame| frame[0]).collect();
        assert_eq!((rest, backlog.messages()), (vec![3, 4], 2));
        assert!(!backlog.resume(2) && !backlog.resume(6));
        assert!(backlog.acknowledge(5) && backlog.bytes() == 0);
    }
}
