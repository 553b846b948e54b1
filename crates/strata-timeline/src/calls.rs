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
    /// Waits for something to happen to descriptors, or for some time: then its result is 0.
    Poll,
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
    /// Duplicates a descriptor, or says whether it is closed by exec(), if its command says so.
    Control,
    /// Takes some away.
    CloseRange,
    /// Gives a socket an address.
    Address,
    /// Says which address a socket has.
    Ask,
    /// Changes the folder in which paths begin.
    Folder,
    /// May give its thread descriptors of its own, and such a folder.
    Unshare,
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

/// What a system call moves between a program and what a descriptor is for: as many bytes as its result says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// No bytes.
    #[default]
    Nothing,
    /// From there to the program.
    Reads,
    /// From the program to there.
    Writes,
    /// From what one descriptor is for to what another one is.
    Copies,
    /// Some bytes: its result is no number of them.
    Unsaid,
}

/// All system calls of the traces.
#[derive(Debug, Default)]
pub struct Calls {
    known: Vec<(Box<str>, CallKind, Moves)>,
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
        self.known.push((name.into(), kind(name), moves(name)));
        self.numbers.insert(name.into(), id);
        Some(id)
    }

    /// Its name: `openat`; `compat_openat` of a program of 32 bits.
    #[must_use]
    pub fn name(&self, id: CallId) -> &str {
        self.known.get(id.index()).map_or("", |(name, ..)| name)
    }

    /// What it does.
    #[must_use]
    #[inline]
    pub fn kind(&self, id: CallId) -> CallKind {
        self.known.get(id.index()).map_or(CallKind::Other, |&(_, kind, _)| kind)
    }

    /// What it moves.
    #[must_use]
    #[inline]
    pub fn moves(&self, id: CallId) -> Moves {
        self.known.get(id.index()).map_or(Moves::Nothing, |&(.., moves)| moves)
    }
}

/// Whether a system call gives, copies or takes away descriptors, or says what one of them is for: a trace without it
/// does not tell what a descriptor's number means.
#[must_use]
pub fn is_of_descriptors(name: &str) -> bool {
    match kind(name) {
        CallKind::Open
        | CallKind::Make
        | CallKind::Pair
        | CallKind::Close
        | CallKind::Duplicate
        | CallKind::Control
        | CallKind::CloseRange
        | CallKind::Address
        | CallKind::Folder
        | CallKind::Unshare
        | CallKind::Fork
        | CallKind::Exec => true,
        CallKind::Ask
        | CallKind::Futex
        | CallKind::Rename
        | CallKind::Sleep
        | CallKind::Poll
        | CallKind::Exit
        | CallKind::Other => false,
    }
}

pub(crate) fn kind(name: &str) -> CallKind {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    match name.strip_suffix("_time64").or_else(|| name.strip_suffix("_time32")).unwrap_or(name) {
        "nanosleep" | "clock_nanosleep" => CallKind::Sleep,
        "poll" | "ppoll" | "select" | "_newselect" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "io_getevents" | "io_pgetevents" => CallKind::Poll,
        "open" | "openat" | "openat2" | "creat" => CallKind::Open,
        "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
        | "epoll_create1" | "timerfd_create" | "memfd_create" | "signalfd" | "signalfd4"
        | "inotify_init" | "inotify_init1" | "pidfd_open" | "userfaultfd" | "perf_event_open"
        | "io_uring_setup" | "fanotify_init" => CallKind::Make,
        "pipe" | "pipe2" | "socketpair" => CallKind::Pair,
        "close" => CallKind::Close,
        "dup" | "dup2" | "dup3" => CallKind::Duplicate,
        "fcntl" | "fcntl64" | "ioctl" => CallKind::Control,
        "close_range" => CallKind::CloseRange,
        "bind" | "connect" => CallKind::Address,
        "getsockname" => CallKind::Ask,
        "chdir" | "fchdir" => CallKind::Folder,
        "unshare" => CallKind::Unshare,
        "futex" | "futex_wait" | "futex_wake" | "futex_requeue" => CallKind::Futex,
        "prctl" => CallKind::Rename,
        "fork" | "vfork" | "clone" | "clone3" => CallKind::Fork,
        "execve" | "execveat" => CallKind::Exec,
        "exit" | "exit_group" => CallKind::Exit,
        _ => CallKind::Other,
    }
}

fn moves(name: &str) -> Moves {
    match name.strip_prefix("compat_").unwrap_or(name) {
        "read"
        | "pread64"
        | "readv"
        | "preadv"
        | "preadv2"
        | "recv"
        | "recvfrom"
        | "recvmsg"
        | "mq_timedreceive"
        | "mq_timedreceive_time64" => Moves::Reads,
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "send" | "sendto"
        | "sendmsg" => Moves::Writes,
        "sendfile" | "sendfile64" | "copy_file_range" | "splice" | "tee" => Moves::Copies,
        "recvmmsg"
        | "recvmmsg_time32"
        | "recvmmsg_time64"
        | "sendmmsg"
        | "vmsplice"
        | "mq_timedsend"
        | "mq_timedsend_time64"
        | "io_uring_enter" => Moves::Unsaid,
        _ => Moves::Nothing,
    }
}

/// Whether the descriptor that a call makes is closed by exec(); `None`: nobody knows.
pub(crate) fn is_closed_by_exec(name: &str, flags: Option<i64>) -> Option<bool> {
    const CLOEXEC: i64 = 0o2_000_000;
    let bit = match name.strip_prefix("compat_").unwrap_or(name) {
        "pidfd_open" | "io_uring_setup" => return Some(true),
        "creat" | "dup" | "dup2" | "pipe" | "accept" | "eventfd" | "epoll_create" | "signalfd"
        | "inotify_init" => return Some(false),
        "memfd_create" | "fanotify_init" => 1,
        "perf_event_open" => 8,
        _ => CLOEXEC,
    };
    flags.map(|flags| flags & bit != 0)
}

#[cfg(test)]
mod tests;
