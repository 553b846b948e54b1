//! Reads integers of any width at any bit.
//!
//! In little-endian order, the lowest bit of a byte comes first; in big-endian order the highest. Bytes do not
//! show in which order they were written.

/// Place and bit order of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    /// Offset from the base of its part \[bit\].
    pub offset: u64,
    /// Width of the integer, 1 to 64 \[bit\].
    pub width: u8,
    pub big: bool,
    pub signed: bool,
    /// True if the order of bits is reversed: the first bit is in the place of the last.
    pub reversed: bool,
}

impl Bits {
    /// Reads the integer, sign-extended if it is signed. The offset counts from bit `shift` of the first byte of `bytes`.
    #[inline]
    pub fn read(self, bytes: &[u8], shift: u64) -> Option<u64> {
        let value = read(bytes, self.offset.checked_add(shift)?, self.width, self.big)?;
        let value = if self.reversed { reverse(value, self.width) } else { value };
        Some(if self.signed { extend(value, self.width) } else { value })
    }
}

/// Returns a mask of the lowest `width` bits, 1 to 64.
#[inline]
pub(crate) fn mask(width: u8) -> u64 {
    u64::MAX >> (64 - u32::from(width.clamp(1, 64)))
}

/// Sign-extends a two's complement of `width` bits, 1 to 64, to 64 bits.
#[inline]
pub(super) fn extend(value: u64, width: u8) -> u64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    (((value << unused) as i64) >> unused) as u64
}

/// Returns the lowest `width` bits, 1 to 64, in reverse order.
#[cold]
fn reverse(value: u64, width: u8) -> u64 {
    value.reverse_bits() >> (64 - u32::from(width.clamp(1, 64)))
}

/// Reads the unsigned integer of `width` bits, 1 to 64, that begins at bit `at` of `bytes`.
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

/// Reads a bit field near the end of the bytes, where fewer than 8 are left, or a field that spans 9 bytes.
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

/// Result of decoding a LEB128 integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leb {
    /// The value, sign-extended if it is signed, and the integer's size \[byte\].
    Is(u64, u64),
    /// The last byte of the integer is missing.
    Short,
    /// The integer has more than 64 significant bits.
    TooBig,
}

/// The greatest size of a LEB128 integer that is read \[byte\]: 64 bits need 10 bytes, more may be padding.
const LEB_BYTES: usize = 16;

/// Decodes the LEB128 integer at the begin of `bytes`.
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

/// Returns the index of the first NUL.
#[inline]
pub(crate) fn find_nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Most texts are short, and calling a function costs more than searching here.
    let mut rest = bytes;
    while let (Some((word, others)), 0..32) = (rest.split_first_chunk(), bytes.len() - rest.len()) {
        let word = u64::from_le_bytes(*word);
        // Sets the highest bit of each byte that is 0, and of some bytes after it.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(bytes.len() - rest.len() + zeros.trailing_zeros() as usize / 8);
        }
        rest = others;
    }
    memchr::memchr(0, rest).map(|nul| bytes.len() - rest.len() + nul)
}
