//! The folder of a user's sessions, and the claims on names in it.

use std::env;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::ControlError;
use crate::group::Group;
use crate::message::clean;
use crate::name::is_name;

/// The folder of a user's sessions, held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Attempts to take a name that another session still holds, since that one may just be ending.
const TRIES: u32 = 10;
/// The most attempts while a reader has the lock, which takes a moment, or longer without a CPU.
const TRIES_OF_LOOKS: u32 = 10_000;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A session's name that belongs to this process as long as this value lives.
#[derive(Debug)]
pub struct Claim {
    folder: OwnedFd,
    name: String,
    /// Lock file, locked as long as the claim lives.
    lock: OwnedFd,
}

/// A session that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningSession {
    pub name: String,
    /// Process id; 0 if the session has not reported it yet.
    pub pid: u32,
}

impl Folder {
    /// Opens this user's folder, after creating it if necessary.
    ///
    /// # Errors
    /// [`ControlError`]: there is no place for the folder, other users may access it, or a system call failed.
    pub fn open() -> Result<Folder, ControlError> {
        let above = match env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
            _ if geteuid().is_root() => PathBuf::from("/run"),
            // As other programs do: a relative path is ignored.
            Some(path) if Path::new(&path).is_absolute() => PathBuf::from(path),
            _ => return Err(ControlError::NoRuntimeFolder),
        };
        Folder::open_in(&above)
    }

    /// Opens the folder within the parent `above` instead of the usual one.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_in(above: &Path) -> Result<Folder, ControlError> {
        let path = above.join("strata-sessions");
        let failed = |what| {
            let path = path.clone();
            move |errno: Errno| ControlError::Folder { path, what, source: errno.into() }
        };
        match fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make the folder for sockets")(errno)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd =
            fs::open(&path, flags, Mode::empty()).map_err(failed("open the folder for sockets"))?;
        let status = fs::fstat(&fd).map_err(failed("look at the folder for sockets"))?;
        let (owner, mode) = (status.st_uid, status.st_mode & 0o7777);
        // Users who may enter root's folder can reach the sockets that are open to their group.
        let others = if geteuid().is_root() { 0o066 } else { 0o077 };
        if owner != geteuid().as_raw() || mode & others != 0 {
            return Err(ControlError::NotOurs { path, owner, mode });
        }
        Ok(Folder { fd, path })
    }

    /// Opens the folder in which the session `name` can be reached: this user's, or root's if the session does not run
    /// there. Root's sessions may be open to a group.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn reaching(name: &str) -> Result<Folder, ControlError> {
        let own = Folder::open();
        if geteuid().is_root() || own.as_ref().is_ok_and(|own| own.pid(name).is_some()) {
            return own;
        }
        let is_in = |folder: &Folder| {
            check(name).is_ok()
                && fs::statat(&folder.fd, format!("{name}.sock"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
        };
        Folder::of_root().filter(is_in).map_or(own, Ok)
    }

    /// Opens root's folder, to send requests to one of its sessions. The owner of the socket is checked again.
    fn of_root() -> Option<Folder> {
        let path = PathBuf::from("/run/strata-sessions");
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
        let fd = fs::open(&path, flags, Mode::empty()).ok()?;
        let status = fs::fstat(&fd).ok()?;
        (status.st_uid == 0 && status.st_mode & 0o022 == 0).then_some(Folder { fd, path })
    }

    /// Opens the log of the session.
    ///
    /// # Errors
    /// A system call failed.
    pub fn said(&self, name: &str) -> Result<File, ControlError> {
        check(name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = fs::openat(&self.fd, format!("{name}.log"), flags, Mode::empty());
        fd.map(File::from).map_err(|errno| system(name, "open what it has said", errno.into()))
    }

    /// Path of the folder, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Claims this name for a session, as long as the [`Claim`] and this process live.
    ///
    /// # Errors
    /// [`ControlError::Exists`], or a system call failed.
    pub fn claim(&self, name: &str) -> Result<Claim, ControlError> {
        check(name)?;
        let failed = |what| move |source: io::Error| system(name, what, source);
        let flags = OFlags::CREATE
            | OFlags::RDWR
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NONBLOCK
            | OFlags::NOCTTY;
        let file = format!("{name}.lock");
        self.is_free(&file, FileType::RegularFile)?;
        self.is_free(&format!("{name}.sock"), FileType::Socket)?;
        let mut tries = 0;
        loop {
            let lock = fs::openat(&self.fd, &*file, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|errno| failed("make its lock")(errno.into()))?;
            match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    // Readers share the lock, while a session has it alone.
                    let looked = fs::flock(&lock, FlockOperation::NonBlockingLockShared);
                    let most = if looked.is_ok() { TRIES_OF_LOOKS } else { TRIES };
                    if tries >= most {
                        return Err(ControlError::Exists { name: name.into(), pid: pid_in(&lock) });
                    }
                    tries += 1;
                    drop(lock);
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(errno) => return Err(failed("lock its name")(errno.into())),
            }
            // The former owner may have removed the file in between.
            if !is_there(self.fd.as_fd(), &file, &lock) {
                continue;
            }
            let folder = self.fd.try_clone().map_err(failed("hold its folder"))?;
            let number = std::process::id().to_string();
            let written = fs::ftruncate(&lock, 0)
                .map_err(io::Error::from)
                .and_then(|()| File::from(lock.try_clone()?).write_all(number.as_bytes()));
            written.map_err(failed("write its number"))?;
            // A killed session may have left it.
            let _ = fs::unlinkat(&self.fd, format!("{name}.sock"), AtFlags::empty());
            return Ok(Claim { folder, name: name.to_owned(), lock });
        }
    }

    /// Checks that a file does not exist, or is a remainder of a killed session.
    ///
    /// # Errors
    /// [`ControlError::InTheWay`].
    fn is_free(&self, file: &str, wanted: FileType) -> Result<(), ControlError> {
        let Ok(status) = fs::statat(&self.fd, file, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        let what = match FileType::from_raw_mode(status.st_mode) {
            _ if status.st_uid != geteuid().as_raw() => "belongs to another user",
            kind if kind == wanted || kind == FileType::RegularFile => return Ok(()),
            FileType::Directory => "is a folder",
            FileType::Symlink => "is a link",
            FileType::Fifo => "is a FIFO",
            FileType::Socket => "is a socket",
            _ => "is another kind of file",
        };
        Err(ControlError::InTheWay { path: self.path.join(file), what })
    }

    /// Lists the running sessions, by name.
    ///
    /// # Errors
    /// A system call failed.
    pub fn entries(&self) -> Result<Vec<RunningSession>, ControlError> {
        let what = "look at the folder for sockets";
        let failed = |errno: Errno| {
            let (path, source) = (self.path.clone(), errno.into());
            ControlError::Folder { path, what, source }
        };
        let mut entries = Vec::new();
        for file in fs::Dir::read_from(&self.fd).map_err(failed)? {
            let file = file.map_err(failed)?;
            let Some(name) =
                file.file_name().to_str().ok().and_then(|file| file.strip_suffix(".lock"))
            else {
                continue;
            };
            if let Some(pid) = self.pid(name) {
                entries.push(RunningSession { name: name.to_owned(), pid });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Returns the process id of the session with this name, if it runs.
    #[must_use]
    pub fn pid(&self, name: &str) -> Option<u32> {
        check(name).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let lock = fs::openat(&self.fd, format!("{name}.lock"), flags, Mode::empty()).ok()?;
        match fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Some(pid_in(&lock)),
            _ => None,
        }
    }

    /// Returns the path of a session's socket, through the descriptor of the folder.
    pub(crate) fn socket(&self, name: &str) -> Result<PathBuf, ControlError> {
        check(name)?;
        Ok(through(self.fd.as_fd(), name, "sock"))
    }

    /// Creates a new file for the messages of a session.
    ///
    /// # Errors
    /// A system call failed.
    pub fn log(&self, name: &str) -> Result<File, ControlError> {
        check(name)?;
        let failed = |errno: Errno| system(name, "make a file for what it says", errno.into());
        let file = format!("{name}.log");
        if let Ok(status) = fs::statat(&self.fd, &*file, AtFlags::SYMLINK_NOFOLLOW) {
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                let (path, what) = (self.path.join(file), "is a folder");
                return Err(ControlError::InTheWay { path, what });
            }
        }
        let _ = fs::unlinkat(&self.fd, &*file, AtFlags::empty());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
        let fd = fs::openat(&self.fd, &*file, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        Ok(File::from(fd))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Claim {
    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Name of the session.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("sock")
    }

    /// Path of the session's file of this kind, through the descriptor of the folder.
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        through(self.folder.as_fd(), &self.name, kind)
    }

    /// Permits connections from this user and from a group. The group may then enter the folder, but not list it.
    pub(crate) fn give(&self, group: Option<&Group>) -> Result<(), Errno> {
        let socket = format!("{}.sock", self.name);
        let mode = Mode::RUSR | Mode::WUSR;
        let Some(group) = group else {
            return fs::chmodat(&self.folder, socket, mode, AtFlags::empty());
        };
        let gid = fs::Gid::from_raw(group.id());
        fs::chownat(&self.folder, &*socket, None, Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        fs::chmodat(&self.folder, socket, mode | Mode::RGRP | Mode::WGRP, AtFlags::empty())?;
        fs::fchmod(&self.folder, Mode::RWXU | Mode::XGRP | Mode::XOTH)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock is removed last: until then, the name is ours.
        for file in [format!("{}.sock", self.name), format!("{}.lock", self.name)] {
            let _ = fs::unlinkat(&self.folder, file, AtFlags::empty());
        }
        let _ = fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Returns true if the user is the one that this process runs as, or root.
pub(crate) fn is_ours(uid: u32) -> bool {
    uid == geteuid().as_raw() || uid == 0
}

/// Returns the path of a file through the folder's descriptor. It is short enough for a socket's address wherever the
/// folder is, and leads to the folder that was checked.
fn through(folder: BorrowedFd<'_>, name: &str, suffix: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}.{suffix}", folder.as_raw_fd()))
}

fn is_there(folder: BorrowedFd<'_>, file: &str, lock: &OwnedFd) -> bool {
    fs::fstat(lock).is_ok_and(|ours| is_at(folder, file, (ours.st_dev, ours.st_ino)))
}

/// Returns true if the file with this name has this device and inode number.
pub(crate) fn is_at(folder: BorrowedFd<'_>, file: &str, number: (u64, u64)) -> bool {
    let there = fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW);
    there.is_ok_and(|there| (there.st_dev, there.st_ino) == number)
}

fn pid_in(lock: &OwnedFd) -> u32 {
    let mut text = String::new();
    let read = lock.try_clone().and_then(|fd| {
        let mut file = File::from(fd);
        io::Seek::rewind(&mut file)?;
        file.take(16).read_to_string(&mut text)
    });
    read.ok().and_then(|_| text.parse().ok()).unwrap_or(0)
}

/// Checks that a session may have this name.
///
/// # Errors
/// [`ControlError::Name`].
pub(crate) fn check(name: &str) -> Result<(), ControlError> {
    match is_name(name) {
        true => Ok(()),
        false => Err(ControlError::Name { name: clean(name) }),
    }
}

pub(crate) fn system(name: &str, what: &'static str, source: io::Error) -> ControlError {
    ControlError::System { name: clean(name), what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for name in ["a", "A-b_c.9", &"x".repeat(64)] {
            check(name).unwrap();
        }
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "a\n", "ä", &"x".repeat(65)] {
            let error = check(name).unwrap_err();
            assert!(matches!(error, ControlError::Name { .. }), "{name:?}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn folder_that_others_can_enter_is_refused() {
        let above = std::env::temp_dir().join(format!("strata-control-{}", std::process::id()));
        std::fs::create_dir(&above).unwrap();
        assert!(Folder::open_in(&above).is_ok());
        let ours = std::os::unix::fs::PermissionsExt::from_mode(0o750);
        std::fs::set_permissions(above.join("strata-sessions"), ours).unwrap();
        let error = Folder::open_in(&above).unwrap_err();
        assert!(matches!(error, ControlError::NotOurs { mode: 0o750, .. }), "{error}");
        std::fs::remove_dir(above.join("strata-sessions")).unwrap();
        std::os::unix::fs::symlink("/tmp", above.join("strata-sessions")).unwrap();
        assert!(Folder::open_in(&above).is_err());
        std::fs::remove_dir_all(&above).unwrap();
    }
}
