//! The packet that a cursor is in.

use super::decode::Window;
use super::hop::Hop;
use super::stream::Packet;
use super::time::Clock;

/// Limits from here on are not used \[bit\]: no sum that is made with less is too great for a number.
const FAR: u64 = 1 << 62;

/// A packet of a stream, and what there is of it in memory: all that its event records are read of.
#[derive(Debug)]
pub(crate) struct PacketAtHand<'r> {
    /// The first byte of the window that is the packet's, and which byte of the packet that is.
    pub(crate) skip: usize,
    pub(crate) origin: u64,
    /// From a byte of the packet to one of the window, wrapping.
    pub(crate) shift: usize,
    /// Its stream class'.
    pub(crate) clock: Option<Clock>,
    /// Has come to the packet, and has the window.
    pub(crate) hop: Hop<'r>,
    pub(crate) packet: Packet,
}

impl<'r> PacketAtHand<'r> {
    /// No packet yet, in front of the hop's first one.
    pub(crate) fn new(hop: Hop<'r>) -> PacketAtHand<'r> {
        PacketAtHand { skip: 0, origin: 0, shift: 0, clock: None, hop, packet: Packet::default() }
    }

    /// Finds the packet in the window.
    pub(crate) fn align(&mut self) {
        let origin = self.hop.buffer.origin();
        let skip = usize::try_from(self.packet.offset.saturating_sub(origin));
        self.skip = skip.unwrap_or(usize::MAX);
        self.origin = origin.saturating_sub(self.packet.offset);
        // The window's first byte is the packet's byte `origin`, unless the packet begins in it.
        self.shift = self.skip.wrapping_sub(self.origin as usize);
    }

    /// Where the window ends, or the content that ends at this bit \[bit of the packet\]; 0 if it is far.
    pub(crate) fn end(&self, content: u64) -> u64 {
        let end = Window::new(self.hop.buffer.from(self.skip), self.origin, content).end;
        if end < FAR {
            end
        } else {
            0
        }
    }

    /// What there is of the packet, and perhaps what is in front of it; and which byte of the packet that
    /// begins with, wrapping.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> (&[u8], u64) {
        (self.hop.buffer.bytes(), (self.shift as u64).wrapping_neg())
    }

    /// Whether the times of its records are dates.
    #[inline]
    pub(crate) fn is_dated(&self) -> bool {
        self.clock.is_none_or(|clock| clock.is_dated())
    }
}
