//! Takes snapshots of a flight recorder for the page.

use std::fmt;
use std::path::PathBuf;

use strata_ctf::read::Reader;

use crate::shown_trace::{Source, Traces};

/// Takes a snapshot, and returns its folder and how that is typed in a shell.
pub type SnapshotTaker = Box<dyn FnMut() -> Result<(PathBuf, String), String> + Send>;

/// A flight recorder that the page may take snapshots of.
pub struct Snapshots {
    taker: SnapshotTaker,
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").finish_non_exhaustive()
    }
}

impl Snapshots {
    /// Makes snapshots by calling `taker`, which reaches the session with rights that the server does not have.
    #[must_use]
    pub fn new(taker: SnapshotTaker) -> Snapshots {
        Snapshots { taker }
    }

    /// Takes a snapshot, and opens it.
    ///
    /// # Errors
    /// There is no snapshot; the text says why.
    pub fn take(&mut self) -> Result<Traces, String> {
        let (path, typed) = (self.taker)()?;
        let paths = vec![path];
        let reader = Reader::open(&paths).map_err(|error| error.to_string())?;
        Ok(Traces { source: Source::Whole(Box::new(reader)), paths, typed })
    }
}
