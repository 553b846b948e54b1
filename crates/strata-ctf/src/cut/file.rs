//! The file to which a stream's packets are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// A new file, which is created with its first bytes.
#[derive(Debug)]
pub(super) struct PacketFile {
    path: PathBuf,
    file: Option<File>,
    exists: bool,
    /// Number of bytes that are in the file \[byte\].
    written: u64,
    /// Collected bytes that follow the written ones.
    buffer: Vec<u8>,
    limit: usize,
    /// True if the file is closed after each write, since too many files would be open.
    close: bool,
}

impl PacketFile {
    /// Makes a file that collects `limit` bytes before it writes them.
    pub fn new(path: PathBuf, limit: usize, close: bool) -> PacketFile {
        let buffer = Vec::new();
        PacketFile { path, file: None, exists: false, written: 0, buffer, limit, close }
    }

    /// Returns the offset of the next byte.
    pub fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > self.limit {
            self.flush()?;
        }
        if bytes.len() > self.limit {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Replaces bytes that were appended before.
    pub fn replace(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.open()?.write_all_at(bytes, offset)?;
        self.settle();
        Ok(())
    }

    /// Writes all collected bytes.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        self.write(&bytes)?;
        bytes.clear();
        self.buffer = bytes;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let offset = self.written;
        self.open()?.write_all_at(bytes, offset)?;
        self.written += bytes.len() as u64;
        self.settle();
        Ok(())
    }

    fn open(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            if let (false, Some(folder)) = (self.exists, self.path.parent()) {
                fs::create_dir_all(folder)?;
            }
            let mut options = OpenOptions::new();
            options.write(true).create_new(!self.exists);
            self.file = Some(options.open(&self.path)?);
            self.exists = true;
        }
        self.file.as_ref().ok_or_else(|| io::Error::other("the file is closed"))
    }

    fn settle(&mut self) {
        if self.close {
            self.file = None;
        }
    }
}

/// Copies a file to a path that does not exist yet. Returns the number of bytes.
pub(super) fn copy_new(from: &std::path::Path, to: &std::path::Path) -> io::Result<u64> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut source = File::open(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
    let bytes = io::copy(&mut source, &mut file)?;
    file.flush()?;
    Ok(bytes)
}
