//! Asking a session to stop: by Ctrl-C and the like, or from the program itself.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::Arc;

/// The signals that ask a session to stop.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How often a session was asked to stop. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requests: Arc<AtomicUsize>,
    signal: Arc<AtomicI32>,
}

impl Stop {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// The same, and SIGINT, SIGTERM and SIGHUP ask from now on; but those that this program was
    /// started to ignore (`nohup`, a script's `&`).
    ///
    /// # Errors
    /// What the system said when a handler was installed.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::new();
        for signal in SIGNALS {
            if is_ignored(signal)? {
                continue;
            }
            let asked = stop.clone();
            // SAFETY: the handler only stores to atomics, which is allowed in a signal handler.
            unsafe { signal_hook::low_level::register(signal, move || asked.request(signal)) }?;
        }
        Ok(stop)
    }

    /// Ask; `signal` is why, or 0.
    pub fn request(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
        // Release pairs with the acquire in requests(): who sees the request sees why.
        self.requests.fetch_add(1, Ordering::Release);
    }

    /// How often somebody has asked.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// The signal that asked last, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

/// From now on a write beyond what a file may hold (`ulimit -f`) fails with EFBIG, where it would end this
/// program.
///
/// # Errors
/// What the system said when a handler was installed.
pub fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(libc::SIGXFSZ, Arc::default()).map(drop)
}

/// Is this signal ignored by this process?
pub(crate) fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: all bytes 0 is a valid value of this plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call only fills in `action`, which lives through it.
    if unsafe { libc::sigaction(signal, ptr::null(), &mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Ignore this signal, or let it have its default effect.
pub(crate) fn set_ignored(signal: i32, ignored: bool) -> io::Result<()> {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither value is a function, so nothing of this program is called.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_when_asked_counts_and_says_why() {
        let stop = Stop::new();
        assert_eq!((stop.requests(), stop.signal()), (0, None));
        stop.clone().request(0);
        assert_eq!((stop.requests(), stop.signal()), (1, None));
        stop.request(libc::SIGTERM);
        assert_eq!((stop.requests(), stop.signal()), (2, Some(libc::SIGTERM)));
    }

    #[test]
    fn stop_on_a_signal_is_asked_unless_it_was_ignored_at_the_start() {
        set_ignored(libc::SIGHUP, true).unwrap();
        let stop = Stop::on_signals().unwrap();
        assert!(is_ignored(libc::SIGHUP).unwrap());
        signal_hook::low_level::raise(libc::SIGHUP).unwrap();
        assert_eq!(stop.requests(), 0);
        signal_hook::low_level::raise(libc::SIGTERM).unwrap();
        assert_eq!((stop.requests(), stop.signal()), (1, Some(libc::SIGTERM)));
        survive_file_size_limit().unwrap();
        signal_hook::low_level::raise(libc::SIGXFSZ).unwrap();
        assert_eq!(stop.requests(), 1);
        assert!(is_ignored(99_999).is_err());
        assert!(set_ignored(99_999, true).is_err());
    }
}
