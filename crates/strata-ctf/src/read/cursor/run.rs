//! From one event record to the next, as long as all is as usual.

use std::ops::ControlFlow;

use super::{At, Cursor, Message};
use crate::read::decode::Record;
use crate::read::event::{Event, Timed};

/// Why [`Cursor::run`] came to its end.
pub(crate) enum Pace {
    /// The cursor is at a record that was not told: it is another one's turn, perhaps.
    Turn,
    /// All was told up to the record that the cursor is at; the next message is not a usual one.
    Slow,
}

impl<'r> Cursor<'r> {
    /// What is at hand from the next record on, and the bit of the packet where that begins; nothing unless
    /// it may be a usual one.
    #[inline(always)]
    fn rest(&self) -> (&[u8], u64) {
        let begin = self.next.div_ceil(8);
        let place = |byte: u64| self.shift.wrapping_add(byte as usize);
        let rest = self.hop.buffer.all().get(place(begin)..place(self.limit / 8));
        let rest = if self.limit > 0 { rest } else { None };
        (rest.unwrap_or(&[]), begin.wrapping_mul(8))
    }

    /// Goes to the next message; `false`: there is none.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        let Some(plan) = self.plan else { return self.advance_any() };
        let (rest, begin) = self.rest();
        let Some((ahead, _)) = plan.ahead(rest, self.hop.state.time) else {
            return self.advance_any();
        };
        let time = self.base.wrapping_add(ahead.time as i64);
        if time < self.low || self.high < time {
            return self.advance_any();
        }
        let record = plan.found(&ahead, begin);
        self.put(record, time);
        true
    }

    /// Goes to a record.
    #[inline(always)]
    fn put(&mut self, record: Record, time: i64) {
        let state = &mut self.hop.state;
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
    ) -> Option<ControlFlow<B, Pace>> {
        let plan = self.plan?;
        let is_record = matches!(self.at, At::Record);
        let state = &self.hop.state;
        let Record { mut parts, mut end, mut class, .. } = state.record;
        let mut time = state.nanoseconds.unwrap_or(0);
        let offset = time.wrapping_sub(state.record.time.unwrap_or(0) as i64);
        let timed = Timed::new(state.record.time.is_some(), state.nanoseconds.is_some());
        // As a rule `time` is all that is to be known of time from here on.
        let is_usual = is_record
            && state.record.time == Some(state.time)
            && state.nanoseconds == Some(self.low)
            && offset == self.base;
        let (mut rest, begin) = if is_usual { self.rest() } else { (&[][..], 0) };
        let (bytes, before) = (self.hop.buffer.from(self.skip), rest.len());
        // From what is left to where that is in the packet \[byte\].
        let behind_all = (begin / 8).wrapping_add(before as u64);
        let (high, last) = (self.high, self.high.min(until.saturating_sub(1)));
        let pace = loop {
            let message = if is_record {
                let class = plan.class(class)?;
                Message::Event(Event {
                    class,
                    cursor: self,
                    parts,
                    end,
                    time,
                    offset,
                    timed,
                    bytes,
                })
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
            let cycles = time.wrapping_sub(offset) as u64;
            let Some((ahead, behind)) = plan.ahead(rest, cycles) else {
                break ControlFlow::Continue(Pace::Slow);
            };
            let next = offset.wrapping_add(ahead.time as i64);
            if next < time || high < next {
                break ControlFlow::Continue(Pace::Slow);
            }
            let begin = behind_all.wrapping_sub(rest.len() as u64).wrapping_mul(8);
            Record { parts, end, class, .. } = plan.found(&ahead, begin);
            (rest, time) = (behind, next);
            if next > last {
                break ControlFlow::Continue(Pace::Turn);
            }
        };
        if rest.len() < before {
            let cycles = time.wrapping_sub(offset) as u64;
            self.put(Record { parts, end, time: Some(cycles), class }, time);
        }
        Some(pace)
    }
}
