//! The table of system calls by number, with facts that follow from their names.
//!
//! ```text
//! name of a record's class, or its number ── Calls ── CallId ── CallKind: opens, closes, waits, executes, ...
//!                                                           └── Moves: reads, writes, or moves bytes
//! ```
//!
//! An engine must not compare names for each record. So the name of a call is looked up once, when a class is bound,
//! and a call is a [`CallId`] from then on. [`CallKind`] says what the call does to threads and descriptors,
//! [`Moves`] in which direction it moves bytes. A call whose name has no entry here changes nothing that a timeline
//! follows.
//!
//! The names are those of Linux for all architectures together; `strata_model::syscalls` has the names by number. The
//! number of different calls is limited, since a hostile trace may name any.
//!
//! ```text
//! calls.of("openat")  ─▶ id      once for each class, when `binding` sees it
//! calls.kind(id)      ─▶ Open    for each record: an index into a table
//! calls.moves(id)     ─▶ Nothing
//! calls.name(id)      ─▶ "openat" for a report
//! ```
//!
//! The facts are compiled in and need no trace. To make a timeline follow another call, give its name a kind, and
//! say in `call_effects.rs` or in the engine what that kind does.

use std::collections::HashMap;
use std::sync::Arc;

use strata_model::schema::Structure;

/// The most system calls that are distinguished. Every system has less than a thousand.
const CALLS_MAX: usize = 1 << 14;

/// A system call, by its number in [`Calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u32);

impl CallId {
    /// Returns the index, for tables.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The effect of a system call on the state of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// The call has no effect that a timeline tracks.
    Other,
    /// Waits for time to pass, and for nothing else.
    Sleep,
    /// Waits for events on descriptors, or until a timeout. At a timeout the result is 0.
    Poll,
    /// Adds a descriptor to those of an epoll, or takes it away.
    Watch,
    /// Opens a path and returns a descriptor.
    Open,
    /// Makes something that has no path, and returns a descriptor.
    Make,
    /// Creates two descriptors, as pipe() does.
    Pair,
    /// Closes a descriptor.
    Close,
    /// Makes a second descriptor for the same file.
    Duplicate,
    /// Duplicates a descriptor, or sets whether exec() closes it, depending on its command.
    Control,
    /// Closes a range of descriptors.
    CloseRange,
    /// Gives an address to a socket.
    Address,
    /// Returns the address of a socket: getsockname().
    Ask,
    /// Changes the working folder.
    Folder,
    /// May give its thread descriptors and a working folder of its own.
    Unshare,
    /// Waits on a futex, or wakes waiters.
    Futex,
    /// May give its thread another name.
    Rename,
    /// Creates a thread or process, in which the call returns as well.
    Fork,
    /// Returns in another program, if it succeeds.
    Exec,
    /// Never returns.
    Exit,
    /// Continues a call that a signal has interrupted.
    Restart,
}

/// The direction in which a system call moves bytes between a program and a descriptor. The call's result is the number
/// of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// The call moves no bytes.
    #[default]
    Nothing,
    /// The call reads: bytes go from the descriptor to the program.
    Reads,
    /// The call writes: bytes go from the program to the descriptor.
    Writes,
    /// The call moves bytes from one descriptor to another.
    Copies,
    /// The call moves bytes whose number is not its result.
    Unsaid,
}

/// All system calls of the traces.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    known: Vec<(Box<str>, CallKind, Moves)>,
    numbers: HashMap<Box<str>, CallId>,
    /// For calls with deferred arguments, the payload type of their entry records, by the trace's index and the call.
    entries: HashMap<(usize, CallId), Option<Arc<Structure>>>,
}

impl Calls {
    /// Returns the number of a call, which is added if it is new; `None` if there are too many.
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

    /// Returns a call's name: `openat`, or `compat_openat` if a 32-bit program calls it.
    #[must_use]
    pub fn name(&self, id: CallId) -> &str {
        self.known.get(id.index()).map_or("", |(name, ..)| name)
    }

    /// Returns the effect of a call on the state of a timeline.
    #[must_use]
    #[inline]
    pub fn kind(&self, id: CallId) -> CallKind {
        self.known.get(id.index()).map_or(CallKind::Other, |&(_, kind, _)| kind)
    }

    /// Returns the payload type of a call's entries in a trace. `find` is called once, to look for it.
    pub(crate) fn entry<'e>(
        &mut self,
        trace: usize,
        call: CallId,
        find: impl FnOnce() -> Option<&'e Structure>,
    ) -> Option<Arc<Structure>> {
        let entry = self.entries.entry((trace, call));
        entry.or_insert_with(|| find().map(|payload| Arc::new(payload.clone()))).clone()
    }

    /// Returns the direction in which a call moves bytes.
    #[must_use]
    #[inline]
    pub fn moves(&self, id: CallId) -> Moves {
        self.known.get(id.index()).map_or(Moves::Nothing, |&(.., moves)| moves)
    }
}

/// Returns whether a call opens, copies or closes descriptors. In a trace that lacks such a call, it is not known to
/// which file a descriptor refers.
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
        | CallKind::Watch
        | CallKind::Exit
        | CallKind::Restart
        | CallKind::Other => false,
    }
}

/// Returns whether a call with this result goes on as restart_syscall() once a signal has been handled.
#[inline]
pub(crate) fn is_to_restart(result: Option<i64>) -> bool {
    const ERESTART_RESTARTBLOCK: i64 = 516;
    result == Some(-ERESTART_RESTARTBLOCK)
}

pub(crate) fn kind(name: &str) -> CallKind {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    match name.strip_suffix("_time64").or_else(|| name.strip_suffix("_time32")).unwrap_or(name) {
        "nanosleep" | "clock_nanosleep" => CallKind::Sleep,
        "poll" | "ppoll" | "select" | "_newselect" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "io_getevents" | "io_pgetevents" => CallKind::Poll,
        "epoll_ctl" => CallKind::Watch,
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
        "restart_syscall" => CallKind::Restart,
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

/// Returns whether exec() closes the descriptor that a call makes; `None` if that depends on flags that the trace
/// does not have.
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
