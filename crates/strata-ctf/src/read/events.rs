//! The messages of several streams, in the order of time.

use super::cursor::{Cursor, Message, RunEnd};
use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;

/// The messages of some traces, or of a part of them, in the order of time.
///
/// Messages of the same time have the order of babeltrace2: of traces by UUID (traces without a UUID come last) and
/// host, then of stream classes and streams by id. A message borrows memory that the next message overwrites, so this
/// type is no [`Iterator`]:
///
/// ```no_run
/// # use strata_ctf::read::{Message, Reader, TimeRange};
/// # let reader = Reader::open(&["trace"])?;
/// let mut events = reader.events(TimeRange::ALL);
/// while let Some(message) = events.next() {
///     if let Message::Event(event) = message {
///         println!("{}", event.class().name());
///     }
/// }
/// # Ok::<(), strata_ctf::read::OpenError>(())
/// ```
pub struct Events<'r> {
    /// The cursors of all streams. Of messages with equal keys, that of the cursor with the lower index comes first.
    cursors: Vec<Cursor<'r>>,
    /// A heap of all other cursors that are not at their end, the first one in order on top.
    others: Vec<Turn>,
    current: usize,
    /// The key of the first message of all other cursors: messages of the current cursor with a lower key come before
    /// it.
    until: i64,
    started: bool,
}

/// A cursor, and the key by which its next message is sorted among those of other cursors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    key: i64,
    cursor: usize,
}

impl<'r> Events<'r> {
    /// Makes the merge of these cursors, none of which has advanced yet.
    pub(crate) fn new(cursors: Vec<Cursor<'r>>) -> Events<'r> {
        let others = Vec::with_capacity(cursors.len());
        Events { others, cursors, current: usize::MAX, until: i64::MIN, started: false }
    }

    /// Returns the next message of all streams in the order of time; `None` at the end.
    #[allow(clippy::should_implement_trait)] // lends what it returns
    #[inline]
    pub fn next(&mut self) -> Option<Message<'_>> {
        if !self.forward() {
            return None;
        }
        self.cursors.get(self.current)?.message()
    }

    /// Calls `f` with each message, until it breaks or no message is left.
    ///
    /// This is faster than [`Events::next`] if many consecutive messages are of one stream.
    pub fn run<B>(&mut self, mut f: impl FnMut(Message<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        let end = self.merge(&mut f);
        self.cursors.iter_mut().for_each(Cursor::settle);
        end
    }

    #[inline(always)]
    fn merge<B>(&mut self, f: &mut impl FnMut(Message<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut more = self.forward();
        while more {
            let Some(cursor) = self.cursors.get_mut(self.current) else { break };
            // No other cursor is looked at before the current one passes its key.
            more = loop {
                match cursor.run(self.until, f) {
                    Some(ControlFlow::Break(stop)) => return ControlFlow::Break(stop),
                    Some(ControlFlow::Continue(RunEnd::Turn)) => break self.turn(),
                    Some(ControlFlow::Continue(RunEnd::Slow)) => {}
                    None => return ControlFlow::Continue(()),
                }
                if !cursor.advance_any() {
                    break self.leave();
                }
                if cursor.key() >= self.until {
                    break self.turn();
                }
            };
        }
        ControlFlow::Continue(())
    }

    /// Returns the number of bytes that were read so far, over all files.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.cursors.iter().map(Cursor::read).sum()
    }

    /// Moves to the next message. Returns false if there is none.
    #[inline(always)]
    fn forward(&mut self) -> bool {
        let Some(cursor) = self.cursors.get_mut(self.current) else { return self.start() };
        if !cursor.advance() {
            return self.leave();
        }
        cursor.key() < self.until || self.turn()
    }

    /// Selects the cursor with the least key after the current cursor has moved. Returns false if there is no current
    /// cursor.
    #[inline(always)]
    fn turn(&mut self) -> bool {
        let Some(cursor) = self.cursors.get(self.current) else { return false };
        let turn = Turn { key: cursor.key(), cursor: self.current };
        if let [first, others @ ..] = &mut *self.others {
            if *first < turn {
                self.current = first.cursor;
                *first = turn;
                self.until = turn.key;
                if !others.is_empty() {
                    self.sink();
                    self.until = self.others.first().map_or(i64::MAX, |first| first.key);
                }
            }
        }
        true
    }

    /// Moves all cursors to their first message, and selects the first one. Returns false if this was done before, or
    /// if there are no messages.
    #[cold]
    fn start(&mut self) -> bool {
        if self.started {
            return false;
        }
        self.started = true;
        for (index, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.advance_any() {
                self.others.push(Turn { key: cursor.key(), cursor: index });
            }
        }
        // A sorted list is a heap.
        self.others.sort_unstable();
        self.leave()
    }

    /// Removes the current cursor, which is at its end, and selects the next one. Returns false if there is none.
    #[cold]
    fn leave(&mut self) -> bool {
        self.current = usize::MAX;
        let Some(first) = self.others.first().copied() else { return false };
        self.others.swap_remove(0);
        self.sink();
        self.current = first.cursor;
        self.until = self.others.first().map_or(i64::MAX, |first| first.key);
        true
    }

    /// Moves the heap's top down to its place.
    #[inline(never)]
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let child = |index: usize| self.others.get(index).map(|turn| (*turn, index));
            let Some(left) = child(2 * at + 1) else { return };
            let least = child(2 * at + 2).map_or(left, |right| left.min(right));
            match self.others.get(at) {
                Some(turn) if turn.cmp(&least.0) == Ordering::Greater => {
                    self.others.swap(at, least.1);
                    at = least.1;
                }
                _ => return,
            }
        }
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Events");
        out.field("streams", &self.cursors.len()).field("current", &self.current);
        out.finish_non_exhaustive()
    }
}
