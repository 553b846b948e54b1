//! References to fields, through which their values are read from records.

use std::sync::Arc;

use super::decode::{FieldPath, Fixed};
use super::visit::FieldInfo;

/// A field of an event record class. It is found by name once, and then read from each record of the class.
#[derive(Clone, Debug)]
pub struct FieldRef {
    pub(super) path: Arc<FieldPath>,
    /// The fixed place of the field, copied here since nearly every record is read through it.
    pub(super) fixed: Option<Fixed>,
    /// The field's bit in [`UnreadFields`](super::unread_fields::UnreadFields), as a mask; 0 if it has no bit.
    pub(super) unread: u64,
}

impl FieldRef {
    /// Makes a reference. `unread` is the mask of the field's bit among those that could not be read; 0 if it has no
    /// bit.
    pub(super) fn new(path: FieldPath, unread: u64) -> FieldRef {
        let fixed = path.fixed().filter(|_| unread == 0);
        FieldRef { fixed, path: Arc::new(path), unread }
    }

    /// Returns whether both are the same field of the same class.
    pub(super) fn is_same(&self, other: &FieldRef) -> bool {
        self.path.is_same(&other.path)
    }

    /// Returns whether the other field is this one, or an element of it.
    pub(super) fn is_around(&self, other: &FieldRef) -> bool {
        self.is_same(other) || self.path.is_list_of(&other.path)
    }

    /// Returns the field's name and kind.
    pub fn info(&self) -> &FieldInfo {
        self.path.info()
    }
}
