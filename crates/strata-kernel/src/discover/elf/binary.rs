//! An open file of a program or library: the file that was read is the one that is probed, wherever its name leads
//! later.

use crate::discover::elf::ElfError;
use rustix::fs::{fstat, open, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A regular file that is open for reading until the last copy of this value is gone.
#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    /// Device and inode number of the file, which no other file has while this one is open.
    identity: (u64, u64),
}

/// Compares files by their identity, whatever their names.
impl PartialEq for Binary {
    fn eq(&self, other: &Binary) -> bool {
        self.identity == other.identity
    }
}

impl Binary {
    /// Opens a regular file, and refuses anything else: opening a device may have an effect, and a named pipe would
    /// wait for its other end.
    ///
    /// # Errors
    /// [`ElfError::Open`], [`ElfError::NoFile`], [`ElfError::Leased`].
    pub fn open(path: &Path) -> Result<Binary, ElfError> {
        let failed = |error: Errno| ElfError::Open { path: path.into(), error: error.into() };
        let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let stat = fstat(&found).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ElfError::NoFile { path: path.into() });
        }
        // Without O_NONBLOCK, this would wait for whoever has a lease of the file (fcntl, F_SETLEASE).
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open(by_number(&found), flags, Mode::empty()).map_err(|error| match error {
            Errno::WOULDBLOCK => ElfError::Leased { path: path.into() },
            error => failed(error),
        })?;
        Ok(Binary {
            path: path.into(),
            file: Arc::new(file.into()),
            bytes: stat.st_size.try_into().unwrap_or(0),
            identity: (stat.st_dev, stat.st_ino),
        })
    }

    /// Returns the name under which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file, which callers map into memory.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns a path by which this process opens this very file.
    pub(crate) fn held_path(&self) -> PathBuf {
        by_number(&*self.file)
    }

    /// Returns a reader for the file with its size at opening. Readers have separate positions. Reading a part that was
    /// cut off in the meantime is an error.
    pub(crate) fn reader(&self) -> BinaryReader {
        BinaryReader { file: Arc::clone(&self.file), bytes: self.bytes, at: 0 }
    }
}

fn by_number(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// A position in the file; see [`Binary::reader`].
#[derive(Debug)]
pub(crate) struct BinaryReader {
    file: Arc<File>,
    bytes: u64,
    at: u64,
}

impl Read for BinaryReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(to, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for BinaryReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(behind) => self.bytes.checked_add_signed(behind),
            SeekFrom::Current(behind) => self.at.checked_add_signed(behind),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::elf::tests::Folder;
    use std::os::unix::fs::symlink;

    #[test]
    fn binary_stays_the_file_that_was_opened() {
        let folder = Folder::new("binary-held");
        let (path, other) = (folder.file("one", b"first"), folder.file("two", b"other"));
        let held = Binary::open(&path).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(std::fs::read(held.held_path()).unwrap(), b"first");
        let mut text = String::new();
        held.reader().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), held.path()), ("first", path.as_path()));
        assert_ne!(held, Binary::open(&path).unwrap());
    }

    #[test]
    fn binary_by_two_names_is_one() {
        let folder = Folder::new("binary-names");
        let path = folder.file("one", b"first");
        let link = path.with_file_name("link");
        symlink(&path, &link).unwrap();
        assert_eq!(Binary::open(&path).unwrap(), Binary::open(&link).unwrap());
    }

    #[test]
    fn reader_of_a_file_that_was_cut_says_so_and_does_not_see_it_grow() {
        let folder = Folder::new("binary-cut");
        let path = folder.file("one", b"0123456789");
        let held = Binary::open(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let mut reader = held.reader();
        file.set_len(4).unwrap();
        assert!(reader.read_exact(&mut [0; 10]).is_err());
        file.set_len(1 << 40).unwrap();
        assert_eq!(reader.seek(SeekFrom::End(0)).unwrap(), 10);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        for path in ["/", "/dev/null", "/dev/stdin/.."] {
            let Err(error) = Binary::open(Path::new(path)) else { panic!("{path} was opened") };
            assert!(matches!(error, ElfError::NoFile { .. } | ElfError::Open { .. }), "{error}");
        }
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let error = Binary::open(&by_number(&reader)).unwrap_err().to_string();
        assert!(error.contains("is no regular file"), "{error}");
    }
}
