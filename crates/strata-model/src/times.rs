//! Times at which records were discarded, by reason and stream, and the buffer size that would have been needed. The
//! counts themselves are in `loss.rs`.

use crate::loss::{DiscardReason, Discarded};

/// The times between which event records were discarded, by reason, as far as packets show them; `CLOCK_MONOTONIC`
/// \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes([Option<(u64, u64)>; DiscardReason::ALL.len()]);

impl LossTimes {
    /// Returns the first and the last time for this reason; `None` if nothing was discarded, or the time is unknown.
    #[must_use]
    pub fn of(&self, reason: DiscardReason) -> Option<(u64, u64)> {
        self.0[reason as usize]
    }

    /// Extends the times of each reason whose count is greater in `now` than in `before` by the time from `from` to
    /// `until`.
    pub fn grow(&mut self, before: &Discarded, now: &Discarded, (from, until): (u64, u64)) {
        for (reason, count) in now.each().filter(|(reason, count)| *count > before.of(*reason)) {
            if count > 0 {
                self.put(reason, (from.min(until), until));
            }
        }
    }

    /// Extends the times of each reason by those of `other`.
    pub fn add(&mut self, other: &LossTimes) {
        for &reason in DiscardReason::ALL {
            if let Some(times) = other.of(reason) {
                self.put(reason, times);
            }
        }
    }

    fn put(&mut self, reason: DiscardReason, (from, until): (u64, u64)) {
        let times = &mut self.0[reason as usize];
        *times =
            Some(times.map_or((from, until), |(first, last)| (first.min(from), last.max(until))));
    }
}

/// Discarded records of one CPU's stream, of one process or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLoss {
    /// Number of the stream's CPU.
    pub cpu: u32,
    /// Number of discarded records by reason.
    pub discarded: Discarded,
    /// First and last time of each reason's records.
    pub times: LossTimes,
}

impl StreamLoss {
    /// Adds these losses to the entry of the same CPU in `all`, which is sorted by CPU.
    pub fn add_to(&self, all: &mut Vec<StreamLoss>) {
        if self.discarded.total() == 0 {
            return;
        }
        match all.binary_search_by_key(&self.cpu, |one| one.cpu) {
            Ok(at) => {
                all[at].discarded.add(&self.discarded);
                all[at].times.add(&self.times);
            }
            Err(at) => all.insert(at, *self),
        }
    }
}

/// Estimated size of a buffer that would not have become full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The most bytes, waiting and discarded, between two times at which the consumer had read everything \[byte\]; 0
    /// if the buffer was never full.
    pub bytes: u64,
    /// Time for which the buffer was not read then \[ns\].
    pub late_ns: u64,
}

impl Demand {
    /// Returns the larger of two demands.
    #[must_use]
    pub fn or(self, other: Demand) -> Demand {
        if other.bytes > self.bytes {
            other
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_reasons_that_have_grown() {
        let before = Discarded { full: 3, nested: 1, ..Discarded::default() };
        let now = Discarded { full: 4, nested: 1, too_big: 2, ..Discarded::default() };
        let mut times = LossTimes::default();
        times.grow(&before, &now, (100, 200));
        assert_eq!(times.of(DiscardReason::Full), Some((100, 200)));
        assert_eq!(
            (times.of(DiscardReason::TooBig), times.of(DiscardReason::Nested)),
            (Some((100, 200)), None)
        );
        // A lower count is ignored, and a begin after the end is replaced by the end.
        times.grow(&now, &before, (0, 900));
        times.grow(&now, &Discarded { full: 9, ..now }, (400, 300));
        assert_eq!(times.of(DiscardReason::Full), Some((100, 300)));
        let mut other = LossTimes::default();
        other.grow(&Discarded::default(), &before, (50, 60));
        other.add(&times);
        assert_eq!(
            (other.of(DiscardReason::Full), other.of(DiscardReason::Nested)),
            (Some((50, 300)), Some((50, 60)))
        );
    }

    #[test]
    fn losses_of_one_cpu_are_one_and_in_order() {
        let of = |cpu, full| {
            let discarded = Discarded { full, ..Discarded::default() };
            StreamLoss { cpu, discarded, ..StreamLoss::default() }
        };
        let mut all = Vec::new();
        for one in [of(3, 1), of(0, 2), of(7, 0), of(3, u64::MAX)] {
            one.add_to(&mut all);
        }
        let found: Vec<_> = all.iter().map(|one| (one.cpu, one.discarded.full)).collect();
        assert_eq!(found, [(0, 2), (3, u64::MAX)]);
    }

    #[test]
    fn demand_of_two_streams_is_that_of_the_one_that_needs_more() {
        let (small, large) = (Demand { bytes: 5, late_ns: 900 }, Demand { bytes: 7, late_ns: 3 });
        assert_eq!((small.or(large), large.or(small)), (large, large));
    }
}
