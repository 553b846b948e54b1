//! Reads the folder of a recording at the relay as the messages with which it came, while it grows: for viewers on other
//! hosts.
//!
//! A look first finds the packets that are there, then sends the metadata, which describe at least these, and then the
//! packets. What the recorder has announced, the progress and the end, is read before the packets and sent after them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use strata_collect::Directory;
use strata_ctf::end_mark::{self, EndMark, Ending};
use strata_ctf::kernel_symbols;
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_ctf::progress_mark::{self, ProgressMark};
use strata_ctf::read::Follow;
use strata_relay::{FromGuest, FromRecorder, PacketBytes, FRAME_BYTES_MAX};

use crate::recording_folder::folder_names::is_session;
use crate::recording_folder::recording_state::{is_recording, lines_file, trace_lines, TraceLine};
use crate::recording_folder::recording_writer::STREAMS;

/// The most packets of one stream that are sent in one look at a recording. If there are more, the next look follows
/// at once.
const PACKETS_MAX: usize = 64;
const BYTES_MAX: u64 = 64 << 20;
/// Alignment of packets in a file \[byte\].
const ALIGN: u64 = 8;
/// Time without a lock of its folder after which a recording counts as one whose recorder was killed.
const UNLOCKED: Duration = Duration::from_secs(10);
/// The resolution of files' time stamps: another change within this time after a change may leave the time stamp
/// unchanged.
const TICK: Duration = Duration::from_millis(50);

/// Function that sends a message.
pub(crate) type Send<'s> = dyn FnMut(&FromRecorder<'_>) -> io::Result<()> + 's;

/// Packets that a viewer has already: the number of the last one, by trace and stream.
pub(crate) type Seen = HashMap<(u32, u32), u64>;

/// Result of looking for new data in a recording's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// True if more data may come; false if the recording has ended.
    pub(crate) is_recorded: bool,
    /// True if the look has reached its limits, so that more data are waiting.
    pub(crate) has_more: bool,
}

/// A recording's folder, as messages for a viewer, with the parts that were sent already.
#[derive(Debug)]
pub(crate) struct FolderMessages {
    folder: PathBuf,
    traces: BTreeMap<u32, SentTrace>,
    lines: FileStamp,
    unlocked: Option<Instant>,
    seen: Seen,
}

#[derive(Debug)]
struct SentTrace {
    line: TraceLine,
    folder: PathBuf,
    is_begun: bool,
    has_ended: bool,
    listed: FileStamp,
    streams: BTreeMap<u32, SentStream>,
    /// Files that are sent whole: metadata, and streams of one packet.
    files: BTreeMap<String, SentFile>,
    progress: Option<ProgressMark>,
}

/// A stream's file, up to the last packet that was sent.
#[derive(Debug, Default)]
struct SentStream {
    /// Offset and header of that packet; `None` if none was sent.
    last: Option<(u64, Header)>,
}

/// A packet that is to be sent, or a new end of the one before.
#[derive(Debug)]
enum Found {
    Packet { at: u64, header: Header },
    End { sequence: u64, end_ns: u64 },
}

/// Size and time stamp of a file when it was last read.
#[derive(Clone, Copy, Debug, Default)]
struct FileStamp {
    stamp: Option<(i64, i64, u64, u64)>,
    /// Time at which the last change was noticed; `None` once the file was read again some time after that change.
    changed: Option<Instant>,
}

impl FileStamp {
    /// Returns true if the file may have changed since the last call.
    fn has_changed(&mut self, path: &Path) -> bool {
        let found = path.symlink_metadata().ok();
        let found = found.map(|it| (it.mtime(), it.mtime_nsec(), it.len(), it.ino()));
        let is_same = found == self.stamp;
        self.stamp = found;
        if !is_same {
            self.changed = Some(Instant::now());
        }
        let may_differ = self.changed.is_some();
        if is_same && self.changed.is_some_and(|at| at.elapsed() > TICK) {
            self.changed = None;
        }
        found.is_some() && may_differ
    }
}

/// A file that is sent whole.
#[derive(Clone, Copy, Debug, Default)]
struct SentFile {
    stamp: FileStamp,
    /// Hash of the content that was sent; `None` if the file was not sent yet.
    hash: Option<u64>,
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    File::options().read(true).custom_flags(flags).open(path)
}

/// Reads a file of at most `most` bytes; `None` if it is not there.
fn whole(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() <= most {
        true => Ok(Some(bytes)),
        false => Err(io::Error::other(format!("{} has more than {most} bytes", path.display()))),
    }
}

fn mark(folder: &Path) -> Option<EndMark> {
    let bytes = whole(&folder.join(end_mark::FILE), 4096).ok()??;
    EndMark::decode(&bytes).ok().filter(|mark| mark.ending != Ending::Recording)
}

fn progress(folder: &Path) -> Option<ProgressMark> {
    ProgressMark::decode(&whole(&folder.join(progress_mark::FILE), 4096).ok()??)
}

impl FolderMessages {
    /// Prepares to send the recording in `folder`. `seen`: packets that the viewer has already.
    pub(crate) fn new(folder: &Directory, seen: Seen) -> FolderMessages {
        let (folder, lines) = (folder.path().to_owned(), FileStamp::default());
        FolderMessages { folder, traces: BTreeMap::new(), lines, unlocked: None, seen }
    }

    /// Sends the new data of the recording. `has_recorder`: true if the relay knows that the recorder is
    /// connected, or was just before.
    ///
    /// # Errors
    /// A file cannot be read, is damaged, or the message cannot be sent.
    pub(crate) fn look(&mut self, has_recorder: bool, send: &mut Send<'_>) -> io::Result<Looked> {
        let ended = mark(&self.folder);
        let is_killed = ended.is_none() && self.is_killed(Instant::now(), has_recorder);
        if self.lines.has_changed(&lines_file(&self.folder)) {
            for line in trace_lines(&self.folder)? {
                self.traces.entry(line.id).or_insert_with(|| SentTrace::new(&self.folder, line));
            }
        }
        let (mut bytes, mut has_more) = (0, false);
        for trace in self.traces.values_mut().filter(|trace| !trace.has_ended) {
            has_more |= bytes >= BYTES_MAX || trace.look(&self.seen, &mut bytes, send)?;
        }
        if let Some(EndMark { ending, losses, .. }) = ended.filter(|_| !has_more) {
            send(&FromRecorder::Close { ending, losses })?;
        }
        Ok(Looked { is_recorded: has_more || (ended.is_none() && !is_killed), has_more })
    }

    /// Returns whether the folder was not locked for some time, so that the recorder counts as killed.
    fn is_killed(&mut self, now: Instant, has_recorder: bool) -> bool {
        // Not every file system has locks.
        self.unlocked = match has_recorder || Follow::is_recorded(&self.folder) {
            true => None,
            false => Some(self.unlocked.unwrap_or(now)),
        };
        self.unlocked.is_some_and(|since| now.saturating_duration_since(since) > UNLOCKED)
    }
}

impl SentTrace {
    fn new(recording: &Path, line: TraceLine) -> SentTrace {
        let mut folder = recording.join(&line.layer);
        if !line.folder.is_empty() {
            folder.push(&line.folder);
        }
        SentTrace {
            line,
            folder,
            is_begun: false,
            has_ended: false,
            listed: FileStamp::default(),
            streams: BTreeMap::new(),
            files: BTreeMap::new(),
            progress: None,
        }
    }

    /// Sends the new data of this trace. Returns true if there is more.
    fn look(&mut self, seen: &Seen, bytes: &mut u64, send: &mut Send<'_>) -> io::Result<bool> {
        let id = self.line.id;
        if !self.folder.join("metadata").exists() {
            // A trace that has ended without a packet is removed.
            if std::mem::take(&mut self.is_begun) {
                self.has_ended = true;
                send(&FromRecorder::Data(FromGuest::Gone { id }))?;
            }
            return Ok(false);
        }
        let (ended, progress) = (mark(&self.folder), progress(&self.folder));
        self.list()?;
        let mut has_more = false;
        let mut found = Vec::new();
        for (&number, stream) in &mut self.streams {
            let path = self.folder.join(format!("{STREAMS}_{number}"));
            let upto = seen.get(&(id, number)).copied();
            let (packets, is_all) = stream.find(&path, upto)?;
            has_more |= !is_all;
            if !packets.is_empty() {
                found.push((number, path, packets));
            }
        }
        self.send_files(send)?;
        for (stream, path, packets) in found {
            let file = open(&path)?;
            for packet in packets {
                *bytes = bytes.saturating_add(send_packet(&file, (id, stream), packet, send)?);
            }
        }
        if has_more {
            return Ok(true);
        }
        if let Some(mark) = progress.filter(|mark| self.progress.as_ref() != Some(mark)) {
            self.progress = Some(mark);
            send(&FromRecorder::Progress { id, mark })?;
        }
        if let Some(EndMark { ending, losses, .. }) = ended {
            self.has_ended = true;
            send(&FromRecorder::Data(FromGuest::Ended { id, ending, losses }))?;
        }
        Ok(false)
    }

    /// Looks for files that are new in the folder.
    fn list(&mut self) -> io::Result<()> {
        if !self.listed.has_changed(&self.folder) {
            return Ok(());
        }
        let entries = std::fs::read_dir(&self.folder)?.flatten();
        // Another trace may have its folder in this one.
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix(STREAMS).and_then(|rest| rest.strip_prefix('_'));
            match number.and_then(|number| number.parse::<u32>().ok()) {
                Some(number) => drop(self.streams.entry(number).or_default()),
                None if !name.starts_with('.') => {
                    self.files.entry(name).or_default();
                }
                None if name == kernel_symbols::FILE => {
                    self.files.entry(name).or_default();
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Sends files that have changed, the metadata first.
    fn send_files(&mut self, send: &mut Send<'_>) -> io::Result<()> {
        let id = self.line.id;
        let names: Vec<String> = self.files.keys().cloned().collect();
        let (first, others): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name == "metadata");
        for name in first.into_iter().chain(others) {
            let path = self.folder.join(&name);
            let Some(file) = self.files.get_mut(&name) else { continue };
            if !file.stamp.has_changed(&path) {
                continue;
            }
            let Some(bytes) = whole(&path, FRAME_BYTES_MAX - 512)? else { continue };
            let hash = Some(hash_of(&bytes));
            if std::mem::replace(&mut file.hash, hash) == hash {
                continue;
            }
            if name == "metadata" {
                self.begin(send)?;
                let text = std::str::from_utf8(&bytes).map_err(io::Error::other)?;
                send(&FromRecorder::Data(FromGuest::Metadata { id, keep: 0, text }))?;
            } else if name == kernel_symbols::FILE {
                send(&FromRecorder::Data(FromGuest::Symbols { id, bytes: &bytes }))?;
            } else if let Some((header, body)) = packet_in(&bytes) {
                let packet = PacketBytes { header, body };
                send(&FromRecorder::Data(FromGuest::Stream { id, name: &name, packet }))?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, send: &mut Send<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let TraceLine { id, layer, folder } = &self.line;
        // The folder of a process is its name and number, which make the same folder again.
        let process = folder.rsplit_once('-').and_then(|(name, pid)| {
            let pid = pid.parse().ok()?;
            Some((pid, name.to_owned()))
        });
        send(&FromRecorder::Begin { id: *id, layer: layer.clone(), process })
    }
}

impl SentStream {
    /// Looks for packets after the last one that was sent, and for a new end of that packet. Returns these, and
    /// whether they are all. `upto`: packets up to this number are skipped.
    fn find(&mut self, path: &Path, upto: Option<u64>) -> io::Result<(Vec<Found>, bool)> {
        let mut found = Vec::new();
        let file = match open(path) {
            // A file that is removed with its trace.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((found, true)),
            opened => opened?,
        };
        let bytes = file.metadata()?.len();
        while found.len() < PACKETS_MAX {
            let Some((at, before)) = self.last else {
                let Some(header) = header_at(&file, 0, bytes)? else { return Ok((found, true)) };
                self.take(0, header, upto, &mut found);
                continue;
            };
            // The last packet is padded up to the end of the file. It shrinks when the next one is there.
            let header = header_at(&file, at, bytes)?.ok_or(io::ErrorKind::InvalidData)?;
            if header.timestamp_end != before.timestamp_end {
                let (sequence, end_ns) = (header.sequence, header.timestamp_end);
                if upto.is_none_or(|upto| sequence >= upto) {
                    found.push(Found::End { sequence, end_ns });
                }
                self.last = Some((at, header));
            }
            let content = (header.content_bits / 8).div_ceil(ALIGN) * ALIGN;
            let next = at.saturating_add(header.packet_bits / 8);
            if next != at.saturating_add(content) || next >= bytes {
                return Ok((found, true));
            }
            let Some(following) = header_at(&file, next, bytes)? else {
                return Ok((found, true));
            };
            // A page that is added before a packet is written looks like a packet without records.
            let is_filler = following.content_bits / 8 <= HEADER_BYTES as u64
                && following.timestamp_begin == header.timestamp_end
                && following.timestamp_end == header.timestamp_end
                && following.discarded == header.discarded;
            if is_filler {
                return Ok((found, true));
            }
            self.take(next, following, upto, &mut found);
        }
        Ok((found, false))
    }

    fn take(&mut self, at: u64, header: Header, upto: Option<u64>, found: &mut Vec<Found>) {
        self.last = Some((at, header));
        match upto.map(|upto| header.sequence.cmp(&upto)) {
            None | Some(Ordering::Greater) => found.push(Found::Packet { at, header }),
            // Its end may have changed since it was sent.
            Some(Ordering::Equal) => {
                let (sequence, end_ns) = (header.sequence, header.timestamp_end);
                found.push(Found::End { sequence, end_ns });
            }
            Some(Ordering::Less) => {}
        }
    }
}

/// Reads the header of the packet at an offset; `None` if the file ends before it.
fn header_at(file: &File, at: u64, bytes: u64) -> io::Result<Option<Header>> {
    if at.saturating_add(HEADER_BYTES as u64) > bytes {
        return Ok(None);
    }
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, at)?;
    let header = Header::decode(&head).ok_or(io::ErrorKind::InvalidData)?;
    let (content, packet) = (header.content_bits / 8, header.packet_bits / 8);
    let is_whole = content >= HEADER_BYTES as u64 && content <= packet && packet > 0;
    is_whole.then_some(Some(header)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends a packet. Returns its size \[byte\].
fn send_packet(
    file: &File,
    (id, stream): (u32, u32),
    found: Found,
    send: &mut Send<'_>,
) -> io::Result<u64> {
    let (at, header) = match found {
        Found::Packet { at, header } => (at, header),
        Found::End { sequence, end_ns } => {
            send(&FromRecorder::SetEnd { id, stream, sequence, end_ns })?;
            return Ok(0);
        }
    };
    let content = header.content_bits / 8 - HEADER_BYTES as u64;
    let size = usize::try_from(content).ok().filter(|size| *size < FRAME_BYTES_MAX - 512);
    let mut body = vec![0; size.ok_or(io::ErrorKind::InvalidData)?];
    file.read_exact_at(&mut body, at + HEADER_BYTES as u64)?;
    let packet = PacketBytes { header: header.with_content_bytes(content), body: &body };
    send(&FromRecorder::Data(FromGuest::Packet { id, stream, upto: 0, packet }))?;
    Ok(header.content_bits / 8)
}

/// Returns header and content of a file that is one packet.
fn packet_in(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::decode(head)?;
    let content = usize::try_from(header.content_bits / 8).ok()?.checked_sub(HEADER_BYTES)?;
    let body = rest.get(..content)?;
    Some((header.with_content_bytes(content as u64), body))
}

/// Opens the folder of the recording that a viewer wants from a host: the one of this name; else the newest one whose
/// name begins with this name and `-`; without a name, the newest one.
///
/// # Errors
/// There is none; the text names those that there are.
pub(crate) fn find_recording(
    root: &Directory,
    host: &str,
    session: &str,
) -> Result<Directory, String> {
    let above = root.path().join(host);
    let mut all: Vec<(Option<std::time::SystemTime>, String)> = std::fs::read_dir(&above)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_recording(&entry.path()))
        .map(|entry| {
            let begun = lines_file(&entry.path()).metadata();
            let begun = begun.and_then(|about| about.created().or_else(|_| about.modified())).ok();
            (begun, entry.file_name().to_string_lossy().into_owned())
        })
        .filter(|(_, name)| is_session(name))
        .collect();
    all.sort();
    let prefix = format!("{session}-");
    let fits = |name: &str| session.is_empty() || name.starts_with(&prefix);
    let exact = all.iter().find(|(_, name)| name == session);
    let Some((_, name)) = exact.or_else(|| all.iter().rev().find(|(_, name)| fits(name))) else {
        let newest: Vec<&str> = all.iter().rev().take(5).map(|(_, name)| name.as_str()).collect();
        return Err(match newest.is_empty() {
            true => format!("the relay has no recording of host '{host}'"),
            false => format!(
                "the relay has no recording '{session}' of host '{host}'; the newest are {}",
                newest.join(", ")
            ),
        });
    };
    let failed = |error: strata_collect::Error| error.to_string();
    let host_folder = Directory::open_in(root.as_fd(), OsStr::new(host), &above).map_err(failed)?;
    let path = above.join(name);
    Directory::open_in(host_folder.as_fd(), OsStr::new(name), &path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_once_more_after_the_tick_in_which_it_changed() {
        let scratch = crate::testing::Scratch::new("stamp");
        let mut stamp = FileStamp::default();
        assert!(stamp.has_changed(&scratch.0) && stamp.has_changed(&scratch.0));
        // The next look comes much later, and another change may have left the time as it is.
        stamp.changed = stamp.changed.and_then(|at| at.checked_sub(2 * TICK));
        assert!(stamp.has_changed(&scratch.0));
        assert!(!stamp.has_changed(&scratch.0));
        std::fs::write(scratch.0.join("file"), "").unwrap();
        let other = scratch.0.join("file");
        assert!(stamp.has_changed(&other) && !stamp.has_changed(&scratch.0.join("none")));
    }
}
