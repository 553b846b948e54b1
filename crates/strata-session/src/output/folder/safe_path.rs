//! Safe resolution of a path that is used without supervision, such as at each boot: other users cannot redirect any
//! part of it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::folder_errors::{is_trusted, system, FolderError};

/// The most symbolic links on a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Creates the missing folders of the absolute path `path`. Checks that each folder and link on the way belongs to
/// root or this user, so that no other user can replace it. Returns the real path.
///
/// # Errors
/// [`FolderError`].
pub(super) fn own(path: &Path) -> Result<PathBuf, FolderError> {
    let mut rest = names(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    check(&at, &look(&at)?)?;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = match next.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&next)?;
                look(&next)?
            }
            _ => look(&next)?,
        };
        check(&next, &found)?;
        if found.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(system(&next, "follow it", Errno::LOOP.into()));
            }
            let target = fs::read_link(&next).map_err(|error| system(&next, "read it", error))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(names(&target));
        } else if found.is_dir() {
            at = next;
        } else {
            return Err(FolderError::NotFolder { path: next });
        }
    }
    Ok(at)
}

/// Returns the names on the path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let steps = path.components().rev();
    steps
        .filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir))
        .map(|step| step.as_os_str().to_owned())
        .collect()
}

fn look(path: &Path) -> Result<Metadata, FolderError> {
    path.symlink_metadata().map_err(|error| system(path, "look at it", error))
}

fn make(path: &Path) -> Result<(), FolderError> {
    match DirBuilder::new().mode(0o700).create(path) {
        // If another process created the folder in the meantime, that folder is checked.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(system(path, "make it", error))
        }
        _ => Ok(()),
    }
}

fn check(path: &Path, found: &Metadata) -> Result<(), FolderError> {
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if !is_trusted(owner) && !is_unknown(owner) {
        return Err(FolderError::NotOurs { path: path.to_owned(), owner });
    }
    let others = if found.gid() == 0 { libc::S_IWOTH } else { libc::S_IWOTH | libc::S_IWGRP };
    // A link has no mode of its own. In a folder with the sticky bit, only a name's owner can replace it, and the owner
    // is checked next.
    if !found.is_symlink() && mode & libc::S_ISVTX == 0 && mode & others != 0 {
        return Err(FolderError::OpenToAll { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Returns whether this user id stands for all users that are unknown in this user namespace. The machine's
/// root may be one of them.
fn is_unknown(uid: u32) -> bool {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let is_whole = |map: &str| map.split_whitespace().eq(["0", "0", "4294967295"]);
    text("/proc/sys/kernel/overflowuid").trim().parse() == Ok(uid)
        && !is_whole(&text("/proc/self/uid_map"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::Scratch;
    use std::os::unix::fs::{chown, symlink, PermissionsExt as _};

    #[test]
    fn way_is_made_and_its_links_are_followed() {
        let scratch = Scratch::new("way");
        let true_path = scratch.0.canonicalize().unwrap();
        fs::create_dir(scratch.0.join("disk")).unwrap();
        symlink("disk/../disk", scratch.0.join("link")).unwrap();
        symlink(true_path.join("link"), scratch.0.join("far")).unwrap();
        let made = own(&scratch.0.join("far/a/b")).unwrap();
        assert_eq!(made, true_path.join("disk/a/b"));
        assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(own(&made).unwrap(), made);
        symlink("round", scratch.0.join("round")).unwrap();
        let error = own(&scratch.0.join("round/a")).unwrap_err();
        assert!(matches!(error, FolderError::System { what: "follow it", .. }), "{error}");
        fs::write(scratch.0.join("file"), "").unwrap();
        let error = own(&scratch.0.join("file/a")).unwrap_err();
        assert!(matches!(error, FolderError::NotFolder { .. }), "{error}");
    }

    #[test]
    fn way_through_a_folder_that_others_can_change_is_refused_and_nothing_is_made_behind_it() {
        let scratch = Scratch::new("way-open");
        let open = scratch.0.join("open");
        fs::create_dir(&open).unwrap();
        for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let name = format!("{mode:o}");
            let found = own(&open.join(&name));
            assert_eq!(
                matches!(found, Err(FolderError::OpenToAll { .. })),
                is_refused,
                "{found:?}"
            );
            assert_eq!(open.join(&name).exists(), !is_refused);
        }
    }

    #[test]
    fn way_through_a_link_or_folder_of_another_user_is_refused() {
        let scratch = Scratch::new("way-other");
        let (disk, link) = (scratch.0.join("disk"), scratch.0.join("link"));
        fs::create_dir(&disk).unwrap();
        symlink(&disk, &link).unwrap();
        if std::os::unix::fs::lchown(&link, Some(4242), None).is_err() {
            eprintln!("skip: only root gives files to other users");
            return;
        }
        let is_refused =
            |path: &Path| matches!(own(path), Err(FolderError::NotOurs { owner: 4242, .. }));
        // Whatever folder of root's it leads to.
        assert!(is_refused(&link.join("a")));
        assert!(!disk.join("a").exists());
        assert!(!is_refused(&disk.join("a")));
        chown(&disk, Some(4242), None).unwrap();
        assert!(is_refused(&disk.join("b")));
        assert!(!disk.join("b").exists());
    }
}
