//! Why a trace could not be cut.

use std::io;

use thiserror::Error;

/// Why a trace could not be cut.
#[derive(Debug, Error)]
pub enum CutError {
    /// A file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A trace of this description cannot say what is to be said.
    #[error("stream {stream}: {what}")]
    Refused {
        /// The stream's name.
        stream: String,
        /// What cannot be said, and what to do.
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
