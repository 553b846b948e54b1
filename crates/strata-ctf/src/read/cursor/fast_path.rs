//! The fast path of a cursor, from one ordinary event record to the next.

use std::ops::ControlFlow;

use super::{Cursor, CursorAt, Message, UntoldRecord};
use crate::read::decode::{RecordPlace, RecordShape};
use crate::read::event::Event;

/// Reasons why [`Cursor::run`] stops.
pub(crate) enum RunEnd {
    /// The cursor is at a record that was not passed on and is in [`Cursor::lane`]: the next record may be in the
    /// stream of another cursor.
    Turn,
    /// All messages up to the cursor's record were passed on, and the next message needs the slow path.
    Slow,
}

/// The present record of a cursor, with the bytes after it.
struct Here<'c> {
    /// Begin and end of the record \[bit of the packet\].
    begin: u64,
    end: u64,
    time: i64,
    shape: &'c RecordShape,
    /// Bytes from the next record on; empty unless the next record may be ordinary.
    rest: &'c [u8],
    /// End of the bytes in `rest` \[byte of the packet\].
    reach: u64,
    /// Offset that converts a cycle to a time.
    base: i64,
}

impl<'r> Cursor<'r> {
    /// Returns the bytes from the next record on, and the bit of the packet at which they begin. Returns no bytes if
    /// the next record is certainly not ordinary.
    #[inline(always)]
    fn rest(&self) -> (&[u8], u64) {
        self.rest_before(self.limit)
    }

    /// Moves to the next message. Returns false if there is none.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        let Some(plan) = self.plan else { return self.advance_any() };
        let (rest, begin) = self.rest();
        let Some(ahead) = plan.ahead(rest, self.at_hand.skipper.state.time) else {
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

    /// Moves the cursor to a record that was decoded.
    #[inline(always)]
    fn put(&mut self, record: RecordPlace, time: i64) {
        let state = &mut self.at_hand.skipper.state;
        state.record = record;
        state.time = record.time.unwrap_or(state.time);
        state.nanoseconds = Some(time);
        self.next = record.end;
        self.key = time;
        // Later times are not less than this one.
        self.low = time;
    }

    /// Calls `f` with the current message and, if it is a record, with the records after it. Stops when `f` breaks,
    /// when a record is not ordinary, or when its key is not below `until`. Returns `None` if there is no message.
    ///
    /// The values that change from record to record are kept in registers, since this loop takes most of the time of
    /// decoding. `f` is called at one place, so that it can be inlined.
    #[inline(always)]
    pub(crate) fn run<B>(
        &mut self,
        until: i64,
        f: &mut impl FnMut(Message<'_>) -> ControlFlow<B>,
    ) -> Option<ControlFlow<B, RunEnd>> {
        // There is no plan before the first packet is opened; the current message is then an item before it.
        let plan = self.plan;
        let is_record = matches!(self.at, CursorAt::Record);
        let was_in_lane = self.lane.is_some();
        let here = match &self.lane {
            Some(lane) => self.here_in(lane),
            None => self.here(is_record),
        };
        // From here on, `time` usually stands for all values that depend on the time.
        let Here { mut begin, mut end, mut time, mut shape, mut rest, reach, base } = here;
        let (before, high) = (rest.len(), self.high);
        let pace = loop {
            let message = if is_record {
                let class = plan?.class(shape.class)?;
                Message::Event(Event { class, at_hand: &self.at_hand, shape, begin, end, time })
            } else {
                match self.other()? {
                    // Events are taken in the branch above.
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
        let rest = self.at_hand.skipper.buffer.all().get(from..to).unwrap_or(&[]);
        let reach = to.wrapping_sub(self.at_hand.shift) as u64;
        let end = reach.wrapping_sub(rest.len() as u64).wrapping_mul(8);
        Here { begin, end, time, shape, rest, reach, base: self.base }
    }

    #[inline(always)]
    fn here(&self, is_record: bool) -> Here<'_> {
        let state = &self.at_hand.skipper.state;
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

    /// Moves the cursor to the record at which [`Cursor::run`] stopped, for callers that continue by other methods.
    pub(crate) fn settle(&mut self) {
        let Some(UntoldRecord { begin, time, shape, rest: (from, _) }) = self.lane.take() else {
            return;
        };
        let end = (from.wrapping_sub(self.at_hand.shift) as u64).wrapping_mul(8);
        let cycles = time.wrapping_sub(self.base) as u64;
        self.put(RecordPlace { begin, end, time: Some(cycles), shape: *shape }, time);
    }
}
