//! What a `format` file says of one field.

use strata_model::{Base, Flags, Label};

/// The value of an enumerator of the kernel.
pub type Enumerators<'a> = &'a dyn Fn(&str) -> Option<i128>;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldShape {
    /// An integer of the field's bytes.
    Integer,
    /// 0 or 1.
    Bool,
    /// Text, padded with NULs.
    Text,
    /// Integers.
    Array {
        /// Bytes of each.
        element_bytes: u8,
    },
    /// A word (u16 offset, u16 bytes) that says where text is, or bytes.
    Dynamic {
        /// The offset counts from behind the word (`__rel_loc`), not from the event's first byte.
        is_relative: bool,
        /// Text up to a NUL; else bytes.
        is_text: bool,
    },
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Its name.
    pub name: String,
    /// Its type as the kernel writes it, without what is behind the name: `const char *`.
    pub c_type: String,
    /// Where it is in the event \[byte\].
    pub offset: u16,
    /// How many it has \[byte\]; of a dynamic array, those of the word.
    pub bytes: u16,
    /// Two's complement; of arrays, its elements.
    pub is_signed: bool,
    /// What it holds.
    pub shape: FieldShape,
    /// How `print fmt` shows it.
    pub base: Base,
    /// What `print fmt` calls its values: no two of them have one value, and all are values that
    /// the field can have.
    pub labels: Vec<Label>,
    /// They are flags.
    pub flags: Option<Flags>,
}
