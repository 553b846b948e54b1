//! Fields on demand: which, and what is in it.

use std::sync::Arc;

use super::decode::Path;
use super::visit::FieldInfo;

/// What is in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'e> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, without a NUL; any other bytes may be in it.
    Text(&'e [u8]),
    /// Bytes of any content.
    Blob(&'e [u8]),
    /// A structure, an array or a variant: visit it.
    Compound,
}

/// A field of an event record class, found by name once and looked up in each of its records.
#[derive(Clone, Debug)]
pub struct FieldRef(pub(super) Arc<Path>);

impl FieldRef {
    /// What the field is.
    pub fn info(&self) -> &FieldInfo {
        self.0.info()
    }
}
