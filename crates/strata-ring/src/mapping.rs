//! Shared memory that contains a channel.

use crate::error::Error;
use crate::ffi;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Unit of offsets and sizes of mappings \[byte\]. On machines with larger pages, the kernel refuses what it cannot
/// map.
const PAGE: u64 = strata_abi::ring::PAGE as u64;

/// Offsets of a stream's parts, for streams that are not all in one file: those in the values of a BPF map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLayout {
    /// Size of a stream, a multiple of 4096 \[byte\].
    pub stride_bytes: u64,
    /// Offset of the stream's frames \[byte\].
    pub frames_offset: u64,
    /// Offset of the stream's data, a multiple of 4096 \[byte\].
    pub data_offset: u64,
    /// Number of streams in the channel.
    pub nr_streams: u32,
}

/// A shared mapping of a part of a file. It is unmapped when this value is destroyed.
///
/// Other processes write to it at any time, so this crate never makes a reference to its bytes.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<c_void>,
    bytes: u64,
}

// SAFETY: a mapping belongs to the process, not to a thread; only its owner can reach the pointer.
unsafe impl Send for Mapping {}

// SAFETY: what it says of itself never changes, and nothing here refers to its bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of `fd` from `offset` on.
    ///
    /// The caller has checked that the file cannot shrink (`F_SEAL_SHRINK`): otherwise, truncating the file would kill
    /// this process.
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

    /// Maps a channel whose streams are in the values of a BPF map, one in each: value `i` begins at byte `i *
    /// value_bytes` of `fd`, and bytes after the stream are not used. The channel's header is memory of this process
    /// only and all zeros: [`Channel::format`](crate::Channel::format) writes it.
    ///
    /// A BPF map (`BPF_F_MMAPABLE`) has no size that can be queried, and cannot be truncated; the kernel refuses to map
    /// beyond its end.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Value`], [`Error::Map`].
    pub fn of_streams(
        fd: BorrowedFd<'_>,
        layout: &StreamLayout,
        value_bytes: u64,
    ) -> Result<Self, Error> {
        let (stride_bytes, nr) = (layout.stride_bytes, u64::from(layout.nr_streams));
        for bytes in [stride_bytes, value_bytes] {
            if bytes == 0 || bytes % PAGE != 0 {
                return Err(Error::Range { offset: 0, bytes, page: PAGE });
            }
        }
        if value_bytes < stride_bytes {
            return Err(Error::Value { stride_bytes, value_bytes });
        }
        // A stream is no longer than a value: where the last one ends, all that is mapped ends too.
        let end = nr.checked_mul(value_bytes).and_then(|bytes| bytes.checked_add(PAGE));
        let bytes = match end {
            Some(end) if nr > 0 && end <= i64::MAX as u64 / 2 => PAGE + nr * stride_bytes,
            _ => {
                let bytes = nr.saturating_mul(value_bytes);
                return Err(Error::Range { offset: 0, bytes, page: PAGE });
            }
        };
        let raw = ffi::Layout {
            stride_bytes,
            frames_offset: layout.frames_offset,
            data_offset: layout.data_offset,
            nr_streams: nr,
        };
        let mut memory = std::ptr::null_mut();
        // SAFETY: maps at a free address, so many bytes, and writes the address to a local variable.
        let code =
            unsafe { ffi::strata_shim_map_streams(fd.as_raw_fd(), &raw, value_bytes, &mut memory) };
        match NonNull::new(memory) {
            Some(memory) if code == 0 => Ok(Self { memory, bytes }),
            _ => {
                let source = std::io::Error::from_raw_os_error(-code);
                Err(Error::Map { offset: 0, bytes: nr * value_bytes, source })
            }
        }
    }

    /// Returns the size of the mapping \[byte\].
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
