//! The clock of records, and the time of day.

use rustix::time::{clock_gettime, ClockId};

/// Returns the time since 1970 when `CLOCK_MONOTONIC` was 0 \[ns\].
pub(crate) fn wall_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    let now = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
    now.saturating_sub_unsigned(strata_user::Clock::monotonic_ns())
}
