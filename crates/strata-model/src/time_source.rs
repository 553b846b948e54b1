//! The clock that a recorder's threads use.
//!
//! Code with pauses, periods or deadlines uses a [`TimeSource`]: the machine's clock in a recorder, a manual clock in a
//! unit test. A rule about time is then tested without waiting, and a busy machine does not change the result.
//!
//! With [`TimeSource::manual`], a wait takes no time: it advances the clock by its length and returns. Only one thread
//! may use a manual clock, since a wait does not let another thread work.
//!
//! ```
//! use std::time::Duration;
//! use strata_model::TimeSource;
//!
//! let time = TimeSource::manual(1_000);
//! let begin = time.now();
//! time.pause(Duration::from_secs(3600));
//! assert_eq!(time.elapsed(begin), Duration::from_secs(3600));
//! assert_eq!(time.manual_ns(), Some(3_600_000_001_000));
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The machine's clock, or a manual clock; see the module's documentation. Clones of a manual clock share their time.
#[derive(Clone, Debug, Default)]
pub struct TimeSource {
    manual: Option<Arc<ManualTime>>,
}

#[derive(Debug)]
struct ManualTime {
    begin: Instant,
    begin_ns: u64,
    passed_ns: AtomicU64,
}

impl TimeSource {
    /// Returns the machine's clock.
    #[must_use]
    pub fn machine() -> TimeSource {
        TimeSource::default()
    }

    /// Makes a manual clock that begins at `begin_ns` nanoseconds of `CLOCK_MONOTONIC`. Only [`pause`](Self::pause),
    /// [`receive`](Self::receive) and the other waits advance it.
    #[must_use]
    pub fn manual(begin_ns: u64) -> TimeSource {
        let passed_ns = AtomicU64::new(0);
        TimeSource {
            manual: Some(Arc::new(ManualTime { begin: Instant::now(), begin_ns, passed_ns })),
        }
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.manual {
            None => Instant::now(),
            Some(time) => time.begin + time.passed(),
        }
    }

    /// Returns the time since `moment`, or zero if `moment` is in the future.
    #[must_use]
    pub fn elapsed(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    /// Returns `CLOCK_MONOTONIC` of a manual clock \[ns\]; `None` for the machine's clock.
    #[must_use]
    pub fn manual_ns(&self) -> Option<u64> {
        let time = self.manual.as_ref()?;
        Some(time.begin_ns.saturating_add(time.passed_ns.load(Ordering::Relaxed)))
    }

    /// Waits for `duration`.
    pub fn pause(&self, duration: Duration) {
        match &self.manual {
            None => std::thread::sleep(duration),
            Some(time) => time.pass(duration),
        }
    }

    /// Returns how long a wait of at most `limit` in the system, such as `poll()`, may last. A manual clock advances by
    /// the limit and returns zero.
    #[must_use]
    pub fn of_system_wait(&self, limit: Duration) -> Duration {
        match &self.manual {
            None => limit,
            Some(time) => {
                time.pass(limit);
                Duration::ZERO
            }
        }
    }

    /// Waits for a message, at most for `limit`.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv_timeout`].
    pub fn receive<T>(
        &self,
        messages: &Receiver<T>,
        limit: Duration,
    ) -> Result<T, RecvTimeoutError> {
        let Some(time) = &self.manual else { return messages.recv_timeout(limit) };
        messages.try_recv().map_err(|error| match error {
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            TryRecvError::Empty => {
                time.pass(limit);
                RecvTimeoutError::Timeout
            }
        })
    }
}

impl ManualTime {
    fn passed(&self) -> Duration {
        Duration::from_nanos(self.passed_ns.load(Ordering::Relaxed))
    }

    fn pass(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.passed_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn receive_of_manual_time_passes_the_limit_only_if_there_is_nothing() {
        let time = TimeSource::manual(7);
        let (sender, messages) = mpsc::channel();
        let hour = Duration::from_secs(3600);
        sender.send(1).unwrap();
        assert_eq!(time.receive(&messages, hour), Ok(1));
        assert_eq!(time.manual_ns(), Some(7));
        assert_eq!(time.receive(&messages, hour), Err(RecvTimeoutError::Timeout));
        assert_eq!(time.clone().manual_ns(), Some(7 + 3_600_000_000_000));
        drop(sender);
        assert_eq!(time.receive(&messages, hour), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn pause_of_the_machine_takes_time() {
        let time = TimeSource::machine();
        let begin = time.now();
        time.pause(Duration::from_millis(2));
        assert!(time.elapsed(begin) >= Duration::from_millis(2) && time.manual_ns().is_none());
        assert_eq!(time.elapsed(begin + Duration::from_secs(1000)), Duration::ZERO);
    }
}
