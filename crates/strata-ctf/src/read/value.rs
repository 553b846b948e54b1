//! What is in a field.

use crate::model::schema::Encoding;
use crate::model::ByteOrder;

/// What is in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'e> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, without a NUL; any other bytes may be in it.
    Text(&'e [u8]),
    /// A text of UTF-16 or UTF-32.
    Wide(Wide<'e>),
    /// Bytes of any content.
    Blob(&'e [u8]),
    /// A structure, an array or a variant: visit it.
    Compound,
}

/// A text of UTF-16 or UTF-32, up to its NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide<'e> {
    bytes: &'e [u8],
    encoding: Encoding,
}

impl<'e> Wide<'e> {
    /// The text that `bytes` begin with, up to the first NUL in them.
    pub(super) fn new(bytes: &'e [u8], encoding: Encoding) -> Wide<'e> {
        let end = find_wide_nul(bytes, encoding).unwrap_or(bytes.len());
        Wide { bytes: bytes.get(..end).unwrap_or(bytes), encoding }
    }

    /// As it is in the packet, without a NUL.
    pub fn bytes(&self) -> &'e [u8] {
        self.bytes
    }

    /// The same text in UTF-8; what is no character is U+FFFD.
    pub fn to_text(&self) -> String {
        let units = self.bytes.chunks(self.encoding.unit());
        match self.encoding {
            Encoding::Utf16(order) => {
                let units = units.map(|unit| match <[u8; 2]>::try_from(unit) {
                    Ok(unit) if order == ByteOrder::Big => u16::from_be_bytes(unit),
                    Ok(unit) => u16::from_le_bytes(unit),
                    // Half of a unit: as what is half of a character.
                    Err(_) => 0xd800,
                });
                let characters = char::decode_utf16(units);
                characters.map(|made| made.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            Encoding::Utf32(order) => {
                let characters = units.map(|unit| {
                    let number = <[u8; 4]>::try_from(unit).ok().map(|unit| match order {
                        ByteOrder::Big => u32::from_be_bytes(unit),
                        ByteOrder::Little => u32::from_le_bytes(unit),
                    });
                    number.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
                });
                characters.collect()
            }
        }
    }
}

/// Where the first NUL of a text is \[byte\]: as many NULs as a unit has bytes, which begin with a unit.
pub(super) fn find_wide_nul(bytes: &[u8], encoding: Encoding) -> Option<usize> {
    let unit = encoding.unit();
    let mut units = bytes.chunks_exact(unit);
    let found = units.position(|unit| unit.iter().all(|&byte| byte == 0))?;
    Some(found * unit)
}
