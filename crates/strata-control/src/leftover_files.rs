//! Files that ended and killed sessions leave in the folder: the plan of a killed session, from which it is made again,
//! and files that are no longer needed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::ControlError;
use crate::fdstore::FDSTORE;
use crate::folder::{check, system, Claim, Folder};
use crate::name::is_name;

/// Kind of the file with a session's plan, from which a killed session is made again.
pub const PLAN: &str = "plan";
/// Kind of the file with the programs' slots that have the session's records.
pub const SLOTS: &str = "slots";
/// Kind of the file about the session's objects in the kernel, which record on when the session is killed.
pub const KERNEL: &str = "kernel";
/// Kind of the file with the folders of saved snapshots, which the session may remove when there are too many.
pub const FOLDERS: &str = "folders";
/// Kind of the file with the verdict on what the recording lacks, for the command that ends the session.
pub const VERDICT: &str = "verdict";
/// Kind of a file that is being written, until it gets its own kind.
const NEW: &str = "new";
/// All kinds of files of a session; the lock is removed last.
const KINDS: [&str; 10] = [PLAN, SLOTS, KERNEL, FOLDERS, NEW, FDSTORE, "sock", VERDICT, LOG, LOCK];
const LOG: &str = "log";
const LOCK: &str = "lock";
/// Limit on the size of one file \[byte\].
const TEXT_BYTES_MAX: u64 = 32 << 20;

/// Files of a session that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftSession {
    /// Name of the session.
    pub name: String,
    /// Kinds of the session's files that exist.
    pub kinds: Vec<&'static str>,
}

impl LeftSession {
    /// Returns true if the session was killed, so that it can be started again.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.kinds.contains(&PLAN)
    }

    /// Returns true if the session ended normally, so that only its verdict or log is left.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.kinds.iter().all(|kind| [VERDICT, LOG].contains(kind))
    }
}

impl Folder {
    /// Lists the files of sessions that do not run, by session name. Files with other names, and of other users, are
    /// left out.
    ///
    /// # Errors
    /// A system call failed.
    pub fn left(&self) -> Result<Vec<LeftSession>, ControlError> {
        let what = "look at the folder for sockets";
        let failed = |errno: Errno| {
            let (path, source) = (self.path().to_owned(), errno.into());
            ControlError::Folder { path, what, source }
        };
        let mut found: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for file in fs::Dir::read_from(self.as_fd()).map_err(failed)? {
            let file = file.map_err(failed)?;
            let Some((name, kind)) = file.file_name().to_str().ok().and_then(kind_of) else {
                continue;
            };
            if is_file_of_ours(self.as_fd(), name, kind) {
                found.entry(name.to_owned()).or_default().push(kind);
            }
        }
        // A session that has begun in between runs now; one that has ended has no plan any more.
        found.retain(|name, kinds| {
            kinds.retain(|kind| self.is_left(name, kind));
            kinds.sort_by_key(|kind| KINDS.iter().position(|one| one == kind));
            !kinds.is_empty()
        });
        Ok(found.into_iter().map(|(name, kinds)| LeftSession { name, kinds }).collect())
    }

    /// Removes the sockets and locks of killed sessions; and an empty log of one that cannot be made again, since it has
    /// left nothing else. A log with messages stays: nobody has read them.
    pub fn tidy(&self) {
        let is_of_process = |kind: &str| ["sock", LOCK].contains(&kind);
        for left in self.left().unwrap_or_default() {
            if !left.kinds.iter().any(|kind| is_of_process(kind)) {
                continue;
            }
            let log = self.old_log(&left.name);
            // If the session has begun again in between, this is refused.
            let Ok(claim) = self.claim(&left.name) else { continue };
            let has_more = left.kinds.iter().any(|kind| *kind != LOG && !is_of_process(kind));
            if let (false, Some(log)) = (has_more, log) {
                let number = |status: &fs::Stat| (status.st_dev, status.st_ino);
                let file = format!("{}.{LOG}", left.name);
                let there = fs::statat(self.as_fd(), &*file, AtFlags::SYMLINK_NOFOLLOW);
                if there.is_ok_and(|there| number(&there) == number(&log)) {
                    let _ = fs::unlinkat(self.as_fd(), file, AtFlags::empty());
                }
            }
            // Its end removes the socket and the lock.
            drop(claim);
        }
    }

    /// Returns the status of a session's log that is empty, and from before its lock was written. A starter makes the log
    /// before the session takes the name, so that a later one may be of a session that is about to begin, and so may one
    /// beside a lock into which nobody has written a process.
    fn old_log(&self, name: &str) -> Option<fs::Stat> {
        let file = |kind| format!("{name}.{kind}");
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let made = fs::statx(self.as_fd(), file(LOG), flags, StatxFlags::BTIME).ok()?;
        let lock = fs::statat(self.as_fd(), file(LOCK), flags).ok()?;
        if made.stx_mask & StatxFlags::BTIME.bits() == 0 {
            return None;
        }
        let is_old = (made.stx_btime.tv_sec, u64::from(made.stx_btime.tv_nsec))
            <= (lock.st_mtime, lock.st_mtime_nsec);
        let log = fs::statat(self.as_fd(), file(LOG), flags).ok()?;
        (is_old && lock.st_size > 0 && log.st_size == 0).then_some(log)
    }

    /// Returns true if the session of this name was killed and has left its plan.
    #[must_use]
    pub fn is_killed(&self, name: &str) -> bool {
        check(name).is_ok() && is_file_of_ours(self.as_fd(), name, PLAN) && self.is_left(name, PLAN)
    }

    /// Returns the names of killed sessions.
    ///
    /// # Errors
    /// A system call failed.
    pub fn killed(&self) -> Result<Vec<String>, ControlError> {
        let left = self.left()?.into_iter().filter(LeftSession::is_killed);
        Ok(left.map(|left| left.name).collect())
    }

    /// Returns true if a file belongs to a session that does not run. A session takes its lock before it makes other
    /// files, and releases it after it has removed them. So a file that exists before the lock is checked, and is the
    /// same afterwards, belongs to no session, except for the log, which the session's starter makes.
    fn is_left(&self, name: &str, kind: &str) -> bool {
        let file = format!("{name}.{kind}");
        let look = || fs::statat(self.as_fd(), &*file, AtFlags::SYMLINK_NOFOLLOW).ok();
        let number = |look: Option<fs::Stat>| look.map(|status| (status.st_dev, status.st_ino));
        let before = number(look());
        before.is_some() && self.pid(name).is_none() && number(look()) == before
    }

    /// Returns the text in a session's file of this kind, whether the session runs or not.
    ///
    /// # Errors
    /// A system call failed.
    pub fn text(&self, name: &str, kind: &str) -> Result<String, ControlError> {
        check(name)?;
        text(self.as_fd(), name, kind)
            .map_err(|source| system(name, "read what it has left", source))
    }

    /// Reads a text and removes it, so that it is read only once.
    ///
    /// # Errors
    /// A system call failed.
    pub fn take_text(&self, name: &str, kind: &str) -> Result<String, ControlError> {
        let text = self.text(name, kind)?;
        // The next session of this name replaces a remaining file.
        let _ = fs::unlinkat(self.as_fd(), format!("{name}.{kind}"), AtFlags::empty());
        Ok(text)
    }

    /// Removes the log of an ended session, if it is still the file `shown`. The log of a running session stays, and a
    /// session that has just begun has another file.
    pub fn drop_said(&self, name: &str, shown: &File) {
        let file = format!("{name}.{LOG}");
        let number = |status: fs::Stat| (status.st_dev, status.st_ino);
        let is_it = check(name).is_ok() && self.is_left(name, LOG) && {
            let there = fs::statat(self.as_fd(), &*file, AtFlags::SYMLINK_NOFOLLOW).map(number);
            there.is_ok() && there == fs::fstat(shown).map(number)
        };
        if is_it {
            let _ = fs::unlinkat(self.as_fd(), file, AtFlags::empty());
        }
    }

    /// Removes the files of a session that does not run, and ends its fdstore. Returns the kinds of files.
    ///
    /// # Errors
    /// [`ControlError::Exists`]: the session runs. A system call failed.
    pub fn remove(&self, name: &str) -> Result<Vec<&'static str>, ControlError> {
        let had_lock = is_file_of_ours(self.as_fd(), name, LOCK);
        // While this process has the name, nobody else makes these files.
        let claim = self.claim(name)?;
        if let Ok(Some((fdstore, held))) = claim.connect_fdstore() {
            drop(held);
            fdstore.end();
        }
        let mut kinds = claim.forget(true);
        kinds.extend(had_lock.then_some(LOCK));
        Ok(kinds)
    }
}

impl Claim {
    /// Writes a text to the file of this kind, atomically, in place of an existing file.
    ///
    /// # Errors
    /// A system call failed; an existing file stays.
    pub fn keep(&self, kind: &str, text: &str) -> io::Result<()> {
        self.keep_open(kind, text).map(drop)
    }

    /// Writes the file as [`keep`](Self::keep) does, and returns it open for appending.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn keep_open(&self, kind: &str, text: &str) -> io::Result<File> {
        let (folder, name) = (self.folder(), self.name());
        let new = format!("{name}.{NEW}");
        let done = make(folder, &new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            fs::renameat(folder, &*new, folder, format!("{name}.{kind}"))?;
            Ok(file)
        });
        if done.is_err() {
            let _ = fs::unlinkat(folder, &*new, AtFlags::empty());
        }
        done
    }

    /// Removes a file of this kind, if there is one.
    pub fn drop_file(&self, kind: &str) {
        let file = format!("{}.{kind}", self.name());
        let _ = fs::unlinkat(self.folder(), file, AtFlags::empty());
    }

    /// Reads a file of this kind that the killed session of this name has written.
    ///
    /// # Errors
    /// A system call failed.
    pub fn kept(&self, kind: &str) -> io::Result<String> {
        text(self.folder(), self.name(), kind)
    }

    /// Removes all files but the lock; with `has_said`, also the verdict and the log. Returns their kinds.
    pub fn forget(&self, has_said: bool) -> Vec<&'static str> {
        let kinds = KINDS.into_iter().filter(|kind| *kind != LOCK);
        kinds
            .filter(|kind| ![VERDICT, LOG].contains(kind) || has_said)
            .filter(|kind| is_file_of_ours(self.folder(), self.name(), kind))
            .filter(|kind| {
                let file = format!("{}.{kind}", self.name());
                fs::unlinkat(self.folder(), file, AtFlags::empty()).is_ok()
            })
            .collect()
    }
}

/// Splits a file name into the session's name and the kind; `None` if it is no session's file.
fn kind_of(file: &str) -> Option<(&str, &'static str)> {
    let (name, kind) = file.rsplit_once('.')?;
    let kind = KINDS.into_iter().find(|one| *one == kind)?;
    is_name(name).then_some((name, kind))
}

/// Returns true if the file is a regular file or socket of this user, and not one that somebody else put there to
/// misuse root's rights.
fn is_file_of_ours(folder: BorrowedFd<'_>, name: &str, kind: &str) -> bool {
    let status = fs::statat(folder, format!("{name}.{kind}"), AtFlags::SYMLINK_NOFOLLOW);
    status.is_ok_and(|status| {
        let kind = FileType::from_raw_mode(status.st_mode);
        let is_file = matches!(kind, FileType::RegularFile | FileType::Socket);
        is_file && status.st_uid == geteuid().as_raw()
    })
}

fn make(folder: BorrowedFd<'_>, file: &str) -> io::Result<File> {
    match fs::unlinkat(folder, file, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    Ok(File::from(fs::openat(folder, file, flags, Mode::RUSR | Mode::WUSR)?))
}

fn text(folder: BorrowedFd<'_>, name: &str, kind: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = fs::openat(folder, format!("{name}.{kind}"), flags, Mode::empty())?;
    let status = fs::fstat(&file)?;
    if status.st_uid != geteuid().as_raw()
        || FileType::from_raw_mode(status.st_mode) != FileType::RegularFile
    {
        return Err(io::Error::other("it is no file of this user"));
    }
    let mut text = String::new();
    File::from(file).take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
