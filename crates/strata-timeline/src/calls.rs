//! System calls by number, and what is known of them by their names.

use std::collections::HashMap;

/// System calls that are told apart: all systems have less than a thousand.
const CALLS_MAX: usize = 1 << 14;

/// A system call, by its number in [`Calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u32);

impl CallId {
    /// Its number, for tables.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What a system call does to what a timeline knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Nothing of that.
    Other,
    /// Waits for time to pass, and for nothing else.
    Sleep,
    /// Gives a descriptor of a path.
    Open,
    /// Gives a descriptor of something without a path.
    Make,
    /// Gives two descriptors.
    Pair,
    /// Takes one away.
    Close,
    /// Gives another one for the same.
    Duplicate,
    /// Duplicates a descriptor if its command says so.
    Control,
    /// Waits for, or wakes, who waits for an address.
    Futex,
    /// May give its thread another name.
    Rename,
    /// Returns in the new thread, too, where it did not begin.
    Fork,
    /// Returns in another program.
    Exec,
    /// Never returns.
    Exit,
}

/// All system calls of the traces.
#[derive(Debug, Default)]
pub struct Calls {
    known: Vec<(Box<str>, CallKind)>,
    numbers: HashMap<Box<str>, CallId>,
}

impl Calls {
    /// The number of a name; `None`: there are too many.
    pub fn of(&mut self, name: &str) -> Option<CallId> {
        if let Some(&id) = self.numbers.get(name) {
            return Some(id);
        }
        if self.known.len() >= CALLS_MAX {
            return None;
        }
        let id = CallId(u32::try_from(self.known.len()).ok()?);
        self.known.push((name.into(), kind(name)));
        self.numbers.insert(name.into(), id);
        Some(id)
    }

    /// Its name: `openat`; `compat_openat` of a program of 32 bits.
    #[must_use]
    pub fn name(&self, id: CallId) -> &str {
        self.known.get(id.index()).map_or("", |(name, _)| name)
    }

    /// What it does.
    #[must_use]
    #[inline]
    pub fn kind(&self, id: CallId) -> CallKind {
        self.known.get(id.index()).map_or(CallKind::Other, |&(_, kind)| kind)
    }
}

fn kind(name: &str) -> CallKind {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    match name.strip_suffix("_time64").or_else(|| name.strip_suffix("_time32")).unwrap_or(name) {
        "nanosleep" | "clock_nanosleep" => CallKind::Sleep,
        "open" | "openat" | "openat2" | "creat" => CallKind::Open,
        "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
        | "epoll_create1" | "timerfd_create" | "memfd_create" | "signalfd" | "signalfd4"
        | "inotify_init" | "inotify_init1" | "pidfd_open" | "userfaultfd" | "perf_event_open"
        | "io_uring_setup" => CallKind::Make,
        "pipe" | "pipe2" | "socketpair" => CallKind::Pair,
        "close" => CallKind::Close,
        "dup" | "dup2" | "dup3" => CallKind::Duplicate,
        "fcntl" | "fcntl64" => CallKind::Control,
        "futex" | "futex_wait" | "futex_wake" | "futex_requeue" => CallKind::Futex,
        "prctl" => CallKind::Rename,
        "fork" | "vfork" | "clone" | "clone3" => CallKind::Fork,
        "execve" | "execveat" => CallKind::Exec,
        "exit" | "exit_group" => CallKind::Exit,
        _ => CallKind::Other,
    }
}
