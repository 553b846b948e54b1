//! The files of all streams: opened when they are needed, never too many at once.

use super::writers;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Files that stay open; others are opened for each read.
const OPEN: usize = 256;

/// "Too many open files": of the system, of the process.
const TOO_MANY: [i32; 2] = [23, 24];

/// One file of a stream.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    /// When the trace was opened \[byte\].
    bytes: u64,
    is_written: OnceLock<bool>,
    handle: Mutex<Option<Arc<File>>>,
}

impl StoredFile {
    fn handle(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        // Whoever panicked while it was locked left a whole value: it is only ever replaced.
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them; each is called by its index.
#[derive(Debug)]
pub(crate) struct StoredFiles {
    files: Vec<StoredFile>,
    open: AtomicUsize,
    /// At most so many stay open; less once the system had no more descriptors.
    limit: AtomicUsize,
}

impl Default for StoredFiles {
    fn default() -> StoredFiles {
        StoredFiles { files: Vec::new(), open: AtomicUsize::new(0), limit: AtomicUsize::new(OPEN) }
    }
}

impl StoredFiles {
    /// Its index.
    pub(crate) fn add(&mut self, path: PathBuf, bytes: u64) -> usize {
        self.files.push(StoredFile {
            path,
            bytes,
            is_written: OnceLock::new(),
            handle: Mutex::new(None),
        });
        self.files.len() - 1
    }

    /// Its size when the trace was opened \[byte\].
    pub(crate) fn bytes(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.bytes)
    }

    /// Whether it is still being written: it has grown since the trace was opened, or a process has it open for
    /// that. The first answer holds: pieces of a trace are read apart, and must agree.
    pub(crate) fn is_written(&self, file: usize) -> bool {
        let Some(file) = self.files.get(file) else { return false };
        *file.is_written.get_or_init(|| {
            let now = fs::metadata(&file.path);
            now.is_ok_and(|now| now.len() > file.bytes || writers::any(&now))
        })
    }

    pub(crate) fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new(""), |file| &file.path)
    }

    /// Reads at `offset` until `buffer` is full or the file ends; how many bytes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read(&self, file: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = self.files.get(file) else { return Ok(0) };
        let handle = self.handle(file)?;
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match handle.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What is there is shown first; the next read begins with the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The first byte from `offset` on that is in no hole; where the system does not know of holes, `offset`.
    pub(crate) fn data(&self, file: usize, offset: u64) -> u64 {
        let Some(handle) = self.files.get(file).and_then(|file| self.handle(file).ok()) else {
            return offset;
        };
        // Nobody else minds where a handle is: all reads say their place.
        match rustix::fs::seek(handle.as_ref(), SeekFrom::Data(offset)) {
            Ok(data) => data.max(offset),
            // There is nothing but a hole up to the end.
            Err(Errno::NXIO) => u64::MAX,
            Err(_) => offset,
        }
    }

    fn handle(&self, file: &StoredFile) -> io::Result<Arc<File>> {
        if let Some(handle) = file.handle().as_ref() {
            return Ok(Arc::clone(handle));
        }
        let handle = Arc::new(self.open(&file.path)?);
        // Counted before it is kept: two threads never keep one more than there may be.
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

    /// If there are no more descriptors, closes all that are kept, keeps fewer from now on, and tries
    /// again.
    fn open(&self, path: &Path) -> io::Result<File> {
        let error = match File::open(path) {
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
        File::open(path)
    }
}
