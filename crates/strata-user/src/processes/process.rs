//! Facts on a process from the kernel, and a hold on its identity.
//!
//! Everything here is the kernel's word, from /proc or a pidfd, and not the process'. A number alone proves nothing: it
//! may belong to another process a moment later. So a [`Process`] holds a pidfd where the kernel has one, and a reader
//! that asks by number checks afterwards, with [`Process::has_its_number`], that the answer was about the process it
//! holds:
//!
//! ```text
//! let process = Process::hold(pid)?;         // from now on, its number is not given away unnoticed
//! let status = Status::read(pid)?;           // by number: may be about another process …
//! if process.has_its_number() { … }          // … unless this is true afterwards
//! ```
//!
//! Reads of most files of /proc wait for a lock that the process can hold in execve(), on a file system of its user's
//! own. Callers therefore run them through `blocking_queries.rs`, except for what the kernel always answers: `/proc/PID/stat` and
//! `status`.
//!
//! [`Writers`] answers one question more: whether all threads that might have been writing a record at some moment have
//! finished it. It watches their CPU time, since no thread of a traced program can be stopped.
//!
//! [`protection`], [`refused`] and the other functions at the end turn an errno into the reason that a person can act on.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getrlimit, pidfd_open, Pid, PidfdFlags, Resource};
use rustix::time::{clock_gettime, ClockId};

use crate::error::{Denial, Error};

/// Value of `SECCOMP_MODE_STRICT` in `/proc/PID/status`.
const STRICT: &str = "1";

/// The most threads of a process whose names or seccomp modes are read.
const THREADS_MAX: usize = 1024;

/// Limit of [`children`] on the threads that it reads, and on the children of each.
const CHILDREN_MAX: usize = 65_536;
/// Limit on the size of a text that is read from /proc, larger than all that occur \[byte\].
const PROC_BYTES_MAX: u64 = 1 << 20;

/// Contents of `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Short name, with the kernel's escapes.
    pub name: String,
    /// Real, effective, saved and file system user.
    pub uids: [u32; 4],
    /// Real, effective, saved and file system group.
    pub gids: [u32; 4],
    /// Process id in its own PID namespace.
    pub inner_pid: u32,
    /// Process id of the current parent; 0 if it is not visible to us.
    pub parent_pid: u32,
    /// True if the process has ended and its parent has not asked for its exit status yet.
    pub is_zombie: bool,
    /// True if the first thread runs, or waits for a CPU only.
    pub is_running: bool,
    /// Number of threads.
    pub threads: u32,
    /// True if the first thread is in seccomp's strict mode.
    pub is_strict: bool,
    /// True if the process has memory, so that it is neither ending nor a kernel thread.
    pub has_memory: bool,
}

impl Status {
    /// Reads the status; `None` if the process does not exist.
    ///
    /// # Errors
    /// The file could not be read; the process may exist.
    pub fn read(pid: u32) -> io::Result<Option<Status>> {
        match read_proc(format!("/proc/{pid}/status")) {
            Ok(text) => Ok(Status::parse(&text, pid)),
            Err(error) if is_nobody(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &[u8], pid: u32) -> Option<Status> {
        let mut status = Status { inner_pid: pid, ..Status::default() };
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let value = || String::from_utf8_lossy(&line[colon + 1..]);
            match &line[..colon] {
                b"Name" => status.name = value().trim().to_owned(),
                b"State" => {
                    let value = value();
                    status.is_zombie = value.trim().starts_with(['Z', 'X']);
                    status.is_running = value.trim().starts_with('R');
                }
                b"Threads" => status.threads = value().trim().parse().ok()?,
                b"Seccomp" => status.is_strict = value().trim() == STRICT,
                b"VmSize" => status.has_memory = true,
                b"PPid" => status.parent_pid = value().trim().parse().ok()?,
                b"Uid" => numbers(&mut status.uids, &value())?,
                b"Gid" => numbers(&mut status.gids, &value())?,
                // From the outermost namespace that we see to its own.
                b"NSpid" => {
                    status.inner_pid = value().split_whitespace().last()?.parse().ok()?;
                }
                _ => (),
            }
        }
        Some(status)
    }
}

fn numbers(into: &mut [u32; 4], text: &str) -> Option<()> {
    for (number, word) in into.iter_mut().zip(text.split_whitespace()) {
        *number = word.parse().ok()?;
    }
    Some(())
}

/// Reads a small file of /proc, with few system calls, since there may be a thousand such files.
///
/// # Errors
/// The file could not be opened or read.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    // Files of /proc report the size 0, so do not ask for it.
    File::open(path)?.take(PROC_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns whether the error means that the process does not exist.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Returns the process' parent, its parent's parent, and so on, as far as they are visible. Ends after a thousand
/// generations, since processes may change while it reads.
pub fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| match Status::read(*pid) {
        Ok(Some(status)) => Some(status.parent_pid).filter(|parent| *parent != 0),
        _ => None,
    };
    std::iter::successors(parent(&pid), parent).take(1000)
}

/// Returns the process and its descendants, at most `limit` processes. Descendants whose parent has ended are missing,
/// and all are if the kernel has no CONFIG_PROC_CHILDREN.
#[must_use]
pub fn descendants(pid: u32, limit: usize) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied().filter(|_| found.len() < limit) {
        next += 1;
        for child in children(pid) {
            if found.len() < limit && !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// Returns the children of all threads of process `pid`; none where the kernel was built without CONFIG_PROC_CHILDREN. It
/// reads at most [`CHILDREN_MAX`] threads, and as many children of each.
pub fn children(pid: u32) -> impl Iterator<Item = u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok();
    tasks.into_iter().flatten().flatten().take(CHILDREN_MAX).flat_map(|task| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let numbers = text.split_ascii_whitespace().take(CHILDREN_MAX);
        numbers.filter_map(|child| child.parse().ok()).collect::<Vec<_>>()
    })
}

/// Returns why the kernel protects a process, which our user has started, from this program: it belongs to another
/// user, or is not dumpable. `None` if no reason is visible.
#[must_use]
pub fn protection(pid: u32) -> Option<Denial> {
    let ours = geteuid().as_raw();
    let status = Status::read(pid).ok()??;
    if ours == 0 {
        return None;
    }
    if let Some(theirs) = status.uids.into_iter().find(|uid| *uid != ours) {
        return Some(Denial::OtherUser { theirs, ours });
    }
    let own_groups = status.gids.into_iter().all(|gid| gid == getegid().as_raw());
    let hides = !status.is_zombie && owner_of_descriptors(pid).is_some_and(|owner| owner != ours);
    (hides || !own_groups).then_some(Denial::NotDumpable)
}

/// Counts the threads of a process in seccomp's strict mode, where reading the counter or making a system call kills
/// the thread. Returns 0 if there is no such process. Reads at most 1,024 threads.
///
/// # Errors
/// The threads could not be read; the process may exist.
pub(crate) fn strict_threads(pid: u32) -> io::Result<u32> {
    let Some(status) = Status::read(pid)? else { return Ok(0) };
    if status.threads <= 1 {
        return Ok(status.is_strict.into());
    }
    let mut strict = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.take(THREADS_MAX) {
        let Ok(thread) = thread else { break };
        let text = read_proc(thread.path().join("status")).unwrap_or_default();
        strict += u32::from(Status::parse(&text, pid).is_some_and(|status| status.is_strict));
    }
    Ok(strict)
}

/// Returns the threads whose name differs from that of the process' first thread: their ids in their PID namespace, and
/// their names. Reads at most 1,024 threads.
///
/// # Errors
/// The threads could not be read.
pub(crate) fn named_threads(pid: u32) -> io::Result<Vec<(u32, String)>> {
    let Some(first) = Status::read(pid)?.filter(|status| status.threads > 1) else {
        return Ok(Vec::new());
    };
    let mut named = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.take(THREADS_MAX) {
        let thread = thread?;
        let Some(id) = thread.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        let text = read_proc(thread.path().join("status")).unwrap_or_default();
        let status =
            Status::parse(&text, id).filter(|status| !text.is_empty() && status.name != first.name);
        named.extend(status.map(|status| (status.inner_pid, shown(&status.name))));
    }
    Ok(named)
}

/// CPU time after which a thread has certainly finished the record that it was writing \[ns\].
const WRITTEN_NS: u64 = 1_000_000;
/// Longest wait for threads that get no CPU to finish a record.
const WRITERS_PATIENCE: Duration = Duration::from_secs(2);

/// Threads of a process that may still be writing a record that they began before some moment. Writing takes no system
/// call: a thread that sleeps has finished, and so has one that has run for longer than a record takes.
#[derive(Debug)]
pub(crate) struct Writers {
    pid: u32,
    since: Instant,
    /// The ids of the threads, with the CPU time that each had used at the beginning \[ns\].
    threads: Vec<(u32, u64)>,
}

impl Writers {
    /// Lists the threads of process `pid` that run now.
    pub fn of(pid: u32) -> Writers {
        let mut threads = Vec::new();
        for thread in
            fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().take(THREADS_MAX)
        {
            let id = thread.ok().and_then(|thread| thread.file_name().to_str()?.parse().ok());
            let Some(id) = id else { continue };
            threads.extend(Self::running(pid, id).map(|ran| (id, ran)));
        }
        Writers { pid, since: Instant::now(), threads }
    }

    #[cfg(test)]
    pub fn threads(&self) -> Vec<u32> {
        self.threads.iter().map(|(id, _)| *id).collect()
    }

    /// Returns true if all threads have finished writing, or the longest wait is over.
    pub fn are_done(&mut self) -> bool {
        if self.since.elapsed() >= WRITERS_PATIENCE {
            return true;
        }
        let pid = self.pid;
        self.threads.retain(|(id, before)| {
            Self::running(pid, *id).is_some_and(|ran| ran < before.saturating_add(WRITTEN_NS))
        });
        self.threads.is_empty()
    }

    /// Returns the CPU time that a thread has used \[ns\]; `None` if the thread sleeps or has ended.
    fn running(pid: u32, id: u32) -> Option<u64> {
        let stat = read_proc(format!("/proc/{pid}/task/{id}/stat")).ok()?;
        // The name may contain any byte, so search for its end from the right.
        let behind = stat.iter().rposition(|byte| *byte == b')')?;
        if matches!(stat.get(behind + 2), None | Some(b'S' | b'I' | b'Z' | b'X')) {
            return None;
        }
        let text = read_proc(format!("/proc/{pid}/task/{id}/schedstat")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // A kernel without schedstat: only sleep and the longest wait tell the end.
        Some(text.split_whitespace().next().and_then(|ran| ran.parse().ok()).unwrap_or(0))
    }
}

/// The way in which a process's identity is held.
#[derive(Clone, Debug)]
enum Hold {
    Pidfd(Arc<OwnedFd>),
    /// By the process id only: there is no pidfd, since the kernel is too old (before 5.3), or does not allow it.
    Number,
    /// The process has ended; the memory that it shared remains.
    Ended,
}

/// A process whose number cannot pass to another process unnoticed.
///
/// Use it in this order: hold the process, read about it by its number, then ask
/// [`has_its_number`](Self::has_its_number). Only facts that were read between the two calls are certainly about
/// this process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub pid: u32,
    hold: Hold,
    /// True if the kernel passed the pidfd itself, so that it cannot belong to a later process with the same
    /// process id.
    is_named: bool,
}

impl Process {
    /// Holds the process that has this number now.
    ///
    /// # Errors
    /// [`Error::Descriptors`], [`Error::System`].
    pub fn hold(pid: u32) -> Result<Process, Error> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = number.map_or(Err(Errno::SRCH), |pid| pidfd_open(pid, PidfdFlags::empty()));
        let hold = match pidfd {
            Ok(pidfd) => Hold::Pidfd(Arc::new(pidfd)),
            Err(Errno::SRCH | Errno::INVAL) => Hold::Ended,
            Err(Errno::NOSYS | Errno::PERM) => Hold::Number,
            Err(code) => return Err(failed(pid, "holding on to it", code.into())),
        };
        Ok(Process { pid, hold, is_named: false })
    }

    /// Holds the process `pid` by a pidfd that the kernel gave together with the number.
    pub fn named(pid: u32, pidfd: OwnedFd) -> Process {
        Process { pid, hold: Hold::Pidfd(Arc::new(pidfd)), is_named: true }
    }

    /// Makes the identity of a process that had this number and has ended.
    pub fn ended(pid: u32) -> Process {
        Process { pid, hold: Hold::Ended, is_named: false }
    }

    /// Returns the process if the kernel reports that it began before `time_ns` (`CLOCK_MONOTONIC`), or if it was
    /// held by the kernel's own pidfd and has ended since. Otherwise a later process has the id, and an ended process
    /// is returned.
    ///
    /// # Errors
    /// [`Error::Descriptors`], [`Error::System`].
    pub fn unless_younger(self, time_ns: u64) -> Result<Process, Error> {
        if matches!(self.hold, Hold::Ended) {
            return Ok(self);
        }
        let pid = self.pid;
        let younger = is_younger(pid, time_ns)
            .map_err(|source| failed(pid, "looking at when it started", source))?;
        // What /proc reports for a number that has changed hands is about another process; the descriptor still has the
        // outcome.
        let is_other = younger && (!self.is_named || self.has_its_number());
        Ok(if is_other { Process::ended(pid) } else { self })
    }

    /// Returns true if the number is still the process' own, so that what was read by number was about this process. A
    /// process that has ended keeps its number until its parent has asked for its exit status.
    pub fn has_its_number(&self) -> bool {
        match &self.hold {
            Hold::Pidfd(pidfd) => !self.has_ended() || number_of(pidfd.as_fd()) == Some(self.pid),
            Hold::Number => !self.has_ended(),
            Hold::Ended => false,
        }
    }

    /// Returns whether the start time that the process claims, `started_ns`, is in the future. False for a
    /// process in another time namespace, whose clock cannot be compared.
    pub fn begins_in_the_future(&self, started_ns: u64, now_ns: u64) -> bool {
        started_ns > now_ns.saturating_add(TOLERANCE_NS)
            && same_time_namespace(self.pid)
            && self.has_its_number()
    }

    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match &self.hold {
            Hold::Pidfd(pidfd) => Some(pidfd.as_fd()),
            Hold::Number | Hold::Ended => None,
        }
    }

    pub fn has_ended(&self) -> bool {
        match &self.hold {
            Hold::Pidfd(pidfd) => {
                let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                matches!(poll(&mut fds, Some(&now)), Ok(1..))
            }
            Hold::Number => match Status::read(self.pid) {
                Ok(status) => status.is_none_or(|status| status.is_zombie),
                // The state cannot be read now, which means nothing.
                Err(_) => false,
            },
            Hold::Ended => true,
        }
    }
}

/// Returns the process id that a pidfd refers to; `None` after the parent has asked for the exit status.
fn number_of(pidfd: BorrowedFd<'_>) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// Tolerance of a process' start, which the kernel counts in ticks of 10 ms, and rounds \[ns\].
const TOLERANCE_NS: u64 = 50_000_000;

/// Returns true if the process with this number started after `started_ns` (`CLOCK_MONOTONIC`), so that it is a later
/// process with the same number.
fn is_younger(pid: u32, started_ns: u64) -> io::Result<bool> {
    let Some(ticks) = start_ticks(pid)? else { return Ok(true) };
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    // The times in /proc and of both clocks include what our time namespace adds.
    let (to_monotonic, to_boottime) = strata_model::time_namespace_adds_ns();
    let now = |id, added: i64| {
        let now = clock_gettime(id);
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec) - i128::from(added)
    };
    let begun =
        i128::from(ticks) * 1_000_000_000 / i128::from(per_second) - i128::from(to_boottime);
    // The two clocks differ by the time that the machine was suspended.
    let asleep = now(ClockId::Boottime, to_boottime) - now(ClockId::Monotonic, to_monotonic);
    let said = i128::from(started_ns.saturating_add(TOLERANCE_NS)) + asleep.max(0);
    Ok(begun > said && same_time_namespace(pid))
}

/// Returns field 22 of `/proc/PID/stat`, the start of the process \[tick\]; `None` if there is no such process.
fn start_ticks(pid: u32) -> io::Result<Option<u64>> {
    let text = match read_proc(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The name, in parentheses, may hold anything.
    let behind = text.iter().rposition(|byte| *byte == b')').map_or(0, |place| place + 1);
    let text = String::from_utf8_lossy(&text[behind..]);
    Ok(text.split_whitespace().nth(19).and_then(|word| word.parse().ok()))
}

/// Returns true if the process is in our time namespace, so that its `CLOCK_MONOTONIC` is ours.
fn same_time_namespace(pid: u32) -> bool {
    let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/time")).ok();
    link(&pid.to_string()) == link("self")
}

/// Makes the error for an action on a process that the kernel refused or that failed; `what` is the action.
pub(crate) fn refused(pid: u32, what: &'static str, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => Error::Gone { pid },
        // A process that is just ending has no memory, so that access to it is refused to everybody.
        Some(libc::EACCES | libc::EPERM) if is_ending(pid) => Error::Gone { pid },
        Some(code @ (libc::EACCES | libc::EPERM)) => {
            Error::Denied { pid, what, denial: explain(pid, code) }
        }
        _ => failed(pid, what, source),
    }
}

/// Returns true if a process has no memory any more: it has ended, or is about to.
pub(crate) fn is_ending(pid: u32) -> bool {
    matches!(Status::read(pid), Ok(Some(status)) if !status.has_memory)
}

/// Makes the error for an action on a process that failed; a reached limit on open files has an error of its own.
pub(crate) fn failed(pid: u32, what: &'static str, source: io::Error) -> Error {
    match (source.raw_os_error(), getrlimit(Resource::Nofile).current) {
        (Some(libc::EMFILE), Some(limit)) => Error::Descriptors { pid, what, limit },
        _ => Error::System { pid, what, source },
    }
}

/// Returns why the kernel refuses access, as far as that is visible from outside.
fn explain(pid: u32, code: i32) -> Denial {
    let ours = geteuid().as_raw();
    if let Ok(Some(status)) = Status::read(pid) {
        if ours != 0 && status.uids.iter().any(|uid| *uid != ours) {
            let theirs = *status.uids.iter().find(|uid| **uid != ours).unwrap_or(&ours);
            return Denial::OtherUser { theirs, ours };
        }
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim().parse() {
        Ok(value) if value > 0 => return Denial::PtraceScope { value },
        _ => (),
    }
    if ours != 0 && owner_of_descriptors(pid) == Some(0) {
        return Denial::NotDumpable;
    }
    Denial::Unknown { code }
}

/// Returns the owner of `/proc/PID/fd`, which is root for a process that is not dumpable. (`/proc/PID` always belongs
/// to the
/// process' user.)
fn owner_of_descriptors(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}/fd")).ok().map(|metadata| metadata.uid())
}

/// Replaces control characters in a text by `?`.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{setrlimit, Rlimit};

    #[test]
    fn status_of_a_process_in_a_namespace_gives_the_innermost_pid() {
        let text = b"Name:\tmy app\nState:\tS (sleeping)\nUid:\t1000\t1001\t1002\t1003\n\
                     Gid:\t7\t7\t8\t9\nPPid:\t4242\nNSpid:\t4711\t12\t3\n";
        let status = Status::parse(text, 4711).unwrap();
        assert_eq!(status.name, "my app");
        assert_eq!(status.uids, [1000, 1001, 1002, 1003]);
        assert_eq!((status.gids, status.parent_pid), ([7, 7, 8, 9], 4242));
        assert_eq!(status.inner_pid, 3);
        assert!(!status.is_zombie);
    }

    #[test]
    fn status_says_how_many_threads_there_are_and_if_the_first_is_in_strict_mode() {
        for (text, threads, is_strict) in [
            (&b"Threads:\t1\nSeccomp:\t1\nSeccomp_filters:\t0\n"[..], 1, true),
            (b"Threads:\t12\nSeccomp:\t2\nSeccomp_filters:\t1\n", 12, false),
            (b"Threads:\t3\nSeccomp:\t0\n", 3, false),
        ] {
            let status = Status::parse(text, 9).unwrap();
            assert_eq!((status.threads, status.is_strict), (threads, is_strict));
        }
        assert_eq!(strict_threads(std::process::id()).unwrap(), 0);
        assert_eq!(strict_threads(u32::MAX).unwrap(), 0);
    }

    #[test]
    fn status_of_a_kernel_without_namespaces_gives_the_pid_itself() {
        let status = Status::parse(b"Name:\tx\nState:\tZ (zombie)\n", 9).unwrap();
        assert_eq!(status.inner_pid, 9);
        assert!(status.is_zombie);
    }

    fn now_ns() -> u64 {
        crate::Clock::monotonic_ns()
    }

    fn held(pid: u32, time_ns: u64) -> Result<Process, Error> {
        Process::hold(pid)?.unless_younger(time_ns)
    }

    #[test]
    fn process_that_is_not_there_has_ended() {
        for pid in [0, u32::MAX] {
            let process = held(pid, now_ns()).unwrap();
            assert!(process.has_ended() && process.pidfd().is_none());
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = held(child.id(), now_ns()).unwrap();
        assert!(process.pidfd().is_some());
        child.wait().unwrap();
        assert!(process.has_ended());
    }

    #[test]
    fn process_younger_than_what_was_reported_is_another_one() {
        let before = now_ns() - 1_000_000_000;
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert!(held(child.id(), before).unwrap().has_ended());
        assert!(!held(child.id(), now_ns()).unwrap().has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn process_without_a_pidfd_is_looked_up() {
        let process = Process { is_named: false, pid: std::process::id(), hold: Hold::Number };
        assert!(!process.has_ended());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process { is_named: false, pid: child.id(), hold: Hold::Number };
        child.wait().unwrap();
        assert!(process.has_ended());
    }

    #[test]
    fn ancestors_of_a_child_begin_with_us_and_end_with_the_first_process() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let chain: Vec<u32> = ancestors(child.id()).collect();
        assert_eq!(chain[0], std::process::id());
        assert_eq!(chain[1], std::os::unix::process::parent_id());
        child.kill().unwrap();
        // It has ended, and is still there for us; then it is not.
        assert_eq!(ancestors(child.id()).next(), Some(std::process::id()));
        child.wait().unwrap();
        assert_eq!(ancestors(child.id()).next(), None);
        assert_eq!(ancestors(u32::MAX).next(), None);
    }

    #[test]
    fn descendants_of_a_shell_are_its_children_while_they_run() {
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 100 & sleep 100; :"]).spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut found = descendants(shell.id(), 9);
        while found.len() < 3 && std::time::Instant::now() < end {
            std::thread::yield_now();
            found = descendants(shell.id(), 9);
        }
        assert_eq!((found[0], found.len()), (shell.id(), 3));
        assert_eq!(descendants(shell.id(), 2).len(), 2);
        shell.kill().unwrap();
        for child in &found[1..] {
            // SAFETY: no memory is involved; they are ours, and nobody has waited for them.
            unsafe { libc::kill(*child as i32, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        assert_eq!(descendants(u32::MAX, 9), [u32::MAX]);
    }

    #[test]
    #[ignore = "run by protection_of_others_is_reported"]
    fn alone_protection_of_root_and_of_one_that_hides() {
        assert_eq!(protection(1), Some(Denial::OtherUser { theirs: 0, ours: 65534 }));
        assert_eq!(protection(std::process::id()), None);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
        assert_eq!(protection(std::process::id()), Some(Denial::NotDumpable));
        assert_eq!(explain(std::process::id(), libc::EACCES), Denial::NotDumpable);
    }

    #[test]
    fn protection_of_others_is_reported() {
        assert_eq!(protection(u32::MAX), None);
        if !geteuid().is_root() {
            return;
        }
        assert_eq!(protection(1), None);
        let test = "processes::process::tests::alone_protection_of_root_and_of_one_that_hides";
        crate::testing::run_alone(test, crate::testing::become_nobody);
    }

    #[test]
    #[ignore = "run by process_when_no_descriptor_is_left_is_not_reported_to_be_gone"]
    fn alone_process_when_no_descriptor_is_left() {
        let ourselves = std::process::id();
        let limit = Rlimit { current: Some(3), maximum: Some(3) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let error = held(ourselves, now_ns()).unwrap_err();
        assert!(matches!(error, Error::Descriptors { limit: 3, .. }), "{error}");
        assert!(error.to_string().contains("(3). Raise the limit (ulimit -n)"), "{error}");
        assert!(Status::read(ourselves).is_err());
        assert!(is_younger(ourselves, now_ns()).is_err());
        assert!(!Process { is_named: false, pid: ourselves, hold: Hold::Number }.has_ended());
    }

    #[test]
    fn process_when_no_descriptor_is_left_is_not_reported_to_be_gone() {
        let test = "processes::process::tests::alone_process_when_no_descriptor_is_left";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    fn refused_says_gone_denied_or_what_the_system_reports() {
        let error = |code| refused(1, "x", io::Error::from_raw_os_error(code));
        assert!(error(libc::ESRCH).is_gone());
        assert!(error(libc::EACCES).is_denied());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !is_ending(child.id()) {
            std::thread::yield_now();
        }
        let ending = refused(child.id(), "x", io::Error::from_raw_os_error(libc::EACCES));
        child.wait().unwrap();
        assert!(ending.is_gone() && !is_ending(std::process::id()), "{ending}");
        assert!(matches!(error(libc::EIO), Error::System { pid: 1, .. }));
    }
}
