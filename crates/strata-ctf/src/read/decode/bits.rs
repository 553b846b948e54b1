//! Integers of any number of bits, at any bit.
//!
//! In the little-endian order, bit 0 of a byte is its lowest and comes first; in the big-endian order
//! its highest comes first. A reader of one order can so be told from the other's by nothing.

/// Where an integer is, and how its bits are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    /// From where its part's offsets count \[bit\].
    pub offset: u64,
    /// 1 to 64.
    pub width: u8,
    pub big: bool,
    pub signed: bool,
    /// The first bit is what the last one would be.
    pub reversed: bool,
}

impl Bits {
    /// The integer, sign-extended where it has a sign. `bytes` begins with the byte in which offsets
    /// count from bit `shift`.
    #[inline]
    pub fn read(self, bytes: &[u8], shift: u64) -> Option<u64> {
        let value = read(bytes, self.offset.checked_add(shift)?, self.width, self.big)?;
        let value = if self.reversed { reverse(value, self.width) } else { value };
        Some(if self.signed { extend(value, self.width) } else { value })
    }
}

/// The lowest `width` bits, 1 to 64.
#[inline]
pub(crate) fn mask(width: u8) -> u64 {
    u64::MAX >> (64 - u32::from(width.clamp(1, 64)))
}

/// Two's complement of `width` bits, 1 to 64, as one of 64.
#[inline]
pub(super) fn extend(value: u64, width: u8) -> u64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    (((value << unused) as i64) >> unused) as u64
}

/// The lowest `width` bits, 1 to 64, the other way round.
#[cold]
fn reverse(value: u64, width: u8) -> u64 {
    value.reverse_bits() >> (64 - u32::from(width.clamp(1, 64)))
}

/// The unsigned integer of `width` bits, 1 to 64, at a bit of `bytes`.
#[inline]
pub(crate) fn read(bytes: &[u8], at: u64, width: u8, big: bool) -> Option<u64> {
    let bytes = bytes.get(usize::try_from(at / 8).ok()?..)?;
    let shift = (at % 8) as u32;
    let width = u32::from(width.clamp(1, 64));
    match bytes.first_chunk::<8>() {
        Some(&word) if shift + width <= 64 => Some(if big {
            (u64::from_be_bytes(word) << shift) >> (64 - width)
        } else {
            (u64::from_le_bytes(word) >> shift) & (u64::MAX >> (64 - width))
        }),
        _ => edge(bytes, shift, width, big),
    }
}

/// The same where fewer than 8 bytes are left, or it is spread over 9.
#[cold]
fn edge(bytes: &[u8], shift: u32, width: u32, big: bool) -> Option<u64> {
    let needed = (shift + width).div_ceil(8) as usize;
    let bytes = bytes.get(..needed)?;
    let word = |word: u128, (index, &byte): (u32, &u8)| {
        let place = if big { 120 - 8 * index } else { 8 * index };
        word | u128::from(byte) << place
    };
    let word = (0u32..).zip(bytes).fold(0, word);
    let value = if big { (word << shift) >> (128 - width) } else { word >> shift };
    Some(value as u64 & (u64::MAX >> (64 - width)))
}

/// What a LEB128 integer is, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leb {
    /// Its value, sign-extended where it has a sign, and how many bytes it has.
    Is(u64, u64),
    /// Its last byte is not there.
    Short,
    /// More than 64 bits of it are not 0 (or not its sign).
    TooBig,
}

/// Bytes of the longest LEB128 integer that is read: 64 bits need 10, more may be padding.
const LEB_BYTES: usize = 16;

/// The LEB128 integer at the begin of `bytes`.
pub(crate) fn leb128(bytes: &[u8], signed: bool) -> Leb {
    let mut value: u128 = 0;
    for (index, &byte) in bytes.iter().take(LEB_BYTES).enumerate() {
        let shift = 7 * index as u32;
        value |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 {
            continue;
        }
        let bytes = index as u64 + 1;
        if !signed {
            return u64::try_from(value).map_or(Leb::TooBig, |value| Leb::Is(value, bytes));
        }
        let unused = 128 - (shift + 7).min(128);
        let value = ((value << unused) as i128) >> unused;
        return i64::try_from(value).map_or(Leb::TooBig, |value| Leb::Is(value as u64, bytes));
    }
    if bytes.len() < LEB_BYTES {
        Leb::Short
    } else {
        Leb::TooBig
    }
}

/// Where the first NUL is.
#[inline]
pub(crate) fn find_nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Most texts are short, and a call is dearer than to look for their ends here.
    let mut rest = bytes;
    while let (Some((word, others)), 0..32) = (rest.split_first_chunk(), bytes.len() - rest.len()) {
        let word = u64::from_le_bytes(*word);
        // The highest bit of each byte that is 0, and of some behind it.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(bytes.len() - rest.len() + zeros.trailing_zeros() as usize / 8);
        }
        rest = others;
    }
    memchr::memchr(0, rest).map(|nul| bytes.len() - rest.len() + nul)
}
