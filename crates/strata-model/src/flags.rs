//! Enumerations whose labels are flags, and the flags that a value has.

use serde::{Deserialize, Serialize};

/// The form of an enumeration whose labels are flags, so that a value can have several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flags {
    /// The number of lowest bits, at most 63, that are not flags but a single number with labels of its own. For
    /// example, in the flags of `open` two bits are O_RDONLY, O_WRONLY or O_RDWR.
    pub low_bits: u8,
}

impl Flags {
    /// Returns the mask of the bits that are a number.
    pub fn number(self) -> u64 {
        (1u64 << self.low_bits.min(63)) - 1
    }

    /// Returns the bits of a value that decide whether it has the label. For flags these are the label's bits, for the
    /// number all bits of the number, and for a label 0 without a number all bits.
    ///
    /// Negative values and labels are in two's complement of 64 bits.
    pub fn mask(self, label: u64) -> u64 {
        let number = self.number();
        let flags = label & !number;
        match (label & number, flags) {
            (0, 0) if number == 0 => u64::MAX,
            (0, flags) if flags != 0 => flags,
            (_, flags) => flags | number,
        }
    }

    /// Returns whether a value has a label: the bits of the label's mask equal the label.
    pub fn has(self, value: u64, label: u64) -> bool {
        value & self.mask(label) == label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_of_flags_alone_is_that_all_bits_are_set() {
        let flags = Flags { low_bits: 0 };
        for (value, label, expected) in [
            (6, 2, true),
            (6, 6, true),
            (2, 6, false),
            (6, 1, false),
            (0, 0, true),
            (1, 0, false),
            (u64::MAX, 1 << 63, true),
        ] {
            assert_eq!(flags.has(value, label), expected, "{value:#x} {label:#x}");
        }
    }

    #[test]
    fn has_of_a_number_below_is_that_it_is_the_same() {
        let flags = Flags { low_bits: 2 };
        for (value, label, expected) in [
            (0x40, 0, true),
            (0x41, 0, false),
            (0x43, 1, false),
            (0x42, 2, true),
            (0x42, 0x40, true),
            (0x02, 0x40, false),
            (0x43, 0x42, false),
            (0x42, 0x42, true),
        ] {
            assert_eq!(flags.has(value, label), expected, "{value:#x} {label:#x}");
        }
        assert!(Flags { low_bits: 255 }.has(5, 5), "more bits than there are");
    }
}
