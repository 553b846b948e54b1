//! Shared memory that holds a channel.

use crate::error::Error;
use crate::ffi;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Offsets and sizes of mappings are multiples of it \[byte\]; the largest page size of the machines
/// that matter would do too, since the kernel refuses what it cannot map.
const PAGE: u64 = strata_abi::ring::PAGE as u64;

/// A shared mapping of a part of a file; unmapped on drop.
///
/// Other processes write to it at any time, so nothing in this crate refers to its bytes by a
/// reference.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<c_void>,
    bytes: u64,
}

// SAFETY: a mapping belongs to the process, not to a thread; only its owner can reach the pointer.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of `fd` from `offset` on.
    ///
    /// The caller has checked that the file cannot shrink (`F_SEAL_SHRINK`): otherwise whoever
    /// truncates it kills this process.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::FileTooShort`], [`Error::Map`].
    pub fn new(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self, Error> {
        let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        let end = match end {
            Some(end) if bytes > 0 && offset % PAGE == 0 && bytes % PAGE == 0 => end,
            _ => return Err(Error::Range { offset, bytes, page: PAGE }),
        };
        let map_error = |source| Error::Map { offset, bytes, source };
        let size = fd
            .try_clone_to_owned()
            .and_then(|fd| File::from(fd).metadata())
            .map_err(map_error)?
            .len();
        if end > size {
            return Err(Error::FileTooShort { end, size });
        }
        let mut memory = std::ptr::null_mut();
        // SAFETY: maps at a free address and writes the address to a local variable.
        let code = unsafe { ffi::strata_shim_map(fd.as_raw_fd(), offset, bytes, &mut memory) };
        match NonNull::new(memory) {
            Some(memory) if code == 0 => Ok(Self { memory, bytes }),
            _ => Err(map_error(std::io::Error::from_raw_os_error(-code))),
        }
    }

    /// Its size \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.memory.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what strata_shim_map() mapped, of the same size, and nobody has a pointer any more.
        unsafe { ffi::strata_shim_unmap(self.memory.as_ptr(), self.bytes) }
    }
}
