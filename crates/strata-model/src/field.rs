//! Field classes.

use crate::check::check_name;
use crate::error::FieldError;
use crate::flags::Flags;
use crate::limits;
use serde::{Deserialize, Serialize};

/// Byte order of a machine, and so of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// This machine's.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// Byte order of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldOrder {
    /// The trace's.
    #[default]
    Native,
    /// Most significant byte first: the network's.
    Big,
    /// Least significant byte first.
    Little,
}

/// How an integer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Base {
    /// Binary.
    Two,
    /// Octal.
    Eight,
    /// Decimal.
    #[default]
    Ten,
    /// Hexadecimal.
    Sixteen,
}

impl Base {
    /// The base with this radix, or `None` if it is not 2, 8, 10 or 16.
    pub fn from_radix(radix: u8) -> Option<Base> {
        match radix {
            2 => Some(Base::Two),
            8 => Some(Base::Eight),
            10 => Some(Base::Ten),
            16 => Some(Base::Sixteen),
            _ => None,
        }
    }

    /// 2, 8, 10 or 16.
    pub fn radix(self) -> u8 {
        match self {
            Base::Two => 2,
            Base::Eight => 8,
            Base::Ten => 10,
            Base::Sixteen => 16,
        }
    }
}

/// An integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Integer {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Two's complement.
    pub signed: bool,
    /// How it is shown.
    pub base: Base,
    /// Its bytes' order.
    pub byte_order: FieldOrder,
    /// Only 0 and 1 occur.
    pub is_bool: bool,
}

impl Integer {
    /// An unsigned decimal integer in native byte order.
    pub fn unsigned(bytes: u8) -> Integer {
        Integer {
            bytes,
            signed: false,
            base: Base::Ten,
            byte_order: FieldOrder::Native,
            is_bool: false,
        }
    }

    /// A signed decimal integer in native byte order.
    pub fn signed(bytes: u8) -> Integer {
        Integer { signed: true, ..Integer::unsigned(bytes) }
    }

    /// The lowest and the highest value; an error if the size is none of an integer.
    ///
    /// # Errors
    /// [`FieldError::IntegerBytes`].
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

/// A label: the values `from..=to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// First value. Of an unsigned integer of 8 bytes it is the bit pattern: -1 is 2^64 - 1.
    pub from: i64,
    /// Last value, likewise.
    pub to: i64,
    /// What these values are called; any text.
    pub label: String,
}

impl Label {
    /// First and last value, as values of `integer`.
    pub fn values(&self, integer: &Integer) -> (i128, i128) {
        if !integer.signed && integer.bytes == 8 {
            (i128::from(self.from as u64), i128::from(self.to as u64))
        } else {
            (i128::from(self.from), i128::from(self.to))
        }
    }
}

/// An integer some of whose values have names. They may overlap, and share a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Enumeration {
    /// What is recorded.
    pub integer: Integer,
    /// The enumeration's name; may be empty.
    pub name: String,
    /// Its labels, at least one.
    pub labels: Vec<Label>,
    /// Its labels are flags.
    pub flags: Option<Flags>,
}

/// A floating-point number, IEEE 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Float {
    /// 4 or 8.
    pub bytes: u8,
    /// Its bytes' order.
    pub byte_order: FieldOrder,
}

/// What an array or a sequence consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Element {
    /// Integers.
    Integer(Integer),
    /// Floating-point numbers.
    Float(Float),
    /// Bytes of UTF-8 text, padded with NULs.
    Text,
}

impl Element {
    /// Bytes of one element.
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

/// Always the same number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Array {
    /// The type of each element.
    pub element: Element,
    /// Elements; may be 0.
    pub count: u32,
}

/// A length, then that many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// The type of each element.
    pub element: Element,
    /// Bytes of the length, an unsigned integer in native byte order: 1, 2, 4 or 8.
    pub length_bytes: u8,
}

/// What a field is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldClass {
    /// An integer or a truth value.
    Integer(Integer),
    /// An integer with labels.
    Enumeration(Enumeration),
    /// A floating-point number.
    Float(Float),
    /// UTF-8 text up to a NUL, and the NUL.
    String,
    /// A fixed number of elements.
    Array(Array),
    /// A length and that many elements.
    Sequence(Sequence),
}

/// A field of an event record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Its name: any text but control characters.
    pub name: String,
    /// What it is.
    pub class: FieldClass,
}

impl Field {
    /// A field of this name and class.
    pub fn new(name: impl Into<String>, class: FieldClass) -> Field {
        Field { name: name.into(), class }
    }

    /// Whether a trace can be written with this field.
    ///
    /// # Errors
    /// What is wrong with the name or the class.
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

    /// The fewest bytes that the field takes in a record.
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
    /// Bytes of all elements.
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
