//! Requests to stop a session: by Ctrl-C and other signals, or from the program itself.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

/// The signals that request a stop. SIGXCPU means that the CPU time is used up (`ulimit -t`).
const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXCPU];
/// Signals to ignore, in addition to the real-time signals: they would end this program, which gives them no meaning.
/// SIGQUIT is not among them, so that it can end a program that does not react.
const UNHEEDED: [i32; 8] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// The latest signal that requested a stop of any counter, or 0.
static LATEST: AtomicI32 = AtomicI32::new(0);

/// Returns the latest signal that requested a stop of any counter: for work that is given no counter.
#[must_use]
pub fn latest_signal() -> Option<i32> {
    Some(LATEST.load(Ordering::Acquire)).filter(|&signal| signal != 0)
}

/// A counter of requests to stop the session. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requests: Arc<AtomicUsize>,
    signal: Arc<AtomicI32>,
    unheeded: Arc<AtomicI32>,
    /// Number of SIGUSR1 signals received.
    user_signals: Arc<AtomicU64>,
    /// Descriptor that becomes readable when something has changed; `None` unless signals are handled.
    wake: Option<Arc<OwnedFd>>,
}

impl Stop {
    /// Creates a counter without any request.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Creates a counter that SIGINT, SIGTERM, SIGHUP and SIGXCPU increment, except for those that were ignored when
    /// this program was started (`nohup`, a script's `&`).
    ///
    /// # Errors
    /// The system's error on installing a handler.
    pub fn on_signals() -> io::Result<Stop> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stop = Stop { wake: Some(Arc::new(wake)), ..Stop::new() };
        for signal in SIGNALS {
            if is_ignored(signal)? {
                continue;
            }
            let asked = stop.clone();
            // SAFETY: the handler stores to atomics and writes to a file, which a signal handler may do.
            unsafe { signal_hook::low_level::register(signal, move || asked.request(signal)) }?;
        }
        Ok(stop)
    }

    /// Makes this program survive signals that mean nothing to it. [`Stop::take_unheeded()`] returns the latest one.
    ///
    /// # Errors
    /// The system's error on installing a handler.
    pub fn outlive_others(&self) -> io::Result<()> {
        for signal in UNHEEDED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
            if is_ignored(signal)? {
                continue;
            }
            let other = self.clone();
            let note = move || {
                other.unheeded.store(signal, Ordering::Relaxed);
                if signal == libc::SIGUSR1 {
                    other.user_signals.fetch_add(1, Ordering::Relaxed);
                }
                other.wake();
            };
            // SAFETY: as above. The command gets the default actions, since handlers are not inherited.
            unsafe { signal_hook::low_level::register(signal, note) }?;
        }
        Ok(())
    }

    /// Ends this program by the signal that requested the stop, as if the signal were not handled: `patience` after
    /// the first request if the program has not ended by then, or on a second request. This is needed because a write
    /// to a pipe that nobody reads, and other blocking calls, restart after a signal. Only for programs that need not
    /// clean up; no other thread may call [`Stop::wait()`] then.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn end_after(&self, patience: Duration) -> io::Result<()> {
        let stop = self.clone();
        let watch = move || {
            while stop.requests() == 0 {
                stop.wait(None);
            }
            let until = Instant::now() + patience;
            while let (1, Some(left)) =
                (stop.requests(), until.checked_duration_since(Instant::now()))
            {
                stop.wait(Some(left));
            }
            let signal = stop.signal().unwrap_or(libc::SIGTERM);
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        };
        std::thread::Builder::new().name("strata-stop".to_owned()).spawn(watch).map(drop)
    }

    /// Waits until a request to stop, any handled signal, or a call of [`Stop::wake()`] arrives, at most for `timeout`. Only one
    /// thread may wait.
    pub fn wait(&self, timeout: Option<Duration>) {
        let Some(wake) = &self.wake else {
            return std::thread::sleep(timeout.unwrap_or(Duration::from_millis(50)));
        };
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [PollFd::new(wake, PollFlags::IN)];
        // A signal only shortens the wait.
        if poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
    }

    /// Ends the [`Stop::wait()`] of another thread.
    pub fn wake(&self) {
        if let Some(wake) = &self.wake {
            // Writing can only fail if the descriptor is readable already.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    /// Returns the latest signal that this program ignored, and forgets it.
    #[must_use]
    pub fn take_unheeded(&self) -> Option<i32> {
        Some(self.unheeded.swap(0, Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// Returns how often SIGUSR1 was received, which fires triggers.
    pub(crate) fn user_signals(&self) -> u64 {
        self.user_signals.load(Ordering::Relaxed)
    }

    /// Requests a stop; `signal` is the reason, or 0.
    pub fn request(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
        if signal != 0 {
            LATEST.store(signal, Ordering::Release);
        }
        // Release pairs with the acquire in requests(): a thread that sees the request also sees the signal.
        self.requests.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Returns `Break` if a stop was requested, otherwise `Continue`.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.requests() {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    /// Returns the signal of the latest request, if there was a signal.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

/// Makes a write beyond the size limit of files (`ulimit -f`) fail with EFBIG instead of ending this program.
///
/// # Errors
/// The system's error on installing a handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(libc::SIGXFSZ, Arc::default()).map(drop)
}

/// Returns whether this process ignores the signal.
pub(crate) fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: all bytes 0 is a valid value of this plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call only fills in `action`, which lives through it.
    if unsafe { libc::sigaction(signal, ptr::null(), &mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Sets the signal to be ignored, or to have its default action.
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
        assert!(latest_signal().is_some());
        // Else this waits for ever.
        stop.wait(None);
        assert_eq!(stop.take_unheeded(), None);
        stop.outlive_others().unwrap();
        for signal in [libc::SIGUSR1, libc::SIGALRM, libc::SIGRTMAX()] {
            signal_hook::low_level::raise(signal).unwrap();
            stop.wait(None);
            assert_eq!((stop.take_unheeded(), stop.take_unheeded()), (Some(signal), None));
        }
        assert_eq!(stop.user_signals(), 1);
        survive_file_size_limit().unwrap();
        signal_hook::low_level::raise(libc::SIGXFSZ).unwrap();
        assert_eq!(stop.requests(), 1);
        assert!(is_ignored(99_999).is_err());
        assert!(set_ignored(99_999, true).is_err());
    }
}
