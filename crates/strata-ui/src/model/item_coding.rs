//! Encodes items as bytes, for tiles and for stored blocks, with deltas and varints.
//!
//! ```text
//! item = gap zigzag varint · extent varint · tag byte · name varint · extra varint, if bit 4 is set · rest of a cell
//! tag  = kind in bits 0 to 2; bit 3: a cell; bit 4: extra facts follow
//! ```
//! The gap is from the end of the item before, of the first one from the block's begin.

use crate::model::item::{Item, Kind, KINDS};

const IS_CELL: u8 = 1 << 3;
const HAS_EXTRA: u8 = 1 << 4;

/// Appends a number, 7 bits a byte.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Encodes a signed number as an unsigned one, so that numbers near 0 stay small.
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends an item; `before` is the end of the item before it.
pub fn put_item(out: &mut Vec<u8>, item: &Item, before: i64) {
    put_varint(out, zigzag(item.from.wrapping_sub(before)));
    put_varint(out, item.extent());
    let is_slice = item.is_slice();
    let has_extra = item.extra != 0;
    let flags = if is_slice { 0 } else { IS_CELL } | if has_extra { HAS_EXTRA } else { 0 };
    out.push(item.kind.number() as u8 | flags);
    put_varint(out, item.name.into());
    if has_extra {
        put_varint(out, item.extra);
    }
    if !is_slice {
        put_varint(out, item.count);
        put_varint(out, item.longest);
        let bit = |(at, &sum): (usize, &u64)| if sum > 0 { 1 << at } else { 0 };
        out.push(item.sums.iter().enumerate().map(bit).sum());
        item.sums.iter().filter(|&&sum| sum > 0).for_each(|&sum| put_varint(out, sum));
    }
}

/// Reads items out of bytes.
#[derive(Clone, Debug)]
pub struct Items<'b> {
    bytes: &'b [u8],
    before: i64,
}

impl<'b> Items<'b> {
    /// Decodes a block of items that begins at the time `begin`.
    #[must_use]
    pub fn new(bytes: &'b [u8], begin: i64) -> Items<'b> {
        Items { bytes, before: begin }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
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
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let gap = unzigzag(self.varint()?);
        let from = self.before.wrapping_add(gap);
        let to = from.checked_add_unsigned(self.varint()?)?;
        let tag = self.byte()?;
        let kind = *Kind::ALL.get(usize::from(tag) % KINDS)?;
        let name = u32::try_from(self.varint()?).ok()?;
        self.before = to;
        let extra = if tag & HAS_EXTRA == 0 { 0 } else { self.varint()? };
        if tag & IS_CELL == 0 {
            return Some(Item::slice(from, to, kind, name, extra));
        }
        let (count, longest, mask) = (self.varint()?, self.varint()?, self.byte()?);
        let mut sums = [0; KINDS];
        for (at, sum) in sums.iter_mut().enumerate() {
            if mask & 1 << at != 0 {
                *sum = self.varint()?;
            }
        }
        Some(Item { from, to, count, longest, kind, name, extra, sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{merge, slices};
    use strata_random::Random;

    #[test]
    fn items_of_every_level_are_read_as_they_were_written() {
        let slices = slices(&mut Random::from_seed(3), 2000);
        for level in [0, 4, 10, 16] {
            let items = merge(&slices, level);
            let (mut bytes, mut before) = (Vec::new(), -77);
            for item in &items {
                put_item(&mut bytes, item, before);
                before = item.to;
            }
            assert_eq!(Items::new(&bytes, -77).collect::<Vec<_>>(), items);
            // Cut anywhere, the items before are there, and nothing else.
            for end in 0..bytes.len().min(300) {
                let read: Vec<Item> = Items::new(&bytes[..end], -77).collect();
                assert!(items.starts_with(&read), "cut at {end}");
            }
        }
    }

    #[test]
    fn numbers_at_the_ends_of_their_ranges_are_kept() {
        let item = Item::slice(i64::MIN + 1, 5, Kind::Busy, u32::MAX, u64::MAX);
        let mut bytes = Vec::new();
        put_item(&mut bytes, &item, i64::MAX);
        assert_eq!(Items::new(&bytes, i64::MAX).next(), Some(item));
    }
}
