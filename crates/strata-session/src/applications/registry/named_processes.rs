//! Processes that were named by process id, and their known descendants.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{getrlimit, pidfd_open, Pid, PidfdFlags, Resource};
use strata_model::TimeSource;
use strata_user::{ancestors, children};

/// The shortest time between two searches for new descendants.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Bound on the time that searches take: the pause after a search is this many times as long as the search.
const LOOK_SHARE: u32 = 200;
/// The most descendants that are followed. The limit is lower if few open files are allowed, since each descendant
/// takes a descriptor.
const FAMILY_MAX: u64 = 4096;

/// Processes that were named by process id, and their known descendants. A process stays a member when its parent ends
/// and it gets another parent, as daemons do.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// Members by process id, each with its pidfd, which shows whether the process has ended and keeps its identity.
    /// The start time in `/proc/PID/stat` would do, but reading it blocks while the process is in execve() on a file
    /// system that does not answer.
    members: HashMap<u32, OwnedFd>,
    /// Process ids of members that have ended since the last search. Their child processes may still announce
    /// themselves.
    ended: HashSet<u32>,
    /// Members for whose end the recording does not wait: this program, the programs that started it, such as
    /// `sudo`, and processes that cannot be recorded.
    set_aside: HashSet<u32>,
    next_look: Option<Instant>,
    time: TimeSource,
}

impl Family {
    /// Creates the family of the processes `pids`. The family stays empty for `None`.
    pub(super) fn of(pids: Option<&[u32]>, time: &TimeSource) -> Family {
        let mut family = Family { time: time.clone(), ..Family::default() };
        if let Some(pids) = pids {
            pids.iter().for_each(|pid| _ = family.add(*pid));
            let own = std::process::id();
            let around = std::iter::once(own).chain(ancestors(own));
            family.set_aside.extend(around.filter(|pid| !pids.contains(pid)));
            family.next_look = Some(time.now());
        }
        family
    }

    /// Makes the process a member. Returns whether it is a new one.
    pub(super) fn add(&mut self, pid: u32) -> bool {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let is_full = self.members.len() as u64 >= FAMILY_MAX.min(files / 8);
        if is_full || self.members.contains_key(&pid) {
            return false;
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(held)) => {
                self.members.insert(pid, held);
                true
            }
            // Without a free descriptor, the next search tries again.
            Some(Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => false,
            _ => {
                self.ended.insert(pid);
                false
            }
        }
    }

    /// Returns whether the process is a member that has not ended.
    pub(super) fn contains(&self, pid: u32) -> bool {
        self.members.get(&pid).is_some_and(|held| !has_ended(held))
    }

    /// Marks a process as a member for whose end the recording does not wait.
    pub(super) fn set_aside(&mut self, pid: u32) {
        self.set_aside.insert(pid);
    }

    /// Returns whether any member for which the recording waits has not ended.
    pub(super) fn lives(&self) -> bool {
        let awaited = |pid: &u32| !self.set_aside.contains(pid);
        self.members.iter().any(|(pid, held)| awaited(pid) && !has_ended(held))
    }

    /// Returns whether the process is a member, or was one at the last search.
    pub(super) fn had(&self, pid: u32) -> bool {
        self.members.contains_key(&pid) || self.ended.contains(&pid)
    }

    /// If a search is due, adds new descendants and removes members that have ended.
    pub(super) fn look(&mut self) {
        let now = self.time.now();
        if self.next_look.is_none_or(|next| now < next) {
            return;
        }
        self.ended.clear();
        let mut left: Vec<u32> = self.members.keys().copied().collect();
        while let Some(pid) = left.pop() {
            if !self.contains(pid) {
                self.members.remove(&pid);
                self.ended.insert(pid);
                continue;
            }
            for child in children(pid) {
                if self.add(child) {
                    // Another process may have got the id before the pidfd was opened.
                    if ancestors(child).next() == Some(pid) {
                        left.push(child);
                    } else {
                        self.members.remove(&child);
                    }
                }
            }
        }
        let pause = LOOK_PERIOD.max(self.time.elapsed(now) * LOOK_SHARE);
        self.next_look = Some(self.time.now() + pause);
    }
}

fn has_ended(held: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(held, PollFlags::IN)], Some(&now)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_knows_who_was_seen_to_descend_after_its_parent_has_ended() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; read -r _"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let time = TimeSource::manual(0);
        let mut family = Family::of(Some(&[shell.id()]), &time);
        assert!(family.contains(shell.id()) && !family.contains(child));
        family.look();
        assert!(family.contains(child));
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(!family.contains(shell.id()) && family.had(shell.id()) && family.contains(child));
        // Nobody else is left.
        assert!(family.lives());
        family.set_aside(child);
        assert!(!family.lives() && family.contains(child));
        family.set_aside.clear();
        let number = rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
        while family.contains(child) {
            std::thread::yield_now();
        }
        // The next search has its time.
        family.look();
        assert!(family.members.contains_key(&child));
        time.pause(LOOK_PERIOD);
        family.look();
        assert!(family.had(child) && !family.members.contains_key(&child) && !family.lives());
        // Who is asked for by nobody's number has none.
        assert!(Family::of(None, &time).next_look.is_none());
        // This process is awaited if it was named, and not as a descendant of the one that was.
        let own = std::process::id();
        let parent = ancestors(own).next().unwrap();
        let mut family = Family::of(Some(&[parent]), &time);
        assert!(family.add(own) && family.set_aside.contains(&own) && family.lives());
        family.set_aside(parent);
        assert!(!family.lives() && Family::of(Some(&[own]), &time).lives());
    }
}
