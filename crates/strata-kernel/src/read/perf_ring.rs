//! A ring of perf records: the kernel writes at its head, and this program reads at its tail.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offset of the head in `struct perf_event_mmap_page` \[byte\].
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;
const DATA_AT: usize = 1040;

const DISCARDED: u32 = 2;
/// Size of a record's header: u32 kind, u16 misc, u16 size \[byte\].
pub(crate) const HEADER: usize = 8;

/// The ring with the records of one CPU.
#[derive(Debug)]
pub(crate) struct PerfRing {
    event: OwnedFd,
    memory: NonNull<u8>,
    data_at: usize,
    bytes: usize,
    data_bytes: usize,
}

// SAFETY: a mapping is any thread's; there is one reader, who has it for itself.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Maps the event's ring. `data_bytes` must be a power of two and a multiple of the page size.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(crate) fn map(event: OwnedFd, data_bytes: usize) -> io::Result<PerfRing> {
        let page = rustix::param::page_size();
        let bytes = page + data_bytes;
        // SAFETY: a new mapping, of an object that is ours.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut ring = PerfRing { event, memory, data_at: page, bytes, data_bytes };
        // Where the data begin; of all kernels that are recorded, behind the first page.
        let at = ring.word(DATA_AT).load(Ordering::Relaxed) as usize;
        if at != 0 && at + data_bytes <= bytes {
            ring.data_at = at;
        }
        Ok(ring)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping's first page.
        let word = unsafe { self.memory.as_ptr().add(at) };
        // SAFETY: aligned, and lives as long as this; the kernel writes it at once.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// Passes each record in the ring to `each`, with its header. Returns the number of records that found no room.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[u8])) -> u64 {
        // Acquire pairs with the kernel's barrier in front of its store: what is before `head` is written.
        let head = self.word(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.word(TAIL_AT).load(Ordering::Relaxed);
        let mut discarded = 0;
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= HEADER as u64 {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let size = usize::from(u16_at(&header, 6).unwrap_or(0));
            // The kernel writes no such thing.
            if size < HEADER || size as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            record.resize(size, 0);
            self.copy(tail, &mut record);
            if u32_at(&record, 0) == Some(DISCARDED) {
                discarded += u64_at(&record, HEADER + 8).unwrap_or(0);
            }
            each(&record);
            tail = tail.wrapping_add(size as u64);
        }
        // Release: the kernel writes there only when all was read.
        self.word(TAIL_AT).store(tail, Ordering::Release);
        discarded
    }

    fn copy(&self, from: u64, to: &mut [u8]) {
        let begin = from as usize & (self.data_bytes - 1);
        let first = to.len().min(self.data_bytes - begin);
        let (one, other) = to.split_at_mut(first);
        // SAFETY: the data begin within the mapping.
        let data = unsafe { self.memory.as_ptr().add(self.data_at) };
        // SAFETY: `begin` is less than their size.
        let at = unsafe { data.add(begin) };
        // SAFETY: up to their end at most, and the kernel does not write between tail and head.
        unsafe { std::ptr::copy_nonoverlapping(at, one.as_mut_ptr(), one.len()) };
        // SAFETY: likewise, the rest from their begin.
        unsafe { std::ptr::copy_nonoverlapping(data, other.as_mut_ptr(), other.len()) };
    }
}

impl AsFd for PerfRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: made by open(), and nothing leads into it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// Returns the bytes before the first zero.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a number in the kernel's byte order; `None` if the record ends before it.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a number of 32 bits in the kernel's byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a number of 64 bits in the kernel's byte order.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
