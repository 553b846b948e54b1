//! Processes that the user named by process id. Their end is noticed here if no layer notices it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::report::NotReached;

/// Pidfds of processes, to notice when all of them have ended.
#[derive(Debug)]
pub(crate) struct Watched(Vec<OwnedFd>);

impl Watched {
    /// Watches the processes with these process ids. Also returns an entry for each process that does not exist.
    pub(crate) fn new(pids: &[u32]) -> (Watched, Vec<NotReached>) {
        let (mut watched, mut absent) = (Vec::new(), Vec::new());
        for &pid in pids {
            match open(pid) {
                Ok(fd) => watched.push(fd),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    absent.push(NotReached::gone(pid));
                }
                Err(error) => absent.push(NotReached {
                    pid,
                    name: String::new(),
                    reason: format!("process {pid}: cannot be watched: {error}"),
                }),
            }
        }
        (Watched(watched), absent)
    }

    /// Returns whether all processes have ended.
    pub(crate) fn have_ended(&self) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.0.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&none)) {
            Ok(ended) => ended == fds.len(),
            Err(_) => false,
        }
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_have_ended_when_all_have_and_who_is_not_there_is_named() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (watched, absent) = Watched::new(&[child.id(), u32::MAX]);
        assert_eq!(absent.iter().map(|one| one.pid).collect::<Vec<_>>(), [u32::MAX]);
        assert!(absent[0].is_gone(), "{absent:?}");
        assert!(!watched.have_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(watched.have_ended());
        assert!(Watched::new(&[]).0.have_ended());
    }
}
