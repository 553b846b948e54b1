//! The end mark of a folder, [`strata_ctf::end_mark`], as it is written: its room is taken when the recording
//! begins, so that a full disk cannot keep it from being said that it was full.
//!
//! Nothing is forced to the disk, neither the packets nor the mark: a mark that comes there before its packets
//! would lie. After a loss of power the recording has not ended, or the files are smaller than the mark says.

use crate::error::Error;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use strata_ctf::end_mark::{EndMark, FILE};

/// Writes the mark of a recording that has begun into the folder, which messages call `path`. One that is there
/// was left by a recording that wrote nothing else.
///
/// # Errors
/// What the system says.
pub fn begin_mark(folder: BorrowedFd<'_>, path: &Path) -> Result<(), Error> {
    let error = |error: io::Error| Error::new(path.join(FILE), 0, error);
    remove_mark(folder);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let file = fs::openat(folder, FILE, flags, mode).map_err(|errno| error(errno.into()))?;
    let written = strata_ring::write_both(file.as_fd(), 0, &EndMark::RECORDING.encode(), &[]);
    if written.is_err() {
        remove_mark(folder);
    }
    written.map(drop).map_err(error)
}

/// Writes over the mark that is there.
///
/// # Errors
/// What the system says; [`Error::Gone`]: it was removed.
pub fn end_mark(folder: BorrowedFd<'_>, path: &Path, mark: &EndMark) -> Result<(), Error> {
    let error = |error: io::Error| Error::new(path.join(FILE), 0, error);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(folder, FILE, flags, Mode::empty());
    let file = file.map_err(|errno| error(errno.into()))?;
    strata_ring::write_both(file.as_fd(), 0, &mark.encode(), &[]).map(drop).map_err(error)
}

/// Takes the mark away, of a folder that is not kept.
pub fn remove_mark(folder: BorrowedFd<'_>) {
    // What cannot be removed stays.
    let _ = fs::unlinkat(folder, FILE, AtFlags::empty());
}

/// Has readers see that the folder is being recorded to, while its descriptor is open.
pub(crate) fn lock(folder: BorrowedFd<'_>) {
    // Not every file system has locks for folders: readers then say that they cannot tell.
    let _: Result<(), Errno> = fs::flock(folder, FlockOperation::NonBlockingLockExclusive);
}
