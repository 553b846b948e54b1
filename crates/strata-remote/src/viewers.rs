//! LTTng's live protocol, version 2.4, for viewers such as babeltrace2 and Trace Compass: shows recordings while they
//! grow.
//!
//! Requests and answers are structures of fixed size, big-endian. Each request has a header of 16 bytes: the size of
//! what follows, the command, and a version that is 0. Viewers only read, and do not authenticate. So the server should
//! listen only where everybody may read all traces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use strata_ctf::packet::Header;

use crate::folder_names;
use crate::http::pause_after;
use crate::live_view::{LiveView, Next};

/// Version of the protocol.
const VERSION: (u32, u32) = (2, 4);
/// The most viewers at the same time.
const VIEWERS_MAX: u64 = 64;
/// Largest request \[byte\].
const REQUEST_BYTES_MAX: u64 = 4096;
/// Largest part of a packet in one answer \[byte\].
const PART_BYTES_MAX: u32 = 32 << 20;
/// The most recordings that are listed: the newest.
const SESSIONS_MAX: usize = 1000;
/// Longest silence of a viewer, and longest wait until it takes an answer.
const SILENCE: Duration = Duration::from_secs(300);
const LOOK_PERIOD: Duration = Duration::from_millis(200);

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

    /// Serves viewers, each in a separate thread, until `is_over` returns true. `has_recorder` tells of a host's recording in a
    /// folder whether its recorder is connected, or was just before.
    pub fn serve(&self, has_recorder: &HasRecorder<'_>, is_over: &(dyn Fn() -> bool + Sync)) {
        let period = Timespec::try_from(LOOK_PERIOD).ok();
        std::thread::scope(|scope| {
            while !is_over() {
                let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
                if poll(&mut fds, period.as_ref()).is_err() {
                    continue;
                }
                let socket = match self.listener.accept() {
                    Ok((socket, _)) => socket,
                    Err(error) => {
                        pause_after(&error);
                        continue;
                    }
                };
                if self.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
                    self.viewers.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let thread = std::thread::Builder::new().name("strata-viewer".to_owned());
                let serve = move || {
                    // A viewer that violates the protocol, or disconnects, is no longer served.
                    let viewer = Viewer::new(socket, &self.root, has_recorder);
                    let _ = viewer.and_then(|mut one| one.serve(is_over));
                    self.viewers.fetch_sub(1, Ordering::Relaxed);
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
struct Answer(Vec<u8>);

impl Answer {
    fn u32(mut self, number: u32) -> Answer {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Answer {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends a text in a field of `size` bytes, cut if necessary, with a NUL after it.
    fn text(mut self, text: &str, size: usize) -> Answer {
        let bytes: Vec<u8> = text.bytes().take(size - 1).collect();
        self.0.extend_from_slice(&bytes);
        self.0.resize(self.0.len() + size - bytes.len(), 0);
        self
    }

    fn index(numbers: [u64; 7], status: u32, flags: u32) -> Answer {
        numbers.into_iter().fold(Answer::default(), Answer::u64).u32(status).u32(flags)
    }

    fn bytes(mut self, bytes: &[u8]) -> Answer {
        self.0.extend_from_slice(bytes);
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

/// Function that tells of a host's recording in a folder whether its recorder is connected, or was just before.
pub type HasRecorder<'s> = dyn Fn(&str, &Path) -> bool + Sync + 's;

/// A viewer's connection.
struct Viewer<'s> {
    socket: TcpStream,
    root: &'s Path,
    has_recorder: &'s HasRecorder<'s>,
    /// Host and folder of the recording that is shown.
    shown: Option<(String, PathBuf)>,
    /// Recordings as they were last listed: host, name, folder.
    sessions: Vec<(String, String, PathBuf)>,
    view: Option<LiveView>,
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
        let (sessions, shown, view, told) = (Vec::new(), None, None, 0);
        Ok(Viewer { socket, root, has_recorder, shown, sessions, view, told })
    }

    fn serve(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        loop {
            let head = Request(self.take(16, is_over)?);
            let (bytes, command) = (head.u64(0)?, head.u32(8)?);
            if bytes > REQUEST_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let request = Request(self.take(bytes as usize, is_over)?);
            let answer = self.answer(command, &request)?;
            self.give(&answer.0, is_over)?;
        }
    }

    /// Receives exactly `bytes` bytes.
    fn take(&mut self, bytes: usize, is_over: &dyn Fn() -> bool) -> io::Result<Vec<u8>> {
        let until = Instant::now() + SILENCE;
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

    /// Sends these bytes, for as long as the viewer takes some of them.
    fn give(&mut self, bytes: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let mut until = Instant::now() + SILENCE;
        let mut given = 0;
        while let Some(rest) = bytes.get(given..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(some) => {
                    given += some;
                    until = Instant::now() + SILENCE;
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
        let head = Answer::default().u32(self.sessions.len() as u32);
        let each = self.sessions.iter().enumerate();
        each.fold(head, |answer, (id, (host, session, _))| {
            // The live timer's period is a second; the numbers of viewers and streams are given as 0.
            answer.u64(id as u64).u32(1_000_000).u32(0).u32(0).text(host, 64).text(session, 255)
        })
    }

    fn attach(&mut self, id: u64) -> Answer {
        let session = usize::try_from(id).ok().and_then(|id| self.sessions.get(id));
        let Some((host, _, folder)) = session else { return Answer::default().u32(3).u32(0) };
        let mut view = LiveView::new(folder.clone());
        view.has_recorder = (self.has_recorder)(host, folder);
        self.shown = Some((host.clone(), folder.clone()));
        view.look(Instant::now());
        (self.view, self.told) = (Some(view), 0);
        self.streams_from_told(1)
    }

    /// Makes an answer of a status and the streams that were not described to the viewer yet.
    fn streams_from_told(&mut self, status: u32) -> Answer {
        let Some(view) = &self.view else { return Answer::default().u32(3).u32(0) };
        let new = view.streams.get(self.told..).unwrap_or_default();
        let head = Answer::default().u32(status).u32(new.len() as u32);
        let numbered = new.iter().enumerate();
        let answer = numbered.fold(head, |answer, (at, stream)| {
            let (id, is_metadata) = ((self.told + at) as u64, stream.is_metadata());
            let answer = answer.u64(id).u64(stream.trace).u32(u32::from(is_metadata));
            answer.text(&stream.folder.to_string_lossy(), 4096).text(&stream.file, 255)
        });
        self.told = view.streams.len();
        answer
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
        let part = match self.view.as_mut().and_then(|view| view.stream(id)) {
            Some(stream) if bytes <= PART_BYTES_MAX => stream.read(at, bytes as usize).ok(),
            _ => None,
        };
        match part {
            Some(part) => Answer::default().u32(1).u32(bytes).u32(0).bytes(&part),
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

/// Tells whether a read or write that failed so may be tried again.
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
}
