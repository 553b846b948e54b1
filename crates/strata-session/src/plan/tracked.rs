//! Decides which processes a session records, by the tracked properties. Only the kernel's facts about a process count,
//! and no claims of the process.

use std::io;
use std::path::Path;

pub use strata_kernel::Tracked;
use strata_user::read_proc;

use crate::machine::process_names::ProcessNames;

/// The kernel's facts about one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessFacts {
    pub(crate) pid: u32,
    /// The real user id.
    pub(crate) uid: u32,
    /// The real group id.
    pub(crate) gid: u32,
    /// Names of the process and its threads; `None` if they are no longer available.
    pub(crate) names: Option<ProcessNames>,
    /// Path of the process's cgroup in the hierarchy of version 2, as this program sees it; `None` if the system has
    /// none.
    pub(crate) cgroup: Option<String>,
}

/// Returns whether `tracked` includes the process.
pub(crate) fn admits(tracked: &Tracked, process: &ProcessFacts) -> bool {
    admits_numbers(tracked, process)
        && has_name(tracked, process) == Some(true)
        && tracked.cgroups.as_ref().is_none_or(|all| all.iter().any(|one| is_within(one, process)))
}

/// Returns whether `tracked` included a process that has ended; `None` if its remaining facts do not say.
pub(crate) fn admits_ended(tracked: &Tracked, process: &ProcessFacts) -> Option<bool> {
    if !admits_numbers(tracked, process) {
        return Some(false);
    }
    // A tracked name that is not among the known ones may have been that of a thread or a script.
    let has_name = has_name(tracked, process).filter(|has| *has)?;
    tracked.cgroups.is_none().then_some(has_name)
}

/// Returns whether any of the process's names is tracked; `None` if names are tracked and the process's names are
/// unknown.
fn has_name(tracked: &Tracked, process: &ProcessFacts) -> Option<bool> {
    let Some(wanted) = &tracked.names else { return Some(true) };
    process.names.as_ref().map(|names| wanted.iter().any(|one| names.include(one)))
}

fn admits_numbers(tracked: &Tracked, process: &ProcessFacts) -> bool {
    fn one_of<T: PartialEq>(tracked: Option<&Vec<T>>, found: &T) -> bool {
        tracked.is_none_or(|all| all.contains(found))
    }
    one_of(tracked.pids.as_ref(), &process.pid)
        && one_of(tracked.uids.as_ref(), &process.uid)
        && one_of(tracked.gids.as_ref(), &process.gid)
}

/// Returns whether the process is in this cgroup or below it.
fn is_within(path: &str, process: &ProcessFacts) -> bool {
    let path = path.trim_end_matches('/');
    let below = process.cgroup.as_deref().and_then(|found| found.strip_prefix(path));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ProcessFacts {
    /// Reads from `/proc` those facts about a process that [`admits`] needs for `tracked`; which every session reads
    /// for every starting process. The process id may be reused in the meantime, so the caller must check afterwards
    /// that the process is still alive.
    ///
    /// # Errors
    /// The error of the system, or that there is no such process.
    pub(crate) fn read(pid: u32, tracked: &Tracked) -> io::Result<ProcessFacts> {
        let file = |name: &str| read_proc(format!("/proc/{pid}/{name}"));
        let mut facts = ProcessFacts { pid, ..ProcessFacts::default() };
        if tracked.uids.is_some() || tracked.gids.is_some() {
            let status = file("status")?;
            let found = real(&status, b"Uid:").zip(real(&status, b"Gid:"));
            (facts.uid, facts.gid) = found.ok_or(io::ErrorKind::NotFound)?;
        }
        if tracked.names.is_some() {
            facts.names = Some(ProcessNames::read(Path::new(&format!("/proc/{pid}")))?);
        }
        if tracked.cgroups.is_some() {
            let groups = file("cgroup").ok().and_then(|text| String::from_utf8(text).ok());
            facts.cgroup = groups.and_then(|text| {
                text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned))
            });
        }
        Ok(facts)
    }
}

/// Returns the first number on the line `key` of `/proc/PID/status`. A name in `status` has no line breaks, since the
/// kernel escapes them.
fn real(status: &[u8], key: &[u8]) -> Option<u32> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key))?;
    std::str::from_utf8(line).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> ProcessFacts {
        ProcessFacts {
            pid: 7,
            uid: 1000,
            gid: 100,
            names: Some(ProcessNames::of_ended(Some("shop-worker-nam"), Some("/opt/shopd"))),
            cgroup: Some("/system.slice/shop.service".to_owned()),
        }
    }

    fn texts(all: &[&str]) -> Option<Vec<String>> {
        Some(all.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn tracked_admits_who_is_one_of_each_kind() {
        let everybody = Tracked::default();
        assert!(everybody.is_everybody() && admits(&everybody, &process()));
        let none = Tracked { pids: Some(Vec::new()), ..Tracked::default() };
        assert!(!none.is_everybody() && !admits(&none, &process()));
        let both = |uid, gid| Tracked {
            pids: Some(vec![3, 7]),
            uids: Some(vec![uid]),
            gids: Some(vec![gid, 5]),
            ..Tracked::default()
        };
        assert!(admits(&both(1000, 100), &process()));
        assert!(!admits(&both(0, 100), &process()) && !admits(&both(1000, 0), &process()));
    }

    #[test]
    fn tracked_of_one_that_has_ended_are_reported_by_numbers_and_names_that_are_known() {
        let users = |uid| Tracked { uids: Some(vec![uid]), ..Tracked::default() };
        let named = |uid| Tracked { names: texts(&["bank*"]), ..users(uid) };
        let shops = Tracked { names: texts(&["bank", "shopd"]), ..users(1000) };
        let in_group = Tracked { cgroups: texts(&["/"]), ..shops.clone() };
        for (tracked, wanted) in [
            (Tracked::default(), Some(true)),
            (users(1000), Some(true)),
            (users(0), Some(false)),
            (named(1000), None),
            (named(0), Some(false)),
            (shops.clone(), Some(true)),
            (in_group, None),
        ] {
            assert_eq!(admits_ended(&tracked, &process()), wanted, "{tracked:?}");
        }
        let nameless = ProcessFacts { names: None, ..process() };
        assert_eq!(admits_ended(&shops, &nameless), None);
        assert!(!admits(&shops, &nameless));
    }

    #[test]
    fn tracked_names_are_globs_of_threads_and_files() {
        for (name, admitted) in [
            ("shop-worker-nam", true),
            ("shop-worker-name-long", true),
            ("shop*", true),
            ("shopd", true),
            ("*worker*", true),
            ("shop-worker", false),
            ("shop??", false),
            ("", false),
        ] {
            let tracked = Tracked { names: texts(&["other", name]), ..Tracked::default() };
            assert_eq!(admits(&tracked, &process()), admitted, "{name}");
        }
    }

    #[test]
    fn tracked_cgroups_are_those_and_all_below() {
        for (path, admitted) in [
            ("/", true),
            ("/system.slice", true),
            ("/system.slice/", true),
            ("/system.slice/shop.service", true),
            ("/system.slice/shop", false),
            ("/system.slice/shop.service/x", false),
            ("system.slice", false),
        ] {
            let tracked = Tracked { cgroups: texts(&[path]), ..Tracked::default() };
            assert_eq!(admits(&tracked, &process()), admitted, "{path}");
            assert!(!admits(&tracked, &ProcessFacts { cgroup: None, ..process() }));
        }
    }

    #[test]
    fn process_is_what_the_kernel_says_of_it() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let all = Tracked {
            pids: None,
            uids: Some(Vec::new()),
            gids: Some(Vec::new()),
            names: Some(Vec::new()),
            cgroups: Some(Vec::new()),
            with_machine: false,
        };
        let read = |tracked: &Tracked| ProcessFacts::read(child.id(), tracked);
        let is_sleep = |found: ProcessFacts| found.names.is_some_and(|all| all.include("sleep"));
        while !read(&all).is_ok_and(is_sleep) {
            std::thread::yield_now();
        }
        let found = read(&all).unwrap();
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        assert_eq!((found.pid, found.uid), (child.id(), uid.as_raw()));
        assert_eq!(found.gid, gid.as_raw());
        // Of the others nothing is read.
        let named = Tracked { uids: None, gids: None, cgroups: None, ..all.clone() };
        assert_eq!(read(&named).unwrap(), ProcessFacts { uid: 0, gid: 0, cgroup: None, ..found });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ProcessFacts::read(child.id(), &all).is_err());
    }
}
