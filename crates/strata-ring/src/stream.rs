//! Streams of a channel: packets, the prefix of the packet being filled, and counters.

use crate::description::{ChannelDescription, Publish};
use crate::error::Error;
use crate::ffi::{self, EAGAIN, EBUSY, EINVAL, ENODATA, EPROTO};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

/// State of a stream for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The stream has no whole packet yet.
    Nothing,
    /// A packet can be taken.
    Readable,
    /// Packets are ready, and in discard mode the producer is in its last free sub-buffer.
    Urgent,
    /// All records are read, and producers will write no more.
    Hangup,
}

/// Counters of a stream since its creation. Producers write them, so a hostile producer can make them anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of records published or committed.
    pub written: u64,
    /// Number of records discarded because all sub-buffers were full.
    pub discarded_full: u64,
    /// Number of records discarded because they exceed a sub-buffer, or because no memory was left to assemble them.
    pub discarded_too_big: u64,
    /// Number of records discarded because their sub-buffer still had an uncommitted slot of the lap before.
    pub discarded_nested: u64,
    /// Number of records discarded because the channel has no stream for their CPU; counted in stream 0.
    pub discarded_no_stream: u64,
    /// Number of records that were written, then overwritten before they were read.
    pub overwritten_records: u64,
    /// Number of packets that were overwritten together with their records.
    pub overwritten_packets: u64,
    /// Number of slots that became padding.
    pub cancelled: u64,
}

impl Counters {
    /// Returns the number of discarded records, whatever the reason.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded_full
            .saturating_add(self.discarded_too_big)
            .saturating_add(self.discarded_nested)
            .saturating_add(self.discarded_no_stream)
    }
}

/// Metadata of a packet. Sizes are checked; times and counts are claims of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Position of the packet's first byte \[byte since stream creation\].
    pub position: u64,
    /// Size of the reserved place for a header, before the records \[byte\].
    pub header_bytes: u64,
    /// Header and records \[byte\]; at least `header_bytes`, at most a sub-buffer.
    pub content_bytes: u64,
    /// Time at which the packet was opened \[ns\].
    pub timestamp_begin: u64,
    /// Time at or after the last record \[ns\]; `None` if the producer died before it closed the packet.
    pub timestamp_end: Option<u64>,
    /// Number of the packet's records; `None` for a prefix whose records were not counted.
    pub records: Option<u64>,
    /// Number of records that the stream had discarded, since its creation, when the packet was closed.
    pub discarded: u64,
    /// Upper bound of the bytes that producers reserved behind the content and never committed \[byte\].
    pub unpublished_bytes: u64,
}

impl Info {
    pub(crate) fn new(packet: &ffi::Packet) -> Self {
        Self {
            position: packet.position,
            header_bytes: packet.header_bytes,
            content_bytes: packet.content_bytes,
            timestamp_begin: packet.timestamp_begin,
            timestamp_end: (packet.known & ffi::END != 0).then_some(packet.timestamp_end),
            records: (packet.known & ffi::RECORDS != 0).then_some(packet.records),
            discarded: packet.discarded,
            unpublished_bytes: packet.unpublished_bytes,
        }
    }
}

/// A stream of a [`Channel`](crate::Channel), for its only consumer.
#[derive(Debug)]
pub struct Stream<'c> {
    /// Description of the channel, in which this stream's reader has begun.
    description: &'c mut ChannelDescription,
    stream: u32,
}

impl<'c> Stream<'c> {
    pub(crate) fn new(description: &'c mut ChannelDescription, stream: u32) -> Self {
        Self { description, stream }
    }

    /// Returns the number of the stream in its channel.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.stream
    }

    pub(crate) fn shim(&mut self) -> *mut ffi::Shim {
        self.description.shim()
    }

    pub(crate) fn subbuf_bytes(&self) -> u64 {
        self.description.header().subbuf_bytes
    }

    fn packet(&mut self, raw: &ffi::Packet, held: bool) -> Packet<'_> {
        Packet {
            info: Info::new(raw),
            data: raw.data,
            held,
            shim: self.description.shim(),
            stream: self.stream,
            of: PhantomData,
        }
    }

    /// Returns whether there is a packet to read; never waits.
    #[must_use]
    pub fn poll(&self) -> Poll {
        // SAFETY: a stream of the channel, whose reader has begun.
        match unsafe { ffi::strata_shim_poll(self.description.shim(), self.stream) } {
            0 => Poll::Nothing,
            1 => Poll::Readable,
            2 => Poll::Urgent,
            _ => Poll::Hangup,
        }
    }

    /// Returns the size of what is written and not yet read, the sub-buffer being filled included \[byte\].
    #[must_use]
    pub fn backlog(&self) -> u64 {
        // SAFETY: a stream of the channel, whose reader has begun.
        unsafe { ffi::strata_shim_backlog(self.description.shim(), self.stream) }
    }

    /// Takes the oldest unread packet; `None` if none is delivered.
    ///
    /// # Errors
    /// [`Error::Packet`] if the packet's description is damaged: it is skipped, and the next call continues after it.
    /// [`Error::Barrier`] if the barrier of [`Channel::order_by`](crate::Channel::order_by) was refused.
    // An iterator's items could not borrow the stream.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let mut raw = ffi::Packet::default();
        // SAFETY: a stream of the channel, whose reader has begun, and a local variable.
        let code = unsafe { ffi::strata_shim_next(self.description.shim(), self.stream, &mut raw) };
        match -code {
            0 => Ok(Some(self.packet(&raw, true))),
            EAGAIN => Ok(None),
            errno if errno != EPROTO && errno != EBUSY => {
                let source = io::Error::from_raw_os_error(errno);
                Err(Error::Barrier { stream: self.stream, source })
            }
            _ => {
                // SAFETY: the same stream; the damaged packet is held, and put so that it is skipped.
                unsafe { ffi::strata_shim_put(self.description.shim(), self.stream) };
                Err(Error::Packet { stream: self.stream, position: raw.position })
            }
        }
    }

    /// Copies the committed part of the packet being filled, without disturbing its producers; `None` if there is none,
    /// or if the packet was delivered in the meantime.
    ///
    /// `buffer` then has the packet from its first byte on. With publication by commit, times and number of records of
    /// a prefix are not known.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn partial(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Info>, Error> {
        let bytes = self.subbuf_bytes();
        make_room(self.stream, bytes, buffer)?;
        let (mut raw, dst) = (ffi::Packet::default(), buffer.as_mut_ptr());
        // SAFETY: the buffer has room for a sub-buffer, and no more is copied.
        let code = unsafe {
            ffi::strata_shim_partial(self.description.shim(), self.stream, dst, bytes, &mut raw)
        };
        if code != 0 {
            return Ok(None);
        }
        // SAFETY: so many bytes were just written, at most a sub-buffer.
        unsafe { buffer.set_len(raw.content_bytes as usize) };
        Ok(Some(Info::new(&raw)))
    }

    /// Delivers the sub-buffer being filled, from outside of its process. Possible only with publication by commit.
    ///
    /// [`Stream::next`] returns the packet, once the last slot in it is committed.
    ///
    /// # Errors
    /// [`Error::NotFlushable`], [`Error::FlushBusy`].
    pub fn flush(&mut self) -> Result<(), Error> {
        // The packet's end is a time of the machine's clock, as its records have.
        let adds = strata_model::time_namespace_adds_ns().0;
        // SAFETY: a stream of the channel, whose reader has begun.
        match -unsafe { ffi::strata_shim_flush(self.description.shim(), self.stream, adds) } {
            0 => Ok(()),
            EINVAL => Err(Error::NotFlushable { stream: self.stream }),
            _ => Err(Error::FlushBusy { stream: self.stream }),
        }
    }

    /// Returns the next packet, whole or not, that dead producers have left; `None` at the end.
    ///
    /// To be called after [`Stream::next`] has returned the last packet. Nothing is consumed, so there is nothing to
    /// put.
    ///
    /// # Errors
    /// [`Error::Packet`] if the packet is damaged; the next call continues after it.
    pub fn rest(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let mut raw = ffi::Packet::default();
        // SAFETY: a stream of the channel, whose reader has begun, and a local variable.
        let code = unsafe { ffi::strata_shim_rest(self.description.shim(), self.stream, &mut raw) };
        match -code {
            0 => Ok(Some(self.packet(&raw, false))),
            ENODATA => Ok(None),
            _ => Err(Error::Packet { stream: self.stream, position: raw.position }),
        }
    }

    /// Lets [`Stream::rest`] begin again with the first packet.
    ///
    /// # Errors
    /// [`Error::Table`].
    pub fn rest_again(&mut self) -> Result<(), Error> {
        // SAFETY: a stream of the channel; no packet is held, since it would borrow this.
        match unsafe { ffi::strata_shim_begin(self.description.shim(), self.stream) } {
            0 => Ok(()),
            _ => Err(Error::Table { stream: self.stream }),
        }
    }

    /// Returns a copy of the stream's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(self.description.shim(), self.stream)
    }

    /// Returns the publication mode of the stream's producers.
    #[must_use]
    pub fn publish(&self) -> Publish {
        self.description.publish()
    }
}

/// Empties a buffer and reserves memory in it for a sub-buffer.
pub(crate) fn make_room(stream: u32, bytes: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
    buffer.clear();
    buffer.try_reserve_exact(bytes as usize).map_err(|_| {
        let text = format!("stream {stream}: no memory to copy a packet of up to {bytes} bytes");
        Error::NoMemory(text)
    })
}

pub(crate) fn counters(shim: *const ffi::Shim, stream: u32) -> Counters {
    let mut raw = ffi::Counters::default();
    // SAFETY: a stream of a channel that the caller borrows, and a local variable.
    unsafe { ffi::strata_shim_counters(shim, stream, &mut raw) };
    Counters {
        written: raw.written,
        discarded_full: raw.discarded_full,
        discarded_too_big: raw.discarded_too_big,
        discarded_nested: raw.discarded_nested,
        discarded_no_stream: raw.discarded_no_stream,
        overwritten_records: raw.overwritten_records,
        overwritten_packets: raw.overwritten_packets,
        cancelled: raw.cancelled,
    }
}

/// A packet that belongs to the reader until it is put. A packet that is never put stays unread.
#[derive(Debug)]
pub struct Packet<'s> {
    info: Info,
    /// The packet in shared memory, of `info.content_bytes` bytes.
    data: *const u8,
    /// True between get and put; false for packets from [`Stream::rest`] and from scans.
    held: bool,
    shim: *mut ffi::Shim,
    stream: u32,
    /// Borrow of the channel: as long as the packet lives, the mapping stays and no other packet is taken.
    of: PhantomData<&'s mut ChannelDescription>,
}

impl Packet<'_> {
    /// Makes a packet that is not held, so that nothing is released at its end.
    pub(crate) fn seen<'s>(raw: &ffi::Packet, shim: *mut ffi::Shim, stream: u32) -> Packet<'s> {
        let info = Info::new(raw);
        Packet { info, data: raw.data, held: false, shim, stream, of: PhantomData }
    }

    /// Returns the metadata of the packet.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns a copy of the present counters of the packet's stream.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(self.shim, self.stream)
    }

    /// Returns the place and the size of the content from byte `from` of the packet on \[byte\].
    fn part(&self, from: u64) -> (*const u8, u64) {
        let from = from.min(self.info.content_bytes);
        // No provenance is left by it, and nothing is read: content_bytes are in the mapping.
        (self.data.wrapping_add(from as usize), self.info.content_bytes - from)
    }

    /// Writes `header` and the content from byte `from` of the packet on to `file` at offset `at`, straight from shared
    /// memory. Returns the number of written bytes.
    ///
    /// # Errors
    /// A system call failed; a part may be written then.
    pub fn write_to(
        &self,
        file: BorrowedFd<'_>,
        at: u64,
        header: &[u8],
        from: u64,
    ) -> io::Result<u64> {
        let (body, body_bytes) = self.part(from);
        write_at(file, at, header, body, body_bytes)
    }

    /// Appends the content from byte `from` of the packet on to `out`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn copy_to(&self, from: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let (body, bytes) = self.part(from);
        out.try_reserve(bytes as usize).map_err(|_| {
            Error::NoMemory(format!(
                "stream {}: no memory to copy a packet of {bytes} bytes",
                self.stream
            ))
        })?;
        // SAFETY: capacity for so many bytes behind the last one was just reserved.
        let end = unsafe { out.as_mut_ptr().add(out.len()) };
        // SAFETY: the body lies in the mapping, the destination is private.
        unsafe { ffi::strata_shim_copy(end, body, bytes) };
        // SAFETY: so many bytes were just written.
        unsafe { out.set_len(out.len() + bytes as usize) };
        Ok(())
    }

    /// Releases the packet, whose space the producer can use again.
    pub fn put(mut self) {
        if std::mem::take(&mut self.held) {
            // SAFETY: the stream's reader holds this packet.
            unsafe { ffi::strata_shim_put(self.shim, self.stream) }
        }
    }
}

impl Drop for Packet<'_> {
    fn drop(&mut self) {
        if self.held {
            // SAFETY: the stream's reader holds this packet.
            unsafe { ffi::strata_shim_put_back(self.shim, self.stream) }
        }
    }
}

/// Writes `header` and then `body` to `file` at offset `at`, in one system call if the system accepts all of it at
/// once. Returns the number of written bytes.
///
/// # Errors
/// A system call failed; a part may be written then.
pub fn write_both(file: BorrowedFd<'_>, at: u64, header: &[u8], body: &[u8]) -> io::Result<u64> {
    write_at(file, at, header, body.as_ptr(), body.len() as u64)
}

fn write_at(
    file: BorrowedFd<'_>,
    at: u64,
    header: &[u8],
    body: *const u8,
    body_bytes: u64,
) -> io::Result<u64> {
    let (first, first_bytes) = (header.as_ptr(), header.len() as u64);
    // SAFETY: the kernel reads the header, and the body: so many bytes of a slice or of a mapping.
    let code = unsafe {
        ffi::strata_shim_write(file.as_raw_fd(), at, first, first_bytes, body, body_bytes)
    };
    match code {
        0 => Ok(first_bytes + body_bytes),
        _ => Err(io::Error::from_raw_os_error(-code)),
    }
}
