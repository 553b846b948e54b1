//! Finds out whether a trace was recorded to its end, from its end mark or the absence of one. Packets cannot show that
//! a disk was full or a recorder was killed.
//!
//! The mark is untrusted input like the rest of a trace: it is read up to a limit, and checked.

use crate::end_mark::{EndMark, Ending, Losses, BYTES, FILE, IN_ENVIRONMENT};
use crate::model::schema::Schema;
use rustix::fs::{flock, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The end of the recording of one trace, or of all traces below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEnd {
    /// The folder with the mark.
    pub path: Arc<Path>,
    /// Index of the trace in [`Reader::traces`](super::Reader::traces); `None` if the mark is of a whole recording, and
    /// so of no single trace.
    pub trace: Option<usize>,
    /// The end, as the mark or its absence shows it.
    pub end: RecordingEnd,
    /// Files and bytes that the end mark counts and that are missing now.
    pub missing: Option<Missing>,
}

/// The state of a recording, as its end mark and the lock of its folder show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The end mark says how the recording ended; it is not [`Ending::Recording`].
    Marked(EndMark),
    /// The recorder still runs and has the folder locked.
    Running,
    /// The recorder began the trace but did not end it.
    Killed {
        /// True if the folder's lock is free. On file systems where locks cannot be seen, the trace may still be
        /// recorded.
        is_sure: bool,
        /// The number of records that a relay has discarded until then because the host's share of its space was used up.
        quota: u64,
    },
    /// The folder has no end mark, although the metadata announce one.
    Absent,
    /// The end mark cannot be read.
    Unusable {
        /// The error, as text.
        error: Arc<str>,
    },
}

/// Counts of a trace whose stream files, or parts of them, are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The number of files when the recording ended.
    pub files: u64,
    /// The number of files now.
    pub files_found: u64,
    /// The total size of the files when the recording ended \[byte\].
    pub bytes: u64,
    /// The total size of the files now \[byte\].
    pub bytes_found: u64,
}

impl FolderEnd {
    /// Returns the numbers of records that are missing in the trace and that none of its packets counts.
    #[must_use]
    pub fn losses(&self) -> Losses {
        match &self.end {
            RecordingEnd::Marked(mark) => mark.losses,
            RecordingEnd::Killed { quota, .. } => Losses { unwritten: *quota, ..Losses::default() },
            _ => Losses::default(),
        }
    }

    /// Returns the number of records that a relay has discarded because the host's share of its space was used up.
    #[must_use]
    pub fn quota(&self) -> u64 {
        match &self.end {
            RecordingEnd::Marked(mark) => mark.quota,
            RecordingEnd::Killed { quota, .. } => *quota,
            _ => 0,
        }
    }

    /// Returns whether the trace is complete according to its end mark. A recording that still continues counts as
    /// complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_ended = match &self.end {
            RecordingEnd::Marked(mark) => !mark.ending.is_failure() && mark.losses.total() == 0,
            RecordingEnd::Running => true,
            RecordingEnd::Killed { .. } | RecordingEnd::Absent | RecordingEnd::Unusable { .. } => {
                false
            }
        };
        is_ended && self.missing.is_none()
    }
}

/// Reads the end of a trace's recording, if the trace's environment announces an end mark.
pub(crate) fn of_trace(folder: &Path, schema: &Schema, files: &[PathBuf]) -> Option<FolderEnd> {
    schema.environment(IN_ENVIRONMENT)?;
    let end = look(folder);
    let missing = match &end {
        RecordingEnd::Marked(mark) => missing(mark, files),
        _ => None,
    };
    Some(FolderEnd { path: folder.into(), trace: None, end, missing })
}

/// Reads the end marks of recordings that contain these traces, from the traces' parent folders up to `path`.
pub(crate) fn of_recordings(path: &Path, traces: &[PathBuf]) -> Vec<FolderEnd> {
    let above = traces
        .iter()
        .flat_map(|trace| trace.ancestors().skip(1).take_while(|folder| folder.starts_with(path)));
    let folders: BTreeSet<&Path> = above.collect();
    let has_mark = |folder: &&Path| fs::symlink_metadata(folder.join(FILE)).is_ok();
    let end = |folder: &Path| FolderEnd {
        path: folder.into(),
        trace: None,
        end: look(folder),
        missing: None,
    };
    folders.into_iter().filter(has_mark).map(end).collect()
}

pub(crate) fn look(folder: &Path) -> RecordingEnd {
    // The lock is tested first: a recorder writes the mark before it releases the folder.
    let locked = is_locked(folder);
    match read(folder) {
        Ok(EndMark { ending: Ending::Recording, quota, .. }) => match locked {
            Some(true) => RecordingEnd::Running,
            Some(false) => RecordingEnd::Killed { is_sure: true, quota },
            None => RecordingEnd::Killed { is_sure: false, quota },
        },
        Ok(mark) => RecordingEnd::Marked(mark),
        Err(error) if error.kind() == io::ErrorKind::NotFound => RecordingEnd::Absent,
        Err(error) => RecordingEnd::Unusable { error: error.to_string().into() },
    }
}

/// Returns whether a recorder has the folder locked; `None` if the file system does not show locks, as some network
/// file systems.
fn is_locked(folder: &Path) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

/// Reads the end mark. Links are not followed, and a pipe does not block.
fn read(folder: &Path) -> io::Result<EndMark> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder.join(FILE), flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::with_capacity(BYTES + 1);
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
    EndMark::decode(&bytes).map_err(|error| io::Error::other(error.to_string()))
}

/// Returns the counts if files have become fewer or smaller: as after an unfinished copy, or a loss of power.
/// Additional files are ignored.
fn missing(mark: &EndMark, files: &[PathBuf]) -> Option<Missing> {
    let sizes = files.iter().map(|file| fs::metadata(file).map_or(0, |kind| kind.len()));
    let bytes_found = sizes.fold(0, u64::saturating_add);
    let files_found = files.len() as u64;
    let EndMark { files, bytes, .. } = *mark;
    let is_less = files_found < files || bytes_found < bytes;
    is_less.then_some(Missing { files, files_found, bytes, bytes_found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EnvValue;
    use std::os::unix::fs::symlink;

    /// A folder for one test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("strata-ctf-ended-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn set(&self, mark: &EndMark) {
            fs::write(self.0.join(FILE), mark.encode()).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const ENDED: EndMark =
        EndMark { ending: Ending::Ended, files: 1, bytes: 3, ..EndMark::RECORDING };

    #[test]
    fn recording_without_an_end_is_running_while_its_folder_is_locked() {
        let folder = Folder::new("running");
        folder.set(&EndMark::RECORDING);
        assert_eq!(look(&folder.0), RecordingEnd::Killed { is_sure: true, quota: 0 });
        folder.set(&EndMark { quota: 7, ..EndMark::RECORDING });
        assert_eq!(look(&folder.0), RecordingEnd::Killed { is_sure: true, quota: 7 });
        let fd = File::open(&folder.0).unwrap();
        flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(look(&folder.0), RecordingEnd::Running);
        // The recorder writes the mark before it releases the folder.
        folder.set(&ENDED);
        assert_eq!(look(&folder.0), RecordingEnd::Marked(ENDED));
    }

    #[test]
    fn malicious_mark_is_unusable_and_none_is_absent() {
        let folder = Folder::new("malicious");
        let path = folder.0.join(FILE);
        assert_eq!(look(&folder.0), RecordingEnd::Absent);
        let is_unusable = || matches!(look(&folder.0), RecordingEnd::Unusable { .. });
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        assert!(is_unusable());
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(is_unusable());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(is_unusable());
        fs::remove_dir(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(is_unusable());
    }

    #[test]
    fn stream_files_that_are_not_there_any_more_are_missing_and_further_ones_are_not() {
        let folder = Folder::new("missing");
        folder.set(&ENDED);
        let file = folder.0.join("s_0");
        fs::write(&file, "abc").unwrap();
        let mut schema = Schema::default();
        let of = |schema: &Schema, files: &[PathBuf]| of_trace(&folder.0, schema, files);
        assert_eq!(of(&schema, std::slice::from_ref(&file)), None);
        schema.environment.push((IN_ENVIRONMENT.into(), EnvValue::Integer(1)));
        let whole = of(&schema, std::slice::from_ref(&file)).unwrap();
        assert!(whole.is_complete() && whole.missing.is_none(), "{whole:?}");
        assert!(of(&schema, &[file.clone(), file.clone()]).unwrap().is_complete());
        let none = of(&schema, &[]).unwrap();
        let missing = Missing { files: 1, files_found: 0, bytes: 3, bytes_found: 0 };
        assert!(!none.is_complete() && none.missing == Some(missing), "{none:?}");
        fs::write(&file, "ab").unwrap();
        assert!(!of(&schema, std::slice::from_ref(&file)).unwrap().is_complete());
    }

    #[test]
    fn recordings_are_those_between_their_traces_and_what_was_named() {
        let folder = Folder::new("above");
        let (inner, trace) = (folder.0.join("r"), folder.0.join("r/user/x"));
        fs::create_dir_all(&trace).unwrap();
        folder.set(&ENDED);
        fs::write(inner.join(FILE), ENDED.encode()).unwrap();
        let found = |path: &Path| -> Vec<PathBuf> {
            let ends = of_recordings(path, std::slice::from_ref(&trace));
            ends.iter().map(|end| end.path.to_path_buf()).collect()
        };
        assert_eq!(found(&folder.0), [folder.0.clone(), inner.clone()]);
        assert_eq!(found(&inner), std::slice::from_ref(&inner));
        assert!(found(&inner.join("user")).is_empty());
        assert!(found(&trace).is_empty());
    }
}
