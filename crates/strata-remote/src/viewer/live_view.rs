//! A recording at the relay as a viewer of LTTng's live protocol sees it while it grows: streams, packets and metadata.
//!
//! A packet is shown when another packet follows it in its file, or its trace has ended: only then its size and end are
//! final. Its end must also not be later than the trace's progress, since a stream that does not exist yet could have
//! earlier records. Until then, a stream reports the time up to which all of its records have been shown.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};
use strata_ctf::end_mark::{self, EndMark, Ending};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_ctf::progress_mark::{self, ProgressMark};
use strata_ctf::read::Follow;

/// Depth of folders below a recording's in which traces are searched: a channel, a layer, a process.
const DEPTH: u32 = 3;
/// The most streams of one recording that are shown to a viewer.
const STREAMS_MAX: usize = 4096;
/// Shortest time between two searches for new streams.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
const LOOK_SHARE: u32 = 10;
/// Time without a lock of its folder after which a recording counts as one whose recorder was killed. A relay keeps the lock
/// for a while after a connection broke; one that is started again has it as soon as the recorder comes again.
const UNLOCKED: Duration = Duration::from_secs(10);
/// Largest metadata \[byte\].
const METADATA_BYTES_MAX: u64 = 8 << 20;
/// The most metadata of one answer \[byte\].
const METADATA_PIECE_BYTES: usize = 1 << 20;

/// A stream, or the metadata of a trace.
#[derive(Debug)]
pub(crate) struct LiveStream {
    /// Number of the trace.
    pub(crate) trace: u64,
    /// Folder of the trace.
    pub(crate) folder: PathBuf,
    /// Name of the file.
    pub(crate) file: String,
    /// Offset of the next packet, or of the metadata that were not sent yet \[byte\].
    at: u64,
    /// Hash of the metadata that were sent: the metadata themselves would take too much memory.
    sent: u64,
    /// Id of the stream class, and end of the last packet that was shown.
    last: (u64, u64),
    /// Time in the last [`Next::Nothing`].
    told: u64,
}

/// The next packet of a stream, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The header of a packet, and the packet's offset in the file \[byte\].
    Packet(Header, u64),
    /// There is no packet yet: has the id of the stream class, and the time before which no packet will come.
    Nothing(u64, u64),
    /// There is no packet yet, and no new time is known.
    Later,
    /// The stream has ended.
    End,
}

/// A recording as one viewer sees it.
#[derive(Debug)]
pub(crate) struct LiveView {
    folder: PathBuf,
    traces: BTreeMap<PathBuf, ViewedTrace>,
    /// Streams by number; numbers never change.
    pub(crate) streams: Vec<LiveStream>,
    looked: Option<Instant>,
    /// CPU time that the last look took.
    took: Duration,
    /// Time since which the recording's folder has not been locked; `None` while it is locked.
    unlocked: Option<Instant>,
    /// True if the recording had ended before the last look.
    is_over: bool,
    /// True if the relay knows that the recorder is connected, or was just before. Needed since some file systems
    /// have no locks.
    pub(crate) has_recorder: bool,
}

/// A trace of a recording.
#[derive(Debug)]
struct ViewedTrace {
    number: u64,
    /// Names of the trace's files that are streams.
    files: HashSet<String>,
    /// Time before which all records of the trace were in its files at the last look.
    upto: Option<u64>,
}

impl LiveView {
    pub(crate) fn new(folder: PathBuf) -> LiveView {
        LiveView {
            folder,
            traces: BTreeMap::new(),
            streams: Vec::new(),
            looked: None,
            took: Duration::ZERO,
            unlocked: None,
            is_over: false,
            has_recorder: false,
        }
    }

    /// Returns whether a search for new streams is due. A viewer asks for each packet, so most of its requests need
    /// no search.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let pause = LOOK_PERIOD.max(self.rest());
        let is_due = |looked| now.saturating_duration_since(looked) >= pause;
        self.looked.is_none_or(is_due)
    }

    /// Returns the pause after the last search, which keeps the share of time for searching small.
    pub(crate) fn rest(&self) -> Duration {
        self.took * LOOK_SHARE
    }

    /// Looks for new streams. Returns the number of the first one.
    pub(crate) fn look(&mut self, now: Instant) -> usize {
        self.looked = Some(now);
        let began = cpu_time();
        let first = self.look_at_files(now);
        self.took = cpu_time().saturating_sub(began);
        first
    }

    fn look_at_files(&mut self, now: Instant) -> usize {
        // Before the files are looked at: what is written in between is shown after the next look.
        self.is_over = self.look_at_end(now);
        for (folder, trace) in &mut self.traces {
            trace.upto = progress(folder);
        }
        let (first, mut folders) = (self.streams.len(), Vec::new());
        traces_below(&self.folder, DEPTH, &mut folders);
        for folder in folders {
            let mut names: Vec<String> = std::fs::read_dir(&folder)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| {
                    entry.metadata().is_ok_and(|about| about.is_file() && about.len() > 0)
                })
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|name| !name.starts_with('.') && name != "metadata")
                .collect();
            names.sort();
            let number = match self.traces.get(&folder) {
                Some(trace) => trace.number,
                // A trace without packets has nothing to show.
                None if names.is_empty() => continue,
                None => {
                    let number = self.traces.len() as u64;
                    let trace = ViewedTrace { number, files: HashSet::new(), upto: None };
                    self.traces.insert(folder.clone(), trace);
                    self.add(number, &folder, "metadata".to_owned());
                    number
                }
            };
            for name in names {
                let Some(trace) = self.traces.get_mut(&folder) else { break };
                if self.streams.len() < STREAMS_MAX && trace.files.insert(name.clone()) {
                    self.add(number, &folder, name);
                }
            }
        }
        first
    }

    /// Returns true if nothing more will come: the recording has ended, or its recorder was killed and has not come again.
    fn look_at_end(&mut self, now: Instant) -> bool {
        if has_ended(&self.folder) {
            return true;
        }
        let since = match self.has_recorder || Follow::is_recorded(&self.folder) {
            true => None,
            false => Some(self.unlocked.unwrap_or(now)),
        };
        self.unlocked = since;
        since.is_some_and(|since| now.saturating_duration_since(since) > UNLOCKED)
    }

    fn add(&mut self, trace: u64, folder: &Path, file: String) {
        let (folder, sent) = (folder.to_owned(), hash(&[]));
        self.streams.push(LiveStream { trace, folder, file, at: 0, sent, last: (0, 0), told: 0 });
    }

    /// Returns true if the recording had ended before the last look.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_over
    }

    /// Returns the time before which all records of this stream's trace were in its files at the last look.
    pub(crate) fn upto(&self, number: u64) -> Option<u64> {
        let stream = self.streams.get(usize::try_from(number).ok()?)?;
        self.traces.get(&stream.folder)?.upto
    }

    /// Returns the stream with this number.
    pub(crate) fn stream(&mut self, number: u64) -> Option<&mut LiveStream> {
        self.streams.get_mut(usize::try_from(number).ok()?)
    }

    /// Returns true if the metadata of this stream's trace have changed since they were last sent.
    pub(crate) fn has_new_metadata(&self, number: u64) -> bool {
        let of = usize::try_from(number).ok().and_then(|number| self.streams.get(number));
        let Some(of) = of else { return false };
        let metadata = self.streams.iter().find(|one| one.trace == of.trace && one.is_metadata());
        metadata.is_some_and(|one| {
            let about = std::fs::metadata(one.folder.join("metadata"));
            about.is_ok_and(|about| about.len() != one.at)
        })
    }
}

impl LiveStream {
    pub(crate) fn is_metadata(&self) -> bool {
        self.file == "metadata"
    }

    /// Returns the metadata that were not sent yet.
    ///
    /// # Errors
    /// The file cannot be read. `InvalidData`: the metadata do not begin with those that were sent.
    pub(crate) fn new_metadata(&mut self) -> io::Result<Vec<u8>> {
        use std::io::Read as _;
        let mut text = Vec::new();
        let file = File::open(self.folder.join("metadata"))?;
        file.take(METADATA_BYTES_MAX).read_to_end(&mut text)?;
        let sent = usize::try_from(self.at).ok().and_then(|at| text.get(..at));
        if sent.map(hash) != Some(self.sent) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let at = sent.map_or(0, <[u8]>::len);
        text.truncate(line_end(&text, at.saturating_add(METADATA_PIECE_BYTES)));
        (self.at, self.sent) = (text.len() as u64, hash(&text));
        Ok(text.split_off(at))
    }

    /// Looks for the next packet. `is_over`: the recording has ended. `upto`: all records before this time were in the
    /// files when new streams were last looked for.
    ///
    /// # Errors
    /// The file cannot be read. `InvalidData`: the file has no packet at that place.
    pub(crate) fn next(&mut self, is_over: bool, upto: Option<u64>) -> io::Result<Next> {
        // Before the file is read, so that what is written in between is shown later.
        let is_over = is_over || has_ended(&self.folder);
        let file = File::open(self.folder.join(&self.file))?;
        let bytes = file.metadata()?.len();
        let Some((header, end)) = packet_at(&file, self.at, bytes)? else {
            return Ok(match (is_over, upto) {
                (true, _) => Next::End,
                (false, upto) => self.nothing(self.last.0, upto),
            });
        };
        let is_early = upto.is_none_or(|upto| header.timestamp_end > upto);
        if !is_over && (is_early || end >= bytes) {
            // No record of the packet is earlier than the packet's begin.
            let upto = upto.map(|upto| upto.min(header.timestamp_begin));
            return Ok(self.nothing(header.stream_id.into(), upto));
        }
        let at = std::mem::replace(&mut self.at, end);
        self.last = (header.stream_id.into(), header.timestamp_end);
        Ok(Next::Packet(header, at))
    }

    /// Returns the time before which no packet will come; [`Next::Later`] if the viewer knows that time already.
    fn nothing(&mut self, class: u64, upto: Option<u64>) -> Next {
        match upto.filter(|upto| *upto > self.last.1 && *upto > self.told) {
            Some(upto) => {
                self.told = upto;
                Next::Nothing(class, upto)
            }
            None => Next::Later,
        }
    }

    /// Opens the stream's file, which has `bytes` bytes from offset `at` on.
    ///
    /// # Errors
    /// A system call failed. `UnexpectedEof`: the file is shorter.
    pub(crate) fn file_with(&self, at: u64, bytes: u64) -> io::Result<File> {
        let file = File::open(self.folder.join(&self.file))?;
        let end = at.checked_add(bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        match end <= file.metadata()?.len() {
            true => Ok(file),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Returns the size of the next piece of a text: up to the end of the last whole line within `most` bytes, or `most`
/// if the line is longer.
fn line_end(text: &[u8], most: usize) -> usize {
    let Some(piece) = text.get(..most) else { return text.len() };
    let from = most.saturating_sub(METADATA_PIECE_BYTES);
    let lines = piece.get(from..).unwrap_or_default();
    let end = lines.iter().rposition(|byte| *byte == b'\n');
    end.map_or(most, |end| from + end + 1)
}

/// Hashes metadata, without the lines that a relay rewrites as it learns more about a host's clock.
fn hash(bytes: &[u8]) -> u64 {
    let changing = ["\tfreq = ", "\tprecision = ", "\toffset_s = ", "\toffset = ", "\tclock_"];
    let mut hasher = DefaultHasher::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !changing.iter().any(|begin| line.starts_with(begin.as_bytes())) {
            hasher.write(line);
        }
    }
    hasher.finish()
}

fn packet_at(file: &File, at: u64, bytes: u64) -> io::Result<Option<(Header, u64)>> {
    if at >= bytes {
        return Ok(None);
    }
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, at)?;
    let header = Header::decode(&head).ok_or(io::ErrorKind::InvalidData)?;
    let (content, packet) = (header.content_bits / 8, header.packet_bits / 8);
    let end = at.checked_add(packet).filter(|end| *end <= bytes);
    let end = end.filter(|_| (HEADER_BYTES as u64..=packet).contains(&content));
    Ok(Some((header, end.ok_or(io::ErrorKind::InvalidData)?)))
}

fn has_ended(folder: &Path) -> bool {
    let bytes = std::fs::read(folder.join(end_mark::FILE)).unwrap_or_default();
    EndMark::decode(&bytes).is_ok_and(|mark| mark.ending != Ending::Recording)
}

fn progress(folder: &Path) -> Option<u64> {
    let bytes = std::fs::read(folder.join(progress_mark::FILE)).ok()?;
    ProgressMark::decode(&bytes).map(|mark| mark.upto)
}

fn traces_below(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    if folder.join("metadata").is_file() {
        return found.push(folder.to_owned());
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders.iter().for_each(|folder| traces_below(folder, depth, found));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    fn packet(sequence: u64, bytes: u64) -> Vec<u8> {
        let header = Header { sequence, timestamp_begin: sequence * 10 + 1, ..Header::default() };
        let header = Header { timestamp_end: sequence * 10 + 9, ..header };
        let mut packet = header.with_content_bytes(bytes).encode().to_vec();
        packet.resize(packet.len() + bytes as usize, 7);
        packet
    }

    fn write(path: &Path, bytes: &[u8]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn packet_is_withheld_until_it_cannot_change() {
        let scratch = Scratch::new("live-view");
        let trace = scratch.0.join("user/app-1");
        let mut view = LiveView::new(scratch.0.clone());
        write(&trace.join("metadata"), b"trace {};");
        let begin = Instant::now();
        assert_eq!((view.look(begin), view.streams.len()), (0, 0));
        let (one, two) = (packet(0, 16), packet(1, 8));
        write(&trace.join("channel0_0"), &one);
        view.look(begin);
        let names: Vec<_> = view.streams.iter().map(|one| one.file.clone()).collect();
        assert_eq!(names, ["metadata", "channel0_0"]);
        let mut next = |is_over| {
            view.look(begin);
            let upto = view.upto(1);
            view.streams[1].next(is_over, upto).unwrap()
        };
        assert_eq!(next(false), Next::Later);
        let mark = |upto| {
            let mark = ProgressMark { upto, flush_ns: 1 };
            write(&trace.join(progress_mark::FILE), &mark.encode());
        };
        mark(8);
        // Nothing is earlier than the packet that is withheld.
        assert_eq!(next(false), Next::Nothing(0, 1));
        write(&trace.join("channel0_0"), &[&one[..], &two].concat());
        // Another stream may have something that is earlier than its end. The same time is not said twice.
        assert_eq!(next(false), Next::Later);
        mark(50);
        assert!(matches!(next(false), Next::Packet(header, 0) if header.sequence == 0));
        assert_eq!(next(false), Next::Nothing(0, 11));
        assert!(
            matches!(next(true), Next::Packet(header, at) if header.sequence == 1 && at == one.len() as u64)
        );
        assert_eq!((next(false), next(true)), (Next::Nothing(0, 50), Next::End));
        write(&trace.join("channel0_0"), b"no packet");
        let mut other = LiveView::new(scratch.0.clone());
        other.look(begin);
        assert!(other.streams[1].next(true, None).is_err());
    }

    #[test]
    fn metadata_are_sent_as_they_grow() {
        let scratch = Scratch::new("live-metadata");
        write(&scratch.0.join("metadata"), b"trace {};");
        write(&scratch.0.join("channel0_0"), &packet(0, 8));
        let mut view = LiveView::new(scratch.0.clone());
        view.look(Instant::now());
        assert!(view.has_new_metadata(1));
        assert_eq!(view.streams[0].new_metadata().unwrap(), b"trace {};");
        assert!(!view.has_new_metadata(1) && view.streams[0].new_metadata().unwrap().is_empty());
        write(&scratch.0.join("metadata"), b"trace {}; event {};");
        assert!(view.has_new_metadata(1));
        assert_eq!(view.streams[0].new_metadata().unwrap(), b" event {};");
        write(&scratch.0.join("metadata"), b"event {}; trace {};");
        assert!(view.streams[0].new_metadata().is_err());
        // Less than was sent, too.
        write(&scratch.0.join("metadata"), b"trace {};");
        assert!(view.streams[0].new_metadata().is_err());
        write(&scratch.0.join("metadata"), b"trace {}; event {}; x");
        assert_eq!(view.streams[0].new_metadata().unwrap(), b" x");
        // A clock that is known better, in as many bytes.
        let write_clock = |number: u32, more: &str| {
            let text = format!("trace {{}};\nclock {{\n\toffset = {number};\n}};\n{more}");
            write(&scratch.0.join("metadata"), text.as_bytes());
        };
        let mut view = LiveView::new(scratch.0.clone());
        view.look(Instant::now());
        write_clock(5, "");
        view.streams[0].new_metadata().unwrap();
        write_clock(6, "event {};");
        assert_eq!(view.streams[0].new_metadata().unwrap(), b"event {};");
    }

    #[test]
    fn recording_whose_recorder_was_killed_is_shown_to_its_end() {
        use std::os::fd::AsFd as _;
        let scratch = Scratch::new("live-killed");
        let folder = scratch.0.join("s");
        let directory = strata_collect::Directory::create(&folder).unwrap();
        directory.begin().unwrap();
        write(&folder.join("metadata"), b"trace {};");
        write(&folder.join("channel0_0"), &packet(0, 8));
        let (mut view, begin) = (LiveView::new(folder.clone()), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        view.look(begin);
        assert!(!view.has_ended(), "it is locked: {:?}", directory.as_fd());
        drop(directory);
        for (seconds, is_over) in [(20, false), (30, false), (31, true)] {
            view.look(at(seconds));
            assert_eq!(view.has_ended(), is_over, "{seconds}");
        }
        view.has_recorder = true;
        view.look(at(32));
        assert!(!view.has_ended(), "its recorder is connected, and there are no locks");
        view.has_recorder = false;
        for seconds in [33, 44] {
            view.look(at(seconds));
        }
        let is_over = view.has_ended();
        assert!(is_over);
        assert!(matches!(view.streams[1].next(is_over, None), Ok(Next::Packet(..))));
        assert_eq!(view.streams[1].next(is_over, None).unwrap(), Next::End);
        // The recorder has come again.
        let directory = std::fs::File::open(&folder).unwrap();
        rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
        view.look(at(45));
        assert!(!view.has_ended());
    }

    #[test]
    fn streams_are_looked_for_now_and_then() {
        let scratch = Scratch::new("live-looks");
        write(&scratch.0.join("metadata"), b"trace {};");
        let (mut view, begin) = (LiveView::new(scratch.0.clone()), Instant::now());
        let mut count = |after: u64| {
            write(&scratch.0.join(format!("channel0_{after}")), &packet(0, 8));
            let now = begin + Duration::from_millis(after);
            if view.is_due(now) {
                view.look(now);
            }
            view.streams.len()
        };
        assert_eq!([count(0), count(1), count(199), count(200), count(399)], [2, 2, 2, 5, 5]);
    }

    #[test]
    fn metadata_that_are_large_are_sent_in_pieces_of_whole_lines() {
        let scratch = Scratch::new("live-pieces");
        let line = format!("{}\n", "x".repeat(999));
        let mut text = line.repeat(2500);
        // A line that is longer than a piece.
        text.push_str(&"y".repeat(METADATA_PIECE_BYTES + 7));
        write(&scratch.0.join("metadata"), text.as_bytes());
        write(&scratch.0.join("channel0_0"), &packet(0, 8));
        let mut view = LiveView::new(scratch.0.clone());
        view.look(Instant::now());
        let mut pieces = Vec::new();
        while view.has_new_metadata(1) {
            let piece = view.streams[0].new_metadata().unwrap();
            assert!((1..=METADATA_PIECE_BYTES).contains(&piece.len()), "{}", piece.len());
            pieces.push(piece);
        }
        assert_eq!(pieces.concat(), text.as_bytes());
        assert!(pieces[0].ends_with(b"\n") && pieces.len() >= 4, "{}", pieces.len());
        assert!(view.streams[0].new_metadata().unwrap().is_empty());
    }

    #[test]
    fn looks_at_a_large_recording_are_further_apart() {
        let mut view = LiveView::new("/nonexistent".into());
        let begin = Instant::now();
        view.look(begin);
        view.looked = Some(begin);
        for (took, pause) in [(0, 200), (19, 200), (50, 500)] {
            view.took = Duration::from_millis(took);
            let is_due = |after| view.is_due(begin + Duration::from_millis(after));
            assert!(!is_due(pause - 1) && is_due(pause), "{took}");
        }
    }
}
