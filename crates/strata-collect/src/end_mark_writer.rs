//! Writes the end mark of a folder, [`strata_ctf::end_mark`]. Its disk space is reserved when the recording begins, so
//! that even a full disk can be reported.
//!
//! Nothing is forced to the disk, neither the packets nor the mark: a mark that reached the disk before its packets
//! would be wrong. After a loss of power, the mark says that the recording has not ended, or the files are smaller than
//! the mark says.

use crate::error::Error;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use strata_ctf::end_mark::{EndMark, FILE};

/// Writes the `mark` of a recording that has begun into the folder, which messages call `path`. An existing mark was
/// left by a recording that wrote nothing else, and is replaced.
///
/// # Errors
/// A system call failed.
pub fn begin_mark(folder: BorrowedFd<'_>, path: &Path, mark: &EndMark) -> Result<(), Error> {
    let error = |error: io::Error| Error::new(path.join(FILE), 0, error);
    remove_mark(folder);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let file = fs::openat(folder, FILE, flags, mode).map_err(|errno| error(errno.into()))?;
    let written = strata_ring::write_both(file.as_fd(), 0, &mark.encode(), &[]);
    if written.is_err() {
        remove_mark(folder);
    }
    written.map(drop).map_err(error)
}

/// Overwrites the mark in the folder.
///
/// # Errors
/// A system call failed; [`Error::Gone`] if the mark was removed.
pub fn end_mark(folder: BorrowedFd<'_>, path: &Path, mark: &EndMark) -> Result<(), Error> {
    let error = |error: io::Error| Error::new(path.join(FILE), 0, error);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(folder, FILE, flags, Mode::empty());
    let file = file.map_err(|errno| error(errno.into()))?;
    strata_ring::write_both(file.as_fd(), 0, &mark.encode(), &[]).map(drop).map_err(error)
}

/// Removes the mark of a folder that is not kept.
pub fn remove_mark(folder: BorrowedFd<'_>) {
    // What cannot be removed stays.
    let _ = fs::unlinkat(folder, FILE, AtFlags::empty());
}

/// Locks the folder, so that readers see that it is being recorded to while its descriptor is open.
pub(crate) fn lock(folder: BorrowedFd<'_>) {
    // Not every file system has locks for folders: readers then say that they cannot tell.
    let _: Result<(), Errno> = fs::flock(folder, FlockOperation::NonBlockingLockExclusive);
}
