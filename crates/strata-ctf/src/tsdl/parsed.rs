//! What reading metadata gives.

use crate::model::schema::Schema;

use super::error::MetadataError;

/// What could be read, and what could not.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// All whole blocks.
    pub schema: Schema,
    /// Why the others are left out, in the order of the text.
    pub problems: Vec<MetadataError>,
}
