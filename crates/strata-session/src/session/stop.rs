//! Asking a session to stop: by Ctrl-C and the like, or from the program itself.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

/// The signals that ask a session to stop. SIGXCPU says that the CPU time is used up (`ulimit -t`).
const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXCPU];
/// Signals that would end this program, and mean nothing to it; so do those of real time. Not SIGQUIT, which is to
/// end what does not listen.
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

/// How often a session was asked to stop. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requests: Arc<AtomicUsize>,
    signal: Arc<AtomicI32>,
    unheeded: Arc<AtomicI32>,
    /// SIGUSR1.
    user_signals: Arc<AtomicU64>,
    /// Readable when something has changed; only where signals ask.
    wake: Option<Arc<OwnedFd>>,
}

impl Stop {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// The same, and SIGINT, SIGTERM, SIGHUP and SIGXCPU ask from now on; but those that this program was
    /// started to ignore (`nohup`, a script's `&`).
    ///
    /// # Errors
    /// What the system said when a handler was installed.
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

    /// Signals that mean nothing to this program no longer end it; [`Stop::take_unheeded()`] says which came.
    ///
    /// # Errors
    /// What the system said when a handler was installed.
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
            // SAFETY: as above. The command gets the default: what is handled is not inherited.
            unsafe { signal_hook::low_level::register(signal, note) }?;
        }
        Ok(())
    }

    /// Until somebody asks, a signal comes that means nothing, [`Stop::wake()`] is called, or so much time has
    /// passed. For one thread.
    pub fn wait(&self, timeout: Option<Duration>) {
        let Some(wake) = &self.wake else {
            return std::thread::sleep(timeout.unwrap_or(Duration::from_millis(50)));
        };
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [PollFd::new(wake, PollFlags::IN)];
        // A signal only makes it shorter.
        if poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
    }

    /// End the [`Stop::wait()`] of another thread.
    pub fn wake(&self) {
        if let Some(wake) = &self.wake {
            // It is full only if it is readable.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    /// A signal that came and means nothing, told once.
    #[must_use]
    pub fn take_unheeded(&self) -> Option<i32> {
        Some(self.unheeded.swap(0, Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// How often SIGUSR1 has come: it fires triggers.
    pub(crate) fn user_signals(&self) -> u64 {
        self.user_signals.load(Ordering::Relaxed)
    }

    /// Ask; `signal` is why, or 0.
    pub fn request(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
        // Release pairs with the acquire in requests(): who sees the request sees why.
        self.requests.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// How often somebody has asked.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Whether to go on: nobody has asked.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.requests() {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
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
