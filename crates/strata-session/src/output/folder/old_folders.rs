//! Folders that earlier runs of a session have completed: finds them by their end marks, and removes them as a whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::process::geteuid;
use strata_ctf::end_mark::{EndMark, BYTES, FILE};

use super::folder_content::{bytes_in, clear, DEPTH_MAX};

/// The most entries of one folder that are examined.
const ENTRIES_MAX: usize = 1 << 16;
/// Prefix of a folder's name during its removal: readers do not open hidden folders.
const REMOVING: &str = ".strata-removing-";

/// A completed folder, locked and held open.
#[derive(Debug)]
pub(crate) struct Leftover {
    above: Arc<OwnedFd>,
    fd: OwnedFd,
    /// The folder's name in its parent.
    pub(crate) name: String,
    /// Time when the folder's end mark was last written, as seconds and nanoseconds.
    pub(crate) written: (i64, i64),
}

/// Returns the completed folders in `path` whose end marks `is_wanted` accepts. `is_wanted` gets the folder's
/// name, and the number in the end mark that identifies the session. Folders that others own, that are being
/// written to, or that others have put there by links are skipped.
///
/// # Errors
/// `path` cannot be read.
pub(crate) fn leftovers(
    path: &Path,
    is_wanted: impl Fn(&str, u64) -> bool,
) -> io::Result<Vec<Leftover>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = Arc::new(rustix::fs::open(path, flags, Mode::empty())?);
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&above)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name != "." && name != ".." {
            found.extend(leftover(&above, name, &is_wanted));
        }
    }
    Ok(found)
}

fn leftover(
    above: &Arc<OwnedFd>,
    name: &str,
    is_wanted: &impl Fn(&str, u64) -> bool,
) -> Option<Leftover> {
    let flags =
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(above, name, flags, Mode::empty()).ok()?;
    if rustix::fs::fstat(&fd).ok()?.st_uid != geteuid().as_raw() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&fd, FILE, flags, Mode::empty()).ok()?);
    let about = rustix::fs::fstat(&file).ok()?;
    if about.st_mode & libc::S_IFMT != libc::S_IFREG || about.st_uid != geteuid().as_raw() {
        return None;
    }
    let mut bytes = Vec::with_capacity(BYTES + 1);
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    let session = EndMark::decode(&bytes).ok()?.session?;
    // A process was killed while removing the folder; the mark belongs to the folder's former name.
    let called = name.strip_prefix(REMOVING).unwrap_or(name);
    if !is_wanted(called, session) {
        return None;
    }
    // A recorder that writes to the folder has locked it. Without locks on the file system, that cannot be known, and
    // the folder stays.
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
    let written = (about.st_mtime as i64, about.st_mtime_nsec as i64);
    Some(Leftover { above: Arc::clone(above), fd, name: name.to_owned(), written })
}

impl Leftover {
    /// Returns the size of the folder's files \[byte\].
    pub(crate) fn bytes(&self) -> u64 {
        bytes_in(self.fd.as_fd(), DEPTH_MAX)
    }

    /// Removes the folder and its content. It is renamed first, so that a reader that opens it by its name gets all of
    /// it or nothing. Open files stay readable.
    ///
    /// # Errors
    /// Why the folder is still there.
    pub(crate) fn remove(&self) -> Result<(), String> {
        let hidden = match self.name.starts_with(REMOVING) {
            true => self.name.clone(),
            false => format!("{REMOVING}{}", self.name),
        };
        if !self.is_named(&self.name) {
            return Err("its name leads to something else by now, which stays".to_owned());
        }
        let mut name = self.name.as_str();
        let flags = RenameFlags::NOREPLACE;
        if rustix::fs::renameat_with(&self.above, name, &self.above, &*hidden, flags).is_ok() {
            name = &hidden;
        }
        if !self.is_named(name) {
            // Another process has put another folder there in between.
            let _ = rustix::fs::renameat_with(&self.above, name, &self.above, &*self.name, flags);
            return Err("its name leads to something else by now, which stays".to_owned());
        }
        self.clear_but_mark();
        clear(self.fd.as_fd(), DEPTH_MAX);
        rustix::fs::unlinkat(&self.above, name, AtFlags::REMOVEDIR)
            .map_err(|error| format!("its remaining content cannot be removed: {error}"))
    }

    /// Removes everything except the end mark. By the mark, the folder is found again if the removal is interrupted.
    fn clear_but_mark(&self) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.fd) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if name == "." || name == ".." {
                continue;
            }
            let Ok(folder) = rustix::fs::openat(&self.fd, name, flags, Mode::empty()) else {
                continue;
            };
            let is_own =
                rustix::fs::fstat(&folder).is_ok_and(|one| one.st_uid == geteuid().as_raw());
            if is_own {
                clear(folder.as_fd(), DEPTH_MAX - 1);
                let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
            }
        }
    }

    fn is_named(&self, name: &str) -> bool {
        let there = rustix::fs::statat(&self.above, OsStr::new(name), AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(there), Ok(ours)) = (there, rustix::fs::fstat(&self.fd)) else { return false };
        (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    }
}
