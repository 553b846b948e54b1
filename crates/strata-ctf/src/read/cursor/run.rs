//! From one event record to the next, as long as all is as usual.

use std::ops::ControlFlow;

use super::{Cursor, CursorAt, Message, UntoldRecord};
use crate::read::decode::{RecordPlace, RecordShape};
use crate::read::event::Event;

/// Why [`Cursor::run`] came to its end.
pub(crate) enum RunEnd {
    /// The cursor is at a record that was not told, and in [`Cursor::lane`]: it is another one's turn, perhaps.
    Turn,
    /// All was told up to the record that the cursor is at; the next message is not a usual one.
    Slow,
}

/// The record that the cursor is at, and what is at hand behind it.
struct Here<'c> {
    /// Bits of the packet.
    begin: u64,
    end: u64,
    time: i64,
    shape: &'c RecordShape,
    /// Nothing unless the next one may be a usual one.
    rest: &'c [u8],
    /// Where that ends \[byte of the packet\].
    reach: u64,
    /// What is to be added to a cycle for its time.
    base: i64,
}

impl<'r> Cursor<'r> {
    /// What is at hand from the next record on, and the bit of the packet where that begins; nothing unless
    /// it may be a usual one.
    #[inline(always)]
    fn rest(&self) -> (&[u8], u64) {
        self.rest_before(self.limit)
    }

    /// Goes to the next message; `false`: there is none.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        let Some(plan) = self.plan else { return self.advance_any() };
        let (rest, begin) = self.rest();
        let Some(ahead) = plan.ahead(rest, self.at_hand.hop.state.time) else {
            return self.advance_any();
        };
        let time = self.base.wrapping_add(ahead.time as i64);
        if time < self.low || self.high < time {
            return self.advance_any();
        }
        let end = begin.wrapping_add(((rest.len() - ahead.behind.len()) as u64).wrapping_mul(8));
        let record = RecordPlace { begin, end, time: Some(ahead.time), shape: *ahead.shape };
        self.put(record, time);
        true
    }

    /// Goes to a record.
    #[inline(always)]
    fn put(&mut self, record: RecordPlace, time: i64) {
        let state = &mut self.at_hand.hop.state;
        state.record = record;
        state.time = record.time.unwrap_or(state.time);
        state.nanoseconds = Some(time);
        self.next = record.end;
        self.key = time;
        // Time does not go back.
        self.low = time;
    }

    /// Calls `f` with what the cursor is at, and if that is a record, with one after the other behind it, until
    /// `f` breaks, a record is not a usual one, or its key is not before `until`. `None`: there is nothing more.
    ///
    /// What changes from record to record is in no memory meanwhile: this is what decoding takes its time for.
    /// There is one call of `f`, so that it becomes a part of the loop.
    #[inline(always)]
    pub(crate) fn run<B>(
        &mut self,
        until: i64,
        f: &mut impl FnMut(Message<'_>) -> ControlFlow<B>,
    ) -> Option<ControlFlow<B, RunEnd>> {
        // There is none as long as no packet was opened: then this is what is said in front of the first.
        let plan = self.plan;
        let is_record = matches!(self.at, CursorAt::Record);
        let was_in_lane = self.lane.is_some();
        let here = match &self.lane {
            Some(lane) => self.here_in(lane),
            None => self.here(is_record),
        };
        // As a rule `time` is all that is to be known of time from here on.
        let Here { mut begin, mut end, mut time, mut shape, mut rest, reach, base } = here;
        let (before, high) = (rest.len(), self.high);
        let pace = loop {
            let message = if is_record {
                let class = plan?.class(shape.class)?;
                Message::Event(Event { class, at_hand: &self.at_hand, shape, begin, end, time })
            } else {
                match self.other()? {
                    // All events are told from here.
                    Message::Event(_) => return None,
                    other => other,
                }
            };
            if let ControlFlow::Break(stop) = f(message) {
                break ControlFlow::Break(stop);
            }
            let cycles = time.wrapping_sub(base) as u64;
            let Some(plan) = plan else { break ControlFlow::Continue(RunEnd::Slow) };
            let Some(ahead) = plan.ahead(rest, cycles) else {
                break ControlFlow::Continue(RunEnd::Slow);
            };
            let at = base.wrapping_add(ahead.time as i64);
            if at < time || high < at {
                break ControlFlow::Continue(RunEnd::Slow);
            }
            (begin, rest, time, shape) = (end, ahead.behind, at, ahead.shape);
            end = reach.wrapping_sub(rest.len() as u64).wrapping_mul(8);
            if at >= until {
                let to = self.at_hand.shift.wrapping_add(reach as usize);
                let rest = (to.wrapping_sub(rest.len()), to);
                self.lane = Some(UntoldRecord { begin, time, shape: ahead.shape, rest });
                self.key = time;
                return Some(ControlFlow::Continue(RunEnd::Turn));
            }
        };
        if was_in_lane || rest.len() < before {
            let cycles = time.wrapping_sub(base) as u64;
            let record = RecordPlace { begin, end, time: Some(cycles), shape: *shape };
            self.lane = None;
            self.put(record, time);
        }
        Some(pace)
    }

    #[inline(always)]
    fn here_in(&self, lane: &UntoldRecord<'r>) -> Here<'_> {
        let UntoldRecord { begin, time, shape, rest: (from, to) } = *lane;
        let rest = self.at_hand.hop.buffer.all().get(from..to).unwrap_or(&[]);
        let reach = to.wrapping_sub(self.at_hand.shift) as u64;
        let end = reach.wrapping_sub(rest.len() as u64).wrapping_mul(8);
        Here { begin, end, time, shape, rest, reach, base: self.base }
    }

    #[inline(always)]
    fn here(&self, is_record: bool) -> Here<'_> {
        let state = &self.at_hand.hop.state;
        let RecordPlace { begin, end, ref shape, .. } = state.record;
        let time = state.nanoseconds.unwrap_or(0);
        let base = time.wrapping_sub(state.record.time.unwrap_or(0) as i64);
        let is_usual = is_record
            && state.record.time == Some(state.time)
            && state.nanoseconds == Some(self.low)
            && base == self.base;
        let (rest, next) = if is_usual { self.rest() } else { (&[][..], 0) };
        let reach = (next / 8).wrapping_add(rest.len() as u64);
        Here { begin, end, time, shape, rest, reach, base }
    }

    /// The cursor is where [`Cursor::run`] left it, for whoever goes on by other ways.
    pub(crate) fn settle(&mut self) {
        let Some(UntoldRecord { begin, time, shape, rest: (from, _) }) = self.lane.take() else {
            return;
        };
        let end = (from.wrapping_sub(self.at_hand.shift) as u64).wrapping_mul(8);
        let cycles = time.wrapping_sub(self.base) as u64;
        self.put(RecordPlace { begin, end, time: Some(cycles), shape: *shape }, time);
    }
}
