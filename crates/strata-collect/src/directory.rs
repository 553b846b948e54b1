//! The folder of a trace.

use crate::error::Error;
use crate::mark;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use strata_ctf::end_mark::{EndMark, Ending, Losses};

const METADATA: &str = "metadata";
/// Readers of a trace take every file for a stream, but not a hidden one.
const METADATA_NEW: &str = ".metadata";

fn folder_mode() -> Mode {
    Mode::RWXU | Mode::RGRP | Mode::XGRP
}

/// Of each file in it.
pub(crate) fn file_mode() -> Mode {
    Mode::RUSR | Mode::WUSR | Mode::RGRP
}

/// The folder of one trace. It is held open: its files are made in it, wherever its name is moved, and
/// whatever is put in its name's place.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    metadata_bytes: AtomicU64,
}

impl Directory {
    /// Makes the folder; those above it are there.
    ///
    /// # Errors
    /// [`Error::Exists`], and what else the system says.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::make(fs::CWD, path.as_os_str(), path)
    }

    /// Makes the folder `name` in `parent`; messages call it `path`.
    ///
    /// # Errors
    /// [`Error::Exists`], and what else the system says.
    pub fn create_in(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        Self::make(parent, name, path)
    }

    /// The same; one that is there is used if it is this user's.
    ///
    /// # Errors
    /// [`Error::Exists`]: it is another user's, or no folder. What else the system says.
    pub fn open_or_create_in(
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
    ) -> Result<Self, Error> {
        match fs::mkdirat(parent, name, folder_mode()) {
            Ok(()) | Err(Errno::EXIST) => Self::hold(parent, name, path),
            Err(error) => Err(Error::new(path.to_owned(), 0, error.into())),
        }
    }

    fn make(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        let error = |errno: Errno| Error::new(path.to_owned(), 0, errno.into());
        fs::mkdirat(parent, name, folder_mode()).map_err(error)?;
        Self::hold(parent, name, path)
    }

    /// Who can write to the folder above may have put another one there.
    fn hold(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        let error = |errno: Errno| Error::new(path.to_owned(), 0, errno.into());
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = match fs::openat(parent, name, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(error(Errno::EXIST)),
            opened => opened.map_err(error)?,
        };
        if fs::fstat(&fd).map_err(error)?.st_uid != geteuid().as_raw() {
            return Err(error(Errno::EXIST));
        }
        Ok(Self { fd, path: path.to_owned(), metadata_bytes: AtomicU64::new(0) })
    }

    /// The names of what is in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Opens a file of it to be read.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(fs::openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Gives a file of it another name.
    ///
    /// # Errors
    /// What the system says.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file of it.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, fs::AtFlags::empty())?)
    }

    /// Its path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder is still there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.clone(), 0, e);
        match fs::fstat(&self.fd) {
            Ok(status) if status.st_nlink == 0 => Err(error(rustix::io::Errno::NOENT.into())),
            Ok(_) => Ok(()),
            Err(e) => Err(error(e.into())),
        }
    }

    /// Replaces the metadata: a reader finds the text from before or this one, never a part.
    ///
    /// It is there when the call returns, for whoever opens the trace after this program was killed;
    /// nothing is forced to the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_metadata(&self, text: &str) -> Result<(), Error> {
        self.write_whole(METADATA, METADATA_NEW, text.as_bytes(), &[])?;
        self.metadata_bytes.store(text.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The size of the metadata \[byte\].
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes.load(Ordering::Relaxed)
    }

    /// Whether readers take the folder for a trace.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        fs::statat(&self.fd, METADATA, fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Sets room aside for the trace's end mark, before its metadata, which speak of it. Readers see that the
    /// trace is being recorded while this lives.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(&self) -> Result<(), Error> {
        mark::lock(self.as_fd());
        mark::begin_mark(self.as_fd(), &self.path)
    }

    /// Writes the trace's end mark, behind its last packet.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self, ending: Ending, losses: Losses) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.clone(), 0, e);
        let (mut files, mut bytes) = (0, 0u64);
        for name in self.names().map_err(error)? {
            if name != METADATA && !name.as_bytes().starts_with(b".") {
                let found = fs::statat(&self.fd, &name, fs::AtFlags::SYMLINK_NOFOLLOW);
                let size = found.map_err(|errno| error(errno.into()))?.st_size;
                files += 1;
                bytes = bytes.saturating_add(u64::try_from(size).unwrap_or(0));
            }
        }
        let mark = EndMark { ending, losses, files, bytes };
        mark::end_mark(self.as_fd(), &self.path, &mark)
    }

    /// Writes a stream's file that has one packet: `header`, then `body`. It is there as a whole or not at
    /// all; the trace's metadata must describe it already.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_stream(&self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        self.write_whole(name, &format!(".{name}.new"), header, body)
    }

    /// A new file, which nobody else has open. One that is there was left by an attempt that failed.
    pub(crate) fn create_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match fs::openat(&self.fd, name, flags, file_mode()) {
            Err(Errno::EXIST) => {
                fs::unlinkat(&self.fd, name, fs::AtFlags::empty())?;
                fs::openat(&self.fd, name, flags, file_mode())
            }
            opened => opened,
        }
    }

    /// Under the name `new`, and then `name`.
    fn write_whole(&self, name: &str, new: &str, first: &[u8], then: &[u8]) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.join(name), 0, e);
        let file = self.create_file(new).map_err(|e| error(e.into()))?;
        let done = strata_ring::write_both(file.as_fd(), 0, first, then)
            .and_then(|_| fs::renameat(&self.fd, new, &self.fd, name).map_err(io::Error::from));
        if done.is_err() {
            // The error that matters is the one above.
            let _ = fs::unlinkat(&self.fd, new, fs::AtFlags::empty());
        }
        done.map(|_| ()).map_err(error)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
