//! Offsets that a user adds to the times of traces whose clocks were wrong.

use crate::model::ClockClass;
use std::path::Path;

const SECOND: i128 = 1_000_000_000;

/// An offset that is added to all times of a trace, or of all traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// A trace's name, its folder, or the end of its folder's path; `None` for all traces.
    pub trace: Option<String>,
    /// The offset \[ns\].
    pub nanoseconds: i128,
}

impl ClockOffset {
    /// Returns whether the offset applies to the trace in this folder with this name.
    pub(crate) fn is_for(&self, folder: &Path, name: &str) -> bool {
        let Some(trace) = &self.trace else { return true };
        let path = Path::new(trace);
        let same = || Some(path.canonicalize().ok()? == folder.canonicalize().ok()?);
        trace == name || folder.ends_with(path) || same().unwrap_or(false)
    }
}

/// Adds an offset to a clock, in whole cycles.
pub(crate) fn add(clock: &mut ClockClass, nanoseconds: i128) {
    let frequency = i128::from(clock.frequency.max(1));
    let (seconds, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
    let cycles = i128::from(clock.offset_cycles) + rest * frequency / SECOND;
    let seconds = i128::from(clock.offset_s) + seconds + cycles.div_euclid(frequency);
    let limits = (i128::from(i64::MIN), i128::from(i64::MAX));
    clock.offset_s = seconds.clamp(limits.0, limits.1) as i64;
    // The remainder is less than the frequency.
    clock.offset_cycles = cycles.rem_euclid(frequency) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(frequency: u64, offset: (i64, u64), nanoseconds: i128) -> (i64, u64) {
        let mut clock = ClockClass::monotonic(None, 0);
        (clock.frequency, clock.offset_s, clock.offset_cycles) = (frequency, offset.0, offset.1);
        add(&mut clock, nanoseconds);
        (clock.offset_s, clock.offset_cycles)
    }

    #[test]
    fn clock_that_is_moved_keeps_less_than_a_second_of_cycles() {
        assert_eq!(moved(1_000_000_000, (5, 7), 10), (5, 17));
        assert_eq!(moved(1_000_000_000, (5, 7), -10), (4, 999_999_997));
        assert_eq!(moved(1_000_000_000, (5, 999_999_999), 1), (6, 0));
        assert_eq!(moved(1000, (0, 0), 1_500_000_000), (1, 500));
        assert_eq!(moved(1000, (0, 0), -500_000_000), (-1, 500));
    }

    #[test]
    fn malicious_clocks_that_are_moved_stay_in_range() {
        assert_eq!(moved(1, (i64::MAX, u64::MAX), i128::from(u64::MAX) * SECOND).0, i64::MAX);
        assert_eq!(moved(u64::MAX, (i64::MIN, 0), -SECOND * 5).0, i64::MIN);
        assert_eq!(moved(0, (0, 3), SECOND), (4, 0));
    }

    #[test]
    fn offset_is_for_the_trace_whose_name_or_folder_it_says() {
        let offset = |trace: &str| ClockOffset { trace: Some(trace.into()), nanoseconds: 1 };
        let folder = Path::new("/no/such/ust/uid/64-bit");
        for trace in ["host/ust", "/no/such/ust/uid/64-bit", "uid/64-bit", "64-bit/"] {
            assert!(offset(trace).is_for(folder, "host/ust"), "{trace}");
        }
        for trace in ["host", "bit", "uid", "/no/such"] {
            assert!(!offset(trace).is_for(folder, "host/ust"), "{trace}");
        }
    }
}
