//! A walk: what a stream holds at one moment, copied without consuming it. For a flight recorder.

use crate::channel::{Channel, EAGAIN, EBUSY, ENODATA};
use crate::error::Error;
use crate::ffi;
use crate::stream::{make_room, Info, Stream};
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

impl Stream<'_> {
    /// Begins to walk through all packets that the stream holds now: from the oldest one unread to the one being
    /// filled, as far as that is published.
    ///
    /// Nothing is consumed and nothing is written to the ring, so that no producer is disturbed; they may be
    /// dead. What they overwrite while it is copied is left out.
    pub fn walk(&mut self, order: Order) -> Walk<'_> {
        let (shim, stream) = (self.shim(), self.number());
        // SAFETY: a stream of the channel, whose reader has begun and holds no packet: it would borrow this.
        unsafe {
            ffi::strata_shim_walk(shim, stream, i32::from(order == Order::NewestFirst));
        }
        Walk {
            shim,
            stream,
            subbuf_bytes: self.subbuf_bytes(),
            by_position: self.publish() == crate::Publish::ByPosition,
            order,
            ended: false,
            gone: 0,
            unfinished: 0,
            before: None,
            of: PhantomData,
        }
    }
}

impl Walk<'_> {
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
