//! Finds the control group (version 2) of a process, by the number that the kernel's events have in their context
//! `cgroup_id`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{stat, statfs};

use crate::processes::process::read_proc;

/// Mount points of control groups of version 2: alone, or together with version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2: i128 = 0x6367_7270;

/// Returns the id of a process' control group; `None` if it is not visible from here.
pub(crate) fn of(pid: u32) -> Option<u64> {
    let groups = read_proc(format!("/proc/{pid}/cgroup")).ok()?;
    number(path_in(&groups)?)
}

/// Returns the group's path in the text of `/proc/PID/cgroup`; `None` for a group outside of our own cgroup namespace.
fn path_in(groups: &[u8]) -> Option<&Path> {
    let path = groups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    let path = Path::new(OsStr::from_bytes(path));
    let is_inside = path.components().all(|one| one != Component::ParentDir);
    (path.is_absolute() && is_inside).then_some(path)
}

/// Returns what `bpf_get_current_cgroup_id` returns in the group: the inode number of its folder.
fn number(path: &Path) -> Option<u64> {
    let inside = path.strip_prefix("/").ok()?;
    ROOTS.iter().find_map(|root| {
        let folder = Path::new(root).join(inside);
        let system = statfs(&folder).ok()?;
        let is_group = i128::from(system.f_type) == CGROUP2;
        is_group.then(|| stat(&folder).ok()).flatten().map(|found| found.st_ino)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_that_of_version_2_and_inside() {
        let of = |text: &'static str| path_in(text.as_bytes()).and_then(Path::to_str);
        assert_eq!(of("4:memory:/a\n1:cpu:/b\n0::/c/d.scope\n"), Some("/c/d.scope"));
        assert_eq!(of("0::/\n"), Some("/"));
        assert_eq!(of("0::/a..b"), Some("/a..b"));
        for none in ["", "4:memory:/a\n", "0::\n", "0::a\n", "0::/..\n", "0::/../a\n", "10::/a\n"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn number_is_that_of_the_group_s_folder_and_none_of_what_is_no_group() {
        assert_eq!(number(Path::new("/no such group")), None);
        let root = ROOTS.iter().find(|root| {
            statfs(Path::new(root)).is_ok_and(|found| i128::from(found.f_type) == CGROUP2)
        });
        let Some(root) = root else {
            assert_eq!(number(Path::new("/")), None);
            return eprintln!("skip: no control groups of version 2");
        };
        assert_eq!(number(Path::new("/")), Some(stat(Path::new(root)).unwrap().st_ino));
        assert_eq!(of(std::process::id()), of_self());
        assert_eq!(of(u32::MAX), None);
    }

    fn of_self() -> Option<u64> {
        number(path_in(&read_proc("/proc/self/cgroup").unwrap())?)
    }
}
