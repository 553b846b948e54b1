//! The packet that a cursor is reading.

use super::decode::Window;
use super::packet_skip::PacketSkipper;
use super::stream::Packet;
use super::time::Clock;

/// The limit on positions in a window \[bit\], chosen so that sums of positions do not overflow.
const FAR: u64 = 1 << 62;

/// A packet of a stream with the part of it in memory, from which event records are decoded.
#[derive(Debug)]
pub(crate) struct PacketAtHand<'r> {
    /// Index in the window of the first byte that belongs to the packet.
    pub(crate) skip: usize,
    pub(crate) origin: u64,
    /// Difference between a byte's offset in the packet and in the window, wrapping.
    pub(crate) shift: usize,
    /// Clock of the packet's stream class.
    pub(crate) clock: Option<Clock>,
    /// The skipper that has reached the packet, with its window.
    pub(crate) skipper: PacketSkipper<'r>,
    pub(crate) packet: Packet,
}

impl<'r> PacketAtHand<'r> {
    /// Creates the value, positioned before the first packet of the skipper's file.
    pub(crate) fn new(skipper: PacketSkipper<'r>) -> PacketAtHand<'r> {
        PacketAtHand {
            skip: 0,
            origin: 0,
            shift: 0,
            clock: None,
            skipper,
            packet: Packet::default(),
        }
    }

    /// Determines the packet's place in the window.
    pub(crate) fn align(&mut self) {
        let origin = self.skipper.buffer.origin();
        let skip = usize::try_from(self.packet.offset.saturating_sub(origin));
        self.skip = skip.unwrap_or(usize::MAX);
        self.origin = origin.saturating_sub(self.packet.offset);
        // The window's first byte is byte `origin` of the packet, unless the packet begins within the window.
        self.shift = self.skip.wrapping_sub(self.origin as usize);
    }

    /// Returns the end of the window, or of the content if that comes first \[bit of the packet\]; 0 if it exceeds the
    /// limit.
    pub(crate) fn end(&self, content: u64) -> u64 {
        let end = Window::new(self.skipper.buffer.from(self.skip), self.origin, content).end;
        if end < FAR {
            end
        } else {
            0
        }
    }

    /// Returns the window's bytes, which contain the packet's bytes in memory, and the offset of the first one \[byte
    /// of the packet\]; wrapping.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> (&[u8], u64) {
        (self.skipper.buffer.bytes(), (self.shift as u64).wrapping_neg())
    }

    /// Returns whether times of the packet's records are known as times since 1970.
    #[inline]
    pub(crate) fn is_dated(&self) -> bool {
        self.clock.is_none_or(|clock| clock.is_dated())
    }
}
