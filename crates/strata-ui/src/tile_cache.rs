//! A folder of models that were made before: the second time a trace is shown, it is not read again.
//!
//! The folder is `$XDG_CACHE_HOME/strata/ui`, by default `~/.cache/strata/ui`, and this user's alone. It is opened before
//! root's rights are given up. Root's server, which is user nobody then, may write into this folder and nowhere else:
//! the folder belongs to nobody, and lies in one that only root can enter.
//!
//! A file is written under a name of its own and renamed once it is whole. Files that were not used for long, and the
//! oldest ones where all together are too large, are removed whenever another one is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    fchown, fstat, futimens, mkdirat, openat, renameat, unlinkat, AtFlags, Dir, Gid, Mode, OFlags,
    Stat, Timespec, Timestamps, Uid, CWD, UTIME_NOW,
};
use rustix::io::Errno;

use crate::rights::NOBODY;

/// The largest file \[byte\], and the most bytes of all files.
const FILE_MAX: u64 = 1 << 30;
const ALL_MAX: u64 = 2 << 30;
/// Free space that must stay on the folder's disk \[byte\].
const ROOM_LEFT: u64 = 1 << 30;
/// The most files.
const FILES_MAX: usize = 64;
/// Time after which a file that was not used is removed, and one that was never completed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
const ABANDONED: Duration = Duration::from_secs(24 * 3600);
/// What names end in: of complete files, and of those that are being written.
const WHOLE: &str = ".model";
const NEW: &str = ".new";

/// The folder of stored models.
#[derive(Debug)]
pub struct TileCache {
    folder: OwnedFd,
}

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: OsString,
    bytes: u64,
    /// Time of the last use.
    used: SystemTime,
}

impl TileCache {
    /// Opens the folder, which is made if it does not exist. As root, this must be done before root's rights are given up.
    ///
    /// # Errors
    /// There is no such folder and it cannot be made, or it is not this user's alone. The text says which folder.
    pub fn open() -> io::Result<TileCache> {
        let absolute =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let above =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|it| it.join(".cache")));
        let above =
            above.ok_or_else(|| io::Error::other("neither XDG_CACHE_HOME nor HOME is set"))?;
        TileCache::open_in(&above.join("strata/ui"), rustix::process::geteuid().is_root())
    }

    fn open_in(path: &Path, is_root: bool) -> io::Result<TileCache> {
        let failed =
            |at: &Path, text: String| io::Error::other(format!("{}: {text}", at.display()));
        let mut folder = openat(CWD, "/", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut at = PathBuf::from("/");
        for part in path.components() {
            let name = match part {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                _ => return Err(failed(path, "the path has '..' in it".into())),
            };
            at.push(name);
            let is_last = at == path;
            let is_above = path.parent() == Some(at.as_path());
            // A user may have a link in the own home; root follows none that somebody else could have made.
            folder = match enter(&folder, name, is_root || is_last, is_last) {
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(failed(&at, "it is a link, or no folder".into()))
                }
                entered => entered.map_err(|error| failed(&at, error.to_string()))?,
            };
            let status = fstat(&folder)?;
            if is_root && is_last && status.st_uid == 0 {
                fchown(&folder, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)))?;
            }
            let owner = match (is_root, is_last) {
                (true, false) => 0,
                (true, true) => NOBODY,
                (false, _) => rustix::process::geteuid().as_raw(),
            };
            if is_root || is_last {
                check(&fstat(&folder)?, owner, is_last).map_err(|text| failed(&at, text))?;
            }
            // What is nobody's is every program's that runs as nobody, where it can be reached.
            if is_root && is_above && status.st_mode & 0o011 != 0 {
                let mode = status.st_mode & 0o7777;
                let text = format!("others may enter it (mode {mode:04o}): chmod 700");
                return Err(failed(&at, text));
            }
        }
        Ok(TileCache { folder })
    }

    /// Returns the file for this key, if there is one.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<File> {
        let file = self.file(OsStr::new(&format!("{key}{WHOLE}")))?;
        // So that it is seen to be used.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = futimens(&file, &Timestamps { last_access: now, last_modification: now });
        Some(file)
    }

    /// Opens a file that this process could have written.
    fn file(&self, name: &OsStr) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, name, flags, Mode::empty()).ok()?);
        let status = file.metadata().ok()?;
        let is_own = status.is_file()
            && status.uid() == rustix::process::geteuid().as_raw()
            && status.mode() & 0o022 == 0
            && status.len() <= FILE_MAX;
        is_own.then_some(file)
    }

    /// Stores a file for this key. `write` gets the new file and what is asked before it grows.
    ///
    /// # Errors
    /// The file cannot be written, or is too large; then there is none of that key which was not there before.
    pub fn store(
        &self,
        key: &str,
        write: impl FnOnce(&File, &dyn Fn(u64) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.remove_old(SystemTime::now(), 0)?;
        let name = format!("{key}.{}{NEW}", std::process::id());
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, &name, flags, Mode::RUSR | Mode::WUSR)?);
        let may_grow = |bytes: u64| {
            let disk = rustix::fs::fstatvfs(&file)?;
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            match bytes <= FILE_MAX && free >= ROOM_LEFT {
                true => Ok(()),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        };
        let stored = write(&file, &may_grow)
            .and_then(|()| self.remove_old(SystemTime::now(), file.metadata()?.len()))
            .and_then(|()| {
                Ok(renameat(&self.folder, &name, &self.folder, format!("{key}{WHOLE}"))?)
            });
        if stored.is_err() {
            let _ = unlinkat(&self.folder, &name, AtFlags::empty());
        }
        stored
    }

    /// Removes files that were not used for long, and the oldest ones until `more` bytes fit.
    fn remove_old(&self, now: SystemTime, more: u64) -> io::Result<()> {
        for name in too_old(self.entries()?, now, more) {
            match unlinkat(&self.folder, &name, AtFlags::empty()) {
                // Another server has removed it.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(self.folder.as_fd())? {
            let entry = entry?;
            let name = OsString::from(entry.file_name().to_string_lossy().into_owned());
            let text = name.to_string_lossy();
            // What somebody else has put there stays.
            if !(text.ends_with(WHOLE) || text.ends_with(NEW)) {
                continue;
            }
            if let Some(status) = self.file(&name).and_then(|file| file.metadata().ok()) {
                let used = status.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push(Entry { name, bytes: status.len(), used });
            }
        }
        Ok(entries)
    }
}

/// Opens a folder within another one; it is made if it does not exist.
fn enter(
    above: &OwnedFd,
    name: &OsStr,
    is_no_link: bool,
    is_read: bool,
) -> rustix::io::Result<OwnedFd> {
    let follow = if is_no_link { OFlags::NOFOLLOW } else { OFlags::empty() };
    // Others' folders on the way may be such that this user can enter and not list them.
    let read = if is_read { OFlags::RDONLY } else { OFlags::PATH };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | follow | read;
    match openat(above, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            match mkdirat(above, name, Mode::RWXU) {
                // Another server has made it just now.
                Ok(()) | Err(Errno::EXIST) => {
                    openat(above, name, flags | OFlags::NOFOLLOW, Mode::empty())
                }
                Err(error) => Err(error),
            }
        }
        opened => opened,
    }
}

/// Checks that nobody but the owner can change what a folder has.
fn check(status: &Stat, owner: u32, is_last: bool) -> Result<(), String> {
    if status.st_uid != owner {
        return Err(format!("it belongs to user {}, and not to {owner}", status.st_uid));
    }
    // In a folder such as /tmp, others can make files, and not remove or rename this user's.
    let is_sticky = status.st_mode & 0o1000 != 0 && !is_last;
    if status.st_mode & 0o022 != 0 && !is_sticky {
        return Err(format!("others may write into it (mode {:04o})", status.st_mode & 0o7777));
    }
    Ok(())
}

/// Returns the files to be removed, so that `more` bytes fit.
fn too_old(mut entries: Vec<Entry>, now: SystemTime, more: u64) -> Vec<OsString> {
    // The one that was used last comes first. A time that is yet to come, by a clock that was set back, is as good as now.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    let (mut bytes, mut files) = (more, 0);
    let mut removed = Vec::new();
    for Entry { name, bytes: own, used } in entries {
        let age = now.duration_since(used).unwrap_or_default();
        let is_new = name.to_string_lossy().ends_with(NEW);
        if is_new && age < ABANDONED {
            continue;
        }
        bytes = bytes.saturating_add(own);
        files += 1;
        if is_new || age > UNUSED || bytes > ALL_MAX || files >= FILES_MAX {
            bytes = bytes.saturating_sub(own);
            files -= 1;
            removed.push(name);
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("strata-ui-cache-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn files_that_are_old_or_too_many_are_removed_and_those_that_are_being_written_are_not() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 31);
        let entry = |name: &str, bytes, seconds| {
            let used = now - Duration::from_secs(seconds);
            Entry { name: name.into(), bytes, used }
        };
        let day = 24 * 3600;
        let entries = vec![
            entry("a.model", 1 << 30, 50),
            entry("b.model", 1 << 29, 10),
            entry("c.model", 1, 31 * day),
            entry("d.new", 1 << 40, 10),
            entry("e.new", 1, 2 * day),
            entry("f.model", 1 << 29, 100),
        ];
        let mut removed = too_old(entries.clone(), now, 0);
        removed.sort();
        assert_eq!(removed, ["c.model", "e.new"]);
        let mut removed = too_old(entries, now, 1);
        removed.sort();
        assert_eq!(removed, ["c.model", "e.new", "f.model"]);
        let many = (0..100).map(|n| entry(&format!("{n:03}.model"), 1, n)).collect();
        let removed = too_old(many, now, 0);
        assert_eq!((removed.len(), removed[0].to_str()), (100 - FILES_MAX + 1, Some("063.model")));
    }

    #[test]
    fn file_is_there_once_it_is_whole_and_others_are_no_files_of_ours() {
        let path = folder("store");
        let is_root = rustix::process::geteuid().is_root();
        let cache = TileCache::open_in(&path.join("strata/ui"), false).unwrap();
        let own = path.join("strata/ui");
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let write = |text: &'static str| {
            move |file: &File, may_grow: &dyn Fn(u64) -> io::Result<()>| {
                may_grow(10)?;
                std::os::unix::fs::FileExt::write_all_at(file, text.as_bytes(), 0)
            }
        };
        assert!(cache.find("key").is_none());
        cache.store("key", write("one")).unwrap();
        cache.store("key", write("two")).unwrap();
        let read =
            |cache: &TileCache| cache.find("key").map(|file| io::read_to_string(file).unwrap());
        assert_eq!(read(&cache).as_deref(), Some("two"));
        // One that fails leaves nothing, and the one before.
        let failed = cache.store("key", |file, _| {
            std::os::unix::fs::FileExt::write_all_at(file, b"half", 0)?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        let large = cache.store("key", |_, may_grow| may_grow(FILE_MAX + 1));
        assert_eq!(large.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 1);
        assert_eq!(read(&cache).as_deref(), Some("two"));
        // Whatever else has the name.
        let file = own.join("key.model");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o620)).unwrap();
        assert!(read(&cache).is_none());
        std::fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        assert!(read(&cache).is_none());
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(read(&cache).is_none());
        std::fs::remove_dir(&file).unwrap();
        rustix::fs::mknodat(CWD, &file, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        assert!(read(&cache).is_none());
        if is_root {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, "another's").unwrap();
            std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
            assert!(read(&cache).is_none());
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn folder_that_others_may_have_made_or_can_change_is_not_used() {
        let path = folder("trust");
        let refused = |at: &Path, is_root, part: &str| {
            let text = TileCache::open_in(at, is_root).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        };
        std::fs::create_dir_all(path.join("open/strata/ui")).unwrap();
        std::fs::set_permissions(path.join("open/strata/ui"), PermissionsExt::from_mode(0o777))
            .unwrap();
        refused(&path.join("open/strata/ui"), false, "mode 0777");
        symlink(path.join("open/strata"), path.join("link")).unwrap();
        symlink(path.join("nowhere"), path.join("open/strata/gone")).unwrap();
        refused(&path.join("open/strata/gone"), false, "it is a link");
        // The link of a user leads the user, and not root.
        std::fs::set_permissions(path.join("open/strata/ui"), PermissionsExt::from_mode(0o700))
            .unwrap();
        assert!(TileCache::open_in(&path.join("link/ui"), false).is_ok());
        if rustix::process::geteuid().is_root() {
            refused(&path.join("link/ui"), true, "it is a link");
            let home = path.join("home");
            std::fs::create_dir(&home).unwrap();
            std::os::unix::fs::chown(&home, Some(12345), None).unwrap();
            refused(&home.join("strata/ui"), true, "belongs to user 12345");
            assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
            let own = path.join("root/strata/ui");
            drop(TileCache::open_in(&own, true).unwrap());
            assert_eq!(own.metadata().unwrap().uid(), NOBODY);
            assert_eq!(path.join("root/strata").metadata().unwrap().uid(), 0);
            assert!(TileCache::open_in(&own, true).is_ok());
            std::fs::set_permissions(path.join("root/strata"), PermissionsExt::from_mode(0o755))
                .unwrap();
            refused(&own, true, "others may enter it (mode 0755)");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
