//! The files of all streams, opened when needed, with a limit on open files.

use super::file_writers;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most files that stay open. Further files are opened for each read.
const OPEN: usize = 256;

/// The error codes for "too many open files": of the system and of the process.
const TOO_MANY: [i32; 2] = [23, 24];

/// Opens a file of a trace. Does not block if the file was replaced by a pipe or a device.
///
/// # Errors
/// The error of the system, or that the file is not a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// A file of a stream, or a part of one.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    /// The range of the file that is read \[byte\].
    begin: u64,
    end: u64,
    /// The size of the whole file when the trace was opened \[byte\].
    bytes: u64,
    is_written: OnceLock<bool>,
    handle: Mutex<Option<Arc<File>>>,
}

impl StoredFile {
    fn handle(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        // A thread that panicked while it held the lock left a whole value, since the value is only ever replaced.
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of all opened traces, referred to by index. Files are opened when they are read, and closed when too many
/// are open.
#[derive(Debug)]
pub(crate) struct StoredFiles {
    files: Vec<StoredFile>,
    open: AtomicUsize,
    /// The most files that stay open; reduced if the system has no more descriptors.
    limit: AtomicUsize,
}

impl Default for StoredFiles {
    fn default() -> StoredFiles {
        StoredFiles { files: Vec::new(), open: AtomicUsize::new(0), limit: AtomicUsize::new(OPEN) }
    }
}

impl StoredFiles {
    /// Adds a whole file and returns its index.
    pub(crate) fn add(&mut self, path: PathBuf, bytes: u64) -> usize {
        self.add_part(path, 0, bytes, bytes)
    }

    fn add_part(&mut self, path: PathBuf, begin: u64, end: u64, bytes: u64) -> usize {
        self.files.push(StoredFile {
            path,
            begin,
            end,
            bytes,
            is_written: OnceLock::new(),
            handle: Mutex::new(None),
        });
        self.files.len() - 1
    }

    /// Updates the sizes of the files to their present sizes.
    pub(crate) fn grow(&mut self) {
        for file in self.files.iter_mut().filter(|file| (file.begin, file.end) == (0, file.bytes)) {
            // A file that was removed keeps its size; reading it fails.
            file.bytes = fs::metadata(&file.path).map_or(file.bytes, |kind| kind.len());
            file.end = file.bytes;
            file.is_written = OnceLock::new();
        }
    }

    /// Limits reads of a file to its first `bytes` bytes, until the next call of `grow`.
    pub(crate) fn limit(&mut self, path: &Path, bytes: u64) {
        for file in self.files.iter_mut().filter(|file| file.path == path && file.begin == 0) {
            file.end = file.end.min(bytes);
            file.bytes = file.end;
        }
    }

    /// Divides a file at `offset`: `file` becomes the part after it, and the part before is added. Returns the index of
    /// the added part.
    pub(crate) fn divide(&mut self, file: usize, offset: u64) -> Option<usize> {
        let whole = self.files.get_mut(file)?;
        let (path, begin, bytes) = (whole.path.clone(), whole.begin, whole.bytes);
        whole.begin = offset;
        Some(self.add_part(path, begin, offset, bytes))
    }

    /// Returns where the file's range begins \[byte of the file\]; not 0 only for a part of a file.
    pub(crate) fn begin(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.begin)
    }

    /// Returns where the file's range ends \[byte of the file\]; for a whole file, its size when the trace was opened.
    pub(crate) fn bytes(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.end)
    }

    /// Returns the size of the file's range \[byte\].
    pub(crate) fn size(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.end.saturating_sub(file.begin))
    }

    /// Returns whether the range is less than the whole file.
    pub(crate) fn is_part(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(|file| (file.begin, file.end) != (0, file.bytes))
    }

    /// Returns whether the file is still being written: it has grown since the trace was opened, or a process has it
    /// open for writing. The first result is kept, since all readers of a trace's slices must agree.
    pub(crate) fn is_written(&self, file: usize) -> bool {
        let Some(file) = self.files.get(file) else { return false };
        *file.is_written.get_or_init(|| {
            let now = fs::metadata(&file.path);
            now.is_ok_and(|now| now.len() > file.bytes || file_writers::any(&now))
        })
    }

    pub(crate) fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new(""), |file| &file.path)
    }

    /// Reads from `offset` on until `buffer` is full or the file ends. Returns the number of bytes.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn read(&self, file: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = self.files.get(file) else { return Ok(0) };
        let handle = self.handle(file)?;
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match handle.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The bytes so far are returned; the next read reports the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Returns the offset of the first byte from `offset` on that is not in a hole; `offset` itself if the system does
    /// not know about holes.
    pub(crate) fn data(&self, file: usize, offset: u64) -> u64 {
        let Some(handle) = self.files.get(file).and_then(|file| self.handle(file).ok()) else {
            return offset;
        };
        // The position of the handle does not matter elsewhere: all reads give an offset.
        match rustix::fs::seek(handle.as_ref(), SeekFrom::Data(offset)) {
            Ok(data) => data.max(offset),
            // The rest of the file is a hole.
            Err(Errno::NXIO) => u64::MAX,
            Err(_) => offset,
        }
    }

    fn handle(&self, file: &StoredFile) -> io::Result<Arc<File>> {
        if let Some(handle) = file.handle().as_ref() {
            return Ok(Arc::clone(handle));
        }
        let handle = Arc::new(self.open(&file.path)?);
        // Files are counted before they are kept, so that threads never exceed the limit together.
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Ok(handle);
        }
        let before = file.handle().replace(Arc::clone(&handle));
        if before.is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(handle)
    }

    /// Opens a file. If no descriptors are left, closes all files that are kept, lowers the limit and tries again.
    fn open(&self, path: &Path) -> io::Result<File> {
        let error = match open_regular(path) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        if !error.raw_os_error().is_some_and(|number| TOO_MANY.contains(&number)) {
            return Err(error);
        }
        self.limit.store(self.open.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        for file in &self.files {
            if file.handle().take().is_some() {
                self.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
        open_regular(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{mkfifoat, Mode, CWD};

    #[test]
    fn pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
        let name = format!("strata-ctf-files-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        mkfifoat(CWD, &path, Mode::RUSR).unwrap();
        let error = open_regular(&path).unwrap_err();
        assert_eq!(error.to_string(), "it is no regular file");
        assert!(open_regular(&std::env::temp_dir()).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        assert!(open_regular(&path).is_ok());
        fs::remove_file(&path).unwrap();
    }
}
