//! The bytes of a packet that are at hand.

/// A part of a packet. Positions are bits of the packet, wherever the window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'w> {
    pub bytes: &'w [u8],
    /// Which byte of the packet `bytes` begins with.
    pub origin: u64,
    /// Where what is at hand ends \[bit of the packet\].
    pub end: u64,
    /// Where the packet's content ends \[bit of the packet\]; not before `end`.
    pub content: u64,
}

impl<'w> Window<'w> {
    /// `content`: how many bits of the packet may be read; what is at hand may be more or less.
    pub fn new(bytes: &'w [u8], origin: u64, content: u64) -> Window<'w> {
        let end = origin.saturating_add(bytes.len() as u64).saturating_mul(8).min(content);
        Window { bytes, origin, end, content }
    }

    /// What is at hand from the byte on that this bit is in.
    #[inline]
    pub fn from(&self, bit: u64) -> Option<&'w [u8]> {
        // A byte in front of the window is far behind its end.
        let at = usize::try_from((bit / 8).wrapping_sub(self.origin)).ok()?;
        self.bytes.get(at..)
    }

    /// So many bytes, from the one on that this bit is in.
    #[inline]
    pub fn take<const N: usize>(&self, bit: u64) -> Option<[u8; N]> {
        self.from(bit)?.first_chunk().copied()
    }
}

/// The next multiple of a power of two.
#[inline]
pub(crate) fn align_up(bit: u64, align: u64) -> u64 {
    let mask = align.wrapping_sub(1);
    bit.saturating_add(mask) & !mask
}
