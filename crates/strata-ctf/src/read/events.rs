//! The messages of several streams, in the order of time.

use super::cursor::{Cursor, Message, RunEnd};
use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;

/// The messages of a trace, or of several, or of a part, in the order of time.
///
/// Messages of the same time have the order of babeltrace2: of traces by UUID (those without at the
/// end) and host, then of stream classes and streams by id. A message borrows what the next one is
/// read into, so this is no [`Iterator`]:
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
    /// Of equal keys, that with the lower index is first.
    cursors: Vec<Cursor<'r>>,
    /// Of all other cursors that are not at their end: a heap, the first in order is on top.
    others: Vec<Turn>,
    current: usize,
    /// Below this key it is the current cursor's turn: that of the heap's top.
    until: i64,
    started: bool,
}

/// When it is a cursor's turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    key: i64,
    cursor: usize,
}

impl<'r> Events<'r> {
    /// Cursors that were not asked to advance.
    pub(crate) fn new(cursors: Vec<Cursor<'r>>) -> Events<'r> {
        let others = Vec::with_capacity(cursors.len());
        Events { others, cursors, current: usize::MAX, until: i64::MIN, started: false }
    }

    /// The next message; `None`: that was all.
    #[allow(clippy::should_implement_trait)] // lends what it returns
    #[inline]
    pub fn next(&mut self) -> Option<Message<'_>> {
        if !self.forward() {
            return None;
        }
        self.cursors.get(self.current)?.message()
    }

    /// Calls `f` with one message after the other, until it breaks or that was all.
    ///
    /// Where many messages of one stream are behind each other, that is faster than [`Events::next`].
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
            // As long as it is this cursor's turn, no other is looked at.
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

    /// Bytes that were read of all files so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.cursors.iter().map(Cursor::read).sum()
    }

    /// Goes to the next message; `false`: there is none.
    #[inline(always)]
    fn forward(&mut self) -> bool {
        let Some(cursor) = self.cursors.get_mut(self.current) else { return self.start() };
        if !cursor.advance() {
            return self.leave();
        }
        cursor.key() < self.until || self.turn()
    }

    /// The current cursor has moved: perhaps it is another one's turn.
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

    /// Where there is no current cursor: none was asked yet, or all are at their ends.
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
        // What is sorted is a heap.
        self.others.sort_unstable();
        self.leave()
    }

    /// The current cursor is at its end.
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

    /// Moves the heap's top down to where it belongs.
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
