//! Why messages cannot be written to a recording's folder.

use std::io;
use std::path::Path;

use strata_collect::is_passing;

/// Why the relay takes no more messages of a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The reason, for people.
    pub(crate) why: String,
    /// True if the problem is temporary, such as a lack of space, descriptors or memory: the same messages may be
    /// taken later.
    pub(crate) is_passing: bool,
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem { why, is_passing: false }
    }
}

impl From<&str> for Problem {
    fn from(why: &str) -> Problem {
        why.to_owned().into()
    }
}

impl From<strata_collect::Error> for Problem {
    fn from(error: strata_collect::Error) -> Problem {
        Problem { why: error.to_string(), is_passing: error.is_passing() }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem { why: error.to_string(), is_passing: is_passing(&error) }
    }
}

impl Problem {
    /// Makes the problem that a system call failed for this file.
    pub(crate) fn of(path: &Path, error: io::Error) -> Problem {
        Problem { why: format!("{}: {error}", path.display()), ..error.into() }
    }
}
