//! The state of a recording at the relay, stored with its traces so that the recording can continue after the relay was
//! killed.
//!
//! ```text
//! .strata-relay        the recording's UUID, and a line for each trace: appended, never changed
//! .strata-relay-next   the number of the message that is expected next: fixed size, overwritten in place
//! ```
//!
//! The number may be too low, but never too high: it is written after the changes that earlier messages have made. The
//! files themselves show what then arrives a second time.
//!
//! That holds until the machine loses power: then the number may be on the disk, while earlier changes are not. So the
//! file has a second number, before which everything was forced to the disk, and the boot in which both were written.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, Mode, OFlags};
use strata_collect::Directory;
use strata_model::Uuid;

const FILE: &str = ".strata-relay";
pub(crate) const NEXT_FILE: &str = ".strata-relay-next";
const TITLE: &str = "strata relay 1";
const NEXT_TITLE: &str = "strata relay next 2";
/// Size of the file with the number, and its size before it had counts of records that were not written \[byte\].
const NEXT_BYTES: usize = 256;
const NEXT_BYTES_BEFORE: usize = 192;
/// Largest state file that is read, with a line for each possible trace \[byte\].
const BYTES_MAX: u64 = 4 << 20;

/// A line of the state file, about one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceLine {
    pub(crate) id: u32,
    /// Folder of the trace's layer.
    pub(crate) layer: String,
    /// Folder of the process within the layer's; empty if the trace is in the layer's own folder.
    pub(crate) folder: String,
}

/// The two state files of a recording, open for writing.
#[derive(Debug)]
pub(crate) struct StateFiles {
    lines: OwnedFd,
    next: OwnedFd,
}

/// The contents of the state files of an earlier connection's recording.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) files: StateFiles,
    pub(crate) recording: Uuid,
    pub(crate) traces: Vec<TraceLine>,
    pub(crate) next: NextMark,
}

/// Progress of a recording's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextMark {
    /// Number of the message that the relay expects next.
    pub(crate) next: u64,
    /// Number before which all messages were forced to the disk.
    pub(crate) durable: u64,
    /// UUID of the boot in which the numbers were written.
    pub(crate) boot: Uuid,
    /// Number of event records in messages before `next`, and before `durable`, that were discarded because the
    /// host's share of the space was used up.
    pub(crate) quota: u64,
    pub(crate) durable_quota: u64,
}

impl StateFiles {
    /// Creates the files in the folder of a new recording.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn create(
        folder: &Directory,
        recording: Uuid,
        boot: Uuid,
    ) -> io::Result<StateFiles> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
        let next = fs::openat(folder, NEXT_FILE, flags, mode)?;
        let lines = fs::openat(folder, FILE, flags | OFlags::APPEND, mode)?;
        let files = StateFiles { lines, next };
        files.set_next(&NextMark { boot, ..NextMark::default() })?;
        files.append(&format!("{TITLE}\nrecording {recording}\n"))?;
        Ok(files)
    }

    /// Opens the state files of an existing recording. `None` if the folder has no complete ones.
    ///
    /// # Errors
    /// The files cannot be read. `InvalidData`: the files are damaged.
    pub(crate) fn open(folder: &Directory) -> io::Result<Option<Remembered>> {
        let mut text = String::new();
        match folder.read(OsStr::new(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?.take(BYTES_MAX).read_to_string(&mut text)?,
        };
        let bad = || io::Error::new(ErrorKind::InvalidData, format!("its {FILE} is damaged"));
        // A line without end was being written when the relay was killed.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole == 0 {
            return Ok(None);
        }
        let mut lines = text.get(..whole).unwrap_or_default().lines();
        let recording = recording_of(&mut lines).ok_or_else(bad)?;
        let traces: Option<Vec<_>> = lines.map(trace_line).collect();
        let traces = traces.ok_or_else(bad)?;
        let mut bytes = Vec::new();
        folder.read(OsStr::new(NEXT_FILE))?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        // After a loss of power it may have no bytes, or nothing in them: then it was never forced to the disk.
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        let next = match is_empty {
            true => NextMark::default(),
            false => decode_next(&bytes).ok_or_else(bad)?,
        };
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lines = fs::openat(folder, FILE, flags | OFlags::APPEND, Mode::empty())?;
        fs::ftruncate(&lines, whole as u64)?;
        let next_fd = fs::openat(folder, NEXT_FILE, flags, Mode::empty())?;
        let files = StateFiles { lines, next: next_fd };
        Ok(Some(Remembered { files, recording, traces, next }))
    }

    /// Writes the line of a trace, before the trace's folder is made.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn add(&self, trace: &TraceLine) -> io::Result<()> {
        let TraceLine { id, layer, folder } = trace;
        self.append(&format!("trace {id} {layer} {folder}\n"))
    }

    fn append(&self, text: &str) -> io::Result<()> {
        let written = rustix::io::write(&self.lines, text.as_bytes())?;
        match written == text.len() {
            true => Ok(()),
            false => Err(rustix::io::Errno::NOSPC.into()),
        }
    }

    /// Writes the number of the message that the relay expects next.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn set_next(&self, next: &NextMark) -> io::Result<()> {
        let written = rustix::io::pwrite(self.next.as_fd(), &encode_next(next), 0)?;
        match written == NEXT_BYTES {
            true => Ok(()),
            false => Err(rustix::io::Errno::NOSPC.into()),
        }
    }
}

fn trace_line(line: &str) -> Option<TraceLine> {
    let mut words = line.strip_prefix("trace ")?.split(' ');
    let (id, layer, folder) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let is_whole = words.next().is_none();
    is_whole.then(|| TraceLine { id, layer: layer.to_owned(), folder: folder.to_owned() })
}

/// Encodes the mark with the number twice, so that a reader notices a mark that is only partly written.
fn encode_next(mark: &NextMark) -> [u8; NEXT_BYTES] {
    let NextMark { next, durable, boot, quota, durable_quota } = mark;
    let quota = match quota {
        0 => String::new(),
        _ => format!("quota {quota} {durable_quota}\n"),
    };
    let text = format!(
        "{NEXT_TITLE}\nnext {next}\ndurable {durable}\nboot {boot}\n{quota}again {next} {durable}\n"
    );
    let mut bytes = [b'\n'; NEXT_BYTES];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    bytes
}

fn decode_next(bytes: &[u8]) -> Option<NextMark> {
    let is_of_size = [NEXT_BYTES, NEXT_BYTES_BEFORE].contains(&bytes.len());
    let text = std::str::from_utf8(bytes).ok().filter(|_| is_of_size)?;
    let mut lines = text.trim_end_matches('\n').lines();
    lines.next().filter(|title| *title == NEXT_TITLE)?;
    let next: u64 = lines.next()?.strip_prefix("next ")?.parse().ok()?;
    let durable: u64 = lines.next()?.strip_prefix("durable ")?.parse().ok()?;
    let boot = lines.next()?.strip_prefix("boot ")?.parse().ok()?;
    let mut line = lines.next()?;
    let (mut quota, mut durable_quota) = (0, 0);
    if let Some((all, before)) = line.strip_prefix("quota ").and_then(|it| it.split_once(' ')) {
        (quota, durable_quota) = (all.parse().ok()?, before.parse().ok()?);
        line = lines.next()?;
    }
    let again = line.strip_prefix("again ")?;
    let is_whole = again == format!("{next} {durable}") && durable <= next;
    let is_possible = is_whole && durable_quota <= quota && lines.next().is_none();
    is_possible.then_some(NextMark { next, durable, boot, quota, durable_quota })
}

/// Returns true if the folder is that of a recording at a relay.
pub(crate) fn is_recording(folder: &std::path::Path) -> bool {
    folder.join(FILE).symlink_metadata().is_ok_and(|about| about.is_file())
}

/// Returns the UUID of the recording in this folder; `None` if it is not known.
pub(crate) fn recording_in(folder: &std::path::Path) -> Option<Uuid> {
    let mut text = String::new();
    let file = std::fs::File::open(folder.join(FILE)).ok()?;
    file.take(256).read_to_string(&mut text).ok()?;
    recording_of(&mut text.lines())
}

/// Returns the path of the file with a recording's UUID and traces.
pub(crate) fn lines_file(folder: &std::path::Path) -> std::path::PathBuf {
    folder.join(FILE)
}

/// Returns the traces of the recording in this folder, as its state file lists them.
///
/// # Errors
/// The file cannot be read. `InvalidData`: it is damaged.
pub(crate) fn trace_lines(folder: &std::path::Path) -> io::Result<Vec<TraceLine>> {
    let mut text = String::new();
    std::fs::File::open(folder.join(FILE))?.take(BYTES_MAX).read_to_string(&mut text)?;
    // A line without end is being written.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text.get(..whole).unwrap_or_default().lines().skip(2);
    lines.map(|line| trace_line(line).ok_or_else(|| ErrorKind::InvalidData.into())).collect()
}

/// Parses the first lines of the state: the title, and the UUID of the recording.
fn recording_of<'l>(lines: &mut impl Iterator<Item = &'l str>) -> Option<Uuid> {
    lines.next().filter(|title| *title == TITLE)?;
    lines.next()?.strip_prefix("recording ")?.parse().ok()
}

/// Returns the UUID of this boot; 0 if it is unknown.
pub(crate) fn this_boot() -> Uuid {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    const RECORDING: Uuid = Uuid([7; 16]);

    fn line(id: u32, folder: &str) -> TraceLine {
        TraceLine { id, layer: "big/user".to_owned(), folder: folder.to_owned() }
    }

    #[test]
    fn state_is_as_it_was_noted_without_a_line_that_was_being_written() {
        let scratch = Scratch::new("state");
        let folder = Directory::create(&scratch.0.join("s")).unwrap();
        assert!(StateFiles::open(&folder).unwrap().is_none());
        let files = StateFiles::create(&folder, RECORDING, RECORDING).unwrap();
        files.add(&line(0, "app-1")).unwrap();
        files.add(&line(1, "")).unwrap();
        let most = u64::MAX;
        let mark =
            |next, durable| NextMark { next, durable, boot: RECORDING, ..Default::default() };
        let full = NextMark { quota: most, durable_quota: most, ..mark(most, most) };
        files.set_next(&full).unwrap();
        assert_eq!(StateFiles::open(&folder).unwrap().unwrap().next, full);
        files.set_next(&mark(12, 5)).unwrap();
        files.append("trace 2 us").unwrap();
        let found = StateFiles::open(&folder).unwrap().unwrap();
        assert_eq!((found.recording, found.next), (RECORDING, mark(12, 5)));
        assert_eq!(found.traces, [line(0, "app-1"), line(1, "")]);
        found.files.add(&line(2, "app-2")).unwrap();
        assert_eq!(StateFiles::open(&folder).unwrap().unwrap().traces.len(), 3);
    }

    #[test]
    fn damaged_state_is_an_error() {
        let scratch = Scratch::new("state-damaged");
        let path = scratch.0.join("s");
        let folder = Directory::create(&path).unwrap();
        StateFiles::create(&folder, RECORDING, RECORDING).unwrap();
        let good = std::fs::read(path.join(FILE)).unwrap();
        for begun in ["", "strata rel", "\0\0\0\0"] {
            std::fs::write(path.join(FILE), begun).unwrap();
            assert!(StateFiles::open(&folder).unwrap().is_none(), "{begun}");
        }
        std::fs::write(path.join(FILE), &good).unwrap();
        for empty in [0, NEXT_BYTES] {
            std::fs::write(path.join(NEXT_FILE), vec![0; empty]).unwrap();
            let found = StateFiles::open(&folder).unwrap().unwrap();
            assert_eq!(found.next, NextMark::default());
        }
        for bad in ["x\n", "strata relay 1\nrecording x\n"] {
            std::fs::write(path.join(FILE), bad).unwrap();
            assert!(StateFiles::open(&folder).is_err(), "{bad}");
        }
        std::fs::write(path.join(FILE), [&good[..], b"trace x y z\n"].concat()).unwrap();
        assert!(StateFiles::open(&folder).is_err());
        std::fs::write(path.join(FILE), &good).unwrap();
        std::fs::write(path.join(NEXT_FILE), "next 5\n").unwrap();
        assert!(StateFiles::open(&folder).is_err());
        let mark = |next, durable, quota, durable_quota| {
            encode_next(&NextMark { next, durable, boot: RECORDING, quota, durable_quota })
        };
        for (old, new) in [
            (mark(19, 9, 0, 0), mark(20, 19, 0, 0)),
            (mark(1999, 1000, 0, 0), mark(2000, 1999, 0, 0)),
            (mark(1999, 1000, 0, 0), mark(2000, 1999, 7, 0)),
            (mark(1999, 1000, 99, 9), mark(2000, 1999, 100, 99)),
        ] {
            for at in 0..NEXT_BYTES {
                let torn = [&old[..at], &new[at..]].concat();
                let found = decode_next(&torn);
                let is_one = torn == old || torn == new;
                assert!(found.is_none() || is_one, "{at}: {found:?}");
            }
        }
        assert_eq!(decode_next(&mark(4, 5, 0, 0)), None);
        assert_eq!(decode_next(&mark(4, 4, 1, 2)), None);
        // As they were before: shorter.
        let before = &mark(20, 19, 0, 0)[..NEXT_BYTES_BEFORE];
        assert_eq!(decode_next(before).map(|mark| (mark.next, mark.quota)), Some((20, 0)));
    }
}
