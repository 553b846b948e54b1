//! Time at which periodic work is due.

use std::time::{Duration, Instant};

/// Time at which some work was last done, and the pause after which it is due again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    since: Instant,
    pause: Duration,
}

impl Due {
    /// Creates the value for work that was done at the time `now`, and is due again after `pause`.
    pub(super) fn after(now: Instant, pause: Duration) -> Due {
        Due { since: now, pause }
    }

    pub(super) fn at(&self) -> Instant {
        self.since + self.pause
    }

    /// Time since the work was done.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Returns true if the work may be done now: up to a quarter of the pause early. A thread with many sessions then
    /// finds them due at the same moments, and wakes up once for all of them.
    pub(super) fn is_near(&self, now: Instant) -> bool {
        self.elapsed(now) >= self.pause - self.pause / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_near_in_the_last_quarter_of_the_pause() {
        let (begin, pause) = (Instant::now(), Duration::from_secs(1000));
        let due = Due::after(begin, pause);
        let is_near = |ms| due.is_near(begin + Duration::from_millis(ms));
        assert!(!is_near(749_999) && is_near(750_000) && is_near(2_000_000));
        assert!(Due::after(begin, Duration::ZERO).is_near(begin));
        assert_eq!(due.at() - begin, pause);
    }
}
