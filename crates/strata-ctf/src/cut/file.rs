//! The file that a stream's packets are written to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// A new file; it is there with the first bytes.
#[derive(Debug)]
pub(super) struct PacketFile {
    path: PathBuf,
    file: Option<File>,
    exists: bool,
    /// In the file \[byte\].
    written: u64,
    /// Behind that.
    buffer: Vec<u8>,
    limit: usize,
    /// Close the file after each write: there are too many.
    close: bool,
}

impl PacketFile {
    /// `limit`: so many bytes are collected before they are written.
    pub fn new(path: PathBuf, limit: usize, close: bool) -> PacketFile {
        let buffer = Vec::new();
        PacketFile { path, file: None, exists: false, written: 0, buffer, limit, close }
    }

    /// Where the next byte is.
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

    /// Replaces bytes that were appended.
    pub fn replace(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.open()?.write_all_at(bytes, offset)?;
        self.settle();
        Ok(())
    }

    /// Nothing is held back.
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

/// Copies a file that is not there yet; its bytes.
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
