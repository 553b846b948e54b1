//! What a caller implements to see the fields of an event record, in order.

use std::sync::Arc;

use crate::model::schema::{Label, Range};
use crate::model::{Base, Flags};

/// What a field is, for whoever shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// An integer, an enumeration or a truth value.
    Integer,
    /// A floating-point number.
    Real,
    /// A string, or a text of given length.
    Text,
    /// Bytes of any content.
    Blob,
    /// Fields with names.
    Structure,
    /// Elements of one class.
    Array,
    /// One of several fields.
    Variant,
}

/// A field, apart from its value. Optional fields have no description of their own: it is that of what
/// is there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// As it is shown; empty for an array's element.
    pub name: Arc<str>,
    /// What it is.
    pub kind: FieldKind,
    /// It is an array's element.
    pub is_element: bool,
    /// How an integer is shown.
    pub base: Base,
    /// A truth value.
    pub is_bool: bool,
    /// A signed integer.
    pub signed: bool,
    /// Of an integer or a real; 0: it has as many as it needs (LEB128), or is neither.
    pub bits: u8,
    /// An enumeration's.
    pub labels: Option<Arc<[Label]>>,
    /// Its labels are flags.
    pub flags: Option<Flags>,
    /// Its labels are for bits: see [`Integer::is_bit_map`](crate::model::schema::Integer::is_bit_map).
    pub is_bit_map: bool,
}

impl FieldInfo {
    /// As it is shown; empty for an array's element.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is an array's element.
    pub fn is_element(&self) -> bool {
        self.is_element
    }

    /// The labels of an enumeration that has this value, in the order of the metadata.
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

    /// The flags of a value that is several at once; `None` if it is none of them, or if
    /// [`FieldInfo::labels_of`] has all that there is to say.
    pub fn flags_of(&self, value: i128) -> Option<FlagsOf<'_>> {
        let (flags, labels) = (self.flags?, self.labels.as_deref()?);
        // Negative ones in two's complement of 64 bits.
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

/// The bits of a bit map that a range of their numbers means.
pub(crate) fn bits_of(range: &Range) -> i128 {
    let up_to = |bit: i128| match u32::try_from(bit) {
        Ok(bit @ 0..=63) => (2i128 << bit) - 1,
        Ok(_) => i128::from(u64::MAX),
        Err(_) if bit < 0 => 0,
        Err(_) => i128::from(u64::MAX),
    };
    up_to(range.to) & !up_to(range.from - 1)
}

/// The values of a flag: ranges have no meaning then.
fn bits(label: &Label) -> impl Iterator<Item = u64> + '_ {
    let single = |range: &&Range| range.from == range.to;
    label.ranges.iter().filter(single).map(|range| range.from as u64)
}

/// Labels of the flags that a value has, in the order of the metadata; none whose bits are all in labels
/// in front of it.
#[derive(Clone, Debug)]
pub struct FlagsOf<'a> {
    labels: std::slice::Iter<'a, Label>,
    flags: Flags,
    value: u64,
    /// Bits that no label has told yet.
    left: u64,
    /// Bits of the field.
    all: u64,
}

impl FlagsOf<'_> {
    /// Bits that none of the labels told so far has.
    pub fn rest(&self) -> u64 {
        self.left & self.all
    }

    /// Whether the label's bits are there and not told; then they are.
    fn take(&mut self, bits: u64) -> bool {
        let mask = self.flags.mask(bits);
        let is_number = bits & !self.flags.number() == 0;
        // A number that is 0 has no bits that could be told: only a value beside flags is asked for.
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

/// Is told the fields of a part of an event record, one after the other.
///
/// Whatever begins, ends; the structure that is the whole part is not announced.
pub trait Visit {
    /// An unsigned integer.
    fn unsigned(&mut self, field: &FieldInfo, value: u64);
    /// A signed integer.
    fn signed(&mut self, field: &FieldInfo, value: i64);
    /// A floating-point number. One of 32 bits is widened, which changes no value.
    fn real(&mut self, field: &FieldInfo, value: f64);
    /// A text, without a NUL; any other bytes may be in it.
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]);
    /// Bytes of any content.
    fn blob(&mut self, _field: &FieldInfo, _bytes: &[u8]) {}
    /// Members follow.
    fn begin_structure(&mut self, _field: &FieldInfo) {}
    /// The last member was told.
    fn end_structure(&mut self, _field: &FieldInfo) {}
    /// As many elements follow.
    fn begin_array(&mut self, _field: &FieldInfo, _length: u64) {}
    /// The last element was told.
    fn end_array(&mut self, _field: &FieldInfo) {}
    /// One field follows, whose name is the option's.
    fn begin_variant(&mut self, _field: &FieldInfo, _option: &str) {}
    /// The field was told.
    fn end_variant(&mut self, _field: &FieldInfo) {}
    /// An optional field that is there follows.
    fn begin_optional(&mut self, _field: &FieldInfo) {}
    /// The field was told.
    fn end_optional(&mut self, _field: &FieldInfo) {}
    /// A field that is not there this time.
    fn absent(&mut self, _field: &FieldInfo) {}
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

    /// The labels and what is left; `None` if there are none but of the value as a whole.
    fn told(field: &FieldInfo, value: i128) -> Option<(Vec<&str>, u64)> {
        let mut flags = field.flags_of(value)?;
        let labels = flags.by_ref().collect();
        Some((labels, flags.rest()))
    }

    #[test]
    fn flags_of_several_bits_are_told_once_and_the_rest_is_left() {
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
            // None of them: there is nothing to tell.
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
