//! The folder of a trace.

use crate::end_mark_writer;
use crate::error::Error;
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
use strata_ctf::progress_mark::{self, ProgressMark};

const METADATA: &str = "metadata";
/// Name of the metadata while they are being written. It is hidden, since readers of a trace take every other file for
/// a stream.
const METADATA_NEW: &str = ".metadata";

fn folder_mode() -> Mode {
    Mode::RWXU | Mode::RGRP | Mode::XGRP
}

/// Access mode of each file in the folder.
pub(crate) fn file_mode() -> Mode {
    Mode::RUSR | Mode::WUSR | Mode::RGRP
}

/// The folder of one trace. Its descriptor is held open: files are created in this folder even if it is moved, or if
/// something else takes its name.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    metadata_bytes: AtomicU64,
}

impl Directory {
    /// Creates the folder; its parent must exist.
    ///
    /// # Errors
    /// [`Error::Exists`] if something has that name; other errors if a system call failed.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::make(fs::CWD, path.as_os_str(), path)
    }

    /// Creates the folder `name` in `parent`; error messages call it `path`.
    ///
    /// # Errors
    /// [`Error::Exists`] if something has that name; other errors if a system call failed.
    pub fn create_in(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        Self::make(parent, name, path)
    }

    /// Opens or creates the folder `name` in `parent`. An existing folder is used if it belongs to this user.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name belongs to another user or is no folder; other errors if a system call failed.
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

    /// Opens the folder `name` in `parent`, which must exist and belong to this user.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name belongs to another user or is no folder; other errors if a system call failed.
    pub fn open_in(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        Self::hold(parent, name, path)
    }

    /// Returns whether this folder is still the one of its path: nobody has removed or replaced it.
    #[must_use]
    pub fn is_at_its_path(&self) -> bool {
        let (here, there) = (fs::fstat(&self.fd), fs::lstat(&self.path));
        matches!((here, there), (Ok(here), Ok(there)) if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino))
    }

    /// Locks the folder, so that readers take the trace for one that is being recorded, although it has an end mark
    /// already.
    pub fn lock(&self) {
        end_mark_writer::lock(self.as_fd());
    }

    fn make(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<Self, Error> {
        let error = |errno: Errno| Error::new(path.to_owned(), 0, errno.into());
        fs::mkdirat(parent, name, folder_mode()).map_err(error)?;
        Self::hold(parent, name, path)
    }

    /// Opens the folder and checks that it belongs to this user: whoever can write to its parent may have replaced it.
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

    /// Lists the names in the folder.
    ///
    /// # Errors
    /// A system call failed.
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

    /// Opens a file of the folder for reading.
    ///
    /// # Errors
    /// A system call failed.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(fs::openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Renames a file of the folder.
    ///
    /// # Errors
    /// A system call failed.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file of the folder.
    ///
    /// # Errors
    /// A system call failed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, fs::AtFlags::empty())?)
    }

    /// Returns the path of the folder, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the folder has not been removed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.clone(), 0, e);
        match fs::fstat(&self.fd) {
            Ok(status) if status.st_nlink == 0 => Err(error(rustix::io::Errno::NOENT.into())),
            Ok(_) => Ok(()),
            Err(e) => Err(error(e.into())),
        }
    }

    /// Replaces the metadata: a reader finds the old text or the new one, never a part.
    ///
    /// The new text is in place when the call returns, even if this program is killed afterwards; nothing is forced to
    /// the disk.
    ///
    /// # Errors
    /// A system call failed.
    pub fn set_metadata(&self, text: &str) -> Result<(), Error> {
        self.replace_metadata(text, false)
    }

    /// Replaces the metadata as [`Directory::set_metadata`] does, by a file that was forced to the disk first: even
    /// after a loss of power, the folder has the old text or the new one.
    ///
    /// # Errors
    /// A system call failed.
    pub fn set_metadata_durably(&self, text: &str) -> Result<(), Error> {
        self.replace_metadata(text, true)
    }

    fn replace_metadata(&self, text: &str, is_durable: bool) -> Result<(), Error> {
        self.write_whole(METADATA, METADATA_NEW, (text.as_bytes(), &[]), is_durable)?;
        self.metadata_bytes.store(text.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the size of the metadata \[byte\].
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the folder has metadata, so that readers take it for a trace.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        fs::statat(&self.fd, METADATA, fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Reserves disk space for the trace's end mark, which must exist before the metadata that mention it. While this
    /// `Directory` lives, readers see that the trace is being recorded.
    ///
    /// # Errors
    /// A system call failed.
    pub fn begin(&self) -> Result<(), Error> {
        end_mark_writer::lock(self.as_fd());
        end_mark_writer::begin_mark(self.as_fd(), &self.path, &EndMark::RECORDING)
    }

    /// Writes the progress mark, which says how far the trace is written.
    ///
    /// # Errors
    /// A system call failed.
    pub fn set_progress(&self, mark: &ProgressMark) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.join(progress_mark::FILE), 0, e);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, progress_mark::FILE, flags, file_mode());
        let file = file.map_err(|errno| error(errno.into()))?;
        strata_ring::write_both(file.as_fd(), 0, &mark.encode(), &[]).map(drop).map_err(error)
    }

    /// Writes the trace's end mark, after its last packet.
    ///
    /// # Errors
    /// A system call failed.
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
        // From now on the mark says more. What cannot be removed is of no interest to who finds the mark.
        let _ = fs::unlinkat(&self.fd, progress_mark::FILE, fs::AtFlags::empty());
        let mark = EndMark { ending, losses, files, bytes, ..EndMark::default() };
        end_mark_writer::end_mark(self.as_fd(), &self.path, &mark)
    }

    /// Writes the file of a stream with one packet, `header` and then `body`, wholly or not at all. The trace's
    /// metadata must describe the stream already.
    ///
    /// # Errors
    /// A system call failed.
    pub fn set_stream(&self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        self.write_whole(name, &format!(".{name}.new"), (header, body), false)
    }

    /// Creates a file that nobody else has open. An existing file of that name was left by a failed attempt, and is
    /// removed.
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

    /// Writes a file under the name `new`, and then renames it to `name`. `is_durable`: its bytes are forced to the disk
    /// before that.
    fn write_whole(
        &self,
        name: &str,
        new: &str,
        (first, then): (&[u8], &[u8]),
        is_durable: bool,
    ) -> Result<(), Error> {
        let error = |e: io::Error| Error::new(self.path.join(name), 0, e);
        let file = self.create_file(new).map_err(|e| error(e.into()))?;
        let synced = |_| match is_durable {
            true => fs::fdatasync(&file).map_err(io::Error::from),
            false => Ok(()),
        };
        let done = strata_ring::write_both(file.as_fd(), 0, first, then)
            .and_then(synced)
            .and_then(|()| fs::renameat(&self.fd, new, &self.fd, name).map_err(io::Error::from));
        if done.is_err() {
            // The error that matters is the one above.
            let _ = fs::unlinkat(&self.fd, new, fs::AtFlags::empty());
        }
        done.map_err(error)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
