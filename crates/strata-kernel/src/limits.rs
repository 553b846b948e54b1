//! Limits of this process, raised while programs are loaded, and put back: what it starts afterwards inherits
//! them.

use crate::error::Reason;
use rustix::fs::{open, Mode, OFlags};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::os::fd::OwnedFd;

/// Files that a process has open for other reasons.
const OTHERS: u64 = 256;

/// Of one attached program: itself, its link, and of some types one more.
const FILES_OF_A_PROGRAM: u64 = 3;

/// Fewer free ones than this are none: opening and loading an object takes some.
const SHORT: u64 = 24;

/// Put back on drop.
pub(crate) struct Limits {
    before: Vec<(Resource, Rlimit)>,
    /// Numbers below the limit: they are free again afterwards, and the programs' are above it.
    low: Vec<OwnedFd>,
    /// So many files are enough.
    needed: u64,
}

impl Limits {
    /// What is not allowed shows where it is missing.
    pub(crate) fn raise(nr_programs: usize) -> Limits {
        let needed = OTHERS + FILES_OF_A_PROGRAM * nr_programs as u64;
        let mut limits = Limits { before: vec![], low: vec![], needed };
        let now = getrlimit(Resource::Nofile);
        if let Some(current) = now.current.filter(|current| *current < needed) {
            let wanted = current + needed;
            let maximum = now.maximum.map(|maximum| maximum.max(wanted));
            if limits.set(Resource::Nofile, now, Rlimit { current: Some(wanted), maximum }) {
                limits.take_low(current);
            } else {
                limits.set(Resource::Nofile, now, Rlimit { current: now.maximum, ..now });
            }
        }
        if counts_locked_memory() {
            let now = getrlimit(Resource::Memlock);
            limits.set(Resource::Memlock, now, Rlimit { current: None, maximum: None });
        }
        limits
    }

    /// The reason, or which limit it is and what helps.
    pub(crate) fn explain(&self, reason: Reason) -> Reason {
        // Whoever says the error's name or number; an object that cannot be opened says neither.
        let is_said = ["EMFILE", "(os error 24)"].iter().any(|name| reason.0.contains(name));
        let is_opening = reason.0.contains("failed to open object");
        if !is_said && !(is_opening && self.is_short()) {
            return reason;
        }
        let limit = match getrlimit(Resource::Nofile).current {
            Some(limit) => limit.to_string(),
            None => "unlimited".to_owned(),
        };
        Reason(format!(
            "no file descriptor was free, and this program may have {limit}. Record fewer events, or raise \
             the limit: `ulimit -n {}`, or LimitNOFILE= of a service",
            self.needed
        ))
    }

    /// Are there hardly any left? Other threads may use them, too.
    fn is_short(&self) -> bool {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let used = std::fs::read_dir("/proc/self/fd").map_or(limit, |all| all.count() as u64);
        limit < self.needed && used.saturating_add(SHORT) >= limit
    }

    fn set(&mut self, resource: Resource, before: Rlimit, wanted: Rlimit) -> bool {
        let is_set = setrlimit(resource, wanted).is_ok();
        if is_set {
            self.before.push((resource, before));
        }
        is_set
    }

    fn take_low(&mut self, limit: u64) {
        use std::os::fd::AsRawFd;
        while let Ok(fd) = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            if fd.as_raw_fd() as u64 >= limit {
                break;
            }
            self.low.push(fd);
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.low.clear();
        for (resource, before) in self.before.drain(..) {
            // To less than before is always allowed.
            let _ = setrlimit(resource, before);
        }
    }
}

/// Before 5.11 maps count as locked memory.
fn counts_locked_memory() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (5, 11),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_names_the_limit_where_files_are_what_is_missing() {
        let limits = Limits { before: vec![], low: vec![], needed: 733 };
        let other = Reason("no room".into());
        assert_eq!(limits.explain(other.clone()), other);
        // There are enough of them.
        let plenty = Limits { before: vec![], low: vec![], needed: 0 };
        let opening = Reason("failed to open object from memory".into());
        assert_eq!(plenty.explain(opening.clone()), opening);
        for text in ["x: failed to create: -EMFILE", "Too many open files (os error 24)"] {
            let found = limits.explain(Reason(text.into())).0;
            assert!(found.contains("may have ") && found.contains("`ulimit -n 733`"), "{found}");
        }
    }

    #[test]
    fn raise_for_more_than_allowed_is_put_back_and_leaves_low_numbers_free() {
        use std::os::fd::AsRawFd;
        let before = getrlimit(Resource::Nofile);
        let small = Rlimit { current: Some(300), ..before };
        setrlimit(Resource::Nofile, small).unwrap();
        let limits = Limits::raise(1000);
        let is_raised = getrlimit(Resource::Nofile).current.unwrap() > 3000;
        let high = open("/", OFlags::PATH, Mode::empty()).unwrap();
        drop(limits);
        let low = open("/", OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), small);
        assert!(low.as_raw_fd() < 300);
        // Without the right to raise it there is nothing to see.
        assert!(!is_raised || high.as_raw_fd() >= 300);
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
