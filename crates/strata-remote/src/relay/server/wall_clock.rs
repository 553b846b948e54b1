//! The clocks of the relay's machine.

use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{clock_gettime, ClockId};

/// Least change of the wall clock that counts as a new setting \[ns\]. Smaller differences come from reading two
/// clocks one after the other.
const STEP_NS: u64 = 10_000_000;

/// Returns the time of a clock \[ns\].
pub(super) fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// The wall clock, by the time at which CLOCK_MONOTONIC was 0. That time is kept for all hosts until the clock is
/// set, as after a boot, when the machine gets its time from the network.
pub(super) struct WallClock {
    at_zero_ns: AtomicI64,
}

fn at_zero_now() -> i64 {
    clock_ns(ClockId::Realtime) as i64 - clock_ns(ClockId::Monotonic) as i64
}

impl WallClock {
    pub(super) fn new() -> WallClock {
        WallClock { at_zero_ns: AtomicI64::new(at_zero_now()) }
    }

    /// Returns the wall-clock time at 0 of CLOCK_MONOTONIC \[ns since 1970\].
    pub(super) fn at_zero_ns(&self) -> i64 {
        self.settle(at_zero_now())
    }

    fn settle(&self, now: i64) -> i64 {
        let before = self.at_zero_ns.load(Ordering::Relaxed);
        if now.abs_diff(before) < STEP_NS {
            return before;
        }
        self.at_zero_ns.store(now, Ordering::Relaxed);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_is_the_same_for_all_hosts_until_it_is_set() {
        let clock = WallClock { at_zero_ns: AtomicI64::new(5) };
        assert_eq!((clock.settle(7), clock.settle(1_000)), (5, 5));
        let set = 3_600_000_000_000;
        assert_eq!(
            (clock.settle(set), clock.settle(set + 1), clock.settle(set - 1)),
            (set, set, set)
        );
        assert!(WallClock::new().at_zero_ns() > 1_000_000_000_000_000_000);
    }
}
