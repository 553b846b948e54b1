//! Writes the bits of a packet.

use crate::read::align_up;

/// Size of a LEB128 integer whose value is set later \[byte\]: enough for 64 bits.
pub(super) const LEB_BYTES: usize = 10;

/// A packet that is being built, without the bytes that were written already.
#[derive(Debug, Default)]
pub(super) struct PacketBuilder {
    pub bytes: Vec<u8>,
    /// Offset of the first of these bytes \[byte of the packet\].
    origin: u64,
    /// The end of the fields so far, at which the next field may begin \[bit of the packet\].
    at: u64,
}

/// A saved position in a packet, to which [`PacketBuilder::back_to`] returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketMark {
    length: usize,
    at: u64,
    last: u8,
}

impl PacketBuilder {
    /// Begins a new packet.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.origin, self.at) = (0, 0);
    }

    /// Returns the place at which the next field may begin \[bit of the packet\].
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the offset of the first byte that is kept \[byte of the packet\].
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Moves to the next multiple of a power of two \[bit\].
    pub fn align(&mut self, align: u64) {
        self.at = align_up(self.at, align.max(1));
        self.grow();
    }

    fn grow(&mut self) {
        let bytes = self.at.div_ceil(8).saturating_sub(self.origin) as usize;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    /// Appends the lowest bits of a number.
    pub fn put(&mut self, value: u64, width: u8, big: bool) {
        let at = self.at - self.origin * 8;
        self.at += u64::from(width);
        self.grow();
        set(&mut self.bytes, at, value, width, big);
    }

    /// Appends whole bytes, at a whole byte.
    pub fn extend(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.at % 8, 0);
        self.bytes.extend_from_slice(bytes);
        self.at += bytes.len() as u64 * 8;
    }

    pub fn mark(&self) -> PacketMark {
        let last = self.bytes.last().copied().unwrap_or(0);
        PacketMark { length: self.bytes.len(), at: self.at, last }
    }

    /// Returns to a mark, and removes the bytes after it.
    pub fn back_to(&mut self, mark: PacketMark) {
        self.bytes.truncate(mark.length);
        self.at = mark.at;
        if let Some(last) = self.bytes.last_mut() {
            *last = mark.last;
        }
    }

    /// Removes all whole bytes, after the caller has written them to the file.
    pub fn take_whole(&mut self) {
        let whole = (self.at / 8).saturating_sub(self.origin).min(self.bytes.len() as u64);
        self.bytes.drain(..whole as usize);
        self.origin += whole;
    }

    /// Returns the whole bytes, which [`PacketBuilder::take_whole`] would remove.
    pub fn whole(&self) -> &[u8] {
        let whole = (self.at / 8).saturating_sub(self.origin) as usize;
        self.bytes.get(..whole).unwrap_or(&self.bytes)
    }
}

/// Replaces `width` bits from bit `at` on.
pub(super) fn set(bytes: &mut [u8], at: u64, value: u64, width: u8, big: bool) {
    let (mut at, mut left) = (at, u32::from(width));
    let mut low = value;
    while left > 0 {
        let shift = (at % 8) as u32;
        let count = left.min(8 - shift);
        let mask = (0xffu32 >> (8 - count)) as u8;
        let (bits, place) = if big {
            ((value >> (left - count)) as u8 & mask, 8 - shift - count)
        } else {
            (low as u8 & mask, shift)
        };
        if let Some(byte) = bytes.get_mut((at / 8) as usize) {
            *byte = *byte & !(mask << place) | bits << place;
        }
        low >>= count;
        at += u64::from(count);
        left -= count;
    }
}

/// Replaces a LEB128 integer that has the size [`LEB_BYTES`].
pub(super) fn set_leb(bytes: &mut [u8], at: u64, value: u64) {
    let begin = (at / 8) as usize;
    for index in 0..LEB_BYTES {
        let more = if index + 1 < LEB_BYTES { 0x80 } else { 0 };
        if let Some(byte) = bytes.get_mut(begin + index) {
            *byte = (value >> (7 * index)) as u8 & 0x7f | more;
        }
    }
}
