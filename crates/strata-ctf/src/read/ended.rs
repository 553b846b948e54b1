//! Whether a trace was recorded to its end: what its end mark says, or what its absence means. Packets cannot
//! tell of a full disk or of a recorder that was killed.
//!
//! The mark is hostile input like all else: it is copied, with a bound, and checked.

use crate::end_mark::{EndMark, Ending, Losses, BYTES, FILE, IN_ENVIRONMENT};
use crate::model::schema::Schema;
use rustix::fs::{flock, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the recording ended of a trace, or of all below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEnd {
    /// The folder with the mark.
    pub path: Arc<Path>,
    /// The trace's place in [`Reader::traces`](super::Reader::traces); `None`: it is of a whole recording, and
    /// says what is of no trace in it.
    pub trace: Option<usize>,
    /// What is known.
    pub end: RecordingEnd,
    /// What was there when it ended, and is not there now.
    pub missing: Option<Missing>,
}

/// What is known of the end of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The mark says it; not [`Ending::Recording`].
    Marked(EndMark),
    /// Its recorder is there and has it locked.
    Running,
    /// It was begun and not ended.
    Killed {
        /// Nobody has it locked; else that cannot be seen here, and it may still be recorded.
        is_sure: bool,
    },
    /// There should be a mark.
    Absent,
    /// It is no mark.
    Unusable {
        /// The error, as text.
        error: Arc<str>,
    },
}

/// Files of streams, or parts of them, that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many files there were.
    pub files: u64,
    /// How many there are.
    pub files_found: u64,
    /// Their size, then \[byte\].
    pub bytes: u64,
    /// Their size now \[byte\].
    pub bytes_found: u64,
}

impl FolderEnd {
    /// Records that are not in the trace, and that none of its packets counts.
    #[must_use]
    pub fn losses(&self) -> Losses {
        match &self.end {
            RecordingEnd::Marked(mark) => mark.losses,
            _ => Losses::default(),
        }
    }

    /// Whether all that was to be recorded is there, as far as the mark says; of what is still being recorded:
    /// nothing else is known.
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

/// What a trace's folder says, if its environment says that it has an end mark.
pub(crate) fn of_trace(folder: &Path, schema: &Schema, files: &[PathBuf]) -> Option<FolderEnd> {
    schema.environment(IN_ENVIRONMENT)?;
    let end = look(folder);
    let missing = match &end {
        RecordingEnd::Marked(mark) => missing(mark, files),
        _ => None,
    };
    Some(FolderEnd { path: folder.into(), trace: None, end, missing })
}

/// What recordings say that these traces are of, up to the folder `path`, below which they were found.
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

fn look(folder: &Path) -> RecordingEnd {
    // First: a recorder writes the mark, and then lets go of the folder.
    let locked = is_locked(folder);
    match read(folder) {
        Ok(EndMark { ending: Ending::Recording, .. }) => match locked {
            Some(true) => RecordingEnd::Running,
            Some(false) => RecordingEnd::Killed { is_sure: true },
            None => RecordingEnd::Killed { is_sure: false },
        },
        Ok(mark) => RecordingEnd::Marked(mark),
        Err(error) if error.kind() == io::ErrorKind::NotFound => RecordingEnd::Absent,
        Err(error) => RecordingEnd::Unusable { error: error.to_string().into() },
    }
}

/// `None`: it cannot be seen, on some network file systems for one.
fn is_locked(folder: &Path) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

/// Never through a link, nor of a pipe that would block.
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

/// Less than there was: a copy was not finished, or the machine's power failed before all was on the disk. What
/// somebody has added is of no interest here.
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
        assert_eq!(look(&folder.0), RecordingEnd::Killed { is_sure: true });
        let fd = File::open(&folder.0).unwrap();
        flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(look(&folder.0), RecordingEnd::Running);
        // Its last act but one.
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
