//! An event's `format` file: the fields that the kernel describes, and how they are recorded.
//!
//! ```text
//! name: irq_handler_entry
//! ID: 225
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2; signed:0;     left out: not readable
//!     field:int irq;                      offset:8;   size:4; signed:1;
//!     field:__data_loc char[] name;       offset:12;  size:4; signed:0;     u16 offset, u16 bytes
//! print fmt: "irq=%d name=%s", REC->irq, __get_str(name)
//! ```
//!
//! | in C | recorded |
//! |---|---|
//! | integer, pointer | [`Integer`]; in the base in which `print fmt` shows it |
//! | `bool` | [`Integer`] that is 0 or 1 |
//! | `__print_symbolic` of exactly the field | [`Enumeration`]; values that cannot be told are left out |
//! | `__print_flags` of the field, or of some of its bits | hexadecimal [`Enumeration`] of `Flags` |
//! | `char x[16]` | [`Array`] of text |
//! | `u32 x[4]` | [`Array`] of integers |
//! | structure, or a size that no integer has | [`Array`] of bytes |
//! | `__data_loc char[]`, `__rel_loc char[]` | [`Sequence`] of text |
//! | `__data_loc u64[]`, `cpumask_t` and so on | [`Sequence`] of bytes, as they are in memory |
//! | a field of 0 bytes | nothing: where it ends is not said |

mod declaration;
mod expression;
mod field;
mod print;
#[cfg(test)]
mod tests;

use crate::FieldSource;
use std::collections::HashSet;
use strata_abi::kernel::{self, Part};
use strata_model::{
    printable, Array, Base, Element, Enumeration, EventError, Field, FieldClass, FieldOrder,
    Integer, Sequence,
};
use thiserror::Error;

pub use field::{Enumerators, FieldShape, FormatField};

/// Size of the common fields, which precede an event's own fields and which programs may not read \[byte\].
const COMMON_BYTES: u16 = 8;

/// Reason why a `format` file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// The line with the name, the number or the fields is missing.
    #[error("its format file has no line '{line}'")]
    NoLine {
        /// The words with which the missing line begins.
        line: &'static str,
    },
    /// A line with a field is not understood.
    #[error("its format file has a field that is not understood, {}", printable(.line))]
    Line { line: String },
    /// A field is in a place that programs may not read.
    #[error("its field {} is at byte {offset}; programs can read from byte {COMMON_BYTES} on",
            printable(.field))]
    Unreadable {
        field: String,
        /// Offset of the field \[byte\].
        offset: u16,
    },
    /// The fields are so scattered that the payload would have too many parts.
    #[error("its fields lie in {found} places apart; the limit is {limit}")]
    TooManyParts {
        /// The number of parts that are needed.
        found: usize,
        /// The most parts that are possible.
        limit: usize,
    },
    /// A trace cannot describe the event.
    #[error("it cannot be described in a trace: {0}")]
    Class(#[from] EventError),
    /// A record of the event would be too big.
    #[error(
        "its fields have {found} bytes, without what dynamic arrays hold; the limit is {limit}"
    )]
    TooBig {
        /// Size of the event's fields \[byte\].
        found: u64,
        /// The greatest possible size \[byte\].
        limit: u64,
    },
}

/// A parsed `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The kernel's name of the event.
    pub name: String,
    /// The event's number, `common_type`, for `PERF_TYPE_TRACEPOINT`.
    pub id: u32,
    /// Fields, sorted by offset, without those that all events have (`common_...`).
    pub fields: Vec<FormatField>,
}

/// The layout of an event's records, as the program for any tracepoint writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLayout {
    /// Fields of the payload.
    pub fields: Vec<Field>,
    /// Parts of which a program composes the payload.
    pub parts: Vec<Part>,
    /// Sources of fields that filters can test.
    pub sources: Vec<FieldSource>,
}

impl EventFormat {
    /// Parses the text of a `format` file.
    ///
    /// # Errors
    /// The part of the text that is not understood.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        EventFormat::parse_with(text, &|_| None)
    }

    /// Parses a `format` file as [`EventFormat::parse`] does; `enumerator` returns the values of names in the text.
    ///
    /// # Errors
    /// The part of the text that is not understood.
    pub fn parse_with(text: &str, enumerator: Enumerators<'_>) -> Result<EventFormat, FormatError> {
        let (head, print) = match text.split_once("\nprint fmt:") {
            Some((head, print)) => (head, print),
            None => (text, ""),
        };
        let line = |prefix: &'static str| {
            let value = head.lines().find_map(|line| line.strip_prefix(prefix)).map(str::trim);
            value.filter(|value| !value.is_empty()).ok_or(FormatError::NoLine { line: prefix })
        };
        let name = line("name:")?.to_owned();
        let id = line("ID:")?.parse().map_err(|_| FormatError::NoLine { line: "ID:" })?;
        if !head.lines().any(|line| line.trim_end() == "format:") {
            return Err(FormatError::NoLine { line: "format:" });
        }
        let mut fields = Vec::new();
        let mut names = HashSet::new();
        for line in head.lines().map(str::trim).filter(|line| line.starts_with("field:")) {
            let refused = || FormatError::Line { line: line.to_owned() };
            let field = declaration::field(line).ok_or_else(refused)?;
            if field.name.starts_with("common_") {
                continue;
            }
            if !names.insert(field.name.clone()) {
                return Err(refused());
            }
            fields.push(field);
        }
        fields.sort_by_key(|field| field.offset);
        let shown = print::Print::parse(print, enumerator);
        for field in &mut fields {
            shown.apply(field);
        }
        Ok(EventFormat { name, id, fields })
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Makes the layout of the event's records; `name` returns each field's name in the trace.
    ///
    /// # Errors
    /// [`FormatError::Unreadable`], [`FormatError::TooManyParts`], [`FormatError::TooBig`].
    pub fn layout(
        &self,
        name: impl Fn(&FormatField) -> String,
    ) -> Result<EventLayout, FormatError> {
        let end = self.fields.iter().map(FormatField::end).max().unwrap_or(0);
        let mut layout = EventLayout::default();
        for field in self.fields.iter().filter(|field| field.bytes > 0) {
            if field.offset < COMMON_BYTES {
                let (field, offset) = (field.name.clone(), field.offset);
                return Err(FormatError::Unreadable { field, offset });
            }
            let name = name(field);
            layout.fields.push(Field::new(name.clone(), field.class()));
            layout.sources.extend(field.source(name, end));
            add_part(&mut layout.parts, field.part());
        }
        let (found, limit) = (layout.parts.len(), kernel::PARTS_MAX);
        if found > limit {
            return Err(FormatError::TooManyParts { found, limit });
        }
        let found = layout.fields.iter().map(Field::min_bytes).sum();
        let limit = u64::from(kernel::PAYLOAD_MAX);
        if found > limit {
            return Err(FormatError::TooBig { found, limit });
        }
        Ok(layout)
    }
}

/// Adds a part. Bytes directly after the last part are joined to it.
fn add_part(parts: &mut Vec<Part>, part: Part) {
    if let Some(last) = parts.last_mut() {
        let is_next = last.offset.checked_add(last.bytes) == Some(part.offset);
        if is_next && last.kind == kernel::COPY && part.kind == kernel::COPY {
            if let Some(bytes) = last.bytes.checked_add(part.bytes) {
                last.bytes = bytes;
                return;
            }
        }
    }
    parts.push(part);
}

impl FormatField {
    /// Returns the offset after the field's last byte \[byte\].
    fn end(&self) -> u32 {
        u32::from(self.offset) + u32::from(self.bytes)
    }

    /// Returns the field's type without qualifiers and without the star of a pointer: `struct page`, `__be16`.
    fn base_type(&self) -> String {
        declaration::base_type(&self.c_type)
    }

    /// Returns the class of the field, or of its elements, as an integer of `bytes` bytes.
    fn integer(&self, bytes: u8) -> Integer {
        let byte_order = match self.base_type().as_str() {
            swapped if swapped.starts_with("__be") => FieldOrder::Big,
            swapped if swapped.starts_with("__le") => FieldOrder::Little,
            _ => FieldOrder::Native,
        };
        let is_bool = self.shape == FieldShape::Bool;
        Integer { bytes, signed: self.is_signed, base: self.base, byte_order, is_bool }
    }

    /// Returns the field's class in the trace.
    pub fn class(&self) -> FieldClass {
        // The shape was made for the size: an integer has 1, 2, 4 or 8 bytes.
        let bytes = u8::try_from(self.bytes).unwrap_or(u8::MAX);
        match self.shape {
            FieldShape::Integer | FieldShape::Bool if self.labels.is_empty() => {
                FieldClass::Integer(self.integer(bytes))
            }
            FieldShape::Integer | FieldShape::Bool => FieldClass::Enumeration(Enumeration {
                integer: self.integer(bytes),
                name: String::new(),
                labels: self.labels.clone(),
                flags: self.flags,
            }),
            FieldShape::Text => {
                FieldClass::Array(Array { element: Element::Text, count: self.bytes.into() })
            }
            FieldShape::Array { element_bytes } => FieldClass::Array(Array {
                element: Element::Integer(self.integer(element_bytes)),
                count: u32::from(self.bytes) / u32::from(element_bytes.max(1)),
            }),
            FieldShape::Dynamic { is_text, .. } => FieldClass::Sequence(Sequence {
                element: match is_text {
                    true => Element::Text,
                    false => {
                        Element::Integer(Integer { base: Base::Sixteen, ..Integer::unsigned(1) })
                    }
                },
                length_bytes: 2,
            }),
        }
    }

    /// Returns the part by which a program records the field.
    fn part(&self) -> Part {
        let kind = match self.shape {
            FieldShape::Dynamic { is_relative: false, is_text: true } => kernel::TEXT,
            FieldShape::Dynamic { is_relative: true, is_text: true } => kernel::TEXT_REL,
            FieldShape::Dynamic { is_relative: false, is_text: false } => kernel::BYTES,
            FieldShape::Dynamic { is_relative: true, is_text: false } => kernel::BYTES_REL,
            _ => kernel::COPY,
        };
        Part { kind, offset: self.offset, bytes: self.bytes, ..Part::default() }
    }

    /// Returns where a filter finds the field's value; `None` if it cannot. The event ends at offset `end`: a filter
    /// reads 16 bytes of a text.
    fn source(&self, field: String, end: u32) -> Option<FieldSource> {
        let bytes = match self.shape {
            FieldShape::Integer | FieldShape::Bool => {
                let integer = self.integer(u8::try_from(self.bytes).ok()?);
                (integer.byte_order == FieldOrder::Native).then_some(integer.bytes)?
            }
            FieldShape::Text => (u32::from(self.offset) + 16 <= end).then_some(16)?,
            FieldShape::Array { .. } | FieldShape::Dynamic { .. } => return None,
        };
        let (offset, is_signed) = (self.offset, self.is_signed && bytes != 16);
        Some(FieldSource { field, offset, bytes, is_signed, labels: self.labels.clone() })
    }
}
