//! What sessions leave in the folder that do not run any more: one that was killed its plan, from which it is made
//! again; and files that nobody needs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::ControlError;
use crate::folder::{check, system, Claim, Folder};
use crate::name::is_name;
use crate::trust::TRUSTEE;

/// What a session records, and is made again from.
pub const PLAN: &str = "plan";
/// Where programs hold its records.
pub const SLOTS: &str = "slots";
/// What it has in the kernel, which goes on recording when it is killed.
pub const KERNEL: &str = "kernel";
/// What is missing of what it has recorded: left for who ends it.
pub const VERDICT: &str = "verdict";
/// One of these, before it is whole.
const NEW: &str = "new";
/// All kinds of files that a session has; the lock is the last that goes.
const KINDS: [&str; 9] = [PLAN, SLOTS, KERNEL, NEW, TRUSTEE, "sock", VERDICT, LOG, LOCK];
const LOG: &str = "log";
const LOCK: &str = "lock";
/// Of one file \[byte\].
const TEXT_BYTES_MAX: u64 = 32 << 20;

/// What is there of a session that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftSession {
    /// Its name.
    pub name: String,
    /// What its files end in.
    pub kinds: Vec<&'static str>,
}

impl LeftSession {
    /// It did not end, but was killed: it can be made again.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.kinds.contains(&PLAN)
    }

    /// It ended as it should: what it has said at the end is there, and nothing else.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.kinds.iter().all(|kind| [VERDICT, LOG].contains(kind))
    }
}

impl Folder {
    /// What is there of sessions that do not run, by name. Files of other names, and of others, are not ours.
    ///
    /// # Errors
    /// What the system says.
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
        // Who has begun meanwhile runs now, who has ended has no plan any more.
        found.retain(|name, kinds| {
            kinds.retain(|kind| self.is_left(name, kind));
            kinds.sort_by_key(|kind| KINDS.iter().position(|one| one == kind));
            !kinds.is_empty()
        });
        Ok(found.into_iter().map(|(name, kinds)| LeftSession { name, kinds }).collect())
    }

    /// Was the session of this name killed, and left its plan?
    #[must_use]
    pub fn is_killed(&self, name: &str) -> bool {
        check(name).is_ok() && is_file_of_ours(self.as_fd(), name, PLAN) && self.is_left(name, PLAN)
    }

    /// The names of those that were killed.
    ///
    /// # Errors
    /// What the system says.
    pub fn killed(&self) -> Result<Vec<String>, ControlError> {
        let left = self.left()?.into_iter().filter(LeftSession::is_killed);
        Ok(left.map(|left| left.name).collect())
    }

    /// A session takes its lock before it makes another file, and gives it back after it has removed them: what was there
    /// before we looked at the lock, and is the same afterwards, is nobody's; but for LOG, which its starter makes.
    fn is_left(&self, name: &str, kind: &str) -> bool {
        let file = format!("{name}.{kind}");
        let look = || fs::statat(self.as_fd(), &*file, AtFlags::SYMLINK_NOFOLLOW).ok();
        let number = |look: Option<fs::Stat>| look.map(|status| (status.st_dev, status.st_ino));
        let before = number(look());
        before.is_some() && self.pid(name).is_none() && number(look()) == before
    }

    /// The text that a session keeps in a file of this kind, whether it runs or not.
    ///
    /// # Errors
    /// What the system says.
    pub fn text(&self, name: &str, kind: &str) -> Result<String, ControlError> {
        check(name)?;
        text(self.as_fd(), name, kind)
            .map_err(|source| system(name, "read what it has left", source))
    }

    /// The same of what was kept for who asks for it, once: it is removed.
    ///
    /// # Errors
    /// What the system says.
    pub fn take_text(&self, name: &str, kind: &str) -> Result<String, ControlError> {
        let text = self.text(name, kind)?;
        // Whoever is next with this name replaces it.
        let _ = fs::unlinkat(self.as_fd(), format!("{name}.{kind}"), AtFlags::empty());
        Ok(text)
    }

    /// What a session that has ended has said was read from this file, and shown: it is not needed any more. Of one that
    /// runs it stays, and of one that begins it is another file.
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

    /// Removes what is there of a session that does not run, and has its trustee end. Returns the kinds of files that were.
    ///
    /// # Errors
    /// [`ControlError::Exists`]: it runs. What the system says.
    pub fn remove(&self, name: &str) -> Result<Vec<&'static str>, ControlError> {
        let had_lock = is_file_of_ours(self.as_fd(), name, LOCK);
        // With the name nobody else makes any of them.
        let claim = self.claim(name)?;
        if let Ok(Some((trust, held))) = claim.trustee() {
            drop(held);
            trust.end();
        }
        let mut kinds = claim.forget(true);
        kinds.extend(had_lock.then_some(LOCK));
        Ok(kinds)
    }
}

impl Claim {
    /// Keeps this text in a file of this kind: as a whole, in the place of what is there.
    ///
    /// # Errors
    /// What the system says; what is there stays.
    pub fn keep(&self, kind: &str, text: &str) -> io::Result<()> {
        self.keep_open(kind, text).map(drop)
    }

    /// The same; what is written to the file is appended.
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

    /// What the session of this name that was killed has kept in a file of this kind.
    ///
    /// # Errors
    /// What the system says.
    pub fn kept(&self, kind: &str) -> io::Result<String> {
        text(self.folder(), self.name(), kind)
    }

    /// Removes what is there but the lock, and of who ends what it has said. Returns the kinds of files that were.
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

/// The name of a session, and what its file is.
fn kind_of(file: &str) -> Option<(&str, &'static str)> {
    let (name, kind) = file.rsplit_once('.')?;
    let kind = KINDS.into_iter().find(|one| *one == kind)?;
    is_name(name).then_some((name, kind))
}

/// Not what somebody else has put there, with the rights of root.
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
