//! Why a file of another tracer cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file of another tracer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    System {
        /// The file, or the folder of the trace.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file is damaged, or of a kind that is not read.
    #[error("{}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// A description of what is wrong with the file, and what to do.
        why: String,
    },
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}

/// An [`ImportError`] without the path.
#[derive(Debug)]
pub(crate) enum Problem {
    System(io::Error),
    Bad(String),
}

impl Problem {
    pub fn of(self, path: &Path) -> ImportError {
        let path = path.to_owned();
        match self {
            Problem::System(source) => ImportError::System { path, source },
            Problem::Bad(why) => ImportError::File { path, why },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::System(error)
    }
}

impl From<&str> for Problem {
    fn from(why: &str) -> Problem {
        Problem::Bad(why.to_owned())
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem::Bad(why)
    }
}
