//! What is done again and again, each time after a pause.

use std::time::{Duration, Instant};

/// When it was done, and after which pause it is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    since: Instant,
    pause: Duration,
}

impl Due {
    pub(super) fn after(pause: Duration) -> Due {
        Due { since: Instant::now(), pause }
    }

    pub(super) fn at(&self) -> Instant {
        self.since + self.pause
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// It may be done now: up to a quarter of the pause early. Whoever looks after many sessions finds them due at the
    /// same moments then, and wakes up for all of them at once.
    pub(super) fn is_near(&self) -> bool {
        self.elapsed() >= self.pause - self.pause / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_near_in_the_last_quarter_of_the_pause() {
        let ago = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
        let pause = Duration::from_secs(1000);
        let after = |ms| Due { since: ago(ms), pause };
        assert!(
            !after(700_000).is_near() && after(750_000).is_near() && after(2_000_000).is_near()
        );
        assert!(Due::after(Duration::ZERO).is_near());
        let due = after(0);
        assert_eq!(due.at() - due.since, pause);
    }
}
