//! What a caller implements to see the fields of an event record, in order.

use std::sync::Arc;

use crate::model::schema::Label;
use crate::model::Base;

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
        let found =
            labels.iter().filter(move |label| label.ranges.iter().any(|r| r.contains(value)));
        found.map(|label| label.name.as_str())
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
    /// A field that is not there this time.
    fn absent(&mut self, _field: &FieldInfo) {}
}
