//! Finds traces below a path. A trace is a folder with a file `metadata`.

use super::damage::OpenError;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the file that makes a folder a trace.
pub(crate) const METADATA: &str = "metadata";

/// Name of the folder of index files in a trace's folder.
pub(crate) const INDEX: &str = "index";

/// The most folders that are searched; for a larger tree the user must name a part of it.
const FOLDERS: usize = 200_000;

/// The greatest depth below the first folder that is searched.
const DEPTH: usize = 64;

/// The result of a search for traces.
#[derive(Default)]
pub(crate) struct FoundTraces {
    /// Folders of traces, sorted.
    pub(crate) traces: Vec<PathBuf>,
    /// Folders that could not be read.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// Finds the traces at `path`: the folder itself if it has a file `metadata`, else all folders below it that have one.
/// Returns them sorted by path.
///
/// # Errors
/// The path does not exist, is not a folder, cannot be read, has no trace below it, or has more folders below it than
/// the limit.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    search(path).map(|found| found.traces)
}

/// Finds traces as [`find`] does, and also returns the folders that could not be read.
pub(crate) fn search(path: &Path) -> Result<FoundTraces, OpenError> {
    search_in(path, FOLDERS)
}

/// Finds traces in at most `limit` folders.
fn search_in(path: &Path, limit: usize) -> Result<FoundTraces, OpenError> {
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    let kind = match fs::metadata(path) {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing { path: path.to_owned() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !kind.is_dir() {
        return Err(OpenError::NoFolder { path: path.to_owned() });
    }
    let mut search = TraceSearch { limit, ..TraceSearch::default() };
    search.folders.push((path.to_owned(), 0));
    while let Some((folder, depth)) = search.folders.pop() {
        search
            .look(&folder, depth)
            .map_err(|()| OpenError::TooManyFolders { path: path.to_owned(), limit })?;
    }
    let TraceSearch { mut found, seen, .. } = search;
    if found.traces.is_empty() {
        return Err(match found.unreadable.pop() {
            Some((path, source)) => OpenError::Unreadable { path, source },
            None => OpenError::NoTrace { path: path.to_owned(), folders: seen.len() },
        });
    }
    found.traces.sort();
    found.unreadable.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

#[derive(Default)]
struct TraceSearch {
    limit: usize,
    /// Folders that are still to be searched, with their depths.
    folders: Vec<(PathBuf, usize)>,
    /// Device and inode of each folder that was searched: links may form circles.
    seen: HashSet<(u64, u64)>,
    found: FoundTraces,
}

impl TraceSearch {
    /// Searches one folder and adds the folders in it. Fails if there are too many folders.
    fn look(&mut self, folder: &Path, depth: usize) -> Result<(), ()> {
        let identity = match fs::metadata(folder) {
            Ok(kind) => (kind.dev(), kind.ino()),
            Err(error) => {
                self.found.unreadable.push((folder.to_owned(), error));
                return Ok(());
            }
        };
        if !self.seen.insert(identity) {
            return Ok(());
        }
        if self.seen.len() > self.limit {
            return Err(());
        }
        if is_trace(folder) {
            self.found.traces.push(folder.to_owned());
            return Ok(());
        }
        if depth >= DEPTH {
            return Ok(());
        }
        match self.below(folder, depth) {
            Ok(()) if self.folders.len() > self.limit => Err(()),
            Ok(()) => Ok(()),
            Err(error) => {
                self.found.unreadable.push((folder.to_owned(), error));
                Ok(())
            }
        }
    }

    fn below(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_folder = match fs::metadata(entry.path()) {
                _ if !kind.is_symlink() => kind.is_dir(),
                Ok(kind) => kind.is_dir(),
                // The target of the link may have traces, for example on a disk that is not mounted.
                Err(error) => {
                    self.found.unreadable.push((entry.path(), error));
                    false
                }
            };
            if is_folder && self.folders.len() <= self.limit {
                self.folders.push((entry.path(), depth + 1));
            }
        }
        Ok(())
    }
}

/// Returns whether the folder has a file `metadata`, or a dangling link of this name.
fn is_trace(folder: &Path) -> bool {
    let path = folder.join(METADATA);
    match fs::metadata(&path) {
        Ok(kind) => kind.is_file(),
        Err(_) => fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_symlink()),
    }
}

/// The stream files of a trace.
#[derive(Default)]
pub(crate) struct StreamFiles {
    /// Paths of the files, sorted by name.
    pub(crate) files: Vec<PathBuf>,
    /// Dangling links, and files whose properties cannot be read.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// Returns a trace's stream files: all files except `metadata`, hidden files and index files.
pub(crate) fn stream_files(trace: &Path) -> io::Result<StreamFiles> {
    let mut found = StreamFiles::default();
    for entry in fs::read_dir(trace)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name == METADATA.as_bytes() || name.starts_with(b".") || name.ends_with(b".idx") {
            continue;
        }
        // Links are followed, but pipes, sockets and devices are left out: reading them may block or never end.
        match fs::metadata(entry.path()) {
            Ok(kind) if kind.is_file() => found.files.push(entry.path()),
            Ok(_) => {}
            // The file was removed after the folder was read.
            Err(_) if fs::symlink_metadata(entry.path()).is_err() => {}
            Err(error) => found.unreadable.push((entry.path(), error)),
        }
    }
    found.files.sort();
    found.unreadable.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_in_a_tree_that_is_too_large_names_the_limit() {
        let name = format!("strata-ctf-find-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for number in 0..10 {
            fs::create_dir_all(folder.join(number.to_string())).unwrap();
        }
        let found = search_in(&folder, 5);
        let none = search_in(&folder, 50);
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(found, Err(OpenError::TooManyFolders { limit: 5, .. })));
        assert!(matches!(none, Err(OpenError::NoTrace { folders: 11, .. })));
    }
}
