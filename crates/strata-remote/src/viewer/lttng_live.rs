//! A server of LTTng's live protocol, version 2.4: babeltrace2 and Trace Compass show recordings while they grow.
//!
//! ```text
//! viewer                                       server
//! CONNECT                                 ──▶  version
//! LIST_SESSIONS                           ──▶  recordings, the newest first; their position is their id
//! ATTACH_SESSION id                       ──▶  streams: id, trace, path, name
//! GET_METADATA stream   (repeated)        ──▶  text since the last answer, until there is none
//! GET_NEXT_INDEX stream (repeated)        ──▶  the next packet's place and times, or "later", "inactive until", "ended"
//! GET_PACKET stream, offset, size         ──▶  its bytes
//! GET_NEW_STREAMS                         ──▶  streams that appeared since
//! DETACH_SESSION
//! ```
//!
//! Requests and answers are structures of fixed size, big-endian. Each request has a header of 16 bytes: the size
//! of what follows, the command, and a version that is 0. There is no file with an index: a [`LiveView`] reads
//! packet headers as it needs them. Answers to `GET_NEXT_INDEX` carry flags for new metadata and new streams.
//! They are set after the packet was found, so that the viewer asks for the metadata that describe a packet
//! before it decodes the packet.
//!
//! # Threads
//! [`ViewerServer::serve`] accepts in the caller's thread and serves each viewer in a thread of its own, up to
//! `VIEWERS_MAX`. A [`Conversation`] belongs to one viewer; nothing is shared but the files. [`live_answers`]
//! runs a conversation over bytes, without sockets and threads, for tests and the fuzzer.
//!
//! # Hostile viewers
//! Viewers only read, and the protocol has no authentication: the server should listen only where everybody may
//! read all recordings. A viewer is let go if it sends a request that is too long or unknown, is silent too long,
//! or takes nothing of an answer. It costs its thread and little memory: packets are sent from their files in
//! pieces, and descriptions of streams a few at a time. A viewer that attaches again and again is made to wait,
//! since each time all files of the recording are looked at.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use strata_ctf::packet::Header;

use crate::recording_folder::folder_names;
use crate::relay::event::{Log, RelayEvent};
use crate::transport::accept_pause::pause_after;
use crate::viewer::live_view::{LiveView, Next};

/// Version of the protocol.
const VERSION: (u32, u32) = (2, 4);
/// The most viewers at the same time.
const VIEWERS_MAX: u64 = 64;
/// Largest request \[byte\].
const REQUEST_BYTES_MAX: usize = 4096;
/// Largest part of a packet in one answer \[byte\].
const PART_BYTES_MAX: u32 = 32 << 20;
/// The most recordings that are listed: the newest.
const SESSIONS_MAX: usize = 1000;
/// Bytes of an answer that are in memory \[byte\].
const PIECE_BYTES: usize = 128 << 10;
/// Size of the path in the description of a stream \[byte\].
const STREAM_PATH_BYTES: usize = 4096;
const STREAM_NAME_BYTES: usize = 255;
const STREAM_BYTES: usize = 8 + 8 + 4 + STREAM_PATH_BYTES + STREAM_NAME_BYTES;
/// Longest time until the first request of a viewer.
const GREET: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(300);
const DEAF: Duration = Duration::from_secs(60);
/// Time for which a list of recordings is used again, since each new list reads all folders.
const LISTED: Duration = Duration::from_secs(1);
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Longest time that a viewer must wait before it may attach again, since each time all files are read.
const ATTACH_PAUSE_MAX: Duration = Duration::from_secs(5);

const CONNECT: u32 = 1;
const LIST_SESSIONS: u32 = 2;
const ATTACH_SESSION: u32 = 3;
const GET_NEXT_INDEX: u32 = 4;
const GET_PACKET: u32 = 5;
const GET_METADATA: u32 = 6;
const GET_NEW_STREAMS: u32 = 7;
const CREATE_SESSION: u32 = 8;
const DETACH_SESSION: u32 = 9;

const INDEX_OK: u32 = 1;
const INDEX_RETRY: u32 = 2;
const INDEX_HUP: u32 = 3;
const INDEX_ERR: u32 = 4;
const INDEX_INACTIVE: u32 = 5;
const FLAG_NEW_METADATA: u32 = 1;
const FLAG_NEW_STREAM: u32 = 2;

/// A server for viewers.
#[derive(Debug)]
pub struct ViewerServer {
    listener: TcpListener,
    root: PathBuf,
    viewers: AtomicU64,
}

impl ViewerServer {
    /// Listens at the address, for viewers of the recordings below a relay's folder.
    ///
    /// # Errors
    /// A system call failed.
    pub fn listen(address: SocketAddr, root: &Path) -> io::Result<ViewerServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(ViewerServer { listener, root: root.to_owned(), viewers: AtomicU64::new(0) })
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    /// A system call failed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves viewers, each in a separate thread, until `is_over` returns true. `has_recorder`: function that returns
    /// whether the recorder of a host's recording in a folder is connected, or was just before. `log` receives
    /// messages about viewers that are not served.
    pub fn serve(
        &self,
        has_recorder: &HasRecorder<'_>,
        log: &Log,
        is_over: &(dyn Fn() -> bool + Sync),
    ) {
        let period = Timespec::try_from(LOOK_PERIOD).ok();
        std::thread::scope(|scope| {
            while !is_over() {
                let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
                if poll(&mut fds, period.as_ref()).is_err() {
                    continue;
                }
                let (socket, peer) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        pause_after(&error);
                        continue;
                    }
                };
                if self.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
                    self.viewers.fetch_sub(1, Ordering::Relaxed);
                    let why = format!("there are {VIEWERS_MAX} viewers of --live");
                    log(RelayEvent::Refused { peer, why });
                    continue;
                }
                let thread = std::thread::Builder::new().name("strata-viewer".to_owned());
                let serve = move || {
                    let viewer = Viewer::new(socket, &self.root, has_recorder);
                    let served = viewer.and_then(|mut one| one.serve(is_over));
                    self.viewers.fetch_sub(1, Ordering::Relaxed);
                    // A viewer that violates the protocol is no longer served. One that has gone has seen enough.
                    if let Err(error) = served.as_ref().map_err(io::Error::kind) {
                        if [ErrorKind::InvalidData, ErrorKind::TimedOut].contains(&error)
                            && !is_over()
                        {
                            let why = match error {
                                ErrorKind::TimedOut => "it asks for nothing, or takes no answer",
                                _ => "its request is none of LTTng's live protocol",
                            };
                            log(RelayEvent::Refused { peer, why: format!("viewer: {why}") });
                        }
                    }
                };
                if thread.spawn_scoped(scope, serve).is_err() {
                    self.viewers.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }
}

/// An answer that is being built, big-endian.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    /// Streams whose descriptions follow the bytes. They are encoded only when they are sent, since descriptions are
    /// large.
    streams: Vec<DescribedStream>,
    /// A part of a file that follows the descriptions.
    file: Option<FilePart>,
}

/// A stream that an answer describes to a viewer.
struct DescribedStream {
    id: u64,
    trace: u64,
    is_metadata: bool,
    folder: PathBuf,
    file: String,
}

/// A part of a file, by offset and size \[byte\].
struct FilePart {
    file: File,
    at: u64,
    bytes: u64,
}

impl Answer {
    fn u32(mut self, number: u32) -> Answer {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Answer {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn stream(self, stream: &DescribedStream) -> Answer {
        let answer = self.u64(stream.id).u64(stream.trace).u32(u32::from(stream.is_metadata));
        let path = stream.folder.to_string_lossy();
        answer.text(&path, STREAM_PATH_BYTES).text(&stream.file, STREAM_NAME_BYTES)
    }

    /// Gives all of the answer to `give`, in pieces.
    fn each(self, give: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        give(&self.bytes)?;
        for few in self.streams.chunks(PIECE_BYTES / STREAM_BYTES) {
            give(&few.iter().fold(Answer::default(), Answer::stream).bytes)?;
        }
        let Some(FilePart { file, at, bytes }) = self.file else { return Ok(()) };
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(bytes).unwrap_or(PIECE_BYTES))];
        let mut given = 0;
        while given < bytes {
            let left = usize::try_from(bytes - given).unwrap_or(usize::MAX).min(piece.len());
            let piece = piece.get_mut(..left).unwrap_or_default();
            file.read_exact_at(piece, at.saturating_add(given))?;
            give(piece)?;
            given += left as u64;
        }
        Ok(())
    }

    /// Appends a text in a field of `size` bytes, cut if necessary, with a NUL after it.
    fn text(mut self, text: &str, size: usize) -> Answer {
        let bytes: Vec<u8> = text.bytes().take(size - 1).collect();
        self.bytes.extend_from_slice(&bytes);
        self.bytes.resize(self.bytes.len() + size - bytes.len(), 0);
        self
    }

    fn index(numbers: [u64; 7], status: u32, flags: u32) -> Answer {
        numbers.into_iter().fold(Answer::default(), Answer::u64).u32(status).u32(flags)
    }

    fn bytes(mut self, bytes: &[u8]) -> Answer {
        self.bytes.extend_from_slice(bytes);
        self
    }
}

struct Request(Vec<u8>);

impl Request {
    fn u32(&self, at: usize) -> io::Result<u32> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u32::from_be_bytes(*bytes.ok_or(ErrorKind::InvalidData)?))
    }

    fn u64(&self, at: usize) -> io::Result<u64> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u64::from_be_bytes(*bytes.ok_or(ErrorKind::InvalidData)?))
    }
}

/// Function that returns whether the recorder of a host's recording in a folder is connected, or was just before.
pub type HasRecorder<'s> = dyn Fn(&str, &Path) -> bool + Sync + 's;

/// Answers the requests of one viewer that are encoded in these bytes, as the server does for those from a
/// connection. Ends at a request that ends the connection.
pub fn live_answers(root: &Path, mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut conversation = Conversation::new(root, &|_, _| false);
    let mut answers = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(REQUEST_HEAD_BYTES) {
        let Ok((payload, command)) = head_of(&Request(head.to_vec())) else { break };
        let Some((payload, rest)) = rest.split_at_checked(payload) else { break };
        bytes = rest;
        let Ok(answer) = conversation.answer(command, &Request(payload.to_vec())) else { break };
        let mut all = Vec::new();
        let given = answer.each(&mut |piece| {
            all.extend_from_slice(piece);
            Ok(())
        });
        answers.push(all);
        if given.is_err() {
            break;
        }
    }
    answers
}

/// Size of the head before each request \[byte\].
const REQUEST_HEAD_BYTES: usize = 16;

/// Returns the size of the request that follows this head \[byte\], and its command.
fn head_of(head: &Request) -> io::Result<(usize, u32)> {
    let (bytes, command) = (head.u64(0)?, head.u32(8)?);
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= REQUEST_BYTES_MAX);
    Ok((bytes.ok_or(ErrorKind::InvalidData)?, command))
}

/// A viewer's connection.
struct Viewer<'s> {
    socket: TcpStream,
    conversation: Conversation<'s>,
}

/// The state of a conversation with one viewer, as its requests have set it.
struct Conversation<'s> {
    root: &'s Path,
    has_recorder: &'s HasRecorder<'s>,
    /// Host and folder of the recording that is shown.
    shown: Option<(String, PathBuf)>,
    /// Recordings as they were last listed: host, name, folder.
    sessions: Vec<(String, String, PathBuf)>,
    listed: Option<Instant>,
    view: Option<LiveView>,
    /// Time before which the viewer may not attach again.
    attach_from: Instant,
    /// Number of streams that were described to the viewer.
    told: usize,
}

impl<'s> Viewer<'s> {
    fn new(
        socket: TcpStream,
        root: &'s Path,
        has_recorder: &'s HasRecorder<'s>,
    ) -> io::Result<Viewer<'s>> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOOK_PERIOD))?;
        socket.set_write_timeout(Some(LOOK_PERIOD))?;
        Ok(Viewer { socket, conversation: Conversation::new(root, has_recorder) })
    }

    fn serve(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let mut silence = GREET;
        loop {
            // A request must come within this time from its first byte on, too.
            let until = Instant::now() + silence;
            let head = Request(self.take(REQUEST_HEAD_BYTES, until, is_over)?);
            let (bytes, command) = head_of(&head)?;
            let request = Request(self.take(bytes, until, is_over)?);
            let answer = self.conversation.answer(command, &request)?;
            answer.each(&mut |piece| self.give(piece, is_over))?;
            silence = SILENCE;
        }
    }

    /// Receives exactly `bytes` bytes.
    fn take(
        &mut self,
        bytes: usize,
        until: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<Vec<u8>> {
        let (mut taken, mut at) = (vec![0; bytes], 0);
        while let Some(rest) = taken.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match self.socket.read(rest) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(some) => at += some,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if is_over() || Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(taken)
    }

    /// Sends these bytes. Fails if the viewer accepts none for too long.
    fn give(&mut self, bytes: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let mut until = Instant::now() + DEAF;
        let mut given = 0;
        while let Some(rest) = bytes.get(given..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(some) => {
                    given += some;
                    until = Instant::now() + DEAF;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if is_over() || Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl<'s> Conversation<'s> {
    fn new(root: &'s Path, has_recorder: &'s HasRecorder<'s>) -> Conversation<'s> {
        Conversation {
            root,
            has_recorder,
            shown: None,
            sessions: Vec::new(),
            listed: None,
            view: None,
            attach_from: Instant::now(),
            told: 0,
        }
    }

    fn answer(&mut self, command: u32, request: &Request) -> io::Result<Answer> {
        let answer = Answer::default();
        Ok(match command {
            CONNECT => answer.u64(1).u32(VERSION.0).u32(VERSION.1.min(request.u32(12)?)).u32(1),
            LIST_SESSIONS => self.list(),
            CREATE_SESSION => answer.u32(1),
            ATTACH_SESSION => self.attach(request.u64(0)?),
            GET_NEXT_INDEX => self.next_index(request.u64(0)?),
            GET_PACKET => self.packet(request.u64(0)?, request.u64(8)?, request.u32(16)?),
            GET_METADATA => self.metadata(request.u64(0)?),
            GET_NEW_STREAMS => self.new_streams(),
            DETACH_SESSION => {
                self.view = None;
                answer.u32(1)
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        })
    }

    /// Lists the recordings, the newest first.
    fn list(&mut self) -> Answer {
        if self.listed.is_none_or(|listed| listed.elapsed() > LISTED) {
            self.find_recordings();
            self.listed = Some(Instant::now());
        }
        let head = Answer::default().u32(self.sessions.len() as u32);
        let each = self.sessions.iter().enumerate();
        each.fold(head, |answer, (id, (host, session, _))| {
            // The live timer's period is a second; the numbers of viewers and streams are given as 0.
            answer.u64(id as u64).u32(1_000_000).u32(0).u32(0).text(host, 64).text(session, 255)
        })
    }

    fn find_recordings(&mut self) {
        let mut all = Vec::new();
        for host in folders_in(self.root) {
            let name = host.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for folder in folders_in(&host).into_iter().filter(|_| folder_names::is_host(&name)) {
                let session = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let changed = folder.metadata().and_then(|about| about.modified()).ok();
                if folder_names::is_session(&session) {
                    all.push((changed, (name.clone(), session, folder)));
                }
            }
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.0));
        self.sessions = all.into_iter().take(SESSIONS_MAX).map(|(_, session)| session).collect();
    }

    fn attach(&mut self, id: u64) -> Answer {
        let session = usize::try_from(id).ok().and_then(|id| self.sessions.get(id));
        let Some((host, _, folder)) = session else { return Answer::default().u32(3).u32(0) };
        let pause = self.attach_from.saturating_duration_since(Instant::now());
        std::thread::sleep(pause); // Time: only this viewer waits, for its own looks.
        let mut view = LiveView::new(folder.clone());
        view.has_recorder = (self.has_recorder)(host, folder);
        self.shown = Some((host.clone(), folder.clone()));
        view.look(Instant::now());
        self.attach_from = Instant::now() + view.rest().min(ATTACH_PAUSE_MAX);
        (self.view, self.told) = (Some(view), 0);
        self.streams_from_told(1)
    }

    /// Creates an answer with a status and the streams that were not described to the viewer yet.
    fn streams_from_told(&mut self, status: u32) -> Answer {
        let Some(view) = &self.view else { return Answer::default().u32(3).u32(0) };
        let new = view.streams.get(self.told..).unwrap_or_default();
        let head = Answer::default().u32(status).u32(new.len() as u32);
        let numbered = new.iter().enumerate();
        let described = numbered.map(|(at, stream)| DescribedStream {
            id: (self.told + at) as u64,
            trace: stream.trace,
            is_metadata: stream.is_metadata(),
            folder: stream.folder.clone(),
            file: stream.file.clone(),
        });
        let streams = described.collect();
        self.told = view.streams.len();
        Answer { streams, ..head }
    }

    fn new_streams(&mut self) -> Answer {
        let Some(view) = &mut self.view else { return Answer::default().u32(3).u32(0) };
        look(view, self.shown.as_ref(), self.has_recorder);
        let is_over = view.has_ended();
        match (view.streams.len() > self.told, is_over) {
            (true, _) => self.streams_from_told(1),
            (false, true) => Answer::default().u32(4).u32(0),
            (false, false) => Answer::default().u32(2).u32(0),
        }
    }

    fn next_index(&mut self, id: u64) -> Answer {
        let none = |status| Answer::index([0; 7], status, 0);
        let Some(view) = &mut self.view else { return none(INDEX_ERR) };
        look(view, self.shown.as_ref(), self.has_recorder);
        let (is_over, upto) = (view.has_ended(), view.upto(id));
        let has_new = view.streams.len() > self.told;
        let Some(stream) = view.stream(id).filter(|stream| !stream.is_metadata()) else {
            return none(INDEX_ERR);
        };
        let before = (stream.trace, has_new);
        let Ok(next) = stream.next(is_over, upto) else { return none(INDEX_ERR) };
        // After the packet was found, so that the metadata that describe it are complete.
        let mut flags = if before.1 { FLAG_NEW_STREAM } else { 0 };
        if view.has_new_metadata(id) {
            flags |= FLAG_NEW_METADATA;
        }
        match next {
            Next::Packet(header, at) => {
                let Header { timestamp_begin: begin, timestamp_end: end, .. } = header;
                let numbers = [
                    at,
                    header.packet_bits,
                    header.content_bits,
                    begin,
                    end,
                    header.discarded,
                    header.stream_id.into(),
                ];
                Answer::index(numbers, INDEX_OK, flags)
            }
            Next::Nothing(class, upto) => {
                Answer::index([0, 0, 0, 0, upto, 0, class], INDEX_INACTIVE, flags)
            }
            Next::Later => Answer::index([0; 7], INDEX_RETRY, flags),
            Next::End => none(INDEX_HUP),
        }
    }

    fn packet(&mut self, id: u64, at: u64, bytes: u32) -> Answer {
        let file = match self.view.as_mut().and_then(|view| view.stream(id)) {
            Some(stream) if bytes <= PART_BYTES_MAX => stream.file_with(at, bytes.into()).ok(),
            _ => None,
        };
        match file {
            Some(file) => {
                let part = FilePart { file, at, bytes: bytes.into() };
                Answer { file: Some(part), ..Answer::default().u32(1).u32(bytes).u32(0) }
            }
            None => Answer::default().u32(3).u32(0).u32(0),
        }
    }

    fn metadata(&mut self, id: u64) -> Answer {
        let stream = self.view.as_mut().and_then(|view| view.stream(id));
        let text = match stream.filter(|stream| stream.is_metadata()) {
            Some(stream) => stream.new_metadata().ok(),
            None => None,
        };
        match text {
            Some(text) if text.is_empty() => Answer::default().u64(0).u32(2),
            Some(text) => Answer::default().u64(text.len() as u64).u32(1).bytes(&text),
            None => Answer::default().u64(0).u32(3),
        }
    }
}

/// Looks for new streams, unless the last look was just before.
fn look(view: &mut LiveView, shown: Option<&(String, PathBuf)>, has_recorder: &HasRecorder<'_>) {
    let now = Instant::now();
    if view.is_due(now) {
        view.has_recorder = shown.is_some_and(|(host, folder)| has_recorder(host, folder));
        view.look(now);
    }
}

/// Returns whether a read or write that failed with this error may be tried again.
fn is_passing(error: &io::Error) -> bool {
    let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
    kinds.contains(&error.kind())
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    #[test]
    fn viewer_that_does_not_read_is_let_go_when_the_server_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let deaf = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let is_over = AtomicBool::new(false);
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut viewer = Viewer::new(socket, Path::new("/"), &|_, _| false).unwrap();
                // More than the system's buffers of the two sockets hold.
                let given = viewer.give(&vec![0; 64 << 20], &|| is_over.load(Ordering::Relaxed));
                ended.send(given.is_err()).unwrap();
            });
            is_over.store(true, Ordering::Relaxed);
            // If this fails, closing the socket ends the thread.
            let given = end.recv_timeout(SILENCE / 2); // Time: a bound for what hangs.
            drop(deaf);
            assert_eq!(given, Ok(true));
        });
    }

    #[test]
    fn many_streams_are_described_in_pieces() {
        let scratch = crate::testing::Scratch::new("live-streams");
        let trace = scratch.0.join("box/s/user/app-1");
        std::fs::create_dir_all(&trace).unwrap();
        std::fs::write(trace.join("metadata"), "trace {};").unwrap();
        let names: Vec<String> = (100..200).map(|number| format!("channel0_{number}")).collect();
        names.iter().for_each(|name| std::fs::write(trace.join(name), "x").unwrap());
        let nobody = |_: &str, _: &Path| false;
        let mut conversation = Conversation::new(&scratch.0, &nobody);
        conversation.list();
        let (mut answer, mut pieces) = (Vec::new(), 0);
        let given = conversation.attach(0).each(&mut |piece| {
            assert!(piece.len() <= PIECE_BYTES, "{}", piece.len());
            answer.extend_from_slice(piece);
            pieces += 1;
            Ok(())
        });
        assert!(given.is_ok() && pieces > 2);
        let (head, streams) = answer.split_at(8);
        assert_eq!(head, [1u32.to_be_bytes(), 101u32.to_be_bytes()].concat());
        let mut told = Vec::new();
        for (id, stream) in (0u64..).zip(streams.chunks(STREAM_BYTES)) {
            assert_eq!(stream[..8], id.to_be_bytes());
            let name = stream[20 + STREAM_PATH_BYTES..].split(|byte| *byte == 0).next().unwrap();
            told.push(String::from_utf8(name.to_vec()).unwrap());
        }
        assert_eq!(told, [&["metadata".to_owned()][..], &names].concat());
    }

    #[test]
    fn packet_is_answered_from_its_file_in_pieces_and_what_is_not_there_is_refused() {
        let scratch = crate::testing::Scratch::new("live-packet");
        let trace = scratch.0.join("box/s/user/app-1");
        std::fs::create_dir_all(&trace).unwrap();
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        std::fs::write(trace.join("metadata"), "trace {};").unwrap();
        std::fs::write(trace.join("channel0_0"), &bytes).unwrap();
        let request = |command: u32, payload: &[u8]| {
            let size = (payload.len() as u64).to_be_bytes();
            [&size[..], &command.to_be_bytes(), &[0; 4], payload].concat()
        };
        let part = |at: u64, size: usize| {
            let payload =
                [&1u64.to_be_bytes()[..], &at.to_be_bytes(), &(size as u32).to_be_bytes()];
            request(GET_PACKET, &payload.concat())
        };
        let begin = [request(LIST_SESSIONS, &[]), request(ATTACH_SESSION, &[0; 20])].concat();
        let asked = [begin, part(3, bytes.len() - 3), part(4, bytes.len() - 3), part(u64::MAX, 1)];
        let answers = live_answers(&scratch.0, &asked.concat());
        assert_eq!(answers.len(), 5);
        assert_eq!(answers[2][..4], 1u32.to_be_bytes());
        assert!(answers[2][12..] == bytes[3..]);
        for refused in &answers[3..] {
            assert_eq!((refused.len(), &refused[..4]), (12, &3u32.to_be_bytes()[..]));
        }
        // A request that is too long ends the connection, and none is answered after it.
        let long = [request(LIST_SESSIONS, &[]), request(1, &[0; REQUEST_BYTES_MAX + 1])].concat();
        assert_eq!(
            live_answers(&scratch.0, &[long, request(LIST_SESSIONS, &[])].concat()).len(),
            1
        );
    }
}
