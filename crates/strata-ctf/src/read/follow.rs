//! Follows traces that grow while they are read.
//!
//! [`Follow::look`] notes what the files have at this moment and the time up to which nothing more can be added.
//! [`Follow::events`] lends the messages up to that time that were not lent before. Each message is lent once, in the
//! order of time. The exception are messages that a recorder writes later than it announced: they are lent after the
//! next look, and have times up to [`Follow::lent`].
//!
//! # The time up to which a stream is complete
//!
//! A look uses the files as they are at that moment. A stream is complete
//!
//! - up to the time in its trace's [progress mark](crate::progress_mark), which also covers streams without event
//!   records and streams that do not exist yet;
//! - at any time, once its trace has ended;
//! - up to the end of its last packet if the recorder writes no progress mark, since the next packet does not begin
//!   before. Streams without event records are waited for during [`IDLE`].
//!
//! Traces that are not known yet, such as that of a program that has just started, appear within a flush period. So
//! messages are lent up to a time that lies a flush period and a little more before the machine's present time.
//!
//! # Files that change
//!
//! The last packet of a file that Strata writes is padded up to the end of the file, and shrinks when the next packet
//! is written into the padding. So each look begins again before the last packet that was seen, and reads its size
//! anew. Packets without event records that only continue such a packet may exist for a moment, and are skipped.

use super::completeness::{self, RecordingEnd};
use super::cursor::{Cursor, CursorBounds};
use super::damage::OpenError;
use super::events::Events;
use super::file_writers;
use super::find_traces;
use super::open::{self, OpenOptions, Opening};
use super::packet_places::HEAD;
use super::packet_skip::{PacketPlace, PacketSkipper};
use super::reader::{window, Reader};
use super::stream::Stream;
use super::time::{Clock, TimeRange};
use crate::end_mark::IN_ENVIRONMENT;
use crate::model::Uuid;
use crate::progress_mark::{self, ProgressMark};
use crate::read::metadata;
use rustix::time::{clock_gettime, ClockId};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The lag behind the machine's time after which a stream counts as complete, if its recorder does not report how far
/// it has written.
pub const IDLE: Duration = Duration::from_secs(2);

/// The flush period that is assumed until a recorder announces its own: the default of recorders.
const FLUSH: Duration = Duration::from_secs(1);

/// The time added to a flush period before its data are read.
const SLACK: Duration = Duration::from_millis(50);

/// The greatest flush period that a recorder's announcement can set.
const FLUSH_MAX: Duration = Duration::from_secs(3600);

/// The reciprocal of the share of time that searching for new traces may take.
const SEARCH_SHARE: u32 = 20;
const SEARCH_PERIOD: Duration = Duration::from_millis(50);

/// The period of searching /proc for writers of traces whose recorder does not announce its end.
const WRITERS_PERIOD: Duration = Duration::from_millis(500);

/// The time after a change within which another change may leave a folder's time stamp as it is: the tick of the file
/// system's clock.
const TICK: Duration = Duration::from_millis(50);

/// A trace's folder, as it was at the last look.
#[derive(Debug, Default)]
struct FollowedFolder {
    trace: usize,
    /// Time stamps and sizes of the folder and of its metadata at the last look.
    stamps: [Option<Stamp>; 2],
    looked: Option<Instant>,
    has_mark: bool,
    is_running: bool,
    progress: Option<ProgressMark>,
}

type Stamp = (i64, i64, u64, u64);

fn stamp(found: &Metadata) -> Stamp {
    (found.mtime(), found.mtime_nsec(), found.len(), found.ino())
}

/// A stream, and how far its messages were lent.
#[derive(Clone, Debug)]
struct FollowedStream {
    /// Place before the last packet that was seen, or before the first packet that was not completely lent. The next
    /// look begins here.
    place: PacketPlace,
    /// True if all messages of the packet at `place` were lent.
    is_passed: bool,
    /// The least key of the messages of that packet that were not lent.
    first: i64,
    /// The number of the packet after the last one that was seen.
    seen: u64,
    /// The place before the last packet that was seen, until the look is committed.
    last: Option<PacketPlace>,
    /// The place at which this look began.
    start: PacketPlace,
    /// End of the last packet \[ns since 1970\]; `None` if packets have no end times.
    reach: Option<i64>,
}

impl FollowedStream {
    fn new(place: PacketPlace) -> FollowedStream {
        FollowedStream {
            seen: place.number,
            start: place.clone(),
            place,
            is_passed: false,
            first: i64::MIN,
            last: None,
            reach: None,
        }
    }
}

/// The machine's present time by two clocks \[ns\].
#[derive(Clone, Copy)]
struct Now {
    monotonic: i64,
    realtime: i64,
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads the boot id, which identifies the clock that has run since the machine was started.
fn boot() -> Option<Uuid> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    text.trim().parse().ok()
}

/// Traces that are being recorded.
#[derive(Debug)]
pub struct Follow {
    reader: Reader,
    paths: Vec<PathBuf>,
    options: OpenOptions,
    range: TimeRange,
    folders: HashMap<PathBuf, FollowedFolder>,
    streams: Vec<FollowedStream>,
    /// Time up to which all messages were lent.
    lent: i64,
    /// Time up to which all messages will have been lent after this look.
    upto: i64,
    next_search: Instant,
    next_writers: Instant,
    has_writers: bool,
    has_ended: bool,
    /// The recorders' flush period, as far as they have announced it.
    flush: Duration,
    boot: Option<Uuid>,
    /// The time that stands for the machine's own \[ns since 1970\].
    now: Option<i64>,
}

impl Follow {
    /// Opens the traces at or below each of the paths. Traces that appear there later are opened by [`Follow::look`].
    ///
    /// # Errors
    /// The errors of [`Reader::open`].
    pub fn open<P: AsRef<Path>>(paths: &[P], options: OpenOptions) -> Result<Follow, OpenError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let reader = Reader::open_with(&paths, options.clone())?;
        let now = Instant::now();
        let mut follow = Follow {
            reader,
            paths,
            options,
            range: TimeRange::ALL,
            folders: HashMap::new(),
            streams: Vec::new(),
            lent: i64::MIN,
            upto: i64::MIN,
            next_search: now,
            next_writers: now,
            has_writers: true,
            has_ended: false,
            flush: FLUSH,
            boot: boot(),
            now: None,
        };
        for stream in follow.reader.streams() {
            let trace = stream.trace().index();
            for folder in stream.files().iter().filter_map(|file| file.parent()) {
                let known = FollowedFolder { trace, ..FollowedFolder::default() };
                follow.folders.entry(folder.to_owned()).or_insert(known);
            }
        }
        for trace in follow.reader.traces() {
            let known = FollowedFolder { trace: trace.index(), ..FollowedFolder::default() };
            follow.folders.entry(trace.path().to_owned()).or_insert(known);
        }
        Ok(follow)
    }

    /// Returns whether a recorder is recording to this folder and may add traces to it.
    #[must_use]
    pub fn is_recorded(path: &Path) -> bool {
        completeness::look(path) == RecordingEnd::Running
    }

    /// Returns the traces as they were at the last look. Indexes of traces and streams stay the same. The classes of a
    /// trace whose metadata changed get new indexes.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Restricts the messages that are lent from now on to a time range.
    pub fn set_range(&mut self, range: TimeRange) {
        self.range = range;
    }

    /// Sets the time up to which the files are complete, if they are a copy of another machine's; `None` for this
    /// machine's own files, which are complete up to the present \[ns since 1970\].
    pub fn set_now(&mut self, now: Option<i64>) {
        self.now = now;
    }

    /// Returns whether no further messages can follow: the recordings have ended, and the last look began after that.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the time up to which messages were lent before the last look; `i64::MIN` before the first one.
    #[must_use]
    pub fn lent(&self) -> i64 {
        self.lent
    }

    /// Returns the time up to which messages can be lent after the last look; `None` if all can be.
    #[must_use]
    pub fn upto(&self) -> Option<i64> {
        Some(self.upto).filter(|upto| *upto != i64::MAX)
    }

    /// Looks at the present contents of the files, and at folders that are new.
    pub fn look(&mut self) {
        self.commit();
        let now = Instant::now();
        // A recorder writes everything before it marks the end, and the files are looked at after the marks.
        let is_running = self.look_at_ends(now);
        self.reader.files.grow();
        self.look_for_more(now);
        while self.streams.len() < self.reader.streams().len() {
            let stream = self.reader.streams().get(self.streams.len());
            let place = stream.map_or_else(PacketPlace::default, |stream| {
                self.reader.place(stream, self.range.from)
            });
            self.streams.push(FollowedStream::new(place));
        }
        self.has_ended = !is_running;
        for index in 0..self.streams.len() {
            self.scan(index);
        }
        self.upto = match is_running {
            true => self.complete_upto().max(self.lent),
            false => i64::MAX,
        };
    }

    /// Returns the messages that were not lent before, up to [`Follow::upto`].
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        let most = window(self.streams.len());
        let cursors = self.reader.ranks.iter().filter_map(|&index| {
            let (stream, row) = (self.reader.streams.get(index)?, self.streams.get(index)?);
            let bounds = CursorBounds {
                first: if row.is_passed { i64::MIN } else { row.first },
                last: self.upto.min(self.range.to),
                range: self.range,
                packet: if self.has_ended { u64::MAX } else { row.seen },
            };
            Some(Cursor::new(&self.reader.files, stream, row.start.clone(), bounds, most))
        });
        Events::new(cursors.collect())
    }

    /// Moves each stream past the messages that could be lent since the last look.
    fn commit(&mut self) {
        let upto = self.upto;
        for index in 0..self.streams.len() {
            let (Some(stream), Some(row)) =
                (self.reader.streams.get(index), self.streams.get_mut(index))
            else {
                continue;
            };
            if row.last.is_none() {
                continue;
            }
            let mut skipper =
                PacketSkipper::new(&self.reader.files, stream, row.start.clone(), HEAD);
            let mut partly = None;
            loop {
                let before = skipper.place.clone();
                if before.number >= row.seen || skipper.next().is_none() {
                    break;
                }
                skipper.items.clear();
                if skipper.place.reach().is_none_or(|reach| reach > upto) {
                    partly = Some(before);
                    break;
                }
            }
            row.is_passed = partly.is_none();
            row.first = upto.saturating_add(1);
            if let Some(place) = partly.or(row.last.take()) {
                row.place = place;
            }
            row.last = None;
        }
        self.lent = upto;
    }

    /// Reads the headers of a stream's packets from the last one that was seen.
    fn scan(&mut self, index: usize) {
        let (Some(stream), Some(row)) =
            (self.reader.streams.get(index), self.streams.get_mut(index))
        else {
            return;
        };
        let mut skipper = PacketSkipper::new(&self.reader.files, stream, row.place.clone(), HEAD);
        let mut is_passed = row.is_passed;
        row.start = row.place.clone();
        let (mut end, mut discarded) = (None, None);
        let mut is_first = true;
        loop {
            let before = skipper.place.clone();
            let Some(opened) = skipper.next() else { break };
            skipper.items.clear();
            if opened.truncated.is_some() && !self.has_ended {
                break;
            }
            let packet = &opened.packet;
            let goes_on = !is_first
                && opened.records >= packet.content_bits
                && (packet.begin, packet.end) == (end, end)
                && packet.discarded == discarded;
            if goes_on && !self.has_ended {
                continue;
            }
            (end, discarded) = (packet.end, packet.discarded);
            if std::mem::take(&mut is_passed) {
                // The known packet was lent already; the packet after it was not.
                row.start = skipper.place.clone();
                row.seen = row.start.number;
                row.reach = skipper.place.reach();
                row.last = Some(before);
            } else {
                row.seen = before.number + 1;
                row.reach = skipper.place.reach();
                row.last = Some(before);
            }
            is_first = false;
        }
    }

    /// Returns the time up to which all streams are complete \[ns since 1970\].
    fn complete_upto(&self) -> i64 {
        let ns = |id| {
            let time = clock_gettime(id);
            time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
        };
        let now = Now { monotonic: ns(ClockId::Monotonic), realtime: ns(ClockId::Realtime) };
        let mut upto = self.not_yet_known(now);
        for trace in self.reader.traces() {
            let folders = || self.folders.values().filter(|it| it.trace == trace.index());
            let is_silent = folders().any(|folder| !folder.has_mark);
            let clock = trace.clocks.iter().flatten().next();
            // A trace in several folders is being written to one of them only.
            let running = folders().filter(|folder| folder.is_running);
            let told = running.map(|folder| match folder.progress.zip(clock) {
                Some((mark, clock)) => clock.time(mark.upto),
                None => i64::MIN,
            });
            let known = match is_silent {
                true => {
                    self.least_of(trace.index(), now.realtime.saturating_sub(nanoseconds(IDLE)))
                }
                // A mark also covers streams that do not exist yet.
                false => told.max().unwrap_or(i64::MAX),
            };
            upto = upto.min(known);
        }
        upto.saturating_sub(1)
    }

    /// Returns the least time up to which the trace's streams are complete, at least `idle`.
    fn least_of(&self, trace: usize, idle: i64) -> i64 {
        let its = self.reader.streams().iter().zip(&self.streams);
        let its = its.filter(|(stream, _)| stream.trace().index() == trace);
        let reach = |row: &FollowedStream| row.reach.filter(|reach| *reach != i64::MAX);
        its.map(|(_, row)| reach(row).map_or(idle, |reach| reach.max(idle))).min().unwrap_or(idle)
    }

    /// Returns the time up to which programs and streams that are not known yet cannot add messages.
    fn not_yet_known(&self, now: Now) -> i64 {
        let here = self.reader.traces().iter().find_map(|trace| {
            let class = trace.schema().clocks.first()?;
            class.uuid.filter(|uuid| Some(*uuid) == self.boot).map(|_| Clock::new(class))
        });
        let here = here.zip(u64::try_from(now.monotonic).ok());
        let now = here.map_or(now.realtime, |(clock, monotonic)| clock.time(monotonic));
        let now = self.now.unwrap_or(now);
        now.saturating_sub(nanoseconds(self.flush.min(FLUSH_MAX) + SLACK))
    }

    /// Reads the marks of all folders. Returns whether at least one of the recordings continues.
    fn look_at_ends(&mut self, now: Instant) -> bool {
        let (mut is_running, mut is_silent) = (false, false);
        let mut recordings: Option<Vec<PathBuf>> = None;
        let all: Vec<PathBuf> = self.folders.keys().cloned().collect();
        for (path, folder) in &mut self.folders {
            let trace = self.reader.traces().get(folder.trace);
            folder.has_mark =
                trace.is_some_and(|trace| trace.schema().environment(IN_ENVIRONMENT).is_some());
            if !folder.has_mark {
                is_silent = true;
                continue;
            }
            folder.is_running = match completeness::look(path) {
                RecordingEnd::Running => true,
                // A relay has few of a recording's folders open, and locked, at the same time.
                RecordingEnd::Killed { .. } => recordings
                    .get_or_insert_with(|| running_recordings(&self.paths, &all))
                    .iter()
                    .any(|recording| path.starts_with(recording)),
                _ => false,
            };
            is_running |= folder.is_running;
            folder.progress = match folder.is_running {
                true => read_progress(path).or(folder.progress),
                false => None,
            };
        }
        let marks = self.folders.values().filter_map(|folder| folder.progress);
        if let Some(flush_ns) = marks.map(|mark| mark.flush_ns).max() {
            self.flush = Duration::from_nanos(flush_ns);
        }
        if !is_running {
            is_running = !running_recordings(&self.paths, &all).is_empty();
        }
        if is_silent && !is_running {
            if now >= self.next_writers {
                self.next_writers = now + WRITERS_PERIOD;
                let files = self.reader.streams().iter().flat_map(Stream::files);
                let mut found = files.filter_map(|file| fs::metadata(file).ok());
                self.has_writers = found.any(|file| file_writers::any(&file));
            }
            is_running = self.has_writers;
        }
        is_running
    }

    /// Looks for new traces, files and metadata. Of new files, only the bytes that were there before the metadata were
    /// read are used, since only those are certainly described.
    fn look_for_more(&mut self, now: Instant) {
        let mut sizes: Vec<(PathBuf, u64)> = Vec::new();
        let mut folders = Vec::new();
        if now >= self.next_search || self.has_ended {
            for path in &self.paths {
                let found = find_traces::search(path).map(|found| found.traces).unwrap_or_default();
                for folder in found.into_iter().filter(|it| !self.folders.contains_key(it)) {
                    let below = folder.strip_prefix(path).unwrap_or(Path::new(""));
                    let below = below.to_string_lossy().into_owned();
                    folders.push((folder, below));
                }
            }
            let took = now.elapsed() * SEARCH_SHARE;
            self.next_search = Instant::now() + took.max(SEARCH_PERIOD);
        }
        for (folder, _) in &folders {
            sizes.extend(sizes_in(folder));
        }
        let mut more: Vec<(usize, Vec<PathBuf>)> = Vec::new();
        let mut described = Vec::new();
        for (path, folder) in &mut self.folders {
            let own = fs::metadata(path).ok().map(|found| stamp(&found));
            let is_same = own == folder.stamps[0]
                && folder.looked.is_some_and(|looked| now.duration_since(looked) > TICK);
            if own != folder.stamps[0] {
                folder.looked = Some(now);
            }
            folder.stamps[0] = own;
            if !is_same {
                let found = sizes_in(path);
                let streams = self.reader.streams().iter();
                let its = streams.filter(|stream| stream.trace().index() == folder.trace);
                let known: Vec<&PathBuf> = its.flat_map(Stream::files).collect();
                let new: Vec<PathBuf> = found
                    .iter()
                    .filter(|(file, _)| !known.contains(&file))
                    .map(|(file, _)| file.clone())
                    .collect();
                if !new.is_empty() {
                    sizes.extend(found.into_iter().filter(|(file, _)| new.contains(file)));
                    more.push((folder.trace, new));
                }
            }
            let metadata = path.join(find_traces::METADATA);
            let own = fs::metadata(&metadata).ok().map(|found| stamp(&found));
            let is_first = folder.stamps[1].is_none();
            if own.is_some() && own != folder.stamps[1] {
                folder.stamps[1] = own;
                // The metadata may have changed since the trace was opened.
                let text = open::read(&metadata).ok();
                let parsed = text.and_then(|text| metadata::parse_tolerant(&text).ok());
                let trace = self.reader.traces().get(folder.trace);
                if let Some((parsed, trace)) = parsed.zip(trace) {
                    if !is_first || parsed.schema != **trace.schema() {
                        described.push((folder.trace, parsed.schema));
                    }
                }
            }
        }
        if folders.is_empty() && more.is_empty() && described.is_empty() {
            return;
        }
        let reader = &mut self.reader;
        let mut opening = Opening::default();
        opening.options = self.options.clone();
        opening.traces = std::mem::take(&mut reader.traces);
        opening.streams = std::mem::take(&mut reader.streams);
        opening.files = std::mem::take(&mut reader.files);
        opening.classes = reader.classes;
        for (trace, schema) in described {
            opening.describe_again(trace, schema);
        }
        for (folder, below) in folders {
            // A folder that cannot be read yet is tried again at the next search.
            if opening.folder(&folder, below).is_err() {
                continue;
            }
            let stamps =
                [None, fs::metadata(folder.join(find_traces::METADATA)).ok().map(|it| stamp(&it))];
            let before = opening.traces.len();
            let joined = opening.take_found();
            let trace = joined.first().map_or(before, |(trace, _)| *trace);
            more.extend(joined);
            self.folders.insert(folder, FollowedFolder { trace, stamps, ..Default::default() });
        }
        for (trace, files) in more {
            opening.add_files(trace, files);
        }
        for (file, bytes) in sizes {
            opening.files.limit(&file, bytes);
        }
        reader.ranks = opening.ranks();
        reader.traces = opening.traces;
        reader.streams = opening.streams;
        reader.files = opening.files;
        reader.classes = opening.classes;
        reader.indexes.resize_with(reader.streams.len(), OnceLock::new);
    }
}

/// Returns the folders of recordings around these traces that a recorder has locked.
fn running_recordings(paths: &[PathBuf], traces: &[PathBuf]) -> Vec<PathBuf> {
    let ends = paths.iter().flat_map(|path| completeness::of_recordings(path, traces));
    let running = ends.filter(|end| end.end == RecordingEnd::Running);
    running.map(|end| end.path.to_path_buf()).collect()
}

/// Returns a trace's stream files and their sizes \[byte\].
fn sizes_in(folder: &Path) -> Vec<(PathBuf, u64)> {
    let files = find_traces::stream_files(folder).map(|found| found.files).unwrap_or_default();
    let sized = |file: PathBuf| Some((fs::metadata(&file).ok()?.len(), file));
    files.into_iter().filter_map(sized).map(|(bytes, file)| (file, bytes)).collect()
}

/// Reads the progress mark. Returns `None` if there is none, or if it is just being written.
fn read_progress(folder: &Path) -> Option<ProgressMark> {
    let file = super::files::open_regular(&folder.join(progress_mark::FILE)).ok()?;
    let mut bytes = Vec::with_capacity(progress_mark::BYTES + 1);
    file.take(progress_mark::BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    ProgressMark::decode(&bytes)
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
