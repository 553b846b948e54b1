//! Forces files to the disk, for all recordings together.
//!
//! A recording that must acknowledge messages requests a sync and waits. One thread calls `syncfs()` once for all
//! requests that have arrived, so that two thousand recordings cost as many calls as one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Period at which a connection that waits for the disk sends a sign of life to its peer.
const ALIVE: Duration = Duration::from_secs(1);
/// Longest time for which a connection that waits for the disk sends signs of life.
const ALIVE_MAX: Duration = Duration::from_secs(60);

/// Function that forces the data of a file system to the disk.
type Force = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Forces the file system of the relay's folder to the disk, for all connections that wait for that.
pub(crate) struct Durable {
    force: Force,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of syncs that have begun.
    begun: u64,
    done: u64,
    /// True if a connection waits for a sync that has not begun.
    is_asked: bool,
    is_over: bool,
    /// Begin of the running sync; `None` if none is running.
    since: Option<Instant>,
    /// Number of the last sync that failed, with the reason.
    failed: Option<(u64, String)>,
    failures: u64,
    /// Sum of the durations of all syncs.
    took: Duration,
    longest: Duration,
}

/// Number and durations of the syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFigures {
    /// Number of calls of `syncfs()`.
    pub calls: u64,
    /// Sum of the durations of all calls.
    pub took: Duration,
    /// Duration of the longest call.
    pub longest: Duration,
}

impl Durable {
    /// Starts the thread that syncs the file system of this folder.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn begin(folder: OwnedFd) -> io::Result<Arc<Durable>> {
        Durable::begin_by(Box::new(move || Ok(rustix::fs::syncfs(&folder)?)))
    }

    /// Starts the thread that calls `force` for all connections that wait.
    pub(crate) fn begin_by(force: Force) -> io::Result<Arc<Durable>> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let durable = Arc::new(Durable { force, state, changed });
        let all = Arc::clone(&durable);
        let thread = std::thread::Builder::new().name("strata-sync".to_owned());
        thread.spawn(move || all.serve())?;
        Ok(durable)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while !state.is_asked {
                if state.is_over {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_asked = false;
            state.begun += 1;
            let begin = Instant::now();
            state.since = Some(begin);
            drop(state);
            let synced = (self.force)();
            let took = begin.elapsed();
            state = self.lock();
            (state.done, state.since) = (state.begun, None);
            state.took += took;
            state.longest = state.longest.max(took);
            if let Err(error) = synced {
                state.failed = Some((state.done, error.to_string()));
                state.failures += 1;
            }
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Returns the number and durations of all syncs so far.
    pub(crate) fn figures(&self) -> SyncFigures {
        let state = self.lock();
        SyncFigures { calls: state.done, took: state.took, longest: state.longest }
    }

    /// Returns a problem, if there is one: a sync takes longer than `most`, or the last sync has failed.
    pub(crate) fn trouble(&self, most: Duration) -> Option<String> {
        let state = self.lock();
        if let Some(since) = state.since.filter(|since| since.elapsed() > most) {
            let seconds = since.elapsed().as_secs();
            return Some(format!("its files are being forced to the disk for {seconds} s"));
        }
        let failed = state.failed.as_ref().filter(|(number, _)| *number == state.done);
        failed.map(|(_, why)| format!("its files cannot be forced to the disk: {why}"))
    }

    /// Returns the number of syncs that have failed. The system reports a failure only once, so that a later sync
    /// proves nothing about data from before it.
    pub(crate) fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// Waits until all data that were written before the call are on the disk. Fails if more syncs than `failures`
    /// have failed, which was the number when the first of these data were written. `alive` is called about once a
    /// second, for a minute.
    ///
    /// # Errors
    /// The sync failed, or `alive` returned an error.
    pub(crate) fn sync(
        &self,
        failures: u64,
        alive: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let asked = Instant::now();
        let mut told = asked;
        let mut state = self.lock();
        // The present sync may have begun before the latest write, so wait for the next one.
        let wanted = state.begun + 1;
        state.is_asked = true;
        self.changed.notify_all();
        while state.done < wanted {
            let waited = self.changed.wait_timeout(state, ALIVE);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            let is_due = told.elapsed() >= ALIVE && asked.elapsed() < ALIVE_MAX;
            if state.done < wanted && is_due {
                drop(state);
                told = Instant::now();
                alive()?;
                state = self.lock();
            }
        }
        match &state.failed {
            Some((_, why)) if state.failures != failures => {
                Err(io::Error::other(format!("its files cannot be forced to the disk: {why}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn sync_is_one_that_began_after_it_was_asked_for() {
        let scratch = Scratch::new("durable");
        let folder = std::fs::File::open(&scratch.0).unwrap();
        let durable = Durable::begin(folder.into()).unwrap();
        durable.sync(0, &mut || Ok(())).unwrap();
        let first = durable.figures().calls;
        assert!(first >= 1);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| durable.sync(0, &mut || Ok(())).unwrap());
            }
        });
        let calls = durable.figures().calls - first;
        assert!((1..=8).contains(&calls), "{calls}");
        durable.end();
    }

    #[test]
    fn sync_after_one_that_failed_is_none_of_what_was_written_before() {
        let is_failing = Arc::new(AtomicBool::new(true));
        let fails = Arc::clone(&is_failing);
        let durable = Durable::begin_by(Box::new(move || match fails.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(()),
        }));
        let durable = durable.unwrap();
        // Another recording asked for the sync that failed.
        assert!(durable.sync(0, &mut || Ok(())).is_err());
        is_failing.store(false, Ordering::Relaxed);
        assert!(durable.sync(0, &mut || Ok(())).is_err());
        assert!(durable.sync(durable.failures(), &mut || Ok(())).is_ok());
        durable.end();
    }
}
