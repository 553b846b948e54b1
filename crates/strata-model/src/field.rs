//! Field classes: integers, floating-point numbers, texts, arrays and enumerations that an event record can hold.

use crate::check::check_name;
use crate::error::FieldError;
use crate::flags::Flags;
use crate::limits;
use serde::{Deserialize, Serialize};

/// Name of the last field of records whose numbers were read from a program's memory. If bit i of its value is set, the
/// number in field i could not be read, and 0 was written in its place. Lengths of texts do not count as fields here.
pub const UNREAD_FIELD: &str = "strata_unread";

/// Byte order of a machine, and so of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Byte order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// Byte order of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldOrder {
    /// The byte order that the trace declares.
    #[default]
    Native,
    /// Most significant byte first, as in network protocols.
    Big,
    /// Least significant byte first.
    Little,
}

/// Number base in which a reader shows an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Base {
    Two,
    Eight,
    #[default]
    Ten,
    Sixteen,
}

impl Base {
    /// Returns the base with this radix, or `None` if it is not 2, 8, 10 or 16.
    pub fn from_radix(radix: u8) -> Option<Base> {
        match radix {
            2 => Some(Base::Two),
            8 => Some(Base::Eight),
            10 => Some(Base::Ten),
            16 => Some(Base::Sixteen),
            _ => None,
        }
    }

    /// Returns the radix: 2, 8, 10 or 16.
    pub fn radix(self) -> u8 {
        match self {
            Base::Two => 2,
            Base::Eight => 8,
            Base::Ten => 10,
            Base::Sixteen => 16,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Integer {
    /// Size: 1, 2, 4 or 8 \[byte\].
    pub bytes: u8,
    /// True if values are in two's complement.
    pub signed: bool,
    /// Number base in which readers show the value.
    pub base: Base,
    pub byte_order: FieldOrder,
    /// True for a truth value: only 0 and 1 occur.
    pub is_bool: bool,
}

impl Integer {
    /// Makes an unsigned decimal integer in native byte order.
    pub fn unsigned(bytes: u8) -> Integer {
        Integer {
            bytes,
            signed: false,
            base: Base::Ten,
            byte_order: FieldOrder::Native,
            is_bool: false,
        }
    }

    /// Makes a signed decimal integer in native byte order.
    pub fn signed(bytes: u8) -> Integer {
        Integer { signed: true, ..Integer::unsigned(bytes) }
    }

    /// Returns the lowest and the highest value.
    ///
    /// # Errors
    /// [`FieldError::IntegerBytes`] if integers cannot have the size.
    pub fn range(&self) -> Result<(i128, i128), FieldError> {
        if !matches!(self.bytes, 1 | 2 | 4 | 8) {
            return Err(FieldError::IntegerBytes { found: self.bytes });
        }
        let bits = u32::from(self.bytes) * 8;
        Ok(if self.signed {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        })
    }
}

/// The label of the values `from..=to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// First value. For an unsigned integer of 8 bytes it is the bit pattern: -1 stands for 2^64 - 1.
    pub from: i64,
    /// Last value, with the same bit pattern.
    pub to: i64,
    /// Text that readers show for these values.
    pub label: String,
}

impl Label {
    /// Returns the first and the last value, as values of `integer`.
    pub fn values(&self, integer: &Integer) -> (i128, i128) {
        if !integer.signed && integer.bytes == 8 {
            (i128::from(self.from as u64), i128::from(self.to as u64))
        } else {
            (i128::from(self.from), i128::from(self.to))
        }
    }
}

/// An integer with labels for some values. Labels may overlap, and several may have the same text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Enumeration {
    /// The integer that a record holds.
    pub integer: Integer,
    /// Name of the enumeration; may be empty.
    pub name: String,
    /// Labels of the values, at least one.
    pub labels: Vec<Label>,
    /// If set, labels stand for bits that can be combined.
    pub flags: Option<Flags>,
}

/// A floating-point number, IEEE 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Float {
    /// Size, 4 or 8 \[byte\].
    pub bytes: u8,
    pub byte_order: FieldOrder,
}

/// Element class of an array or a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Element {
    Integer(Integer),
    Float(Float),
    /// Bytes of UTF-8 text, padded with NULs.
    Text,
}

impl Element {
    /// Returns the size of an element \[byte\].
    pub fn bytes(&self) -> u8 {
        match self {
            Element::Integer(integer) => integer.bytes,
            Element::Float(float) => float.bytes,
            Element::Text => 1,
        }
    }

    fn validate(&self) -> Result<(), FieldError> {
        match self {
            Element::Integer(integer) => integer.range().map(|_| ()),
            Element::Float(float) => float.validate(),
            Element::Text => Ok(()),
        }
    }
}

impl Float {
    fn validate(&self) -> Result<(), FieldError> {
        match self.bytes {
            4 | 8 => Ok(()),
            found => Err(FieldError::FloatBytes { found }),
        }
    }
}

/// A fixed number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Array {
    /// The type of each element.
    pub element: Element,
    /// Number of elements; may be 0.
    pub count: u32,
}

/// A variable number of elements, with the number before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// The type of each element.
    pub element: Element,
    /// Size of the number of elements, an unsigned integer in native byte order: 1, 2, 4 or 8 \[byte\].
    pub length_bytes: u8,
}

/// The class of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldClass {
    /// An integer or a truth value.
    Integer(Integer),
    /// An integer with labels.
    Enumeration(Enumeration),
    Float(Float),
    /// UTF-8 text that ends with a NUL.
    String,
    /// A fixed number of elements.
    Array(Array),
    /// A number, then that many elements.
    Sequence(Sequence),
}

/// A field of an event record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Name of the field: any text without control characters.
    pub name: String,
    pub class: FieldClass,
}

impl Field {
    /// Makes a field with this name and class.
    pub fn new(name: impl Into<String>, class: FieldClass) -> Field {
        Field { name: name.into(), class }
    }

    /// Checks that a trace can be written with this field.
    ///
    /// # Errors
    /// The fault of the name or the class.
    pub fn validate(&self) -> Result<(), FieldError> {
        check_name(&self.name, limits::NAME_BYTES)?;
        match &self.class {
            FieldClass::Integer(integer) => integer.range().map(|_| ()),
            FieldClass::Enumeration(enumeration) => enumeration.validate(),
            FieldClass::Float(float) => float.validate(),
            FieldClass::String => Ok(()),
            FieldClass::Array(array) => array.validate(),
            FieldClass::Sequence(sequence) => sequence.validate(),
        }
    }

    /// Returns the least size of the field in a record \[byte\].
    pub fn min_bytes(&self) -> u64 {
        match &self.class {
            FieldClass::Integer(integer) => u64::from(integer.bytes),
            FieldClass::Enumeration(enumeration) => u64::from(enumeration.integer.bytes),
            FieldClass::Float(float) => u64::from(float.bytes),
            FieldClass::String => 1,
            FieldClass::Array(array) => array.bytes(),
            FieldClass::Sequence(sequence) => u64::from(sequence.length_bytes),
        }
    }
}

impl Enumeration {
    fn validate(&self) -> Result<(), FieldError> {
        let (lowest, highest) = self.integer.range()?;
        if !self.name.is_empty() {
            check_name(&self.name, limits::NAME_BYTES).map_err(FieldError::EnumerationName)?;
        }
        match self.labels.len() {
            0 => return Err(FieldError::NoLabels),
            found if found > limits::LABELS => {
                return Err(FieldError::TooManyLabels { found, limit: limits::LABELS });
            }
            _ => (),
        }
        for label in &self.labels {
            let (from, to) = label.values(&self.integer);
            let bytes = label.label.len();
            let text = || label.label.clone();
            if bytes > limits::LABEL_BYTES {
                let limit = limits::LABEL_BYTES;
                return Err(FieldError::LabelTooLong { label: text(), bytes, limit });
            }
            if from > to {
                return Err(FieldError::LabelReversed { label: text(), from, to });
            }
            if from < lowest || to > highest {
                let label = text();
                return Err(FieldError::LabelOutside { label, from, to, lowest, highest });
            }
        }
        Ok(())
    }
}

impl Array {
    /// Returns the size of all elements \[byte\].
    pub fn bytes(&self) -> u64 {
        u64::from(self.count) * u64::from(self.element.bytes())
    }

    fn validate(&self) -> Result<(), FieldError> {
        self.element.validate()?;
        match self.bytes() {
            bytes if bytes > limits::ARRAY_BYTES => {
                Err(FieldError::ArrayBytes { bytes, limit: limits::ARRAY_BYTES })
            }
            _ => Ok(()),
        }
    }
}

impl Sequence {
    fn validate(&self) -> Result<(), FieldError> {
        match self.length_bytes {
            1 | 2 | 4 | 8 => self.element.validate(),
            found => Err(FieldError::LengthBytes { found }),
        }
    }
}
