//! Converts cycles of a clock to nanoseconds since 1970.

use crate::model::ClockClass;

const SECOND: u64 = 1_000_000_000;

/// A range of time, both ends included \[ns since 1970\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first nanosecond in the range.
    pub from: i64,
    /// The last nanosecond in the range.
    pub to: i64,
}

impl TimeRange {
    /// The range of all times.
    pub const ALL: TimeRange = TimeRange { from: i64::MIN, to: i64::MAX };

    /// Returns the intersection of both ranges. An empty intersection ends before it begins.
    #[must_use]
    pub fn and(&self, other: &TimeRange) -> TimeRange {
        TimeRange { from: self.from.max(other.from), to: self.to.min(other.to) }
    }

    /// Returns whether the range contains this time.
    #[must_use]
    pub fn contains(&self, time: i64) -> bool {
        self.from <= time && time <= self.to
    }
}

/// Converts cycles of a clock to nanoseconds since 1970.
///
/// The offset's cycles and a timestamp are added, and the sum is rounded down to nanoseconds. A time before 1677 or
/// after 2262 becomes the first or last possible time, which is no date. The times of a clock that has no dates at all
/// count from its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Cycles per second, which is never 0.
    frequency: u64,
    /// Time of cycle 0: whole seconds \[ns since 1970\], and the rest in cycles.
    offset_ns: i128,
    offset_cycles: u64,
    /// The number to add to a cycle count, for a clock that counts nanoseconds.
    simple: Option<i64>,
    is_dated: bool,
}

/// The first and the last possible time, which stand for all times beyond them.
const ENDS: [i64; 2] = [i64::MIN, i64::MAX];

impl Clock {
    /// Makes the conversion for a clock class.
    #[must_use]
    pub fn new(class: &ClockClass) -> Clock {
        let frequency = class.frequency.max(1);
        let offset_ns = i128::from(class.offset_s) * i128::from(SECOND);
        let clock = Clock {
            frequency,
            offset_ns,
            offset_cycles: class.offset_cycles,
            simple: None,
            is_dated: true,
        };
        if clock.time(0) == i64::MAX || clock.time(u64::MAX) == i64::MIN {
            let simple = (frequency == SECOND).then_some(0);
            return Clock { offset_ns: 0, offset_cycles: 0, simple, is_dated: false, ..clock };
        }
        let sum = offset_ns + i128::from(class.offset_cycles);
        let simple = i64::try_from(sum).ok().filter(|_| frequency == SECOND);
        Clock { simple, ..clock }
    }

    /// Returns whether the clock's times are dates. If not, they are nanoseconds since the clock's begin.
    #[inline]
    #[must_use]
    pub fn is_dated(&self) -> bool {
        self.is_dated
    }

    /// Returns whether `time` is the value that stands for a time beyond the range of 64 bits.
    #[inline]
    pub(crate) fn is_end(time: i64) -> bool {
        ENDS.contains(&time)
    }

    /// Returns the number to add to a cycle count, if the conversion needs no more.
    #[inline]
    pub(crate) fn simple(&self) -> Option<i64> {
        self.simple
    }

    /// Converts a cycle to a time \[ns since 1970\].
    #[inline]
    #[must_use]
    pub fn time(&self, cycles: u64) -> i64 {
        match self.simple {
            Some(offset) => offset.saturating_add_unsigned(cycles),
            None => self.slow(cycles),
        }
    }

    fn slow(&self, cycles: u64) -> i64 {
        let ns = match cycles.checked_add(self.offset_cycles) {
            Some(sum) => nanoseconds(sum, self.frequency),
            None => {
                let sum = u128::from(cycles) + u128::from(self.offset_cycles);
                // The product is at most 2^65 * 10^9.
                sum * u128::from(SECOND) / u128::from(self.frequency)
            }
        };
        let sum = self.offset_ns.saturating_add(ns as i128);
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Converts cycles to whole nanoseconds; `frequency` is not 0.
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
        // A day at 2.5 GHz is converted without rounding.
        let cycles = 86_400 * 2_500_000_000 + 5;
        assert_eq!(clock(2_500_000_000, 0, 0).time(cycles), 86_400_000_000_002);
        assert_eq!(clock(u64::MAX, 0, 0).time(u64::MAX), SECOND as i64);
    }

    /// Computes the sum of offset and cycles as fractions, digit by digit and so in another way than the code under
    /// test.
    fn exact(frequency: u64, offset_s: i64, offset_cycles: u64, cycles: u64) -> i128 {
        let sum = u128::from(offset_cycles) + u128::from(cycles);
        let (frequency, mut ns) = (u128::from(frequency), sum / u128::from(frequency));
        let mut rest = sum % frequency;
        for _ in 0..9 {
            rest *= 10;
            ns = ns * 10 + rest / frequency;
            rest %= frequency;
        }
        i128::from(offset_s) * i128::from(SECOND) + ns as i128
    }

    #[test]
    fn time_is_the_exact_sum_of_offset_and_cycles_rounded_down() {
        // Twice two thirds of a nanosecond are more than one nanosecond.
        assert_eq!(clock(1_500_000_000, 0, 1).time(1), 1);
        let mut random = strata_random::Random::from_seed(1);
        for frequency in [3, 7, 32_768, 1_000_000, 2_399_999_999, 3_000_000_000, u64::MAX] {
            for offset_s in [0, 1_400_000_000, -1_400_000_000] {
                for _ in 0..200 {
                    let (offset, cycles) = (random.next() % frequency, random.next() >> 8);
                    let wanted = exact(frequency, offset_s, offset, cycles);
                    let wanted = wanted.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                    let found = clock(frequency, offset_s, offset).time(cycles);
                    assert_eq!(found, wanted, "{frequency} {offset_s} {offset} {cycles}");
                }
            }
        }
        // The sum has 65 bits.
        let found = clock(u64::MAX, 5, u64::MAX - 1).time(u64::MAX);
        assert_eq!(i128::from(found), exact(u64::MAX, 5, u64::MAX - 1, u64::MAX));
    }

    #[test]
    fn clocks_without_a_date_count_from_their_begin() {
        for (frequency, offset_s) in
            [(SECOND, i64::MAX), (1000, i64::MAX), (SECOND, -30_000_000_000), (1000, i64::MIN / 2)]
        {
            let clock = clock(frequency, offset_s, 5);
            assert!(!clock.is_dated());
            assert_eq!(clock.time(frequency), SECOND as i64);
        }
        // A clock that counts from 1601 has dates, although its offset is no date.
        let clock = clock(10_000_000, -11_644_473_600, 0);
        assert!(clock.is_dated() && Clock::is_end(clock.time(0)));
        assert_eq!(clock.time(116_444_736_010_000_000), SECOND as i64);
    }

    #[test]
    fn malicious_clocks_end_at_the_last_time_there_is() {
        assert_eq!(clock(SECOND, i64::MAX, u64::MAX).time(u64::MAX), i64::MAX);
        assert_eq!(clock(SECOND, i64::MIN, 0).time(0), 0);
        assert_eq!(clock(1, 0, 0).time(u64::MAX), i64::MAX);
        assert!(clock(SECOND, 0, 0).is_dated() && Clock::is_end(i64::MAX));
        assert_eq!(clock(0, 0, 0).time(1), SECOND as i64);
        assert_eq!(clock(SECOND, 0, 0).time(u64::MAX), i64::MAX);
    }
}
