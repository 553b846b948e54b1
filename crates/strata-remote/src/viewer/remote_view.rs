//! A recording at a relay, followed from another host.
//!
//! The relay sends the recording's messages while it grows, and this side writes them as the relay does: to a copy in a
//! folder of its own, which readers follow like any recording, and which is removed in the end. If the connection breaks,
//! another one continues behind the last packet of each stream.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_collect::Directory;
use strata_model::Uuid;
use strata_relay::{Frames, FromRecorder, FromViewer, ToRecorder, ToViewer, Watch, VIEW_VERSION};

use crate::recording_folder::folder_names;
use crate::recording_folder::recording_writer::{host_folder, FilesState, RecordingWriter};
use crate::transport::connection::{Connection, Until};
use crate::transport::destination::{Destination, DestinationError};
use crate::transport::target::{printable, Target};
use crate::viewer::private_copy::PrivateCopy;

/// Begin of the address of a recording at a relay.
const SCHEME: &str = "net://";
/// Longest time for a connection and its first answer.
const GREET: Duration = Duration::from_secs(10);
/// Longest silence of the relay, which reports several times a second that it has looked for new data.
const SILENCE: Duration = Duration::from_secs(30);
/// Pauses between attempts to connect: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Free space that must stay on the disk of the copy \[byte\].
const FREE_MIN: u64 = 64 << 20;
const LOOK_BYTES: u64 = 4 << 20;

/// The address of a recording at a relay: `net://RELAY[:PORT]/HOST[/RECORDING][,certificates=DIR]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewAddress {
    relay: Destination,
    host: String,
    session: String,
}

impl ViewAddress {
    /// Returns whether the text is meant to be the address of a recording at a relay.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Parses an address.
    ///
    /// # Errors
    /// Why the text is none, for people.
    pub fn parse(text: &str) -> Result<ViewAddress, String> {
        let usage = || {
            format!(
                "'{}' is no recording at a relay; write net://RELAY[:PORT]/HOST or \
                 net://RELAY[:PORT]/HOST/RECORDING, and behind it ,certificates=DIR if needed",
                printable(&text.chars().take(200).collect::<String>())
            )
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(usage)?;
        let (path, options) = match rest.split_once(',') {
            Some((path, options)) => (path, format!(",{options}")),
            None => (rest, String::new()),
        };
        let mut parts = path.trim_end_matches('/').split('/');
        let (relay, host) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(usage)?);
        let session = parts.next().unwrap_or_default();
        let is_good = folder_names::is_host(host)
            && (session.is_empty() || folder_names::is_session(session))
            && !relay.contains('@')
            && parts.next().is_none();
        if !is_good {
            return Err(usage());
        }
        let relay = Destination::parse(&format!("{relay}{options}"))?;
        Ok(ViewAddress { relay, host: host.to_owned(), session: session.to_owned() })
    }

    /// Reads the certificates that are needed to talk to the relay.
    ///
    /// # Errors
    /// The certificates cannot be used, or are missing although the relay is another machine.
    pub fn target(&self) -> Result<Target, DestinationError> {
        self.relay.target()
    }
}

/// State of the local copy, which the receiving thread updates.
#[derive(Debug, Default)]
struct State {
    /// Folder of the recording in the copy, once all that the recording had at first was received.
    folder: Option<PathBuf>,
    /// Wall-clock time of the relay at its last look.
    now_ns: Option<i64>,
    failure: Option<String>,
    /// A change of the connection that the user was not told yet.
    notice: Option<String>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits for `time`. Returns false if the view is over.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_over() {
            let waited = self.changed.wait_timeout(self.lock(), LOOK_PERIOD);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        !self.is_over()
    }
}

/// A recording at a relay that is followed.
#[derive(Debug)]
pub struct RemoteView {
    _copy: PrivateCopy,
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RemoteView {
    /// Begins to follow, with a copy below the folder `above`, which must exist.
    ///
    /// # Errors
    /// A system call failed.
    pub fn begin(address: &ViewAddress, target: Target, above: &Path) -> io::Result<RemoteView> {
        RemoteView::begin_where(address, target, above, free_bytes)
    }

    fn begin_where(
        address: &ViewAddress,
        target: Target,
        above: &Path,
        free: fn(&Path) -> Option<u64>,
    ) -> io::Result<RemoteView> {
        let copy = PrivateCopy::make(above)?;
        let shared = Arc::new(Shared::default());
        let receiver = Receiver {
            shared: Arc::clone(&shared),
            target,
            address: address.clone(),
            copy: copy.path().to_owned(),
            received: None,
            free,
            looked_bytes: None,
        };
        let thread = std::thread::Builder::new().name("strata-view".to_owned());
        let mut view = RemoteView { _copy: copy, shared, thread: None };
        view.thread = Some(thread.spawn(move || receiver.run())?);
        Ok(view)
    }

    /// Returns the folder of the recording in the copy, once there is one. `None` if it is not known yet.
    ///
    /// # Errors
    /// Why the recording cannot be followed, for people.
    pub fn folder(&self) -> Result<Option<PathBuf>, String> {
        let state = self.shared.lock();
        match &state.failure {
            Some(why) => Err(why.clone()),
            None => Ok(state.folder.clone()),
        }
    }

    /// Returns why the recording cannot be followed any further.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// Returns what has happened to the connection since the last call.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        self.shared.lock().notice.take()
    }

    /// Returns the wall-clock time of the relay at its last look \[ns since 1970\]: all that its files had then is in the
    /// copy. `None`: the recording has ended.
    #[must_use]
    pub fn now_ns(&self) -> Option<i64> {
        let state = self.shared.lock();
        state.now_ns.filter(|_| !state.has_ended)
    }
}

impl Drop for RemoteView {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Returns the free space of the folder's file system \[byte\]; `None` if it is unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Why a connection ended.
enum End {
    /// The view has ended, or all was received.
    Over,
    /// The connection broke; another one may succeed.
    Broken(String),
    /// Nothing more can be received.
    Failed(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match of_tls {
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)) => {
                End::Failed(format!("TLS: {error}"))
            }
            _ => End::Broken(error.to_string()),
        }
    }
}

/// State of the thread that receives.
struct Receiver {
    shared: Arc<Shared>,
    target: Target,
    address: ViewAddress,
    copy: PathBuf,
    received: Option<RecordingWriter>,
    /// Function that returns the free space of a folder's file system.
    free: fn(&Path) -> Option<u64>,
    /// Size of the copy when the free space was last checked \[byte\]; `None` before the first check.
    looked_bytes: Option<u64>,
}

impl Receiver {
    fn run(mut self) {
        let (mut pause, mut is_told) = (PAUSE.0, false);
        let mut last_there = Instant::now();
        let relay = self.target.address.to_string();
        loop {
            let mut is_there = false;
            let end = self.receive(&mut is_there, is_told);
            if is_there {
                last_there = Instant::now();
            }
            let why = match end {
                End::Over => break,
                End::Failed(why) => {
                    self.shared.lock().failure = Some(format!("the relay {relay}: {why}"));
                    break;
                }
                End::Broken(why) => why,
            };
            let mut state = self.shared.lock();
            // A long recording takes more than one connection until all that it had at first is here.
            if state.folder.is_none() && last_there.elapsed() > GREET {
                state.failure = Some(format!("the relay {relay}: {why}"));
                break;
            }
            if state.folder.is_some() && (is_there || !is_told) {
                state.notice =
                    Some(format!("the relay {relay} is not there: {why}. It is tried again"));
                is_told = true;
            }
            drop(state);
            pause = if is_there { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            if !self.shared.pause(pause) {
                break;
            }
        }
        // The folders are locked until here, so that readers take the copy for what is being recorded.
        self.received = None;
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
    }

    fn receive(&mut self, is_there: &mut bool, was_broken: bool) -> End {
        let done = self.target.connect().map_err(End::from).and_then(|mut connection| {
            let mut frames = Frames::default();
            self.greet(&mut connection, &mut frames)?;
            *is_there = true;
            if was_broken {
                let relay = &self.target.address;
                self.shared.lock().notice = Some(format!("the relay {relay} is there again"));
            }
            self.take(&mut connection, &mut frames)
        });
        done.err().unwrap_or(End::Over)
    }

    /// Requests the recording, and lists the packets that the copy has already.
    fn greet(&mut self, connection: &mut Connection, frames: &mut Frames) -> Result<(), End> {
        let (host, mut session) = (self.address.host.clone(), self.address.session.clone());
        if let Some(received) = &self.received {
            let name = received.path().file_name().unwrap_or_default();
            session = name.to_string_lossy().into_owned();
        }
        let watch = Watch { version: VIEW_VERSION, is_of_our_order: true, host, session };
        connection.send_short(&FromViewer::Watch(watch).encode())?;
        let until = Instant::now() + GREET;
        let (recording, session) = loop {
            if self.shared.is_over() {
                return Err(End::Over);
            }
            receive(connection, frames)?;
            let first = frames.next_frame().map_err(|problem| match &self.target.tls {
                Some(_) => End::Broken(problem.to_string()),
                None => End::Failed(format!(
                    "{problem}. If it uses TLS, name the folder of your certificate: {SCHEME}…,certificates=DIR"
                )),
            })?;
            if let Some((kind, payload)) = first {
                match shown(kind, payload)? {
                    Some(ToViewer::Shown { version, .. }) if version != VIEW_VERSION => {
                        return Err(End::Failed(format!(
                            "it speaks version {version} of the viewers' protocol, this strata {VIEW_VERSION}"
                        )));
                    }
                    Some(ToViewer::Shown { recording, session, .. }) => break (recording, session),
                    _ => return Err(End::Failed("its first answer makes no sense".to_owned())),
                }
            }
            if Instant::now() >= until {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
            connection.wait(Until::ReadableOrWritable, None, LOOK_PERIOD)?;
        };
        if !folder_names::is_session(&session) {
            return Err(End::Failed("the name of its recording makes no sense".to_owned()));
        }
        if self.received.is_none() {
            self.received = Some(self.begin_copy(&session, recording)?);
        }
        let Some(received) = &self.received else { return Err(End::Over) };
        let mut haves: Vec<u8> = Vec::new();
        for (id, stream, sequence) in received.last_packets() {
            haves.extend(FromViewer::Have { id, stream, sequence }.encode());
        }
        haves.extend(FromViewer::Ready.encode());
        let mut sent = 0;
        while let Some(rest) = haves.get(sent..).filter(|rest| !rest.is_empty()) {
            if self.shared.is_over() || Instant::now() >= until {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
            sent += connection.send(rest)?;
            if sent < haves.len() {
                connection.wait(Until::ReadableOrWritable, None, LOOK_PERIOD)?;
            }
        }
        Ok(())
    }

    /// Begins the copy of a recording.
    fn begin_copy(&self, session: &str, recording: Uuid) -> Result<RecordingWriter, End> {
        let copy = &self.copy;
        let failed = |why: String| {
            End::Failed(format!("the copy in {} cannot be begun: {why}", copy.display()))
        };
        let above = copy.parent().unwrap_or(copy);
        let above = File::open(above).map_err(|error| failed(error.to_string()))?;
        let name = copy.file_name().unwrap_or_default();
        let root = Directory::open_in(above.as_fd(), name, copy);
        let root = root.map_err(|error| failed(error.to_string()))?;
        let host = host_folder(&root, &self.address.host).map_err(|problem| failed(problem.why))?;
        let begun =
            RecordingWriter::open(&host, session, (recording, 0), u64::MAX, FilesState::Written);
        begun.map_err(|problem| failed(problem.why))
    }

    /// Receives messages until the recording ends.
    fn take(&mut self, connection: &mut Connection, frames: &mut Frames) -> Result<(), End> {
        let mut heard = Instant::now();
        loop {
            if self.shared.is_over() {
                return Err(End::Over);
            }
            let came = receive(connection, frames)?;
            if came {
                heard = Instant::now();
            }
            while let Some((kind, payload)) = frames.next_frame().map_err(io::Error::other)? {
                match shown(kind, payload)? {
                    Some(ToViewer::Shown { .. }) => {
                        return Err(End::Failed("it begins twice".to_owned()));
                    }
                    Some(ToViewer::Looked { now_ns, is_recorded }) => {
                        self.looked(now_ns)?;
                        if !is_recorded {
                            return Err(End::Over);
                        }
                    }
                    None => self.take_message(kind, payload)?,
                }
            }
            if heard.elapsed() > SILENCE {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
            // What TLS has decrypted does not wake the thread.
            if !came {
                connection.wait(Until::Readable, None, LOOK_PERIOD)?;
            }
        }
    }

    fn take_message(&mut self, kind: u16, payload: &[u8]) -> Result<(), End> {
        let said = FromRecorder::decode(kind, payload);
        let said = said.map_err(|problem| End::Failed(problem.to_string()))?;
        let Some(received) = &mut self.received else { return Err(End::Over) };
        let taken = received.take(&said);
        taken.map_err(|problem| {
            End::Failed(format!("the copy cannot be continued: {}", problem.why))
        })?;
        let bytes = received.bytes();
        match self.looked_bytes.is_some_and(|before| bytes - before < LOOK_BYTES) {
            true => Ok(()),
            false => self.look_at_space(),
        }
    }

    /// Returns an error if there is too little space for a copy that grows.
    fn look_at_space(&mut self) -> Result<(), End> {
        self.looked_bytes = self.received.as_ref().map(RecordingWriter::bytes);
        if (self.free)(&self.copy).is_some_and(|free| free < FREE_MIN) {
            return Err(End::Failed(format!(
                "the copy in {} is full: less than {} MiB are free there. Set TMPDIR to a folder with more space",
                self.copy.display(),
                FREE_MIN >> 20
            )));
        }
        Ok(())
    }

    /// Notes that the copy has all data that the relay's files had at this time.
    fn looked(&mut self, now_ns: i64) -> Result<(), End> {
        self.look_at_space()?;
        let Some(received) = &mut self.received else { return Err(End::Over) };
        let mut state = self.shared.lock();
        state.now_ns = Some(now_ns);
        state.folder.get_or_insert_with(|| received.path().to_owned());
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

/// Decodes a message from the relay itself. Returns `None` for a message of the recording.
fn shown(kind: u16, payload: &[u8]) -> Result<Option<ToViewer>, End> {
    match ToRecorder::decode(kind, payload) {
        Ok(ToRecorder::Refuse { why }) => return Err(End::Failed(printable(&why))),
        Ok(ToRecorder::Later { why }) => return Err(End::Broken(printable(&why))),
        _ => {}
    }
    ToViewer::decode(kind, payload).map_err(|problem| End::Failed(problem.to_string()))
}

/// Reads what the relay has sent. Returns true if there was something.
fn receive(connection: &mut Connection, frames: &mut Frames) -> io::Result<bool> {
    let mut buffer = [0; 64 << 10];
    match connection.receive(&mut buffer)? {
        None => Ok(false),
        Some(0) => Err(ErrorKind::UnexpectedEof.into()),
        Some(bytes) => {
            frames.push(buffer.get(..bytes).unwrap_or_default());
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::io::{Read as _, Write as _};

    #[test]
    fn copy_on_a_full_disk_ends_before_all_that_the_relay_has_is_there() {
        let scratch = Scratch::new("view-full");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = listener.local_addr().unwrap();
        let address = ViewAddress::parse(&format!("net://{relay}/box")).unwrap();
        let target = address.target().unwrap();
        let view = RemoteView::begin_where(&address, target, &scratch.0, |_| Some(FREE_MIN - 1));
        let view = view.unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        let shown = ToViewer::Shown {
            version: VIEW_VERSION,
            recording: Uuid([7; 16]),
            session: "s".into(),
        };
        let begin = FromRecorder::Begin { id: 0, layer: "user".into(), process: None };
        // It never says that it has looked: there is always more.
        socket.write_all(&[shown.encode(), begin.encode()].concat()).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
        while view.failure().is_none() {
            std::thread::yield_now();
        }
        assert!(view.failure().unwrap().contains("is full"), "{:?}", view.failure());
        drop(view);
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    }

    #[test]
    fn address_of_a_recording_names_relay_host_and_recording() {
        let address =
            ViewAddress::parse("net://relay.example:77/web1/shop-1,certificates=c").unwrap();
        assert_eq!((&*address.host, &*address.session), ("web1", "shop-1"));
        assert_eq!(address.relay.to_string(), "relay.example:77,certificates=c");
        let newest = ViewAddress::parse("net://[::1]/web1/").unwrap();
        assert_eq!((&*newest.relay.to_string(), &*newest.session), ("[::1]:5345", ""));
        for bad in [
            "web1",
            "net://",
            "net://relay",
            "net://relay/",
            "net:///web1",
            "net://a@relay/web1",
            "net://relay/../x",
            "net://relay/web1/a/b",
            "net://relay/WEB1",
            "net://relay/web1,x=1",
        ] {
            assert!(ViewAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
