//! The part of a file that a cursor has in memory.

use super::files::StoredFiles;
use std::io;

/// A window begins small, so that all streams' first events are there at once.
const FIRST: usize = 16 << 10;

/// A record, or a packet's head, may be that long \[byte\].
pub(crate) const LONGEST: u64 = 64 << 20;

/// Bytes of one file, one behind the other.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    file: usize,
    /// Where the first byte is in the file.
    origin: u64,
    /// So many bytes are read at a time; doubles up to `most`.
    size: usize,
    most: usize,
    /// Of all files.
    read: u64,
}

impl Buffer {
    /// One that has no more than `most` bytes, but for a record that is longer.
    pub(crate) fn new(most: usize) -> Buffer {
        let (bytes, size) = (Vec::new(), FIRST.min(most));
        Buffer { bytes, filled: 0, file: usize::MAX, origin: 0, size, most, read: 0 }
    }

    /// What there is, from [`Buffer::origin`] on.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or(&[])
    }

    /// What there is, and perhaps what was there before.
    #[inline]
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// What there is, without the first bytes.
    #[inline]
    pub(crate) fn from(&self, skip: usize) -> &[u8] {
        self.bytes.get(skip..self.filled).unwrap_or(&[])
    }

    /// Byte of the file.
    #[inline]
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// All that was ever read.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Frees the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.filled = 0;
    }

    /// Whether the bytes `from..to` of the file are there.
    pub(crate) fn has(&self, file: usize, from: u64, to: u64) -> bool {
        let end = self.origin.saturating_add(self.filled as u64);
        file == self.file && self.origin <= from && to <= end
    }

    /// Has the window begin at `from` and reach `to` at least; `false`: the file ends before that, and
    /// the window has what there is. The caller bounds `to - from`.
    ///
    /// # Errors
    /// The system's; nothing of the window is left then.
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

    /// Moves what is there from `from` on to the front.
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
        // After a record that needed much.
        if self.bytes.len() > self.most.saturating_mul(4) && self.filled <= self.most {
            self.bytes.truncate(self.most);
            self.bytes.shrink_to_fit();
        }
        self.file = file;
        self.origin = from;
    }
}
