//! Numbers and texts as bytes, as a stored model has them. Whatever bytes are read, they end.

use crate::model::item_coding::{put_varint, zigzag};

/// Appends a number with a sign.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a text with its length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a number that may be missing.
pub fn put_option(out: &mut Vec<u8>, value: Option<u32>) {
    put_varint(out, value.map_or(0, |value| u64::from(value) + 1));
}

/// Reads values from stored bytes. Each method returns `None` if the bytes are not valid.
#[derive(Clone, Debug)]
pub struct StoredBytes<'b>(pub &'b [u8]);

impl<'b> StoredBytes<'b> {
    /// Returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Returns the next number, if it fits.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// Returns the next number with a sign.
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Returns the next number that may be missing.
    pub fn option(&mut self) -> Option<Option<u32>> {
        match self.number()? {
            0 => Some(None),
            more => u32::try_from(more - 1).ok().map(Some),
        }
    }

    /// Returns the next text.
    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let len = self.small()?;
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    /// Returns the next text, which must be UTF-8.
    pub fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns a list, which begins with its length. Each element takes at least one byte, so that a false length ends
    /// with the bytes.
    pub fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut StoredBytes<'b>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count: usize = self.small()?;
        if count > self.0.len() {
            return None;
        }
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_read_as_they_were_written_and_cut_ones_are_not() {
        let mut out = Vec::new();
        put_signed(&mut out, i64::MIN);
        put_option(&mut out, None);
        put_option(&mut out, Some(u32::MAX));
        put_bytes(&mut out, "ä".as_bytes());
        put_varint(&mut out, 3);
        (0..3).for_each(|n| put_varint(&mut out, n * 1000));
        let read = |bytes| {
            let mut from = StoredBytes(bytes);
            let all = (from.signed()?, from.option()?, from.option()?, from.text()?);
            Some((all, from.list(StoredBytes::number)?))
        };
        let wanted = ((i64::MIN, None, Some(u32::MAX), "ä"), vec![0, 1000, 2000]);
        assert_eq!(read(&out), Some(wanted));
        (0..out.len()).for_each(|end| assert_eq!(read(&out[..end]), None, "cut at {end}"));
        // A length that is a lie reserves no memory.
        let mut lie = Vec::new();
        put_varint(&mut lie, u64::MAX >> 1);
        assert_eq!(StoredBytes(&lie).list(StoredBytes::number), None);
        assert_eq!(StoredBytes(&[0xff; 12]).number(), None);
    }
}
