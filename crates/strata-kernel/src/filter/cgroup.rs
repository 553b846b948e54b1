//! Control groups by path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{stat, statfs};

use super::FilterError;

/// Where control groups of version 2 may be mounted: alone, or beside version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2: i64 = 0x6367_7270;

/// What `bpf_get_current_cgroup_id` gives in the group: the inode number of its folder.
pub(crate) fn id(path: &[u8], part: impl Fn() -> String) -> Result<u64, FilterError> {
    let is_cgroup2 = |folder: &Path| {
        statfs(folder).is_ok_and(|statfs| i128::from(statfs.f_type) == i128::from(CGROUP2))
    };
    let Some(root) = ROOTS.into_iter().find(|root| is_cgroup2(Path::new(root))) else {
        return Err(FilterError::NoCgroups { part: part() });
    };
    let mut folder = PathBuf::from(root);
    let mut is_inside = true;
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::RootDir | Component::CurDir => (),
            Component::Normal(name) => folder.push(name),
            Component::ParentDir | Component::Prefix(_) => is_inside = false,
        }
    }
    let found = stat(&folder).ok().filter(|stat| {
        is_inside && is_cgroup2(&folder) && stat.st_mode & libc::S_IFMT == libc::S_IFDIR
    });
    match found {
        Some(stat) => Ok(stat.st_ino),
        None => Err(FilterError::NoCgroup { part: part(), path: folder }),
    }
}
