//! Scans, for a flight recorder: copies of what a stream holds at one moment, without consuming it.

use crate::channel::Channel;
use crate::description::Publish;
use crate::error::Error;
use crate::ffi::{self, EAGAIN, EBUSY, ENODATA};
use crate::stream::{counters, make_room, Counters, Info, Packet, Stream};
use std::marker::PhantomData;

/// The order in which a scan visits the packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest packet comes first. If producers overwrite packets during the scan, there is a gap between two
    /// packets.
    OldestFirst,
    /// The newest packet comes first. The scan ends at the first packet that was overwritten, so there is no gap
    /// between its packets.
    NewestFirst,
}

/// Number of records that were overwritten before some packet of the scan. Producers count them, so a hostile producer
/// can make the number anything.
///
/// The number is exact, which means that both bounds are equal, if nobody has consumed a packet of the stream, and no
/// producer was between taking the place of a packet and counting the packet's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// Least number of overwritten records.
    pub at_least: u64,
    /// Greatest number of overwritten records: as if each earlier packet that was not counted had been overwritten, and
    /// had been as full as possible. With publication by position, all earlier records.
    pub at_most: u64,
}

/// A pass over a stream's packets, from [`Stream::scan`].
#[derive(Debug)]
pub struct Scan<'s> {
    shim: *mut ffi::Shim,
    stream: u32,
    subbuf_bytes: u64,
    by_position: bool,
    order: Order,
    ended: bool,
    gone: u64,
    unfinished: u64,
    before: Option<Overwritten>,
    /// Borrow of the channel: as long as the scan lives, the mapping stays, no packet is taken and no other scan
    /// begins.
    of: PhantomData<&'s mut Channel>,
}

/// A packet that is not held: its producer may overwrite it at any time.
#[derive(Debug)]
pub struct SeenPacket<'w> {
    packet: Packet<'w>,
    shim: *const ffi::Shim,
}

impl<'w> SeenPacket<'w> {
    /// Returns the packet at which the scan is.
    #[must_use]
    pub fn packet(&self) -> &Packet<'w> {
        &self.packet
    }

    /// Returns whether the packet has not been overwritten yet, so that bytes that were read until now are valid.
    #[must_use]
    pub fn is_there(&self) -> bool {
        // SAFETY: the scan that has given the packet is borrowed, and has not gone on.
        unsafe { ffi::strata_shim_scan_holds(self.shim) != 0 }
    }
}

impl Stream<'_> {
    /// Begins to scan over all packets that the stream holds now: from the oldest unread one to the published part of
    /// the one being filled.
    ///
    /// Nothing is consumed and nothing is written to the ring, so that no producer is disturbed. The producers may be
    /// dead. Packets that are overwritten while they are copied are left out.
    pub fn scan(&mut self, order: Order) -> Scan<'_> {
        let (shim, stream) = (self.shim(), self.number());
        let by_position = self.publish() == Publish::ByPosition;
        Scan::begin(shim, stream, self.subbuf_bytes(), by_position, order)
    }
}

/// The memory of a [`Channel`], for scans in another thread than the one that has the channel. It stays mapped as long
/// as the channel or the view lives.
#[derive(Debug)]
pub struct View(Channel);

impl Channel {
    /// Makes a view of the channel's memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn view(&self) -> Result<View, Error> {
        self.again().map(View)
    }
}

impl View {
    /// Returns the number of streams.
    #[must_use]
    pub fn nr_streams(&self) -> u32 {
        self.0.nr_streams()
    }

    /// Returns the size of a sub-buffer \[byte\].
    #[must_use]
    pub fn subbuf_bytes(&self) -> u64 {
        self.0.subbuf_bytes()
    }

    /// Returns the publication mode of the channel's producers.
    #[must_use]
    pub fn publish(&self) -> Publish {
        self.0.publish()
    }

    /// Starts a scan as [`Stream::scan`] does, and returns the counters at that moment.
    ///
    /// # Errors
    /// [`Error::NoStream`].
    pub fn scan(&mut self, stream: u32, order: Order) -> Result<(Scan<'_>, Counters), Error> {
        let nr_streams = self.nr_streams();
        if stream >= nr_streams {
            return Err(Error::NoStream { stream, nr_streams });
        }
        let by_position = self.publish() == Publish::ByPosition;
        // SAFETY: the stream is one of the channel's.
        unsafe { ffi::strata_shim_view(self.0.shim(), stream) };
        let counters = counters(self.0.shim(), stream);
        Ok((Scan::begin(self.0.shim(), stream, self.subbuf_bytes(), by_position, order), counters))
    }
}

impl Scan<'_> {
    /// Begins a scan over a stream. The caller borrows the channel of the stream, whose reader or view has begun.
    fn begin<'s>(
        shim: *mut ffi::Shim,
        stream: u32,
        subbuf_bytes: u64,
        by_position: bool,
        order: Order,
    ) -> Scan<'s> {
        // SAFETY: a stream of the channel; no packet of it is held, which would borrow the channel.
        unsafe {
            ffi::strata_shim_scan(shim, stream, i32::from(order == Order::NewestFirst));
        }
        Scan {
            shim,
            stream,
            subbuf_bytes,
            by_position,
            order,
            ended: false,
            gone: 0,
            unfinished: 0,
            before: None,
            of: PhantomData,
        }
    }

    /// Returns the packet that [`Scan::next`] would copy, at its place in the ring, if the packet is delivered.
    /// Possible with the oldest packet first, in overwrite mode.
    pub fn look(&mut self) -> Option<SeenPacket<'_>> {
        let mut raw = ffi::Packet::default();
        // SAFETY: the scan was begun by this, and a local variable.
        let code = unsafe { ffi::strata_shim_scan_look(self.shim, &mut raw) };
        (code == 0).then(|| SeenPacket {
            packet: Packet::seen(&raw, self.shim, self.stream),
            shim: self.shim,
        })
    }

    /// Continues after the packet that [`Scan::look`] returned.
    pub fn pass(&mut self) {
        // SAFETY: the scan was begun by this.
        unsafe { ffi::strata_shim_scan_pass(self.shim) }
    }

    /// Copies the next packet, from its first byte on, to `buffer`, whose memory is reused; `None` at the end.
    ///
    /// For a packet that is not delivered, this is the committed prefix. With publication by commit, its end time and
    /// number of records are not known.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Packet`] if the packet is damaged: the next call continues after it.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Info>, Error> {
        make_room(self.stream, self.subbuf_bytes, buffer)?;
        while !self.ended {
            let (mut raw, mut before) = (ffi::Packet::default(), ffi::Before::default());
            let (shim, dst, bytes) = (self.shim, buffer.as_mut_ptr(), self.subbuf_bytes);
            // SAFETY: the scan was begun by this, the buffer has room for a sub-buffer, and no more is copied.
            let code =
                unsafe { ffi::strata_shim_scan_copy(shim, dst, bytes, &mut raw, &mut before) };
            match -code {
                0 => {
                    // SAFETY: so many bytes were just written, at most a sub-buffer.
                    unsafe { buffer.set_len(raw.content_bytes as usize) };
                    if self.before.is_none() || self.order == Order::NewestFirst {
                        self.before = Some(self.overwritten(&before));
                    }
                    return Ok(Some(Info::new(&raw)));
                }
                EAGAIN => {
                    self.gone += 1;
                    self.ended = self.order == Order::NewestFirst;
                }
                EBUSY => self.unfinished += 1,
                ENODATA => self.ended = true,
                _ => return Err(Error::Packet { stream: self.stream, position: raw.position }),
            }
        }
        Ok(None)
    }

    fn overwritten(&self, before: &ffi::Before) -> Overwritten {
        let at_least = before.overwritten_records;
        let uncounted = before.packets.saturating_sub(before.overwritten_packets);
        let at_most = match uncounted {
            0 => at_least,
            _ if self.by_position => before.records.max(at_least),
            // No record is shorter than a byte.
            _ => at_least.saturating_add(uncounted.saturating_mul(self.subbuf_bytes)),
        };
        Overwritten { at_least, at_most }
    }

    /// Returns how many packets were there when the scan began and were overwritten before they were copied.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Returns how many packets could not be copied: they had no committed record, or producers changed them during
    /// each attempt.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Returns how many records were overwritten before the oldest packet that the scan has returned; `None` before the
    /// first packet.
    #[must_use]
    pub fn overwritten_before(&self) -> Option<Overwritten> {
        self.before
    }
}
