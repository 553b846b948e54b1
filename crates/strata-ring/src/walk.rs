//! A walk: what a stream holds at one moment, copied without consuming it. For a flight recorder.

use crate::channel::Channel;
use crate::description::Publish;
use crate::error::Error;
use crate::ffi::{self, EAGAIN, EBUSY, ENODATA};
use crate::stream::{counters, make_room, Counters, Info, Packet, Stream};
use std::marker::PhantomData;

/// In which order a walk goes through the packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they were written. What producers overwrite on the way leaves a gap between two packets.
    OldestFirst,
    /// The newest one first. The walk ends where the first one is gone: what it gives has no gap.
    NewestFirst,
}

/// How many records of a stream were overwritten before some packet of it. Producers' word: hostile.
///
/// Exact, which is both numbers the same, if nobody has consumed a packet of the stream, and no producer was
/// between taking the place of a packet and counting what was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// So many were counted.
    pub at_least: u64,
    /// If each packet in front that was not counted was overwritten, and was as full as it can be; published
    /// by position, all records in front.
    pub at_most: u64,
}

/// One pass over a stream's packets, from [`Stream::walk`].
#[derive(Debug)]
pub struct Walk<'s> {
    shim: *mut ffi::Shim,
    stream: u32,
    subbuf_bytes: u64,
    by_position: bool,
    order: Order,
    ended: bool,
    gone: u64,
    unfinished: u64,
    before: Option<Overwritten>,
    /// The mapping stays, and nobody takes a packet or begins another walk, as long as this one lives.
    of: PhantomData<&'s mut Channel>,
}

/// A packet that nobody holds: its producer may overwrite it at any time.
#[derive(Debug)]
pub struct SeenPacket<'w> {
    packet: Packet<'w>,
    shim: *const ffi::Shim,
}

impl<'w> SeenPacket<'w> {
    /// The packet.
    #[must_use]
    pub fn packet(&self) -> &Packet<'w> {
        &self.packet
    }

    /// Whether it is there still: what was read of it until now is whole.
    #[must_use]
    pub fn is_there(&self) -> bool {
        // SAFETY: the walk that has given the packet is borrowed, and has not gone on.
        unsafe { ffi::strata_shim_walk_holds(self.shim) != 0 }
    }
}

impl Stream<'_> {
    /// Begins to walk through all packets that the stream holds now: from the oldest one unread to the one being
    /// filled, as far as that is published.
    ///
    /// Nothing is consumed and nothing is written to the ring, so that no producer is disturbed; they may be
    /// dead. What they overwrite while it is copied is left out.
    pub fn walk(&mut self, order: Order) -> Walk<'_> {
        let (shim, stream) = (self.shim(), self.number());
        let by_position = self.publish() == Publish::ByPosition;
        Walk::begin(shim, stream, self.subbuf_bytes(), by_position, order)
    }
}

/// The same memory as a [`Channel`]'s, for walks in another thread, while that one has the channel. It stays mapped
/// as long as either lives.
#[derive(Debug)]
pub struct View(Channel);

impl Channel {
    /// Another look at the channel's memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn view(&self) -> Result<View, Error> {
        self.again().map(View)
    }
}

impl View {
    /// Streams of the channel.
    #[must_use]
    pub fn nr_streams(&self) -> u32 {
        self.0.nr_streams()
    }

    /// Size of a sub-buffer \[byte\].
    #[must_use]
    pub fn subbuf_bytes(&self) -> u64 {
        self.0.subbuf_bytes()
    }

    /// How its producers publish.
    #[must_use]
    pub fn publish(&self) -> Publish {
        self.0.publish()
    }

    /// As [`Stream::walk`], and how many records went where until then.
    ///
    /// # Errors
    /// [`Error::NoStream`].
    pub fn walk(&mut self, stream: u32, order: Order) -> Result<(Walk<'_>, Counters), Error> {
        let nr_streams = self.nr_streams();
        if stream >= nr_streams {
            return Err(Error::NoStream { stream, nr_streams });
        }
        let by_position = self.publish() == Publish::ByPosition;
        // SAFETY: the stream is one of the channel's.
        unsafe { ffi::strata_shim_view(self.0.shim(), stream) };
        let counters = counters(self.0.shim(), stream);
        Ok((Walk::begin(self.0.shim(), stream, self.subbuf_bytes(), by_position, order), counters))
    }
}

impl Walk<'_> {
    /// The caller borrows the channel of which this is a stream, whose reader or view has begun.
    fn begin<'s>(
        shim: *mut ffi::Shim,
        stream: u32,
        subbuf_bytes: u64,
        by_position: bool,
        order: Order,
    ) -> Walk<'s> {
        // SAFETY: a stream of the channel; no packet of it is held, which would borrow the channel.
        unsafe {
            ffi::strata_shim_walk(shim, stream, i32::from(order == Order::NewestFirst));
        }
        Walk {
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

    /// The packet that [`Walk::next`] would copy, where it lies, if it is delivered; the oldest first, in overwrite
    /// mode.
    pub fn look(&mut self) -> Option<SeenPacket<'_>> {
        let mut raw = ffi::Packet::default();
        // SAFETY: the walk was begun by this, and a local variable.
        let code = unsafe { ffi::strata_shim_walk_look(self.shim, &mut raw) };
        (code == 0).then(|| SeenPacket {
            packet: Packet::seen(&raw, self.shim, self.stream),
            shim: self.shim,
        })
    }

    /// Goes on behind the packet that was looked at.
    pub fn pass(&mut self) {
        // SAFETY: the walk was begun by this.
        unsafe { ffi::strata_shim_walk_pass(self.shim) }
    }

    /// Copies the next packet, from its first byte on, to `buffer`, whose memory is used again; `None`: the end.
    ///
    /// Of a packet that is not delivered it is the committed prefix; published by commit, its end and its
    /// number of records are not known.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Packet`]: damaged, the next call goes on behind it.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Info>, Error> {
        make_room(self.stream, self.subbuf_bytes, buffer)?;
        while !self.ended {
            let (mut raw, mut before) = (ffi::Packet::default(), ffi::Before::default());
            let (shim, dst, bytes) = (self.shim, buffer.as_mut_ptr(), self.subbuf_bytes);
            // SAFETY: the walk was begun by this, the buffer has room for a sub-buffer, and no more is copied.
            let code =
                unsafe { ffi::strata_shim_walk_copy(shim, dst, bytes, &mut raw, &mut before) };
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

    /// Packets that were there when the walk began, and were overwritten before they were copied.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Packets of which nothing is committed, or whose producers were quicker each time.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// What was overwritten before the oldest packet that the walk has given; `None`: it gave none yet.
    #[must_use]
    pub fn overwritten_before(&self) -> Option<Overwritten> {
        self.before
    }
}
