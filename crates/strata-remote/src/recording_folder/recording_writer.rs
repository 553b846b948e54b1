//! A recording at the relay: writes the recorder's messages as traces in a folder.
//!
//! ```text
//! connection ─▶ open() ─▶ take(message), take(message) ... ─▶ note(), set_durable() ─▶ acknowledged to the recorder
//!                 │ new: makes the folder below its host's            └─ park() ─▶ ClosedRecording ─ reopen() on a new connection
//!                 │ known: continues after the last message
//!                 └ after a reboot: recover() continues after the last durable message
//! ```
//!
//! Each message is checked before it changes a file. Messages may arrive a second time after the relay was killed:
//! packets that a file already has are skipped, and all other messages may be applied twice.
//!
//! - The number of the next message is in the folder's state file (`recording_state.rs`), with the number before
//!   which all is on the disk. A recorder repeats from there.
//! - [`FilesState`] says what the files are worth when a recording continues: written, durable or doubtful.
//! - At most [`OPEN_MAX`] traces have open folders. Others are closed, and opened again when they get a message.
//! - The recorder's host has a clock of its own. `host_clock.rs` bounds its offset to this machine's, and the
//!   metadata are rewritten with it.
//!
//! One thread uses a writer at a time: that of its connection. A [`Problem`] ends the connection; `is_passing` says
//! that the same messages may be taken later, such as when the disk has space again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use strata_collect::{cut_packets, end_mark, Body, ClosedFiles, Directory, Files, Sink};
use strata_ctf::end_mark::{EndMark, Ending, Losses};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::Uuid;
use strata_relay::{
    uuid_of, FromGuest, FromRecorder, Last, PacketBytes, Streams, METADATA_BYTES_MAX,
};

use crate::recording_folder::folder_names;
use crate::recording_folder::host_clock::HostClock;
use crate::recording_folder::problem::Problem;
use crate::recording_folder::recording_state::{
    this_boot, NextMark, Remembered, StateFiles, TraceLine,
};
use crate::recording_folder::trace_metadata::{metadata_in, parsing_turn, uuid_in};

/// Prefix of the names of stream files, before the stream's number.
pub(crate) const STREAMS: &str = "channel0";
/// The most traces of one recording.
pub(crate) const TRACES_MAX: usize = 16_384;
/// The most streams of one recording.
pub(crate) const STREAMS_MAX: u64 = 1 << 16;
/// The most traces of one recording whose folders are open at the same time.
const OPEN_MAX: usize = 64;
/// Name of the file that marks a recording which the relay's command has taken.
pub(crate) const DELIVERED: &str = ".strata-delivered";
/// The most folder names that are tried for a recording, and for processes with the same name and number.
const TRIES: u32 = 1000;
/// Size of the shortest event record \[byte\].
const RECORD_BYTES_MIN: u64 = 4;
/// The least size with which a file counts towards limits \[byte\].
const FILE_BYTES: u64 = 4096;

/// How far the files of a continued recording can be trusted to have everything that its state file counts as
/// received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilesState {
    /// The files have everything that was written to them.
    Written,
    /// The files have everything that was written to them. Data that are not known to be on the disk are requested
    /// again all the same.
    Durable,
    /// A write to the disk has failed. The files may have wrong bytes in place of data that were not forced to the
    /// disk.
    Doubted,
}

/// The writer of a recording's folder, with the progress of its messages.
#[derive(Debug)]
pub(crate) struct RecordingWriter {
    folder: Directory,
    state: StateFiles,
    traces: BTreeMap<u32, ReceivedTrace>,
    /// Number of the message that the relay expects next.
    next: u64,
    /// That number as last written to the state file, and the number before which everything was forced to the disk.
    noted: u64,
    durable: u64,
    /// UUID of this machine's boot.
    boot: Uuid,
    /// True if the files were written in another boot, or could not be forced to the disk: data after the durable
    /// part may be wrong.
    is_of_other_boot: bool,
    /// Bytes that were written since the folder was made or opened \[byte\].
    bytes: u64,
    /// Event records that were discarded, as counted by packets since the folder was made or opened.
    discarded: u64,
    /// True if packets are discarded, because the host's share of the space is used up.
    is_full: bool,
    /// Number of event records in packets that were discarded for lack of space: in all messages, and in those before
    /// the durable number.
    quota: u64,
    durable_quota: u64,
    /// True if the recorder has reported how the recording ended.
    is_closed: bool,
    /// True if the folder says that the recording has ended, which an earlier connection has written.
    has_end_mark: bool,
    /// The number of messages, and that of records that were left out, before messages were requested again: what comes a second
    /// time does not count.
    before: (u64, u64),
    /// The number of records that were left out, as the folder's mark has it.
    marked_quota: u64,
    /// Clock of the recorder's host; `None` if it is the relay's.
    clock: Option<HostClock>,
    /// Number of times that the known relation to the host's clock has changed.
    clock_periods: u64,
    /// Counter of uses of traces, to find the folder that was not used for the longest time.
    uses: u64,
}

/// A trace of the recording.
#[derive(Debug)]
struct ReceivedTrace {
    line: TraceLine,
    /// Files and checks of the trace; `None` if they were closed, or not opened yet.
    open: Option<Box<OpenTrace>>,
    /// The state of the trace without descriptors, if it was closed so that others could be opened.
    closed: Option<Box<ClosedTrace>>,
    /// Folder of the trace, which an earlier connection has locked; `None` if it has to be opened.
    held: Option<Directory>,
    /// Number of streams that the trace had when it ended.
    streams: u64,
    used: u64,
    /// Value of [`RecordingWriter::clock_periods`] when the clock was last written into the metadata.
    described: u64,
}

/// A trace whose folder is open.
#[derive(Debug)]
struct OpenTrace {
    files: Files,
    /// UUID in the metadata; `None` if no metadata have arrived yet.
    uuid: Option<Uuid>,
    streams: Streams,
    /// Last packet of each stream in the files at the time when they were first opened.
    before: BTreeMap<u32, Last>,
}

/// A trace whose folder was closed so that those of others could be opened.
#[derive(Debug)]
struct ClosedTrace {
    files: ClosedFiles,
    uuid: Option<Uuid>,
    streams: Streams,
    before: BTreeMap<u32, Last>,
}

impl OpenTrace {
    fn close(self) -> ClosedTrace {
        let OpenTrace { files, uuid, streams, before } = self;
        ClosedTrace { files: files.close().1, uuid, streams, before }
    }
}

impl ClosedTrace {
    fn open(self, directory: Directory) -> OpenTrace {
        let ClosedTrace { files, uuid, streams, before } = self;
        OpenTrace { files: files.open(directory), uuid, streams, before }
    }
}

/// The folders of a recording without a connection. They stay locked, so that viewers do not take the recorder for
/// killed.
#[derive(Debug)]
pub(crate) struct ClosedRecording {
    folder: Directory,
    traces: Vec<(TraceLine, Directory)>,
}

impl ClosedRecording {
    /// Returns the number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        self.traces.len() + 1
    }

    /// Goes on with the recording on another connection. Returns `None` if the folder was removed or changed.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn reopen(
        self,
        (recording, first): (Uuid, u64),
        kept: FilesState,
    ) -> Result<Option<RecordingWriter>, Problem> {
        let ClosedRecording { folder, traces } = self;
        let path = folder.path().to_owned();
        let failed = |error: io::Error| Problem::of(&path, error);
        if !folder.is_at_its_path() {
            return Ok(None);
        }
        let remembered = StateFiles::open(&folder).map_err(failed)?;
        let Some(remembered) = remembered.filter(|found| found.recording == recording) else {
            return Ok(None);
        };
        let mut received =
            RecordingWriter::go_on(folder, remembered, (first, kept)).map_err(failed)?;
        for (line, held) in traces {
            let trace = received.traces.get_mut(&line.id).filter(|one| one.line == line);
            if let Some(trace) = trace.filter(|_| held.is_at_its_path()) {
                trace.held = Some(held);
            }
        }
        Ok(Some(received))
    }
}

impl RecordingWriter {
    /// Opens the folder of a recording below that of its host, or creates it if the host has fewer than `most`
    /// recordings. `first`: the recorder knows that all messages before this one are on the disk. `kept`: the state
    /// that an earlier connection has left.
    ///
    /// # Errors
    /// The host has too many recordings, the folder belongs to another recording and no other name is free, or a system
    /// call failed.
    pub(crate) fn open(
        host: &Directory,
        session: &str,
        (recording, first): (Uuid, u64),
        most: u64,
        kept: FilesState,
    ) -> Result<RecordingWriter, Problem> {
        let boot = this_boot();
        let here = std::fs::read_dir(host.path()).map_or(0, |all| all.count() as u64);
        for number in 1..=TRIES {
            let name = match number {
                1 => session.to_owned(),
                _ => format!("{session}-{number}"),
            };
            let path = host.path().join(&name);
            let failed = |error: io::Error| Problem::of(&path, error);
            // A recording that exists may continue.
            if here >= most && path.symlink_metadata().is_err() {
                return Err(format!(
                    "the host has {here} recordings at the relay, and may have {most}. Remove some there"
                )
                .into());
            }
            let made = Directory::create_in(host.as_fd(), OsStr::new(&name), &path);
            let found = match made {
                Ok(folder) => {
                    let state = match begin_recording(&folder, recording, boot) {
                        Ok(state) => state,
                        Err(problem) => {
                            remove_begun(host, &name, &folder);
                            return Err(problem);
                        }
                    };
                    let mark = NextMark { boot, ..NextMark::default() };
                    return Ok(RecordingWriter::new(folder, state, Vec::new(), mark, boot));
                }
                Err(strata_collect::Error::Exists { .. }) => {
                    Directory::open_in(host.as_fd(), OsStr::new(&name), &path)
                }
                Err(error) => {
                    // It may have been made, and not opened, for want of descriptors: nothing is in it then.
                    let _ = rustix::fs::unlinkat(host, name.as_str(), AtFlags::REMOVEDIR);
                    return Err(error.into());
                }
            };
            let folder = found?;
            match StateFiles::open(&folder).map_err(failed)? {
                Some(remembered) if remembered.recording == recording => {
                    folder.lock();
                    return RecordingWriter::go_on(folder, remembered, (first, kept))
                        .map_err(failed);
                }
                _ => {}
            }
        }
        Err(format!("{TRIES} recordings have this name. Remove some, or use another name").into())
    }

    /// Closes everything except the folders, which stay locked until the recorder connects again.
    pub(crate) fn park(self) -> ClosedRecording {
        let RecordingWriter { folder, traces, .. } = self;
        let folder_of = |trace: ReceivedTrace| {
            let held = trace.held.or_else(|| Some(trace.open?.files.close().0))?;
            Some((trace.line, held))
        };
        let traces = traces.into_values().filter_map(folder_of).collect();
        ClosedRecording { folder, traces }
    }

    /// Goes on with a recording whose folder is open and locked.
    fn go_on(
        folder: Directory,
        remembered: Remembered,
        (first, kept): (u64, FilesState),
    ) -> io::Result<RecordingWriter> {
        // What comes now is not delivered.
        let _ = rustix::fs::unlinkat(&folder, DELIVERED, AtFlags::empty());
        let boot = this_boot();
        let Remembered { files, traces, next, .. } = remembered;
        let mut received = RecordingWriter::new(folder, files, traces, next, boot);
        received.has_end_mark = has_ended(received.folder.path());
        // A boot that is not known may be any.
        let is_of_other_boot = next.boot != boot || boot == Uuid::default();
        if is_of_other_boot || kept == FilesState::Doubted {
            received.recover(first)?;
        } else if kept == FilesState::Durable {
            received.want_again(first);
        }
        Ok(received)
    }

    fn new(
        folder: Directory,
        state: StateFiles,
        lines: Vec<TraceLine>,
        mark: NextMark,
        boot: Uuid,
    ) -> RecordingWriter {
        let traces = lines.into_iter().map(|line| (line.id, ReceivedTrace::new(line)));
        let (traces, bytes, is_closed) = (traces.collect(), 0, false);
        let NextMark { next, durable, quota, durable_quota, .. } = mark;
        let is_of_other_boot = false;
        RecordingWriter {
            folder,
            state,
            traces,
            next,
            noted: next,
            durable,
            boot,
            is_of_other_boot,
            discarded: 0,
            bytes,
            is_full: false,
            quota,
            durable_quota,
            before: (0, 0),
            marked_quota: 0,
            is_closed,
            has_end_mark: false,
            clock: None,
            clock_periods: 0,
            uses: 0,
        }
    }

    /// Makes the metadata relate the traces' clock to that of this machine, which was 0 at `wall_ns` after 1970.
    /// `host_boot` is the UUID of the host's boot.
    pub(crate) fn translate_times(&mut self, host_boot: Uuid, wall_ns: i64) {
        if host_boot == self.boot || host_boot == Uuid::default() {
            return;
        }
        let mut clock = HostClock::new(host_boot, wall_ns);
        clock.load(&self.folder, self.boot);
        self.clock = Some(clock);
    }

    /// Returns the clock of the recorder's host; `None` if it is the relay's.
    pub(crate) fn clock(&mut self) -> Option<&mut HostClock> {
        self.clock.as_mut()
    }

    /// Writes the known relation to the host's clock into the metadata of all open traces, if that is due or the
    /// connection ends.
    pub(crate) fn write_clock(&mut self, is_end: bool) {
        let Some(clock) = self.clock.as_mut().filter(|clock| is_end || clock.is_due()) else {
            return;
        };
        clock.begin_period();
        self.clock_periods += 1;
        // Without the file, a relay that is started again knows less.
        let _ = clock.save(&self.folder, self.boot);
        for one in self.traces.values_mut() {
            if let Some(open) = one.open.as_deref_mut() {
                describe_again(open, clock, false);
                one.described = self.clock_periods;
            }
        }
    }

    /// Continues after the machine was started again, from the last message that was forced to the disk. Later data
    /// in the files are cut off when they are received again.
    fn recover(&mut self, first: u64) -> io::Result<()> {
        self.want_again(first);
        self.is_of_other_boot = true;
        self.note_again().map(drop)
    }

    /// Continues from the last message that was forced to the disk, and requests the later ones again.
    fn want_again(&mut self, first: u64) {
        // The last acknowledgement may be later than what the file says of it, and is believed: it was this relay's.
        let all = self.next;
        self.before = (all, self.quota);
        self.next = self.durable.max(first.min(all));
        self.durable = self.next;
        // Whenever it changes, it is noted before the recorder is told, though maybe not on the disk: then the one of all is.
        match self.next == all {
            true => self.durable_quota = self.quota,
            false => self.quota = self.durable_quota,
        }
    }

    /// Notes that data that were not forced to the disk may be wrong, since writing them has failed.
    pub(crate) fn doubt(&mut self) {
        self.is_of_other_boot = true;
    }

    /// Notes that all messages before `next` were forced to the disk. Returns true if the number of records that were left out
    /// of them is another one, which is to be in the state file before the recorder is told.
    pub(crate) fn set_durable(&mut self, next: u64) -> bool {
        self.durable = next;
        std::mem::replace(&mut self.durable_quota, self.quota) != self.quota
    }

    /// Sets whether packets are discarded from now on, because the host's share of the space is used up.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Returns the number of event records in packets that were discarded for lack of space, and whether packets are
    /// discarded now.
    pub(crate) fn quota(&self) -> (u64, bool) {
        (self.quota, self.is_full)
    }

    /// Returns the number before which all messages were forced to the disk.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the number of the message that is wanted next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of the last packet of each stream, by trace and stream.
    pub(crate) fn last_packets(&self) -> Vec<(u32, u32, u64)> {
        let of = |(&id, trace): (&u32, &ReceivedTrace)| {
            let open = trace.open.as_ref().map(|open| &open.streams);
            let streams = open.or_else(|| trace.closed.as_ref().map(|closed| &closed.streams));
            let lasts = streams.into_iter().flat_map(Streams::lasts);
            lasts.map(|(stream, sequence)| (id, stream, sequence)).collect::<Vec<_>>()
        };
        self.traces.iter().flat_map(of).collect()
    }

    /// Returns the number of messages, and that of records that were left out for lack of space, without what came again.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.next.max(self.before.0), self.quota.max(self.before.1))
    }

    /// Returns the folder's path.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns true if the recorder has reported how the recording ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the number of discarded event records, as counted by packets that arrived since the folder was opened.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Returns the number of bytes that were written since the folder was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the number of received messages to the state file. Returns the number before which messages may be
    /// acknowledged.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn note(&mut self) -> io::Result<u64> {
        if self.noted != self.next {
            let RecordingWriter { next, durable, quota, durable_quota, .. } = *self;
            // Until all that may be torn has come again, a connection that breaks must find it so the next time.
            let boot = if self.is_of_other_boot { Uuid::default() } else { self.boot };
            self.state.set_next(&NextMark { next, durable, boot, quota, durable_quota })?;
            self.noted = self.next;
            // For readers, should the recorder be killed.
            if quota != self.marked_quota && !self.is_closed && !self.has_end_mark {
                let mark = self.end_of_recording(Ending::Recording, Losses::default());
                let marked = end_mark(self.folder.as_fd(), self.folder.path(), &mark);
                marked.map_err(|error| io::Error::other(error.to_string()))?;
                self.marked_quota = quota;
            }
        }
        Ok(self.noted)
    }

    /// Writes the number again although it is unchanged, since its durability has changed.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn note_again(&mut self) -> io::Result<u64> {
        self.noted = u64::MAX;
        self.note()
    }

    /// Carries out a numbered message of the recorder.
    ///
    /// # Errors
    /// Why the relay takes no more messages.
    pub(crate) fn take(&mut self, said: &FromRecorder<'_>) -> Result<(), Problem> {
        if self.has_end_mark && !matches!(said, FromRecorder::Close { .. }) {
            // It goes on after all: readers must not take it for complete.
            let mark = self.end_of_recording(Ending::Recording, Losses::default());
            end_mark(self.folder.as_fd(), self.folder.path(), &mark)?;
            self.has_end_mark = false;
        }
        match said {
            FromRecorder::Open(_) => return Err("it opens a second recording".into()),
            FromRecorder::Begin { id, layer, process } => self.begin(*id, layer, process.as_ref()),
            FromRecorder::Progress { id, mark } => {
                self.trace(*id)?.files.set_progress(mark).map_err(Problem::from)
            }
            FromRecorder::SetEnd { id, stream, sequence, end_ns } => {
                self.set_end(*id, *stream, *sequence, *end_ns)
            }
            FromRecorder::Data(said) => self.data(said),
            FromRecorder::Close { ending, losses } => {
                self.is_closed = true;
                let mark = self.end_of_recording(*ending, *losses);
                let path = self.folder.path();
                end_mark(self.folder.as_fd(), path, &mark).map_err(Problem::from)
            }
        }?;
        self.next += 1;
        Ok(())
    }

    fn begin(
        &mut self,
        id: u32,
        layer: &str,
        process: Option<&(u32, String)>,
    ) -> Result<(), Problem> {
        if !folder_names::is_layer(layer) {
            return Err(format!("'{}' can be no layer's folder", layer.escape_debug()).into());
        }
        if self.traces.contains_key(&id) {
            // The trace was begun before the relay was killed, or the recorder uses a number twice, which harms only
            // its own traces.
            return self.trace(id).map(drop);
        }
        if self.traces.len() >= TRACES_MAX {
            return Err(format!("it has more than {TRACES_MAX} traces").into());
        }
        let base = process.map(|(pid, name)| folder_names::process_folder(name, *pid));
        let folder = match base {
            None => String::new(),
            Some(base) => self.free_name(layer, &base)?,
        };
        let is_taken = |one: &ReceivedTrace| one.line.layer == layer && one.line.folder == folder;
        if self.traces.values().any(is_taken) {
            return Err(format!("it has two traces of '{layer}'").into());
        }
        let line = TraceLine { id, layer: layer.to_owned(), folder };
        self.state.add(&line)?;
        self.traces.insert(id, ReceivedTrace::new(line));
        self.bytes += FILE_BYTES;
        self.trace(id).map(drop)
    }

    /// Returns a folder name that no other trace of the layer has.
    fn free_name(&self, layer: &str, base: &str) -> Result<String, Problem> {
        let is_free = |name: &String| {
            self.traces.values().all(|one| one.line.layer != layer || one.line.folder != *name)
        };
        let numbered = (2..=TRIES).map(|number| format!("{base}-{number}"));
        let free = std::iter::once(base.to_owned()).chain(numbered).find(is_free);
        free.ok_or_else(|| format!("it has more than {TRIES} traces of one process").into())
    }

    /// Returns the trace, after opening its folder if necessary.
    fn trace(&mut self, id: u32) -> Result<&mut OpenTrace, Problem> {
        self.uses += 1;
        let uses = self.uses;
        let trace = self.traces.get_mut(&id);
        let trace = trace.ok_or_else(|| format!("it names trace {id}, which it did not begin"))?;
        trace.used = uses;
        if trace.open.is_none() {
            close_all_but(&mut self.traces, OPEN_MAX - 1);
            let opened = match self.open_trace(id) {
                // Where descriptors are scarce, one trace at a time still goes on.
                Err(problem) if problem.is_passing => {
                    close_all_but(&mut self.traces, 0);
                    self.open_trace(id)?
                }
                opened => opened?,
            };
            let trace = self.traces.get_mut(&id).ok_or("a trace is not there")?;
            let opened = trace.open.insert(Box::new(opened));
            // What was written while it was closed is not for the records that come now.
            if let Some(clock) =
                self.clock.as_ref().filter(|_| trace.described != self.clock_periods)
            {
                describe_again(opened, clock, false);
                trace.described = self.clock_periods;
            }
        }
        let trace = self.traces.get_mut(&id).and_then(|one| one.open.as_deref_mut());
        trace.ok_or_else(|| "a trace is not open".into())
    }

    /// Opens the folder of a trace, and continues its files. The files are read only if that was not done before.
    fn open_trace(&mut self, id: u32) -> Result<OpenTrace, Problem> {
        let RecordingWriter { folder, traces, is_of_other_boot, .. } = self;
        let trace = traces.get_mut(&id).ok_or("a trace is not there")?;
        let directory = match trace.held.take() {
            Some(held) => held,
            None => trace_folder(folder, &trace.line)?,
        };
        match trace.closed.take() {
            Some(closed) => {
                directory.lock();
                Ok(closed.open(directory))
            }
            None => read_trace(directory, *is_of_other_boot),
        }
    }

    fn data(&mut self, said: &FromGuest<'_>) -> Result<(), Problem> {
        match said {
            FromGuest::Metadata { id, keep, text } => {
                if *keep != 0 || text.len() > METADATA_BYTES_MAX {
                    return Err(format!("metadata of a trace come in pieces, or have more than {METADATA_BYTES_MAX} bytes").into());
                }
                let turn = parsing_turn();
                let uuid = uuid_of(text).map_err(|problem| problem.to_string())?;
                let described = self.clock.as_ref().and_then(|clock| clock.describe(text, false));
                drop(turn);
                let trace = self.trace(*id)?;
                if trace.uuid.is_some_and(|known| known != uuid) {
                    return Err("a trace has another UUID than before".into());
                }
                trace.files.set_metadata(described.as_deref().unwrap_or(text))?;
                trace.uuid = Some(uuid);
                self.bytes += text.len() as u64;
                Ok(())
            }
            FromGuest::Symbols { id, bytes } => {
                self.trace(*id)?.files.set_symbols(bytes)?;
                self.bytes += bytes.len() as u64;
                Ok(())
            }
            FromGuest::Packet { id, stream, upto: records, packet } => {
                self.packet(*id, *stream, packet, *records)
            }
            FromGuest::Stream { id, name, packet } => {
                let trace = self.trace(*id)?;
                let uuid = trace.uuid.ok_or(BEFORE_METADATA)?;
                let (header, bytes) = (&packet.header, packet.body.len() as u64);
                let taken = trace.streams.take_other(uuid, header, bytes);
                taken.map_err(|problem| problem.to_string())?;
                trace.files.set_stream(name, &header.encode(), packet.body)?;
                self.bytes += bytes + FILE_BYTES;
                self.check_streams()
            }
            FromGuest::Ended { id, ending, losses } => {
                self.trace(*id)?;
                let open = self.traces.get_mut(id).and_then(|one| one.open.as_deref_mut());
                if let (Some(clock), Some(trace)) = (&self.clock, open) {
                    describe_again(trace, clock, true);
                }
                self.trace(*id)?.files.end(*ending, *losses)?;
                self.forget(*id);
                Ok(())
            }
            // The numbers are for viewers; the files have their own.
            FromGuest::Counted { id, .. } => match self.traces.contains_key(id) {
                true => Ok(()),
                false => Err(format!("it counts for trace {id}, which it did not begin").into()),
            },
            FromGuest::Gone { id } => self.gone(*id),
            FromGuest::Hello(_)
            | FromGuest::Trace { .. }
            | FromGuest::SetEnd { .. }
            | FromGuest::Memory { .. }
            | FromGuest::Pong { .. }
            | FromGuest::End => Err("it says what only guests say".into()),
        }
    }

    fn packet(
        &mut self,
        id: u32,
        stream: u32,
        packet: &PacketBytes<'_>,
        records: u64,
    ) -> Result<(), Problem> {
        let trace = self.trace(id)?;
        let uuid = trace.uuid.ok_or(BEFORE_METADATA)?;
        let (header, bytes) = (packet.header, packet.body.len() as u64);
        if self.is_of_other_boot {
            self.cut(id, stream, packet.header.sequence)?;
        }
        let trace = self.trace(id)?;
        // After the relay was killed, the recorder sends again what the relay has already.
        if trace.before.get(&stream).is_some_and(|last| header.sequence <= last.sequence) {
            return Ok(());
        }
        // An empty one says how many records its recorder has discarded.
        if self.is_full && !packet.body.is_empty() {
            // A number that is not known is one at least.
            let records = records.min(bytes / RECORD_BYTES_MIN).max(1);
            self.quota = self.quota.saturating_add(records);
            return Ok(());
        }
        let trace = self.trace(id)?;
        let streams = trace.streams.count();
        let told = trace.streams.last(stream).map_or(0, |last| last.discarded);
        let taken = trace.streams.take(uuid, stream, &header, bytes);
        taken.map_err(|problem| problem.to_string())?;
        trace.before.remove(&stream);
        let is_new = trace.streams.count() > streams;
        let body = Body::Bytes(packet.body);
        trace.files.append(stream, header, &body)?;
        if let Some(clock) = &mut self.clock {
            clock.see(header.timestamp_begin, header.timestamp_end);
        }
        self.bytes += bytes + HEADER_BYTES as u64;
        let is_again = self.next < self.before.0;
        let more = if is_again { 0 } else { header.discarded.saturating_sub(told) };
        self.discarded = self.discarded.saturating_add(more);
        if is_new {
            self.bytes += FILE_BYTES;
            return self.check_streams();
        }
        Ok(())
    }

    fn set_end(&mut self, id: u32, stream: u32, sequence: u64, end: u64) -> Result<(), Problem> {
        if self.is_of_other_boot {
            self.cut(id, stream, sequence.saturating_add(1))?;
        }
        let trace = self.trace(id)?;
        let is_before = trace.before.get(&stream).is_some_and(|last| sequence < last.sequence);
        if is_before {
            return Ok(());
        }
        if trace.streams.last(stream).is_none_or(|last| last.sequence != sequence) {
            // It may have been left out.
            let is_later = trace.streams.last(stream).is_none_or(|last| last.sequence < sequence);
            if is_later && (self.is_full || self.quota > 0) {
                return Ok(());
            }
            return Err("it sets the end of a packet that is not the last one".into());
        }
        let set = trace.streams.set_end(stream, end);
        set.map_err(|problem| problem.to_string())?;
        trace.files.set_end(stream, end).map_err(Problem::from)
    }

    /// Removes the packets from number `from` on from a stream's file, which were written before the machine was
    /// restarted. The recorder sends them again.
    fn cut(&mut self, id: u32, stream: u32, from: u64) -> Result<(), Problem> {
        let trace = self.trace(id)?;
        if trace.before.get(&stream).is_none_or(|last| last.sequence < from) {
            return Ok(());
        }
        let name = format!("{STREAMS}_{stream}");
        let directory = trace.files.directory().ok_or("a trace has no folder")?;
        let cut = cut_packets(directory, &name, Some(from));
        cut.map_err(|error| Problem::of(Path::new(&name), error))?;
        self.forget(id);
        self.trace(id).map(drop)
    }

    fn check_streams(&self) -> Result<(), Problem> {
        let count = |one: &ReceivedTrace| {
            let open = one.open.as_ref().map(|open| open.streams.count());
            let closed = || one.closed.as_ref().map(|closed| closed.streams.count());
            open.or_else(closed).unwrap_or(one.streams)
        };
        match self.traces.values().map(count).sum::<u64>() <= STREAMS_MAX {
            true => Ok(()),
            false => Err(format!("its traces have more than {STREAMS_MAX} streams").into()),
        }
    }

    /// Closes a trace whose files must be read if it goes on.
    fn forget(&mut self, id: u32) {
        if let Some(trace) = self.traces.get_mut(&id) {
            trace.close();
            trace.streams = trace.closed.take().map_or(0, |closed| closed.streams.count());
        }
    }

    /// Removes a trace that ended without packets.
    fn gone(&mut self, id: u32) -> Result<(), Problem> {
        let open = self.trace(id)?;
        if open.streams.count() > 0 {
            return Err("it removes a trace that has packets".into());
        }
        if let Some(directory) = open.files.directory() {
            for name in directory.names().unwrap_or_default() {
                let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
            }
        }
        self.forget(id);
        let Some(trace) = self.traces.get(&id) else { return Ok(()) };
        let path = PathBuf::from(&trace.line.layer).join(&trace.line.folder);
        // A folder that is not empty stays.
        let _ = rustix::fs::unlinkat(&self.folder, &path, AtFlags::REMOVEDIR);
        let mut above = path.parent();
        while let Some(one) = above.filter(|one| !one.as_os_str().is_empty()) {
            let _ = rustix::fs::unlinkat(&self.folder, one, AtFlags::REMOVEDIR);
            above = one.parent();
        }
        Ok(())
    }

    /// Returns the end mark of the recording, with the losses of records that are in no trace, as counted by its
    /// recorder.
    fn end_of_recording(&self, ending: Ending, losses: Losses) -> EndMark {
        let unwritten = losses.unwritten.saturating_add(self.quota);
        let losses = Losses { unwritten, ..losses };
        EndMark { ending, losses, quota: self.quota, ..EndMark::default() }
    }

    /// Writes an end mark for a failed recording, which its recorder has not ended.
    pub(crate) fn fail(&self) {
        let mark = self.end_of_recording(Ending::Failed, Losses::default());
        // On an error, the folder still says that it is being recorded.
        let _ = end_mark(self.folder.as_fd(), self.folder.path(), &mark);
    }
}

const BEFORE_METADATA: &str = "a packet came before the metadata of its trace";

impl ReceivedTrace {
    fn new(line: TraceLine) -> ReceivedTrace {
        ReceivedTrace {
            line,
            open: None,
            closed: None,
            held: None,
            streams: 0,
            used: 0,
            described: 0,
        }
    }

    fn close(&mut self) {
        self.held = None;
        if let Some(open) = self.open.take() {
            self.closed = Some(Box::new(open.close()));
        }
    }
}

/// Closes the folders that were not used for the longest time, until `most` are open.
fn close_all_but(traces: &mut BTreeMap<u32, ReceivedTrace>, most: usize) {
    let open = traces.values_mut().filter(|one| one.open.is_some() || one.held.is_some());
    let mut open: Vec<_> = open.collect();
    let more = open.len().saturating_sub(most);
    open.sort_unstable_by_key(|one| one.used);
    open.into_iter().take(more).for_each(ReceivedTrace::close);
}

/// Opens the folder of a trace, or makes it.
fn trace_folder(session: &Directory, line: &TraceLine) -> Result<Directory, Problem> {
    let mut path = session.path().to_owned();
    let mut above: Option<Directory> = None;
    let parts: Vec<&str> = line.layer.split('/').chain([line.folder.as_str()]).collect();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        path.push(part);
        let parent = above.as_ref().map_or(session.as_fd(), |above| above.as_fd());
        above = Some(Directory::open_or_create_in(parent, OsStr::new(part), &path)?);
    }
    above.ok_or_else(|| "a trace has no folder".into())
}

/// Begins a recording in its new folder.
fn begin_recording(folder: &Directory, recording: Uuid, boot: Uuid) -> Result<StateFiles, Problem> {
    folder.begin()?;
    let made = StateFiles::create(folder, recording, boot);
    made.map_err(|error| Problem::of(folder.path(), error))
}

/// Removes the folder of a recording that could not be begun, so that the next attempt does not need another name.
fn remove_begun(host: &Directory, name: &str, folder: &Directory) {
    for file in folder.names().unwrap_or_default() {
        let _ = rustix::fs::unlinkat(folder, file.as_os_str(), AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(host, name, AtFlags::REMOVEDIR);
}

/// Reads what is in the folder of a trace, to continue its files.
fn read_trace(directory: Directory, is_of_other_boot: bool) -> Result<OpenTrace, Problem> {
    let path = directory.path().to_owned();
    let failed = |error: io::Error| Problem::of(&path, error);
    let mut uuid = None;
    if directory.has_metadata() {
        match uuid_in(&directory) {
            Ok(found) => uuid = Some(found),
            // They were not forced to the disk, and come again.
            Err(problem) if is_of_other_boot && !problem.is_passing => {
                let removed = rustix::fs::unlinkat(&directory, "metadata", AtFlags::empty());
                removed.map_err(|error| failed(error.into()))?;
            }
            Err(problem) => return Err(problem),
        }
    }
    match uuid {
        Some(_) => directory.lock(),
        None => directory.begin()?,
    }
    mend(&directory, is_of_other_boot).map_err(failed)?;
    let (files, lasts) = Files::resume(directory, STREAMS)?;
    let (mut streams, mut before) = (Streams::default(), BTreeMap::new());
    for (stream, header) in lasts {
        let Header { timestamp_begin: begin, timestamp_end: end, sequence, discarded, .. } = header;
        let last = Last { begin, end, sequence, discarded };
        streams.restore(stream, last);
        before.insert(stream, last);
    }
    Ok(OpenTrace { files, uuid, streams, before })
}

/// Removes empty stream files that a killed relay has left. After a loss of power, also cuts off data at the end of
/// others that are no packet.
fn mend(directory: &Directory, is_of_other_boot: bool) -> io::Result<()> {
    for name in directory.names()? {
        let name = name.to_string_lossy().into_owned();
        let number = name.strip_prefix(STREAMS).and_then(|rest| rest.strip_prefix('_'));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        let is_empty = directory.read(OsStr::new(&name))?.metadata()?.len() == 0;
        if is_empty || is_of_other_boot {
            cut_packets(directory, &name, None)?;
        }
    }
    Ok(())
}

/// Returns true if the mark in the folder says that the recording has ended.
pub(crate) fn has_ended(folder: &Path) -> bool {
    let mark = std::fs::read(folder.join(strata_ctf::end_mark::FILE)).unwrap_or_default();
    EndMark::decode(&mark).is_ok_and(|mark| mark.ending != Ending::Recording)
}

/// Writes the known relation to the host's clock into the metadata of a trace. After an error, the metadata keep the
/// earlier relation, which is less exact.
fn describe_again(trace: &mut OpenTrace, clock: &HostClock, is_final: bool) {
    let Some(directory) = trace.files.directory().filter(|_| trace.uuid.is_some()) else { return };
    let turn = parsing_turn();
    let described = metadata_in(directory).ok().and_then(|text| clock.describe(&text, is_final));
    drop(turn);
    // They were acknowledged, and the recorder has forgotten them.
    if let Some(described) = described {
        let _ = directory.set_metadata_durably(&described);
    }
}

/// Opens the folder of a host below the relay's, or makes it.
///
/// # Errors
/// A system call failed.
pub(crate) fn host_folder(root: &Directory, host: &str) -> Result<Directory, Problem> {
    let path = root.path().join(host);
    Ok(Directory::open_or_create_in(root.as_fd(), OsStr::new(host), &path)?)
}

#[cfg(test)]
mod tests;
