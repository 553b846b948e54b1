//! Which processes a session records: those that are tracked. Of what somebody else says of a process nothing counts
//! here, only what the kernel does.

use std::io;

use strata_filter::Pattern;
pub use strata_kernel::Tracked;
use strata_user::read_proc;

/// What the kernel says of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessFacts {
    pub(crate) pid: u32,
    /// Real user.
    pub(crate) uid: u32,
    /// Real group.
    pub(crate) gid: u32,
    /// Its first thread's: 15 bytes at most.
    pub(crate) name: Vec<u8>,
    /// In the hierarchy of version 2, from its root as this program sees it; `None`: the system has none.
    pub(crate) cgroup: Option<String>,
}

/// What the kernel keeps of a name \[byte\].
const NAME_BYTES: usize = 15;

/// Is this process recorded?
pub(crate) fn admits(tracked: &Tracked, process: &ProcessFacts) -> bool {
    admits_numbers(tracked, process)
        && tracked.names.as_ref().is_none_or(|all| all.iter().any(|one| is_named(one, process)))
        && tracked.cgroups.as_ref().is_none_or(|all| all.iter().any(|one| is_within(one, process)))
}

/// Was a process recorded that has ended, and of which only numbers are known? `None`: nobody can say any more.
pub(crate) fn admits_ended(tracked: &Tracked, process: &ProcessFacts) -> Option<bool> {
    if !admits_numbers(tracked, process) {
        return Some(false);
    }
    (tracked.names.is_none() && tracked.cgroups.is_none()).then_some(true)
}

fn admits_numbers(tracked: &Tracked, process: &ProcessFacts) -> bool {
    fn one_of<T: PartialEq>(tracked: Option<&Vec<T>>, found: &T) -> bool {
        tracked.is_none_or(|all| all.contains(found))
    }
    one_of(tracked.pids.as_ref(), &process.pid)
        && one_of(tracked.uids.as_ref(), &process.uid)
        && one_of(tracked.gids.as_ref(), &process.gid)
}

/// A name without `*` and `?` that is longer than what the kernel keeps is compared with as much of it.
fn is_named(name: &str, process: &ProcessFacts) -> bool {
    let pattern = Pattern::glob(name);
    match pattern.exact() {
        Some(exact) => exact.get(..NAME_BYTES).unwrap_or(exact) == process.name,
        None => pattern.matches(&process.name),
    }
}

/// In this group or below.
fn is_within(path: &str, process: &ProcessFacts) -> bool {
    let path = path.trim_end_matches('/');
    let below = process.cgroup.as_deref().and_then(|found| found.strip_prefix(path));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ProcessFacts {
    /// What `/proc` says of a process, as far as [`admits`] asks for it with this `tracked`: each session asks it of each
    /// process that begins. Its number may have become another's meanwhile: who holds the process asks afterwards whether
    /// it is still there.
    ///
    /// # Errors
    /// What the system says, or that there is no such process.
    pub(crate) fn read(pid: u32, tracked: &Tracked) -> io::Result<ProcessFacts> {
        let file = |name: &str| read_proc(format!("/proc/{pid}/{name}"));
        let mut facts = ProcessFacts { pid, ..ProcessFacts::default() };
        if tracked.uids.is_some() || tracked.gids.is_some() {
            let status = file("status")?;
            let found = real(&status, b"Uid:").zip(real(&status, b"Gid:"));
            (facts.uid, facts.gid) = found.ok_or(io::ErrorKind::NotFound)?;
        }
        if tracked.names.is_some() {
            let name = file("comm")?;
            facts.name = name.strip_suffix(b"\n").unwrap_or(&name).to_vec();
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

/// The first number of this line. A name in `status` has no line breaks: the kernel escapes them.
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
            name: b"shop-worker-nam".to_vec(),
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
    fn tracked_of_one_that_has_ended_are_told_by_numbers_alone() {
        let users = |uid| Tracked { uids: Some(vec![uid]), ..Tracked::default() };
        let named = |uid| Tracked { names: texts(&["shop*"]), ..users(uid) };
        for (tracked, wanted) in [
            (Tracked::default(), Some(true)),
            (users(1000), Some(true)),
            (users(0), Some(false)),
            (named(1000), None),
            (named(0), Some(false)),
        ] {
            assert_eq!(admits_ended(&tracked, &process()), wanted, "{tracked:?}");
        }
    }

    #[test]
    fn tracked_names_are_globs_of_what_the_kernel_keeps_of_a_name() {
        for (name, admitted) in [
            ("shop-worker-nam", true),
            ("shop-worker-name-long", true),
            ("shop*", true),
            ("*worker*", true),
            ("shop-worker", false),
            ("shop?", false),
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
        };
        let read = |tracked: &Tracked| ProcessFacts::read(child.id(), tracked);
        while !read(&all).is_ok_and(|found| found.name == b"sleep") {
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
