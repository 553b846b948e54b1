//! Errors that stop a collector.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Reason why something could not be written. What was written before stays whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk or the quota has no space left.
    #[error("{}: no space left on its file system", .path.display())]
    NoSpace { path: PathBuf, source: io::Error },
    /// The file would exceed the file system's limit or RLIMIT_FSIZE.
    #[error("{}: would exceed the largest size of a file, it has {bytes} bytes (ulimit -f)", .path.display())]
    TooLarge { path: PathBuf, bytes: u64, source: io::Error },
    /// The file system cannot be written to, or this user may not.
    #[error("{}: cannot be written to", .path.display())]
    ReadOnly { path: PathBuf, source: io::Error },
    /// The file, or the folder that it was in, was removed.
    #[error("{}: was removed while it was written", .path.display())]
    Gone {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The file or folder exists already.
    #[error("{}: exists already", .path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// Any other error of a system call.
    #[error("{}: cannot be written", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A packet was to be written before any metadata, so that nobody could read it.
    #[error("{}: no metadata yet for packets to be written", .path.display())]
    NoMetadata { path: PathBuf },
    /// A stream cannot be read, for a reason other than its producer.
    #[error("{}: cannot read its channel", .path.display())]
    Ring {
        path: PathBuf,
        /// Error of the ring.
        source: strata_ring::Error,
    },
}

impl Error {
    /// Returns whether the memory of one source cannot be read. Otherwise the trace cannot be written.
    #[must_use]
    pub fn is_of_the_source(&self) -> bool {
        match self {
            Self::Ring { source, .. } => !matches!(source, strata_ring::Error::NoMemory(_)),
            _ => false,
        }
    }

    /// Returns whether the same write may succeed later, since the cause is a lack of space, descriptors or memory.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Write { source, .. } => is_passing(source),
            _ => false,
        }
    }

    /// Classifies `source` for the file `path`, which has `bytes` whole bytes.
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

/// Returns whether a system call that failed with this error may succeed later, since the cause is a lack of space,
/// descriptors or memory.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    use Errno as E;
    let passing = [E::NOSPC, E::DQUOT, E::MFILE, E::NFILE, E::NOMEM, E::INTR, E::AGAIN, E::IO];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}
