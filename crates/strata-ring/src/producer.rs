//! A producer in this process, for tests of crates that read streams: it writes records as an application does.
//!
//! The module is always compiled. If it was a feature for tests only, cargo would compile this crate and all that
//! depend on it twice: once for the command and once for tests. The linker leaves it out of the command.

use crate::channel::Channel;
use crate::ffi::producer as ffi;
use std::io;
use std::ptr::NonNull;

/// The format of record headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFormat {
    /// Headers of 4 bytes: 5 bits id, 27 bits timestamp; or of 13 bytes, with the whole id and timestamp.
    Compact,
    /// Headers of 6 bytes: u16 id, u32 timestamp; or of 14 bytes, with the whole id and timestamp.
    Large,
}

/// Returns whether the C library has registered restartable sequences, which [`Publish::ByPosition`] needs.
///
/// [`Publish::ByPosition`]: crate::Publish::ByPosition
#[must_use]
pub fn has_rseq() -> bool {
    // SAFETY: looks at what the C library says.
    unsafe { ffi::strata_producer_has_rseq() != 0 }
}

/// Sets the timestamp of this thread's next records \[ns\]; with 0, they get the time of CLOCK_MONOTONIC.
pub fn stamp(now: u64) {
    // SAFETY: sets a variable of this thread.
    unsafe { ffi::strata_producer_stamp(now) }
}

/// Writes to a channel that this process has created. The producer must not outlive the channel.
#[derive(Debug)]
pub struct Producer {
    producer: NonNull<ffi::Producer>,
    memory: *mut u8,
    bytes: u64,
}

// SAFETY: producers of a channel may run on any thread, also at the same time.
unsafe impl Send for Producer {}
// SAFETY: the same.
unsafe impl Sync for Producer {}

impl Producer {
    /// Makes a producer of `channel`; `None` if there is no memory.
    #[must_use]
    pub fn new(channel: &Channel, header: HeaderFormat) -> Option<Self> {
        let (memory, large) = (channel.memory(), i32::from(header == HeaderFormat::Large));
        // SAFETY: the memory holds a channel that was formatted or checked.
        let producer = NonNull::new(unsafe { ffi::strata_producer_open(memory, large) })?;
        Some(Self { producer, memory: memory.cast(), bytes: channel.mapped_bytes() })
    }

    /// Writes one record to the stream of the current CPU. Returns false if it was discarded.
    pub fn record(&self, id: u32, payload: &[u8]) -> bool {
        let (p, data, bytes) = (self.producer.as_ptr(), payload.as_ptr(), payload.len() as u32);
        // SAFETY: copies so many bytes.
        unsafe { ffi::strata_producer_record(p, id, data.cast(), bytes) == 0 }
    }

    /// Delivers the sub-buffer that the current CPU is filling.
    pub fn flush(&self) {
        // SAFETY: as a record.
        unsafe { ffi::strata_producer_flush(self.producer.as_ptr()) }
    }

    /// Reserves room for a payload, with publication by commit, and never commits it. Returns false if there was no
    /// room.
    pub fn abandon(&self, payload_bytes: u32) -> bool {
        // SAFETY: as a record.
        unsafe { ffi::strata_producer_abandon(self.producer.as_ptr(), payload_bytes) == 0 }
    }

    /// Starts a process that writes `nr` records with id 0, whose payload is the record's number (u64), and then waits
    /// to be killed.
    ///
    /// # Errors
    /// A system call failed.
    pub fn spawn(&self, nr: u64) -> io::Result<Child> {
        self.spawn_words(nr, 1)
    }

    /// Starts a process as [`Producer::spawn`] does, but with a payload of up to 16 words: word `i` is the record's
    /// number times `2 * i + 1`.
    ///
    /// # Errors
    /// A system call failed.
    pub fn spawn_words(&self, nr: u64, words: u32) -> io::Result<Child> {
        assert!((1..=16).contains(&words), "a test's mistake: {words} words");
        let (p, mut progress) = (self.producer.as_ptr(), std::ptr::null_mut());
        // SAFETY: the child calls only what a signal handler may, and then waits to be killed.
        let pid = unsafe { ffi::strata_producer_spawn(p, nr, words, &mut progress) };
        if pid < 0 {
            return Err(io::Error::from_raw_os_error(-pid));
        }
        Ok(Child { pid, progress })
    }

    /// Overwrites bytes of the channel's memory, as a hostile process does.
    pub fn scribble(&self, at: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = at + i as u64;
            assert!(at < self.bytes, "a test's mistake: byte {at} of {}", self.bytes);
            // SAFETY: inside of the mapping.
            let p = unsafe { self.memory.add(at as usize) };
            // SAFETY: nobody has a reference to the memory.
            unsafe { p.write_volatile(*byte) };
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: made by strata_producer_open(), and freed here only.
        unsafe { ffi::strata_producer_close(self.producer.as_ptr()) }
    }
}

/// A process that writes records. It is killed when this value is destroyed.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    progress: *mut u64,
}

impl Child {
    /// Returns the number of records that the child has published, or one less.
    #[must_use]
    pub fn published(&self) -> u64 {
        // SAFETY: the page that it shares with the child is mapped as long as this lives.
        unsafe { ffi::strata_producer_published(self.progress) }
    }

    /// Returns the process id of the child.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Kills the process, and returns the number of records that it had published.
    #[must_use]
    pub fn kill(self) -> u64 {
        // SAFETY: a child of ours that nobody has waited for.
        unsafe { ffi::strata_producer_stop(self.pid) };
        self.published()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours; stopped or not, nobody has waited for it, and the page is mapped.
        unsafe { ffi::strata_producer_free(self.pid, self.progress) }
    }
}
