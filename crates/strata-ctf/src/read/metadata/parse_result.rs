//! The result of reading metadata.

use crate::model::schema::Schema;

use super::error::MetadataError;

/// A schema, and the problems of blocks that could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The schema of all whole blocks.
    pub schema: Schema,
    /// Problems of the blocks that were left out, in the order of the text.
    pub problems: Vec<MetadataError>,
}
