//! The trait that receives the fields of an event record in order.

use std::sync::Arc;

use crate::model::schema::{Label, Range};
use crate::model::{Base, Flags};

/// The kind of a field, for code that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// An integer, an enumeration or a truth value.
    Integer,
    /// A floating-point number of 32 or 64 bits.
    Real,
    /// A string, or a text of given length.
    Text,
    /// Bytes of any content.
    Blob,
    /// A structure: members with names.
    Structure,
    /// Elements of one class.
    Array,
    /// A variant, which is one of several fields.
    Variant,
}

/// The description of a field, without its value. An optional field has no description of its own: the description is
/// that of the field that may be absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The name as it is shown; empty for an array's element.
    pub name: Arc<str>,
    /// The kind of value that the field holds.
    pub kind: FieldKind,
    /// True for an element of an array.
    pub is_element: bool,
    /// The base in which an integer is shown.
    pub base: Base,
    /// True for a field of truth values.
    pub is_bool: bool,
    /// True for a signed integer.
    pub signed: bool,
    /// The width of an integer or a real number \[bit\]. It is 0 for integers in LEB128, whose width varies, and for
    /// all other fields.
    pub bits: u8,
    /// The labels of an enumeration.
    pub labels: Option<Arc<[Label]>>,
    /// The flags that the labels stand for, if the enumeration is a set of flags.
    pub flags: Option<Flags>,
    /// True if the labels are names of bits: see [`Integer::is_bit_map`](crate::model::schema::Integer::is_bit_map).
    pub is_bit_map: bool,
}

impl FieldInfo {
    /// Returns the name as it is shown; empty for an array's element.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the field is an array's element.
    pub fn is_element(&self) -> bool {
        self.is_element
    }

    /// Returns the labels that an enumeration has for this value, in the order of the metadata.
    pub fn labels_of(&self, value: i128) -> impl Iterator<Item = &str> {
        let labels = self.labels.as_deref().unwrap_or(&[]);
        let is_bit_map = self.is_bit_map;
        let has = move |range: &Range| match is_bit_map {
            true => value & bits_of(range) != 0,
            false => range.contains(value),
        };
        let found = labels.iter().filter(move |label| label.ranges.iter().any(has));
        found.map(|label| label.name.as_str())
    }

    /// Returns the flags that are combined in a value. Returns `None` if it has none of the flags, or if
    /// [`FieldInfo::labels_of`] has all there is to show.
    pub fn flags_of(&self, value: i128) -> Option<FlagsOf<'_>> {
        let (flags, labels) = (self.flags?, self.labels.as_deref()?);
        // Negative values are in two's complement of 64 bits.
        let value = value as u64;
        let is_number_alone = value & !flags.number() == 0;
        if flags.low_bits == 0 || is_number_alone {
            let is_label = |label: &Label| bits(label).any(|bits| bits == value);
            if labels.iter().any(is_label) {
                return None;
            }
        }
        let all = u64::MAX.checked_shr(64 - u32::from(self.bits)).unwrap_or(0);
        let found = FlagsOf { labels: labels.iter(), flags, value, left: value, all };
        found.clone().next().map(|_| found)
    }
}

/// Returns the bits of a bit map whose numbers are in the range.
pub(crate) fn bits_of(range: &Range) -> i128 {
    let up_to = |bit: i128| match u32::try_from(bit) {
        Ok(bit @ 0..=63) => (2i128 << bit) - 1,
        Ok(_) => i128::from(u64::MAX),
        Err(_) if bit < 0 => 0,
        Err(_) => i128::from(u64::MAX),
    };
    up_to(range.to) & !up_to(range.from - 1)
}

/// Returns the values of a flag. Ranges of several values have no meaning for flags.
fn bits(label: &Label) -> impl Iterator<Item = u64> + '_ {
    let single = |range: &&Range| range.from == range.to;
    label.ranges.iter().filter(single).map(|range| range.from as u64)
}

/// An iterator over the labels of the flags in a value, in the order of the metadata. A label whose bits are all in
/// earlier labels is left out.
#[derive(Clone, Debug)]
pub struct FlagsOf<'a> {
    labels: std::slice::Iter<'a, Label>,
    flags: Flags,
    value: u64,
    /// Bits that no label has covered so far.
    left: u64,
    /// Mask of the field's width.
    all: u64,
}

impl FlagsOf<'_> {
    /// Returns the bits that none of the labels so far covers.
    pub fn rest(&self) -> u64 {
        self.left & self.all
    }

    /// Returns whether the label's bits are set and were not shown yet, and marks them as shown.
    fn take(&mut self, bits: u64) -> bool {
        let mask = self.flags.mask(bits);
        let is_number = bits & !self.flags.number() == 0;
        // A number of 0 has no bits that a label could cover; only values next to flags get here.
        let is_new = is_number || self.left & mask == bits;
        let takes = self.value & mask == bits && is_new;
        if takes {
            self.left &= !bits;
        }
        takes
    }
}

impl<'a> Iterator for FlagsOf<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        while let Some(label) = self.labels.next() {
            let mut is_set = false;
            for bits in bits(label) {
                is_set |= self.take(bits);
            }
            if is_set {
                return Some(&label.name);
            }
        }
        None
    }
}

/// Receives the fields of a part of an event record, one after the other.
///
/// Each begin is followed by an end. The structure that is the whole part has neither.
pub trait Visit {
    /// Receives an unsigned integer.
    fn unsigned(&mut self, field: &FieldInfo, value: u64);
    /// Receives a signed integer.
    fn signed(&mut self, field: &FieldInfo, value: i64);
    /// Receives a floating-point number. A number of 32 bits is widened, which does not change the value.
    fn real(&mut self, field: &FieldInfo, value: f64);
    /// Receives a text without its NUL. The bytes need not be valid UTF-8.
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]);
    /// Receives bytes with any content.
    fn blob(&mut self, _field: &FieldInfo, _bytes: &[u8]) {}
    /// Begins a structure, whose members follow.
    fn begin_structure(&mut self, _field: &FieldInfo) {}
    /// Ends a structure.
    fn end_structure(&mut self, _field: &FieldInfo) {}
    /// Begins an array, of which `length` elements follow.
    fn begin_array(&mut self, _field: &FieldInfo, _length: u64) {}
    /// Ends an array.
    fn end_array(&mut self, _field: &FieldInfo) {}
    /// Begins a variant, of which one field follows, with the option's name.
    fn begin_variant(&mut self, _field: &FieldInfo, _option: &str) {}
    /// Ends a variant.
    fn end_variant(&mut self, _field: &FieldInfo) {}
    /// Begins an optional field that is present, and follows.
    fn begin_optional(&mut self, _field: &FieldInfo) {}
    /// Ends an optional field.
    fn end_optional(&mut self, _field: &FieldInfo) {}
    /// Receives an optional field that is absent.
    fn absent(&mut self, _field: &FieldInfo) {}
    /// Receives a field that a probe could not read.
    fn unread(&mut self, field: &FieldInfo) {
        self.absent(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(low_bits: u8, labels: &[(&str, i128)]) -> FieldInfo {
        let label = |(name, value): &(&str, i128)| Label {
            name: (*name).to_owned(),
            ranges: vec![Range { from: *value, to: *value }],
        };
        FieldInfo {
            name: "x".into(),
            kind: FieldKind::Integer,
            is_element: false,
            base: Base::Sixteen,
            is_bool: false,
            signed: false,
            bits: 32,
            labels: Some(labels.iter().map(label).collect()),
            flags: Some(Flags { low_bits }),
            is_bit_map: false,
        }
    }

    /// Returns the labels and the rest of the bits; `None` if only the value as a whole has a label.
    fn told(field: &FieldInfo, value: i128) -> Option<(Vec<&str>, u64)> {
        let mut flags = field.flags_of(value)?;
        let labels = flags.by_ref().collect();
        Some((labels, flags.rest()))
    }

    #[test]
    fn flags_of_several_bits_are_reported_once_and_the_rest_is_left() {
        let field =
            field(0, &[("none", 0), ("BC", 6), ("A", 1), ("B", 2), ("C", 4), ("T", 1 << 31)]);
        for (value, expected) in [
            (0, None),
            (1, None),
            (6, None),
            (3, Some((vec!["A", "B"], 0))),
            (7, Some((vec!["BC", "A"], 0))),
            (0x15, Some((vec!["A", "C"], 0x10))),
            (0x8000_0006, Some((vec!["BC", "T"], 0))),
            // The value has none of the flags.
            (0x18, None),
        ] {
            assert_eq!(told(&field, value), expected, "{value:#x}");
        }
    }

    #[test]
    fn flags_of_a_number_and_bits_have_both() {
        let field = field(2, &[("RD", 0), ("WR", 1), ("RW", 2), ("AB", 12), ("A", 4), ("B", 8)]);
        for (value, expected) in [
            (0, None),
            (2, None),
            (3, None),
            (4, Some((vec!["RD", "A"], 0))),
            (5, Some((vec!["WR", "A"], 0))),
            (14, Some((vec!["RW", "AB"], 0))),
            (0x1f, Some((vec!["AB"], 0x13))),
            (0x10, Some((vec!["RD"], 0x10))),
        ] {
            assert_eq!(told(&field, value), expected, "{value:#x}");
        }
    }

    #[test]
    fn flags_of_a_negative_value_are_those_of_its_bits() {
        let signed = FieldInfo { signed: true, ..field(0, &[("A", 1), ("T", -(1 << 31))]) };
        assert_eq!(told(&signed, -(1 << 31) + 1), Some((vec!["A", "T"], 0)));
        assert_eq!(told(&signed, -1), Some((vec!["A", "T"], 0x7fff_fffe)));
    }

    #[test]
    fn flags_of_a_field_without_them_or_with_ranges_are_none() {
        let mut field = field(0, &[("A", 1)]);
        field.labels =
            Some(Arc::from([Label { name: "A".into(), ranges: vec![Range { from: 1, to: 2 }] }]));
        assert_eq!(told(&field, 5), None);
        field.flags = None;
        assert_eq!(told(&field, 3), None);
    }
}
