//! Errors of queries.

use std::io;

use thiserror::Error;

/// The reason why a query has no answer, or an incomplete one.
#[derive(Debug, Error)]
pub enum SqlError {
    /// The text is not a query, or names something that does not exist.
    #[error("{0}")]
    Query(String),
    /// The query would do more than read.
    #[error("'{0}' is refused: a query only reads. Use SELECT; `strata export --to sqlite` makes a database to write to")]
    Refused(String),
    /// The user has stopped the query.
    #[error("asked to stop")]
    Stopped,
    /// Rows cannot be written.
    #[error(transparent)]
    Output(io::Error),
    /// The temporary database of states, calls and spans cannot be made.
    #[error("cannot make a temporary database in {folder}: {source}. Set SQLITE_TMPDIR to a folder with room")]
    Temporary {
        /// Folder for temporary files.
        folder: String,
        /// Error of the system call.
        source: io::Error,
    },
}
