//! Times: cycles of a clock as nanoseconds since 1970.

use crate::model::ClockClass;

const SECOND: u64 = 1_000_000_000;

/// A stretch of time, both ends included \[ns since 1970\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first nanosecond.
    pub from: i64,
    /// The last nanosecond.
    pub to: i64,
}

impl TimeRange {
    /// All time.
    pub const ALL: TimeRange = TimeRange { from: i64::MIN, to: i64::MAX };

    /// Whether this time is in it.
    #[must_use]
    pub fn contains(&self, time: i64) -> bool {
        self.from <= time && time <= self.to
    }
}

/// Makes nanoseconds since 1970 of a clock's cycles.
///
/// The offset's cycles and a timestamp are each rounded down to nanoseconds and then added. What
/// is before the year 1677 or behind 2262 becomes the first or last time there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Cycles per second; not 0.
    frequency: u64,
    /// At cycle 0 \[ns since 1970\].
    offset_ns: i128,
    /// The same if it can be had in one addition: the clock counts nanoseconds.
    simple: Option<i64>,
}

impl Clock {
    /// For this clock.
    #[must_use]
    pub fn new(class: &ClockClass) -> Clock {
        let frequency = class.frequency.max(1);
        let cycles = nanoseconds(class.offset_cycles, frequency);
        let offset_ns = i128::from(class.offset_s) * i128::from(SECOND) + cycles as i128;
        let simple = i64::try_from(offset_ns).ok().filter(|_| frequency == SECOND);
        Clock { frequency, offset_ns, simple }
    }

    /// What is to be added to a cycle for its time, if that is all.
    #[inline]
    pub(crate) fn simple(&self) -> Option<i64> {
        self.simple
    }

    /// The time of a cycle \[ns since 1970\].
    #[inline]
    #[must_use]
    pub fn time(&self, cycles: u64) -> i64 {
        match self.simple {
            Some(offset) => offset.saturating_add_unsigned(cycles),
            None => self.slow(cycles),
        }
    }

    fn slow(&self, cycles: u64) -> i64 {
        // At most 2^64 * 10^9.
        let sum = self.offset_ns.saturating_add(nanoseconds(cycles, self.frequency) as i128);
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Whole nanoseconds in so many cycles; `frequency` is not 0.
fn nanoseconds(cycles: u64, frequency: u64) -> u128 {
    let (seconds, rest) = (cycles / frequency, cycles % frequency);
    let part = match rest.checked_mul(SECOND) {
        Some(product) => u128::from(product / frequency),
        None => u128::from(rest) * u128::from(SECOND) / u128::from(frequency),
    };
    u128::from(seconds) * u128::from(SECOND) + part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency: u64, offset_s: i64, offset_cycles: u64) -> Clock {
        let base = ClockClass::monotonic(None, 0);
        Clock::new(&ClockClass { frequency, offset_s, offset_cycles, ..base })
    }

    #[test]
    fn time_of_nanoseconds_is_one_addition() {
        assert_eq!(clock(SECOND, 5, 7).time(11), 5_000_000_018);
        assert_eq!(clock(SECOND, -5, 7).time(0), -4_999_999_993);
    }

    #[test]
    fn time_of_any_frequency_is_exact() {
        assert_eq!(clock(3, 0, 1).time(1), 666_666_666);
        assert_eq!(clock(1, 1, 0).time(2), 3_000_000_000);
        // 2.5 GHz, a day: no bit is rounded away.
        let cycles = 86_400 * 2_500_000_000 + 5;
        assert_eq!(clock(2_500_000_000, 0, 0).time(cycles), 86_400_000_000_002);
        assert_eq!(clock(u64::MAX, 0, 0).time(u64::MAX), SECOND as i64);
    }

    #[test]
    fn malicious_clocks_end_at_the_last_time_there_is() {
        assert_eq!(clock(SECOND, i64::MAX, u64::MAX).time(u64::MAX), i64::MAX);
        assert_eq!(clock(SECOND, i64::MIN, 0).time(0), i64::MIN);
        assert_eq!(clock(1, 0, 0).time(u64::MAX), i64::MAX);
        assert_eq!(clock(0, 0, 0).time(1), SECOND as i64);
        assert_eq!(clock(SECOND, 0, 0).time(u64::MAX), i64::MAX);
    }
}
