//! What stops a collector.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Why something could not be written. What was written before is whole and stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No space, or no quota, is left.
    #[error("{}: no space left on its file system", .path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file would exceed the file system's limit or RLIMIT_FSIZE.
    #[error("{}: would exceed the largest size of a file, it has {bytes} bytes (ulimit -f)", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size \[byte\].
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file system cannot be written to, or this user may not.
    #[error("{}: cannot be written to", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file, or the folder that it was in, was removed.
    #[error("{}: was removed while it was written", .path.display())]
    Gone {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is something of this name already.
    #[error("{}: exists already", .path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else that the system says.
    #[error("{}: cannot be written", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A packet was to be written before any metadata: nobody could read it.
    #[error("{}: no metadata yet for packets to be written", .path.display())]
    NoMetadata {
        /// The folder.
        path: PathBuf,
    },
    /// A stream cannot be read for a reason that is not its producer's.
    #[error("{}: cannot read its channel", .path.display())]
    Ring {
        /// The folder.
        path: PathBuf,
        /// What the ring found.
        source: strata_ring::Error,
    },
}

impl Error {
    /// Is it the memory of one source that cannot be read? Else it is the trace that cannot be written.
    #[must_use]
    pub fn is_of_the_source(&self) -> bool {
        match self {
            Self::Ring { source, .. } => !matches!(source, strata_ring::Error::NoMemory(_)),
            _ => false,
        }
    }

    /// What `source` means for `path`, which has so many whole bytes.
    pub(crate) fn new(path: PathBuf, bytes: u64, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace { path, source },
            Some(Errno::FBIG) => Self::TooLarge { path, bytes, source },
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => Self::ReadOnly { path, source },
            Some(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => Self::Gone { path, source },
            Some(Errno::EXIST) => Self::Exists { path, source },
            _ => Self::Write { path, source },
        }
    }
}
