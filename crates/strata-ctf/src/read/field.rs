//! Fields on demand: which.

use std::sync::Arc;

use super::decode::{FieldPath, Fixed};
use super::visit::FieldInfo;

/// A field of an event record class, found by name once and looked up in each of its records.
#[derive(Clone, Debug)]
pub struct FieldRef {
    pub(super) path: Arc<FieldPath>,
    /// Here, too, since nearly every record is asked for such a field.
    pub(super) fixed: Option<Fixed>,
}

impl FieldRef {
    pub(super) fn new(path: FieldPath) -> FieldRef {
        FieldRef { fixed: path.fixed(), path: Arc::new(path) }
    }

    /// What the field is.
    pub fn info(&self) -> &FieldInfo {
        self.path.info()
    }
}
