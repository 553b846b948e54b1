//! Reasons why a trace cannot be cut.

use std::io;

use thiserror::Error;

/// Reasons why a trace cannot be cut.
#[derive(Debug, Error)]
pub enum CutError {
    /// A file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The trace's metadata cannot express the smaller trace, for example without a field for packet sizes.
    #[error("stream {stream}: {what}")]
    Refused {
        /// Name of the stream.
        stream: String,
        /// Description of the problem, and what to do.
        what: String,
    },
}

impl From<CutError> for io::Error {
    fn from(error: CutError) -> io::Error {
        match error {
            CutError::Io(error) => error,
            refused @ CutError::Refused { .. } => io::Error::other(refused.to_string()),
        }
    }
}
