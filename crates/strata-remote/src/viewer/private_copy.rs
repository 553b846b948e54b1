//! A copy of a trace that only one command reads, and that goes with it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};

/// Begin of the names of copies.
const COPY: &str = "strata-view-";

/// A folder for a copy, which only this user can read. The folder is removed with this value. If the process is
/// killed, the next copy in the same place removes it.
#[derive(Debug)]
pub struct PrivateCopy {
    path: PathBuf,
    /// The locked folder: other processes remove copies that are not locked.
    _lock: File,
}

impl PrivateCopy {
    /// Makes an empty folder below `above`, which must exist.
    ///
    /// # Errors
    /// A system call failed.
    pub fn make(above: &Path) -> io::Result<PrivateCopy> {
        remove_abandoned(above);
        let path = create_private(above)?;
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(PrivateCopy { path, _lock: lock })
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes this user's copies whose process was killed.
fn remove_abandoned(above: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
        let is_copy = entry.file_name().to_string_lossy().starts_with(COPY);
        let is_own = || entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own);
        // One that is just being made is not locked yet, and empty.
        let has_content =
            || std::fs::read_dir(entry.path()).is_ok_and(|mut all| all.next().is_some());
        if !is_copy || !is_own() || !has_content() {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes a folder that only this user can read.
fn create_private(above: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    for number in 0..1000 {
        let path = above.join(format!("{COPY}{pid}-{number}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
