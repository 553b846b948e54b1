//! Messages that a relay has not acknowledged yet, in their order.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::recorder::spool::{Piece, Spool};

/// An encoded message.
pub(crate) type Frame = Arc<Vec<u8>>;

/// Smallest buffer of a message that is kept for another message \[byte\].
const SPARE_MIN: usize = 64 << 10;
/// The most memory of buffers that are kept for later messages \[byte\].
const SPARE_MAX: usize = 4 << 20;

/// Place where a message of the backlog is kept.
#[derive(Debug)]
enum Place {
    Memory(Frame),
    Spool(Piece),
}

/// The messages of one recording that wait for acknowledgement. Messages are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    frames: VecDeque<Place>,
    /// Number of the first message in the backlog.
    first: u64,
    /// Number of the message that is sent next on the present connection.
    next: u64,
    /// Size of the messages in memory \[byte\].
    bytes: usize,
    spool: Option<Spool>,
    /// Bytes in memory above which messages go to the spool \[byte\].
    memory: usize,
    /// Buffers of messages that were acknowledged, for later messages: new memory would cost as much as the copy into
    /// it.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Backlog {
    /// Sets the spool, to which messages are written while those in memory have more than `memory` bytes.
    pub(crate) fn set_spool(&mut self, spool: Spool, memory: usize) {
        (self.spool, self.memory) = (Some(spool), memory);
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, frame: Frame) {
        let spool = self.spool.as_mut().filter(|_| self.bytes + frame.len() > self.memory);
        let place = match spool.and_then(|spool| spool.push(&frame)) {
            Some(piece) => {
                if let Ok(buffer) = Arc::try_unwrap(frame) {
                    self.keep(buffer);
                }
                Place::Spool(piece)
            }
            None => {
                self.bytes += frame.len();
                Place::Memory(frame)
            }
        };
        self.frames.push_back(place);
    }

    /// Returns the message to send next; `None` if all were sent.
    ///
    /// # Errors
    /// It cannot be read from the spool.
    pub(crate) fn take(&mut self) -> io::Result<Option<Frame>> {
        let at = usize::try_from(self.next - self.first).ok();
        let Some(place) = at.and_then(|at| self.frames.get(at)) else { return Ok(None) };
        let frame = match (place, &self.spool) {
            (Place::Memory(frame), _) => Arc::clone(frame),
            (Place::Spool(piece), Some(spool)) => spool.read(*piece)?.into(),
            (Place::Spool(_), None) => return Err(io::ErrorKind::NotFound.into()),
        };
        self.next += 1;
        Ok(Some(frame))
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

    /// Removes the messages before `next`. Returns false if one of them was not sent yet.
    pub(crate) fn acknowledge(&mut self, next: u64) -> bool {
        let is_possible = next <= self.next;
        if is_possible {
            self.drop_before(next);
        }
        is_possible
    }

    /// Returns a buffer for a message that is about to be encoded. Its content is arbitrary.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer
    }

    /// Keeps the buffer of a message for later ones, if it is large enough and there is room.
    fn keep(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes >= SPARE_MIN && bytes <= SPARE_MAX - self.spare_bytes {
            self.spare_bytes += bytes;
            self.spare.push(buffer);
        }
    }

    fn drop_before(&mut self, next: u64) {
        while self.first < next {
            let Some(place) = self.frames.pop_front() else { return };
            match place {
                Place::Memory(frame) => {
                    self.bytes -= frame.len();
                    // One that is being sent once more stays with its sender.
                    if let Ok(buffer) = Arc::try_unwrap(frame) {
                        self.keep(buffer);
                    }
                }
                Place::Spool(piece) => {
                    if let Some(spool) = &mut self.spool {
                        spool.free(piece);
                    }
                }
            }
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

    /// Size of the messages that are kept in memory \[byte\].
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the spool, if there is one.
    pub(crate) fn spool(&self) -> Option<&Spool> {
        self.spool.as_ref()
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
        let mut taken = || backlog.take().unwrap().map(|frame| frame[0]);
        assert_eq!([taken(), taken(), taken()], [Some(0), Some(1), Some(2)]);
        assert!(backlog.acknowledge(2));
        assert_eq!((backlog.first(), backlog.end(), backlog.bytes()), (2, 5, 30));
        assert!(!backlog.acknowledge(4), "it was not sent yet");
        // The relay had 2, whose acknowledgement did not arrive.
        assert!(backlog.resume(3));
        assert_eq!(backlog.take().unwrap().map(|frame| frame[0]), Some(3));
        // Another connection, which acknowledges again what was acknowledged.
        assert!(backlog.resume(3) && backlog.acknowledge(1));
        let rest: Vec<u8> =
            std::iter::from_fn(|| backlog.take().unwrap()).map(|frame| frame[0]).collect();
        assert_eq!((rest, backlog.messages()), (vec![3, 4], 2));
        assert!(!backlog.resume(2) && !backlog.resume(6));
        assert!(backlog.acknowledge(5) && backlog.bytes() == 0);
    }

    #[test]
    fn memory_of_acknowledged_messages_is_used_again_up_to_its_limit() {
        let mut backlog = Backlog::default();
        let large = |byte: u8| Arc::new(vec![byte; SPARE_MAX / 4]);
        for byte in 0..6 {
            backlog.push(large(byte));
            backlog.push(vec![byte; 10].into());
        }
        let sent: Vec<Frame> = std::iter::from_fn(|| backlog.take().unwrap()).collect();
        let first = Arc::clone(&sent[0]);
        drop(sent);
        assert!(backlog.acknowledge(12));
        // One of six is held elsewhere, and four are as much as is kept.
        assert_eq!((backlog.spare.len(), backlog.spare_bytes), (4, SPARE_MAX));
        assert_eq!(first[0], 0);
        for left in (0..4).rev() {
            assert_eq!(backlog.buffer().capacity(), SPARE_MAX / 4);
            assert_eq!((backlog.spare.len(), backlog.spare_bytes), (left, left * SPARE_MAX / 4));
        }
        assert_eq!(backlog.buffer().capacity(), 0);
    }

    #[test]
    fn messages_that_do_not_fit_into_memory_come_from_the_spool_in_their_order() {
        let scratch = crate::testing::Scratch::new("backlog-spool");
        std::fs::create_dir_all(&scratch.0).unwrap();
        let mut backlog = Backlog::default();
        backlog.set_spool(Spool::create(&scratch.0, 100).unwrap(), 25);
        for byte in 0..15u8 {
            backlog.push(vec![byte; 10].into());
        }
        // Two in memory, ten in the spool, and the others in memory again.
        assert_eq!((backlog.bytes(), backlog.spool().unwrap().bytes()), (50, 100));
        let (mut sent, mut is_broken) = (Vec::new(), false);
        while let Some(frame) = backlog.take().unwrap() {
            assert_eq!(frame.len(), 10);
            sent.push(frame[0]);
            if sent.len() == 7 && !std::mem::replace(&mut is_broken, true) {
                assert!(backlog.acknowledge(4) && backlog.resume(5));
                sent.truncate(5);
            }
        }
        assert_eq!(sent, (0..15).collect::<Vec<u8>>());
        assert!(backlog.acknowledge(15) && backlog.bytes() == 0);
        assert_eq!(backlog.spool().unwrap().bytes(), 0);
    }
}
