//! Of what is missing, when and where: the times between which event records were discarded, by reason and stream, and how
//! large buffers would have had to be. Beside loss.rs, which says how many and why.

use crate::loss::{DiscardReason, Discarded};

/// Between which times event records were discarded, by reason, as far as packets tell; `CLOCK_MONOTONIC` \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes([Option<(u64, u64)>; DiscardReason::ALL.len()]);

impl LossTimes {
    /// The first and the last time for this reason; `None`: there was nothing, or nobody knows when.
    #[must_use]
    pub fn of(&self, reason: DiscardReason) -> Option<(u64, u64)> {
        self.0[reason as usize]
    }

    /// What `now` counts more than `before` was discarded from `from` to `until`.
    pub fn grow(&mut self, before: &Discarded, now: &Discarded, (from, until): (u64, u64)) {
        for (reason, count) in now.each().filter(|(reason, count)| *count > before.of(*reason)) {
            if count > 0 {
                self.put(reason, (from.min(until), until));
            }
        }
    }

    /// Those of `other`, too.
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

/// What was discarded of one stream, of one process or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLoss {
    /// Its CPU.
    pub cpu: u32,
    /// How many, and why.
    pub discarded: Discarded,
    /// First and last time of each reason's records.
    pub times: LossTimes,
}

impl StreamLoss {
    /// Adds these to those of `all` that are of the same CPU; they are in the order of CPUs.
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

/// What a stream's buffer would have had to hold so that no record found it full: an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// What was there and what was discarded, until it was taken in time again, at most \[byte\]; 0: it was never full.
    pub bytes: u64,
    /// So long nothing had been taken then \[ns\].
    pub late_ns: u64,
}

impl Demand {
    /// The larger one.
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
        // What counts less than before is no news; a begin behind the end is the end.
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
