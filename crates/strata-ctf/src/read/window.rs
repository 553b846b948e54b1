//! The part of a file that a cursor has in memory.

use super::files::StoredFiles;
use std::io;

/// The first size of a window \[byte\]. It is small, so that the first events of all streams are available soon.
pub(crate) const FIRST: usize = 16 << 10;

/// The greatest size of a record or of a packet's head \[byte\].
pub(crate) const LONGEST: u64 = 64 << 20;

/// Consecutive bytes of one file.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    file: usize,
    /// Offset of the first byte \[byte of the file\].
    origin: u64,
    /// Number of bytes to read at a time; it doubles up to `most`.
    size: usize,
    most: usize,
    /// The number of bytes read so far, from all files.
    read: u64,
}

impl Buffer {
    /// Makes a buffer of at most `most` bytes, except for a longer record.
    pub(crate) fn new(most: usize) -> Buffer {
        let (bytes, size) = (Vec::new(), FIRST.min(most));
        Buffer { bytes, filled: 0, file: usize::MAX, origin: 0, size, most, read: 0 }
    }

    /// Returns the bytes in memory, from [`Buffer::origin`] on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or(&[])
    }

    /// Returns the whole buffer: the bytes in memory, possibly followed by old ones.
    #[inline]
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes in memory without the first `skip`.
    #[inline]
    pub(crate) fn from(&self, skip: usize) -> &[u8] {
        self.bytes.get(skip..self.filled).unwrap_or(&[])
    }

    /// Returns the offset of the first byte in memory \[byte of the file\].
    #[inline]
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.filled = 0;
    }

    /// Returns whether the bytes `from..to` of the file are in memory.
    pub(crate) fn has(&self, file: usize, from: u64, to: u64) -> bool {
        let end = self.origin.saturating_add(self.filled as u64);
        file == self.file && self.origin <= from && to <= end
    }

    /// Moves the window so that it begins at `from` and reaches at least `to`. Returns false if the file ends before
    /// `to`; the window then has the bytes up to there. The caller must bound `to - from`.
    ///
    /// # Errors
    /// The error of the system. The window is empty then.
    pub(crate) fn fill(
        &mut self,
        files: &StoredFiles,
        file: usize,
        from: u64,
        to: u64,
    ) -> io::Result<bool> {
        self.keep(file, from);
        let need = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        if need <= self.filled {
            return Ok(true);
        }
        let size = self.size.max(need);
        self.size = self.size.saturating_mul(2).min(self.most);
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
        let left = files.bytes(file).saturating_sub(from);
        let end = usize::try_from(left).unwrap_or(usize::MAX).min(self.bytes.len());
        let at = from.saturating_add(self.filled as u64);
        let place = self.bytes.get_mut(self.filled..end).unwrap_or(&mut []);
        match files.read(file, at, place) {
            Ok(bytes) => {
                self.filled += bytes;
                self.read += bytes as u64;
                Ok(need <= self.filled)
            }
            Err(error) => {
                self.filled = 0;
                Err(error)
            }
        }
    }

    /// Moves the bytes from `from` on to the front.
    fn keep(&mut self, file: usize, from: u64) {
        let skip = if file == self.file { from.checked_sub(self.origin) } else { None };
        match skip.and_then(|skip| usize::try_from(skip).ok()).filter(|&skip| skip <= self.filled) {
            Some(0) => {}
            Some(skip) => {
                self.bytes.copy_within(skip..self.filled, 0);
                self.filled -= skip;
            }
            None => self.filled = 0,
        }
        // The buffer has grown for a long record: release the memory.
        if self.bytes.len() > self.most.saturating_mul(4) && self.filled <= self.most {
            self.bytes.truncate(self.most);
            self.bytes.shrink_to_fit();
        }
        self.file = file;
        self.origin = from;
    }
}
