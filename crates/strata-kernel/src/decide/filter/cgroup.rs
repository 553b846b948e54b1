//! Finds control groups by their path or by what people call them: a group's own name, or a container's.
//!
//! Any user who may create control groups can give one any name. A name that fits several groups is refused, and
//! callers print which group was found.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::read_dir;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{stat, statfs};
use strata_filter::{nearest, Misspelt};

use super::group_error::GroupError;
use super::FilterError;
use crate::read::container_name::{container_of, is_id, named};

/// The most groups of a machine that are read.
const GROUPS_MAX: usize = 1 << 16;
/// The least number of first digits by which a container's id may be given.
const DIGITS_MIN: usize = 4;
/// The most names of similar groups and containers in a message.
const SHOWN: usize = 3;
/// Length of the longest name that is compared when similar names are searched \[byte\].
const LONGEST: usize = 128;

/// Usual mount points of control groups of version 2: alone, or beside version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2: i64 = 0x6367_7270;

fn is_cgroup2(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|statfs| i128::from(statfs.f_type) == i128::from(CGROUP2))
}

fn root() -> Option<&'static str> {
    ROOTS.into_iter().find(|root| is_cgroup2(Path::new(root)))
}

/// Returns how well the name fits this group; smaller numbers fit better. The best fit is the path without its first
/// `/`; then the end of the path, the name or id of the group's container, and the first digits of that id. `None` if
/// the name does not fit.
#[must_use]
pub fn likeness(path: &str, name: &str) -> Option<u8> {
    if name.is_empty() {
        return None;
    }
    let name = name.trim_end_matches('/');
    let inside = path.trim_matches('/');
    if inside == name.trim_start_matches('/') {
        return Some(0);
    }
    if name.is_empty() || name.starts_with('/') {
        return None;
    }
    if inside.strip_suffix(name).is_some_and(|before| before.ends_with('/')) {
        return Some(1);
    }
    let container = container(path)?;
    if container == name {
        return Some(2);
    }
    let is_begin = is_id(&container) && name.len() >= DIGITS_MIN && container.starts_with(name);
    is_begin.then_some(3)
}

/// Returns the name of the container whose group this is; `None` for a group within a container's.
fn container(path: &str) -> Option<String> {
    let name = named(path.as_bytes())?;
    let above = path.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
    (named(above.as_bytes()).as_ref() != Some(&name)).then_some(name)
}

/// Returns the path of the group with this name. A path is returned unchanged, whether or not it exists.
///
/// # Errors
/// No group has the name, or several have.
pub fn find(name: &str) -> Result<String, GroupError> {
    if name.starts_with('/') {
        return Ok(name.to_owned());
    }
    let Some(root) = root() else {
        return Err(GroupError::Unmounted { name: shown(name) });
    };
    meant(name, &groups(Path::new(root)))
}

/// Returns the path of the container's group. `name`: the name or id of the container, the first digits of that id, or the
/// path of its group. `runtime_ids`: the ids of the containers that runtimes call so.
///
/// # Errors
/// No container has the name, or several have.
pub fn find_container(name: &str, runtime_ids: &[String]) -> Result<String, GroupError> {
    if name.starts_with('/') {
        return Ok(name.to_owned());
    }
    let Some(root) = root() else {
        return Err(GroupError::Unmounted { name: shown(name) });
    };
    meant_container(name, runtime_ids, &groups(Path::new(root)))
}

/// Returns the one group that a container's name means. It is an error if the name belongs to one group and a
/// container runtime uses it for another: any user who may create groups could imitate a container's name.
fn meant_container(
    name: &str,
    runtime_ids: &[String],
    groups: &[String],
) -> Result<String, GroupError> {
    let of_containers: Vec<String> =
        groups.iter().filter(|path| container(path).is_some()).cloned().collect();
    let own = meant(name, &of_containers);
    let mut found = match &own {
        Ok(path) => vec![path.clone()],
        Err(GroupError::None { .. }) => Vec::new(),
        Err(_) => return own,
    };
    for id in runtime_ids {
        match meant(id, &of_containers) {
            Ok(path) if !found.contains(&path) => found.push(path),
            // A container that does not run has no group.
            Ok(_) | Err(GroupError::None { .. }) => {}
            several => return several,
        }
    }
    match found.as_slice() {
        [] => own,
        [path] => Ok(path.clone()),
        several => Err(called_so(name, several)),
    }
}

/// Endings of the names of systemd's units that have a control group.
const UNITS: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];

/// Returns the path of the group of a unit of systemd, such as `ssh.service`; without an ending it is a service. A path is
/// returned unchanged.
///
/// # Errors
/// No unit that runs has the name, or several have.
pub fn find_unit(name: &str) -> Result<String, GroupError> {
    if name.starts_with('/') {
        return Ok(name.to_owned());
    }
    let Some(root) = root() else {
        return Err(GroupError::Unmounted { name: shown(name) });
    };
    meant_unit(name, &groups(Path::new(root)))
}

fn meant_unit(name: &str, groups: &[String]) -> Result<String, GroupError> {
    let is_unit = |name: &str| UNITS.iter().any(|ending| name.ends_with(ending));
    let whole = if is_unit(name) { name.to_owned() } else { format!("{name}.service") };
    let units: Vec<String> = groups.iter().filter(|path| is_unit(path)).cloned().collect();
    meant(&whole, &units)
}

fn shown(name: &str) -> String {
    name.escape_debug().take(LONGEST).collect()
}

/// Returns the paths of all groups, from the root of the hierarchy, parents before children. Groups whose names are not
/// UTF-8 are left out.
fn groups(root: &Path) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut at = 0;
    while at < all.len() && all.len() < GROUPS_MAX {
        let folder = root.join(all[at].trim_start_matches('/'));
        for entry in read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                all.extend(entry.file_name().to_str().map(|name| format!("{}/{name}", all[at])));
            }
        }
        at += 1;
    }
    all[0].push('/');
    all
}

fn meant(name: &str, groups: &[String]) -> Result<String, GroupError> {
    let like = |path: &&String| likeness(path, name);
    let best = groups.iter().filter_map(|path| like(&path)).min();
    let is_found = |path: &&String| best.is_some() && like(path) == best;
    let found: Vec<String> = groups.iter().filter(is_found).cloned().collect();
    match found.as_slice() {
        [] => Err(GroupError::None { name: shown(name), near: near(name, groups) }),
        [path] => Ok(path.clone()),
        several => Err(called_so(name, several)),
    }
}

fn called_so(name: &str, paths: &[String]) -> GroupError {
    let which: Vec<String> = paths.iter().take(SHOWN).map(|path| shown(path)).collect();
    GroupError::Several { name: shown(name), found: paths.len(), which: which.join(", ") }
}

/// Returns a text with names of groups and containers that are similar to `name` or contain it.
fn near(name: &str, groups: &[String]) -> String {
    let misspelt = Misspelt::new(name);
    let mut found: Vec<(usize, &String)> = Vec::new();
    for path in groups.iter().filter(|path| path.len() > 1) {
        let own = path.rsplit('/').next().unwrap_or(path);
        let other = container(path).map(|_| container_of(path.as_bytes()));
        let texts = [Some(own), other.as_deref()].into_iter().flatten();
        found.extend(texts.filter_map(|text| Some((misspelt.slips_or_part(text)?, path))));
    }
    match nearest(found, SHOWN).into_iter().map(|path| shown(path)).collect::<Vec<_>>() {
        none if none.is_empty() => ".".to_owned(),
        paths => format!(". Did you mean {}?", paths.join(" or ")),
    }
}

/// Returns the paths of all groups that exist, by their ids as `bpf_get_current_cgroup_id` has them.
#[must_use]
pub fn paths() -> HashMap<u64, String> {
    let Some(root) = root() else { return HashMap::new() };
    let id = |path: &String| Some(stat(format!("{root}{path}")).ok()?.st_ino);
    groups(Path::new(root)).into_iter().filter_map(|path| Some((id(&path)?, path))).collect()
}

/// Returns the id of the group, as `bpf_get_current_cgroup_id` has it: the inode number of its folder.
pub(crate) fn id(path: &[u8], part: impl Fn() -> String) -> Result<u64, FilterError> {
    let Some(root) = root() else {
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

/// Returns the id of the group with this path or name, as `bpf_get_current_cgroup_id` has it; `None` if no group or
/// more than one has this path or name.
#[must_use]
pub fn number_of(name: &[u8]) -> Option<u64> {
    id_of_called(name, String::new).ok()
}

/// Returns the id of the group with this name or path.
pub(crate) fn id_of_called(name: &[u8], part: impl Fn() -> String) -> Result<u64, FilterError> {
    match std::str::from_utf8(name).ok().filter(|name| !name.starts_with('/') && root().is_some()) {
        Some(name) => match find(name) {
            Ok(path) => id(path.as_bytes(), part),
            Err(cause) => Err(FilterError::CgroupName { part: part(), cause }),
        },
        None => id(name, part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn all() -> Vec<String> {
        let inner = format!("{ID}/system.slice/cron.service");
        let paths = [
            "/",
            "/system.slice",
            "/system.slice/cron.service",
            "/system.slice/shop.service",
            "/lxc/web",
            "/user.slice/shop.service",
            "/machine.slice/machine-db\\x2done.scope",
            "/machine.slice/machine-db\\x2done.scope/payload",
            ID,
            &inner,
        ];
        paths.map(str::to_owned).to_vec()
    }

    #[test]
    fn names_of_groups_and_containers_mean_one_group() {
        for (name, path) in [
            ("system.slice", "/system.slice"),
            ("system.slice/shop.service", "/system.slice/shop.service"),
            ("user.slice/shop.service/", "/user.slice/shop.service"),
            ("web", "/lxc/web"),
            ("db-one", "/machine.slice/machine-db\\x2done.scope"),
            ("payload", "/machine.slice/machine-db\\x2done.scope/payload"),
            ("0123456789ab", ID),
            ("0123", ID),
            (&ID[8..], ID),
        ] {
            assert_eq!(meant(name, &all()), Ok(path.to_owned()), "{name}");
        }
        // A path is itself, whatever there is.
        assert_eq!(find("/no/such"), Ok("/no/such".to_owned()));
    }

    #[test]
    fn containers_and_units_are_found_among_their_own_kind() {
        let id = [ID[8..].to_owned()];
        let both = [ID[8..].to_owned(), "web".to_owned()];
        for (name, runtime_ids, path) in [
            ("web", &[][..], "/lxc/web"),
            ("0123", &[], ID),
            ("db-one", &[], "/machine.slice/machine-db\\x2done.scope"),
            ("shop", &id, ID),
            ("0123", &id, ID),
            // The container that a runtime calls so does not run.
            ("web", &["fedcba".to_owned()], "/lxc/web"),
        ] {
            let found = meant_container(name, runtime_ids, &all());
            assert_eq!(found, Ok(path.to_owned()), "{name}");
        }
        // A group that is called as a container of a runtime, and two runtimes that call theirs so.
        for (name, runtime_ids) in [("web", &id[..]), ("shop", &both)] {
            let error = meant_container(name, runtime_ids, &all());
            assert!(matches!(error, Err(GroupError::Several { found: 2, .. })), "{error:?}");
        }
        for name in ["payload", "system.slice", "cron.service", "shop"] {
            assert!(meant_container(name, &[], &all()).is_err(), "{name}");
        }
        assert!(meant_container("shop", &["fedcba".to_owned()], &all()).is_err());
        let paths = ["/system.slice/ssh.service", "/system.slice/ssh.socket", "/a/ssh"];
        let paths: Vec<String> = paths.map(str::to_owned).to_vec();
        for (name, path) in [("ssh", 0), ("ssh.service", 0), ("ssh.socket", 1)] {
            assert_eq!(meant_unit(name, &paths), Ok(paths[path].clone()), "{name}");
        }
        assert!(meant_unit("a", &paths).is_err());
        assert!(matches!(meant_unit("shop", &all()), Err(GroupError::Several { found: 2, .. })));
    }

    #[test]
    fn names_of_none_and_of_several_are_refused_with_what_there_is() {
        for (name, said) in [
            (
                "shop.service",
                "2 are called so: /system.slice/shop.service, /user.slice/shop.service.",
            ),
            ("shop.servce", "Did you mean /system.slice/shop.service or /user.slice/shop.service?"),
            ("shop", "Did you mean /system.slice/shop.service or /user.slice/shop.service?"),
            ("weeb", "Did you mean /lxc/web?"),
            ("db-on", "Did you mean /machine.slice/machine-db"),
            ("012", "Did you mean /docker/0123"),
            ("0124", "called so. Start"),
            ("1123456789ab", "Did you mean /docker/0123"),
            ("hop.service", "Did you mean"),
            ("", "called so. Start"),
        ] {
            let error = meant(name, &all()).unwrap_err().to_string();
            assert!(error.contains(said), "{name}: {error}");
        }
        let error = meant("x\n", &all()).unwrap_err().to_string();
        assert!(error.contains(r"'x\n'") && error.contains("'{{.Id}}'"), "{error}");
    }
}
