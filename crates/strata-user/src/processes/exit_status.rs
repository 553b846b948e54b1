//! Finds out how a process ended that is not our child, as long as the kernel still reports it.
//!
//! Until its parent has asked for its exit status, an ended process is a zombie, whose status is in /proc. Afterwards
//! the kernel reports the status through a pidfd that was opened before (PIDFD_GET_INFO, Linux 6.15). Older kernels
//! forget the status of a process whose parent asked for it.

use std::fs;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::processes::process::Process;

/// Ways in which a process can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The process exited with this status.
    Exited(u8),
    /// A signal killed the process.
    Killed(u8),
}

impl Outcome {
    /// Converts a status of wait(2).
    fn of_wait(status: i32) -> Outcome {
        match status & 0x7f {
            0 => Outcome::Exited((status >> 8 & 0xff) as u8),
            signal => Outcome::Killed(signal as u8),
        }
    }

    /// Returns true if the program did not exit with status 0.
    #[must_use]
    pub fn is_failure(self) -> bool {
        self != Outcome::Exited(0)
    }
}

/// `struct pidfd_info` of linux/pidfd.h, as of Linux 6.13; later kernels write no more than the size in the request.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    /// Real, effective, saved and file system's user and group.
    ids: [u32; 8],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// Mirrors `PIDFD_INFO_EXIT` of the kernel.
const INFO_EXIT: u64 = 1 << 3;
/// Mirrors `PIDFD_GET_INFO`, `_IOWR(0xff, 11, struct pidfd_info)`.
const GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;

/// Returns the outcome of a process whose parent has asked for its exit status; `None` if the kernel does not report
/// it.
fn reaped(pidfd: BorrowedFd<'_>) -> Option<Outcome> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request's size is that of `info`, which the kernel reads and writes.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    (done == 0 && info.mask & INFO_EXIT != 0).then(|| Outcome::of_wait(info.exit_code))
}

/// Returns the outcome of a zombie, by its process id; `None` if the process is no zombie.
fn of_zombie(pid: u32) -> Option<Outcome> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the outcome in a text of `/proc/PID/stat`, if the process is a zombie. The name may contain any character,
/// but ends with the last parenthesis.
fn parse(stat: &str) -> Option<Outcome> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // Field 52 of proc_pid_stat(5); the state is field 3.
    let status = fields.nth(48)?.parse().ok()?;
    matches!(state, "Z" | "X").then(|| Outcome::of_wait(status))
}

/// Returns the outcome of `process`; `None` if it runs, or if the kernel no longer reports it.
pub(crate) fn outcome(process: &Process) -> Option<Outcome> {
    let pidfd = process.pidfd()?;
    if !process.has_ended() {
        return None;
    }
    let zombie = of_zombie(process.pid).filter(|_| process.has_its_number());
    // The parent may have asked for the status in between.
    zombie.or_else(|| reaped(pidfd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Waits until the process has ended, reaped or not.
    fn wait(process: &Process) {
        while !process.has_ended() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn outcome_of_a_zombie_is_its_status_or_its_signal() {
        for (script, expected) in [
            ("exit 0", Outcome::Exited(0)),
            ("exit 7", Outcome::Exited(7)),
            ("kill -SEGV $$", Outcome::Killed(11)),
            ("kill -KILL $$", Outcome::Killed(9)),
        ] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let process = Process::hold(child.id()).unwrap();
            wait(&process);
            assert_eq!(outcome(&process), Some(expected), "{script}");
            let status = child.wait().unwrap();
            assert_eq!(status.success(), !expected.is_failure());
            // By the pidfd, since Linux 6.15; before, nobody says.
            let reaped = outcome(&process);
            assert!(reaped.is_none() || reaped == Some(expected), "{script}: {reaped:?}");
        }
    }

    #[test]
    fn process_that_runs_or_was_never_held_has_none() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let process = Process::hold(child.id()).unwrap();
        assert_eq!(outcome(&process), None);
        assert_eq!(outcome(&Process::ended(child.id())), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn stat_whose_name_looks_like_fields_is_read_behind_it() {
        let rest = |state: &str, code: &str| format!("{state} {} {code}", ["0"; 48].join(" "));
        let named = |rest: String| format!("9 (a) Z (b) {rest}");
        assert_eq!(parse(&named(rest("Z", "1280"))), Some(Outcome::Exited(5)));
        assert_eq!(parse(&named(rest("Z", "139"))), Some(Outcome::Killed(11)));
        assert_eq!(parse(&named(rest("S", "9"))), None);
        assert_eq!(parse("9 (a) Z 1 2"), None);
    }
}
