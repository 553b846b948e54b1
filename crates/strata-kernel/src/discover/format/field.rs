//! A field as a `format` file describes it.

use strata_model::{Base, Flags, Label};

/// Function that returns the value of a C enumerator of the kernel by its name.
pub type Enumerators<'a> = &'a dyn Fn(&str) -> Option<i128>;

/// The kind of data that a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldShape {
    /// An integer with the field's size.
    Integer,
    /// A truth value, 0 or 1.
    Bool,
    /// Text, padded with NULs.
    Text,
    /// An array of integers.
    Array {
        /// Size of an element \[byte\].
        element_bytes: u8,
    },
    /// A word (u16 offset, u16 size) that gives the place of text or bytes.
    Dynamic {
        /// True if the offset counts from the end of the word (`__rel_loc`); otherwise it counts from the event's first
        /// byte.
        is_relative: bool,
        /// True for text up to a NUL, false for bytes.
        is_text: bool,
    },
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    pub name: String,
    /// The type as the kernel writes it, without the name and anything after it: `const char *`.
    pub c_type: String,
    /// Offset in the event \[byte\].
    pub offset: u16,
    /// Size of the field; for a dynamic array, size of the word that gives its place \[byte\].
    pub bytes: u16,
    /// True if the field, or an array's element, is signed.
    pub is_signed: bool,
    /// The kind of data that the field holds.
    pub shape: FieldShape,
    /// The base in which `print fmt` shows the field.
    pub base: Base,
    /// Names that `print fmt` gives to values of the field. All are values that the field can have, and all differ.
    pub labels: Vec<Label>,
    /// Set if the labels are flags.
    pub flags: Option<Flags>,
}
