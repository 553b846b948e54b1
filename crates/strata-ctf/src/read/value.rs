//! The value of a field.

use crate::model::schema::Encoding;
use crate::model::ByteOrder;

/// The value of a field, borrowed from the packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'e> {
    /// The value of an unsigned integer field.
    Unsigned(u64),
    /// The value of a signed integer field.
    Signed(i64),
    /// The value of a floating-point field.
    Real(f64),
    /// A text without its NUL. The bytes need not be valid UTF-8.
    Text(&'e [u8]),
    /// A text in UTF-16 or UTF-32.
    Wide(Wide<'e>),
    /// Bytes with any content.
    Blob(&'e [u8]),
    /// A structure, an array or a variant, whose fields are read with a visitor.
    Compound,
}

/// A text in UTF-16 or UTF-32, up to its NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide<'e> {
    bytes: &'e [u8],
    encoding: Encoding,
}

impl<'e> Wide<'e> {
    /// Takes the text from the begin of `bytes` up to the first NUL.
    pub(super) fn new(bytes: &'e [u8], encoding: Encoding) -> Wide<'e> {
        let end = find_wide_nul(bytes, encoding).unwrap_or(bytes.len());
        Wide { bytes: bytes.get(..end).unwrap_or(bytes), encoding }
    }

    /// Returns the text's bytes as the packet has them, without the NUL.
    pub fn bytes(&self) -> &'e [u8] {
        self.bytes
    }

    /// Converts the text to UTF-8. A code unit that is not a character becomes U+FFFD.
    pub fn to_text(&self) -> String {
        let units = self.bytes.chunks(self.encoding.unit());
        match self.encoding {
            Encoding::Utf16(order) => {
                let units = units.map(|unit| match <[u8; 2]>::try_from(unit) {
                    Ok(unit) if order == ByteOrder::Big => u16::from_be_bytes(unit),
                    Ok(unit) => u16::from_le_bytes(unit),
                    // An incomplete unit is treated like half of a surrogate pair.
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

/// Returns the offset of a text's first NUL \[byte\]. It begins at a whole code unit, all of whose bytes are 0.
pub(super) fn find_wide_nul(bytes: &[u8], encoding: Encoding) -> Option<usize> {
    let unit = encoding.unit();
    let mut units = bytes.chunks_exact(unit);
    let found = units.position(|unit| unit.iter().all(|&byte| byte == 0))?;
    Some(found * unit)
}
