//! Numbers and texts of a byte slice, from its begin on, in the byte order of this machine; and parts of a file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use crate::error::Problem;

/// The rest of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    /// Takes the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Takes the next `bytes` bytes; `None` if fewer are left.
    pub fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (first, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(first)
    }

    /// Takes a text up to its NUL, and the NUL.
    pub fn line(&mut self) -> Option<&'b [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }
}

/// Appends the bytes before the first NUL, and a NUL.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(until_nul(text));
    out.push(0);
}

/// Returns the bytes before the first NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a part of the file; an error if the file ends within it.
pub(crate) fn read_at(file: &mut File, at: u64, bytes: u64) -> Result<Vec<u8>, Problem> {
    file.seek(SeekFrom::Start(at))?;
    // No more is taken than there is, whatever the file says.
    let mut found = Vec::new();
    file.take(bytes).read_to_end(&mut found)?;
    match found.len() as u64 == bytes {
        true => Ok(found),
        false => Err(Problem::Bad(format!(
            "it is cut off: {bytes} bytes were to be at offset {at}, and {} are",
            found.len()
        ))),
    }
}
