//! The clock of records, and the time of day.

use rustix::time::{clock_gettime, ClockId};

/// Since 1970, when `CLOCK_MONOTONIC` was 0 \[ns\].
pub(crate) fn wall_ns() -> i64 {
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
    };
    ns(ClockId::Realtime).saturating_sub(ns(ClockId::Monotonic))
}
