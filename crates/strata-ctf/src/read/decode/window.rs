//! The bytes of a packet that are in memory.

/// A part of a packet. Positions are bits of the packet, independent of where the window begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'w> {
    pub bytes: &'w [u8],
    /// Offset of the first of `bytes` \[byte of the packet\].
    pub origin: u64,
    /// End of the bytes in the window \[bit of the packet\].
    pub end: u64,
    /// End of the packet's content \[bit of the packet\]; not before `end`.
    pub content: u64,
}

impl<'w> Window<'w> {
    /// Makes a window of a packet's bytes in memory. Only the first `content` bits of the packet may be read; `bytes`
    /// may end before or after them.
    pub fn new(bytes: &'w [u8], origin: u64, content: u64) -> Window<'w> {
        let end = origin.saturating_add(bytes.len() as u64).saturating_mul(8).min(content);
        Window { bytes, origin, end, content }
    }

    /// Returns the bytes from the byte that contains this bit on.
    #[inline]
    pub fn from(&self, bit: u64) -> Option<&'w [u8]> {
        // For a byte before the window, the difference wraps and so is far after the window's end.
        let at = usize::try_from((bit / 8).wrapping_sub(self.origin)).ok()?;
        self.bytes.get(at..)
    }

    /// Returns `N` bytes from the byte that contains this bit on.
    #[inline]
    pub fn take<const N: usize>(&self, bit: u64) -> Option<[u8; N]> {
        self.from(bit)?.first_chunk().copied()
    }
}

/// Returns the next multiple of a power of two, or `bit` itself if it is a multiple.
#[inline]
pub(crate) fn align_up(bit: u64, align: u64) -> u64 {
    let mask = align.wrapping_sub(1);
    bit.saturating_add(mask) & !mask
}
