//! Readers of the traces for answers; they are opened again while the traces grow.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_ctf::read::Reader;

/// Longest time for which a reader of a growing trace is used.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The latest reader of the traces.
#[derive(Debug)]
pub struct Readers {
    paths: Vec<PathBuf>,
    latest: Mutex<(Arc<Reader>, Instant)>,
}

impl Readers {
    /// Begins with a reader that was just opened for the traces at `paths`.
    #[must_use]
    pub fn new(reader: Arc<Reader>, paths: Vec<PathBuf>) -> Readers {
        Readers { paths, latest: Mutex::new((reader, Instant::now())) }
    }

    /// Returns the paths of the traces.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns a reader of the traces as they are now, or were a moment ago if they grow. If they can no longer be
    /// opened, returns the last reader.
    #[must_use]
    pub fn get(&self, is_growing: bool) -> Arc<Reader> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if is_growing && latest.1.elapsed() > AGE_MAX {
            if let Ok(reader) = Reader::open(&self.paths) {
                latest.0 = Arc::new(reader);
            }
            latest.1 = Instant::now();
        }
        Arc::clone(&latest.0)
    }

    /// Opens the traces again, after they have ended.
    pub fn renew(&self) {
        if let Ok(reader) = Reader::open(&self.paths) {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            *latest = (Arc::new(reader), Instant::now());
        }
    }
}
