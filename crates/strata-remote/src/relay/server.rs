//! The relay's server: it listens for recorders and viewers, and serves each connection in a thread of its own.
//!
//! ```text
//! accept ─▶ TLS handshake ─▶ first message ┬─ Open  ─▶ register ─▶ receive ─▶ keep ─▶ complete, or parked for its return
//!  limits by address        within GREET   └─ Watch ─▶ server/viewer.rs sends the recording, message by message
//! ```
//!
//! # A recorder's connection
//! 1. [`Relayd::accept`] refuses connections above the limits in total, and above those of one address that have
//!    said nothing yet.
//! 2. `greet` reads the first message. It checks the protocol's version and the names of host and session, which
//!    become folders, and that the certificate is for the host.
//! 3. `register` makes the connection that of its recording. An older connection of the same recording has broken
//!    unseen: its socket is shut down, and `register` waits a limited time for its thread to end, since two may
//!    not write one folder.
//! 4. `receive` answers with the number of the next message, so that a recorder continues where its last
//!    connection broke. It then gives each message to the [`RecordingWriter`]. Messages are acknowledged when
//!    they are written, or with `--sync` when [`Durable`] has forced them to the disk: until then the recorder
//!    keeps them.
//! 5. However the connection ends, `keep` notes what has arrived. An incomplete recording goes to
//!    `disconnected_recordings`, which holds its folder locked for some seconds, so that whoever follows the
//!    recording waits for its recorder.
//!
//! A connection ends as one of [`End`]: broken (the recorder comes again), refused (it does not), or later (it
//! comes again after a pause, as when the host has too many connections).
//!
//! # Threads
//! - The thread that calls [`Relayd::serve`] accepts, and forgets parked recordings whose time has passed.
//! - A thread `strata-recorder` serves each connection.
//! - The thread that calls [`Relayd::keep`] hands ended recordings to a command and removes old ones
//!   (`ended_recordings`).
//! - [`Durable`] has the thread that forces files to the disk, for all connections together.
//!
//! All share [`Shared`]. Its registry is locked for moments only: files are opened, closed and counted without
//! the lock. [`Relayd::stop`] may be called from any thread.
//!
//! # Hostile peers
//! Nothing that a connection sends is believed before its certificate is verified. A recorder that is slow,
//! silent or hostile costs its own thread, one part of the memory for messages ([`Memory`]), and the bytes and
//! recordings that its host may have. A connection whose message takes too long is closed when others wait for
//! memory. docs/design/threats.md says who may do what to whom.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::time::ClockId;
use rustls::ServerConfig;
use strata_collect::Directory;
use strata_relay::{
    Frames, FromGuest, FromRecorder, FromViewer, Open, ToRecorder, Watch, FRAME_BYTES_MAX,
    REMOTE_VERSION, REMOTE_VERSION_MIN,
};

use crate::recording_folder::folder_names;
use crate::recording_folder::problem::Problem;
use crate::recording_folder::recording_state::recording_in;
use crate::recording_folder::recording_writer::{host_folder, FilesState, RecordingWriter};
use crate::relay::disk_sync::{Durable, SyncFigures};
use crate::relay::event::{Log, RelayEvent};
use crate::relay::memory::{Memory, Part};
use crate::transport::certificates::is_for;
use crate::transport::connection::{Connection, Until};

mod disconnected_recordings;
mod ended_recordings;
mod limits;
mod metrics;
mod shared_state;
mod viewer;
mod wall_clock;

pub use ended_recordings::KeepRules;
pub use limits::{Limits, ViewRights};
use shared_state::{Connected, Host, Key, Progress, Shared};
use viewer::{ViewDesk, ViewEnd};
use wall_clock::{clock_ns, WallClock};

/// Longest time until a connection's first message arrives.
const GREET: Duration = Duration::from_secs(10);
/// Largest first message \[byte\].
const GREETING_BYTES_MAX: usize = 2048;
/// Period at which a recorder is asked for its time. Recorders that stay silent for several periods are disconnected.
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(45);
/// Number of bytes after which the relay acknowledges messages while more arrive \[byte\].
const NOTE_BYTES: u64 = 1 << 20;
const SYNC_BYTES: u64 = 8 << 20;
/// The most bytes of one read \[byte\].
const READ_BYTES: usize = 128 << 10;
/// Largest message that needs no part of the shared memory \[byte\].
const OWN_BYTES: usize = 128 << 10;
/// Time for which a silent connection keeps the memory of its last message.
const KEEP_MEMORY: Duration = Duration::from_millis(500);
/// Longest time that a message may take while other connections wait for memory.
const MESSAGE: Duration = Duration::from_secs(60);
/// The most connections whose first message has not arrived, in total and from one address.
const GREETING_MAX: u64 = 1024;
const GREETING_OF_ONE_MAX: u64 = 64;
/// Longest time that a new connection waits for the old one of the same recording to end.
const TAKE_OVER: Duration = Duration::from_secs(5);
/// Period at which the relay looks for recordings whose connection broke long ago.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Free space below which the relay is not healthy \[byte\].
const FREE_MIN: u64 = 16 << 20;
/// Time for which a failure to write counts for the relay's health.
const FAILED: Duration = Duration::from_secs(30);
/// Space that a host gets above its limit for metadata, which are written even while packets are discarded
/// \[byte\]. A sixteenth of the limit is added to it.
const DESCRIPTIONS: u64 = 16 << 20;
/// Shortest period of measuring the files of a host whose share of the space is used up. Measuring takes at most the
/// part 1/`RECOUNT_SHARE` of the time.
const RECOUNT_PERIOD: Duration = Duration::from_secs(1);
const RECOUNT_SHARE: u32 = 20;
/// Size of a thread's stack \[byte\].
const STACK_BYTES: usize = 512 << 10;

/// A relay, which listens for recorders and writes their traces.
pub struct Relayd {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Relayd {
    /// Listens at `address`, to write below the folder `root`, which is made if it does not exist.
    ///
    /// # Errors
    /// A system call failed; the text names the file or address.
    pub fn new(
        address: SocketAddr,
        root: &Path,
        tls: Option<Arc<ServerConfig>>,
        limits: Limits,
        log: Box<Log>,
    ) -> Result<Relayd, String> {
        let path = root.display().to_string();
        let failed = |error: &dyn std::fmt::Display| format!("{path}: {error}");
        std::fs::create_dir_all(root).map_err(|error| failed(&error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::open(root, flags, Mode::empty()).map_err(|error| failed(&error))?;
        let root = open_root(&opened, root).map_err(|error| failed(&error))?;
        let durable = limits.sync.map(|_| Durable::begin(opened)).transpose();
        let durable = durable.map_err(|error| failed(&error))?;
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(|error| format!("cannot listen at {address}: {error}"))?;
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.map_err(|error| format!("cannot listen at {address}: {error}"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = stop.map_err(|error| failed(&error))?;
        let shared = Shared {
            root,
            tls,
            // The largest message must fit.
            memory: Memory::new(limits.memory.max(FRAME_BYTES_MAX as u64 + 4096)),
            limits,
            log,
            registry: Mutex::default(),
            left: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            stop,
            greeting: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            durable,
            refused: AtomicU64::new(0),
            wall: WallClock::new(),
            kept: Mutex::default(),
            failed: Mutex::default(),
            viewers: AtomicU64::new(0),
            recount_period: RECOUNT_PERIOD,
        };
        Ok(Relayd { listener, shared: Arc::new(shared) })
    }

    /// Returns the address at which the relay listens.
    ///
    /// # Errors
    /// A system call failed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns true if the recorder of the recording in this folder is connected, or its connection broke just before.
    #[must_use]
    pub fn has_recorder(&self, host: &str, folder: &Path) -> bool {
        let recording = recording_in(folder);
        recording.is_some() && self.shared.registry().has_recorder(host, recording)
    }

    /// Returns the durations of forcing files to the disk; `None` if the relay does not force files.
    #[must_use]
    pub fn sync_figures(&self) -> Option<SyncFigures> {
        self.shared.durable.as_ref().map(|durable| durable.figures())
    }

    /// Serves recorders until [`Relayd::stop`] is called. Recordings continue when the relay is started again.
    ///
    /// # Errors
    /// A system call failed.
    pub fn serve(&self) -> io::Result<()> {
        let period = Timespec::try_from(LOOK_PERIOD).ok();
        loop {
            let stop = &self.shared.stop;
            let mut fds =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, period.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.shared.is_stopping.load(Ordering::Acquire) {
                return Ok(());
            }
            self.shared.look_at_parked(Instant::now());
            match self.listener.accept() {
                Ok((socket, peer)) => self.accept(socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // One connection failed, or there are too many descriptors, some of which others will close.
                Err(error) => {
                    let why = format!("cannot accept a connection: {error}");
                    (self.shared.log)(RelayEvent::Trouble(why));
                    std::thread::sleep(Duration::from_millis(100)); // Time: descriptors become free when connections end.
                }
            }
        }
    }

    fn accept(&self, socket: TcpStream, peer: SocketAddr) {
        let shared = Arc::clone(&self.shared);
        let refuse = |why: String| {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            (shared.log)(RelayEvent::Refused { peer, why });
        };
        if shared.connections.load(Ordering::Relaxed) >= shared.limits.connections {
            return refuse(format!("there are {} connections", shared.limits.connections));
        }
        if shared.greeting.load(Ordering::Relaxed) >= GREETING_MAX {
            return refuse(format!("{GREETING_MAX} connections have said nothing yet"));
        }
        let of_one = {
            let mut registry = shared.registry();
            let count = registry.greeting.entry(peer.ip()).or_default();
            let may = *count < GREETING_OF_ONE_MAX;
            *count += u64::from(may);
            may
        };
        if !of_one {
            return refuse(format!(
                "{GREETING_OF_ONE_MAX} connections of its address have said nothing yet"
            ));
        }
        shared.greeting.fetch_add(1, Ordering::Relaxed);
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let greeting = Greeting { shared: Arc::clone(&shared), peer: peer.ip() };
        let counted = Counted(Arc::clone(&shared));
        let serve = move || {
            let _counted = counted;
            serve(&greeting.shared.clone(), socket, peer, greeting);
        };
        let thread = std::thread::Builder::new().name("strata-recorder".to_owned());
        if let Err(error) = thread.stack_size(STACK_BYTES).spawn(serve) {
            (shared.log)(RelayEvent::Trouble(format!("cannot make a thread: {error}")));
        }
    }

    /// Ends all connections, and waits until the received messages are noted.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        // The write fails only if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        let mut registry = self.shared.registry();
        for recorder in registry.recorders.values() {
            let _ = recorder.socket.shutdown(Shutdown::Both);
        }
        let until = Instant::now() + TAKE_OVER;
        while !registry.recorders.is_empty() && Instant::now() < until {
            let waited = self.shared.left.wait_timeout(registry, Duration::from_millis(100));
            registry = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Opens the relay's folder as a [`Directory`]; another user must not own it.
fn open_root(opened: &OwnedFd, path: &Path) -> Result<Directory, String> {
    Directory::open_in(opened.as_fd(), std::ffi::OsStr::new("."), path)
        .map_err(|_| "it is another user's folder".to_owned())
}

/// Counts a connection whose first message has not arrived, as long as this value lives.
struct Greeting {
    shared: Arc<Shared>,
    peer: IpAddr,
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.shared.greeting.fetch_sub(1, Ordering::Relaxed);
        let mut registry = self.shared.registry();
        if let Some(count) = registry.greeting.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                registry.greeting.remove(&self.peer);
            }
        }
    }
}

/// Counts a connection of a host, as long as this value lives.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that is registered for its recording, as long as this value lives.
struct Registered<'s> {
    shared: &'s Shared,
    key: Key,
    has_socket: bool,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut registry = self.shared.registry();
        if self.has_socket {
            registry.recorders.remove(&self.key);
        }
        if let Some(host) = registry.hosts.get_mut(&self.key.0) {
            host.connections -= 1;
        }
        drop(registry);
        self.shared.left.notify_all();
    }
}

/// Why a connection ends before its recording is complete.
enum End {
    /// The connection broke; the recorder may connect again.
    Broken(String),
    /// The relay refuses the recording for good, and tells the recorder so.
    Refused(String),
    /// The relay cannot take messages now, and tells the recorder so.
    Later(String),
}

impl From<Problem> for End {
    fn from(Problem { why, is_passing }: Problem) -> End {
        match is_passing {
            true => End::Later(why),
            false => End::Refused(why),
        }
    }
}

impl From<ViewEnd> for End {
    fn from(end: ViewEnd) -> End {
        match end {
            ViewEnd::Broken(why) => End::Broken(why),
            ViewEnd::Refused(why) => End::Refused(why),
            ViewEnd::Later(why) => End::Later(why),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error.to_string())
    }
}

fn serve(shared: &Shared, socket: TcpStream, peer: SocketAddr, greeting: Greeting) {
    let made = match &shared.tls {
        Some(config) => Connection::server(socket, Arc::clone(config)),
        None => Connection::plain(socket),
    };
    let Ok(mut connection) = made else { return };
    let mut frames = Frames::default();
    let tell = |connection: &mut Connection, said: ToRecorder| {
        // A peer that does not read the reason does not get it.
        let _ = connection.send_short(&said.encode());
        let until = Instant::now() + Duration::from_secs(1);
        while connection.has_more() && Instant::now() < until {
            let waited = connection.wait(Until::Readable, None, Duration::from_millis(100));
            if waited.is_err() || connection.flush().is_err() {
                break;
            }
        }
    };
    let refuse = |connection: &mut Connection, why: String| {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        tell(connection, ToRecorder::Refuse { why: why.clone() });
        (shared.log)(RelayEvent::Refused { peer, why });
    };
    // For a connection that has written nothing.
    let end_early = |connection: &mut Connection, end: End| match end {
        End::Refused(why) => refuse(connection, why),
        End::Later(why) => {
            tell(connection, ToRecorder::Later { why: why.clone() });
            (shared.log)(RelayEvent::Refused { peer, why });
        }
        End::Broken(why) => (shared.log)(RelayEvent::Refused { peer, why }),
    };
    let opened = greet(shared, &mut connection, &mut frames);
    if opened.is_ok() {
        drop(greeting);
    }
    let open = match opened {
        Ok(First::Open(open)) => open,
        Ok(First::Watch(watch)) => {
            let desk = ViewDesk {
                root: &shared.root,
                is_stopping: &shared.is_stopping,
                viewers: &shared.viewers,
                has_recorder: &|host, recording| {
                    shared.registry().has_recorder(host, Some(recording))
                },
            };
            return match viewer::serve(&desk, &mut connection, &mut frames, &watch) {
                Ok(()) => connection.close(),
                Err(end) => end_early(&mut connection, end.into()),
            };
        }
        Err(end) => return end_early(&mut connection, end),
    };
    let registered = match register(shared, &connection, &open, TAKE_OVER) {
        Ok(registered) => registered,
        Err(end) => return end_early(&mut connection, end),
    };
    let failures = shared.failures();
    let kept = match &shared.durable {
        None => FilesState::Written,
        Some(_) if failures == 0 => FilesState::Durable,
        Some(_) => FilesState::Doubted,
    };
    let mut received = match open_received(shared, &open, kept) {
        Ok(received) => received,
        Err(problem) => {
            note_failure(shared, &problem);
            return end_early(&mut connection, problem.into());
        }
    };
    if received.next() < open.first {
        let (next, first) = (received.next(), open.first);
        let why = format!("messages {next} to {first} of this recording are not here any more");
        return refuse(&mut connection, why);
    }
    received.translate_times(open.boot, shared.wall.at_zero_ns());
    let has_most = |host: &mut Host| host.bytes > shared.limits.host_bytes;
    received.set_full(open.knows_discarded() && shared.with_host(&open.host, has_most));
    let (host, folder) = (open.host.clone(), received.path().to_owned());
    let next = received.next();
    (shared.log)(RelayEvent::Connected { host: host.clone(), folder: folder.clone(), next });
    let end = receive(shared, &mut connection, &mut frames, &open, &mut received, failures);
    received.write_clock(true);
    // Received messages count, however the connection ended.
    let noted = keep(shared, &mut received, failures);
    let is_refused = matches!(end, Err(End::Refused(_)));
    let why = match (end, noted) {
        (Err(End::Refused(why)), _) => {
            received.fail();
            refuse(&mut connection, why.clone());
            Some(why)
        }
        (Err(End::Later(why)), _) => {
            tell(&mut connection, ToRecorder::Later { why: why.clone() });
            Some(why)
        }
        (_, Err(error)) => Some(error.to_string()),
        (Err(End::Broken(why)), _) => Some(why),
        (Ok(()), Ok(next)) => {
            let _ = connection.send_short(&ToRecorder::Ack { next }.encode());
            None
        }
    };
    let (is_complete, bytes) = (received.is_closed(), received.bytes());
    shared.with_host(&host, |host| host.breaks += u64::from(!is_complete));
    connection.close();
    if !is_complete && !is_refused {
        shared.park(&registered.key, received.park());
    } else {
        drop(received);
    }
    drop(registered);
    (shared.log)(RelayEvent::Left { host, folder, is_complete, why, bytes });
}

/// Opens the folder of the recording, or continues it where an earlier connection has ended.
fn open_received(
    shared: &Shared,
    open: &Open,
    kept: FilesState,
) -> Result<RecordingWriter, Problem> {
    let key = (open.host.clone(), open.recording);
    let parked = shared.registry().parked.remove(&key);
    if let Some(parked) = parked {
        if let Some(received) = parked.reopen((open.recording, open.first), kept)? {
            return Ok(received);
        }
    }
    let host = host_folder(&shared.root, &open.host)?;
    let most = shared.limits.host_sessions;
    RecordingWriter::open(&host, &open.session, (open.recording, open.first), most, kept)
}

/// Notes a failure to write for the relay's health.
fn note_failure(shared: &Shared, problem: &Problem) {
    if problem.is_passing {
        let mut failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some((Instant::now(), problem.why.clone()));
    }
}

/// First message of a connection.
enum First {
    /// A recorder sends a recording.
    Open(Open),
    /// A viewer asks for a recording.
    Watch(Watch),
}

/// Waits for the first message, and checks that its sender may write to that host's folder, or read it.
fn greet(shared: &Shared, connection: &mut Connection, frames: &mut Frames) -> Result<First, End> {
    let until = Instant::now() + GREET;
    let mut buffer = [0; GREETING_BYTES_MAX];
    let open = loop {
        let now = Instant::now();
        if now >= until || shared.is_stopping.load(Ordering::Acquire) {
            return Err(End::Broken(format!("it has said nothing for {} s", GREET.as_secs())));
        }
        match connection.receive(&mut buffer)? {
            Some(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Some(bytes) => frames.push(buffer.get(..bytes).unwrap_or_default()),
            None => connection.wait(Until::Readable, None, until - now)?,
        }
        let nonsense = |problem: &dyn std::fmt::Display| End::Broken(problem.to_string());
        if let Some((kind, payload)) = frames.next_frame().map_err(|problem| nonsense(&problem))? {
            if FromViewer::begins_with(kind) {
                let watch =
                    FromViewer::decode(kind, payload).map_err(|problem| nonsense(&problem))?;
                let watch = viewer::check(&shared.limits.viewers, connection, watch);
                return watch.map(First::Watch).map_err(End::from);
            }
            match FromRecorder::decode(kind, payload).map_err(|problem| nonsense(&problem))? {
                FromRecorder::Open(open) => break open,
                _ => return Err(End::Broken("its first message opens no recording".to_owned())),
            }
        }
        if frames.held() > GREETING_BYTES_MAX {
            return Err(End::Broken("its first message is too long".to_owned()));
        }
    };
    if !(REMOTE_VERSION_MIN..=REMOTE_VERSION).contains(&open.version) {
        return Err(End::Refused(format!(
            "the relay speaks versions {REMOTE_VERSION_MIN} to {REMOTE_VERSION} of the protocol, the recorder {}. Use the same \
             strata on both",
            open.version
        )));
    }
    if !open.is_of_our_order {
        return Err(End::Refused("the recorder's byte order is not the relay's".to_owned()));
    }
    if !folder_names::is_host(&open.host) {
        let name = open.host.escape_debug();
        return Err(End::Refused(format!(
            "'{name}' can be no host's folder: 1 to 64 lower-case letters, digits, '.', '_' and '-'"
        )));
    }
    if !folder_names::is_session(&open.session) {
        let name = open.session.escape_debug();
        return Err(End::Refused(format!(
            "'{name}' can be no recording's folder: 1 to 64 letters, digits, '.', '_' and '-'"
        )));
    }
    if shared.tls.is_some() {
        let certificate = connection.peer_certificate();
        if !certificate.is_some_and(|certificate| is_for(&certificate, &open.host)) {
            return Err(End::Refused(format!(
                "its certificate is not for the name '{}'. Use the one that was made for it, or --to NAME@HOST with the name \
                 that the certificate is for",
                open.host
            )));
        }
    }
    Ok(First::Open(open))
}

/// Registers the connection for its recording. An older connection of the same recording, which may have broken
/// unnoticed, gets a limited time to end. Reasons that may soon not apply, such as too many connections, are an
/// [`End::Later`], since a refused recorder does not connect again.
fn register<'s>(
    shared: &'s Shared,
    connection: &Connection,
    open: &Open,
    take_over: Duration,
) -> Result<Registered<'s>, End> {
    let key = (open.host.clone(), open.recording);
    let socket = connection.socket()?;
    let mut registry = shared.registry();
    if !registry.hosts.contains_key(&open.host) {
        drop(registry);
        let bytes = bytes_below(&shared.root.path().join(&open.host), 6);
        registry = shared.registry();
        registry.hosts.entry(open.host.clone()).or_insert(Host { bytes, ..Host::default() });
    }
    let limits = &shared.limits;
    let is_again = registry.recorders.contains_key(&key);
    let host = registry.hosts.entry(open.host.clone()).or_default();
    // The one that is replaced ends.
    if !is_again && host.connections >= limits.host_connections {
        let most = limits.host_connections;
        return Err(End::Later(format!("the host has {most} connections")));
    }
    // One that has begun goes on: what does not fit is counted. A recorder may say so of any, and again and again.
    let has_begun = open.first > 0 || is_again || registry.parked.contains(&key);
    let is_over = |bytes: u64| match has_begun {
        true => bytes > most_bytes(limits.host_bytes, open),
        false => bytes >= limits.host_bytes,
    };
    let host = registry.hosts.entry(open.host.clone()).or_default();
    if is_over(host.bytes) {
        drop(registry);
        if is_over(recount(shared, &open.host)) {
            return Err(End::Refused(too_many_bytes(limits.host_bytes)));
        }
        registry = shared.registry();
    }
    let host = registry.hosts.entry(open.host.clone()).or_default();
    host.connections += 1;
    let mut registered = Registered { shared, key: key.clone(), has_socket: false };
    let until = Instant::now() + take_over;
    while let Some(old) = registry.recorders.get(&key) {
        let _ = old.socket.shutdown(Shutdown::Both);
        if Instant::now() >= until {
            drop(registry);
            let why = "another connection of this recording does not end";
            return Err(End::Broken(why.to_owned()));
        }
        let waited = shared.left.wait_timeout(registry, Duration::from_millis(100));
        registry = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    if shared.is_stopping.load(Ordering::Acquire) {
        drop(registry);
        return Err(End::Broken("the relay is being stopped".to_owned()));
    }
    registry.recorders.insert(key, Connected { socket, waiting_since: None });
    registered.has_socket = true;
    drop(registry);
    Ok(registered)
}

/// Measures the host's files again and returns their size, since recordings may have been removed.
fn recount(shared: &Shared, host: &str) -> u64 {
    let begin = Instant::now();
    let bytes = bytes_below(&shared.root.path().join(host), 6);
    shared.with_host(host, |host| {
        host.bytes = bytes;
        let period = shared.recount_period.max(begin.elapsed() * RECOUNT_SHARE);
        host.next_recount = Some(begin + period);
    });
    bytes
}

/// Returns how many bytes the host may have with what describes its traces \[byte\]. `most`: without that. A recorder that
/// cannot be told what is left out is refused there.
fn most_bytes(most: u64, open: &Open) -> u64 {
    match open.knows_discarded() {
        true => most.saturating_add(most / 16).saturating_add(DESCRIPTIONS),
        false => most,
    }
}

fn too_many_bytes(most: u64) -> String {
    format!(
        "the host's recordings at the relay have reached their limit of {most}. Remove some there"
    )
}

/// Returns the sum of the sizes of the files below a folder \[byte\].
fn bytes_below(path: &Path, depth: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() && depth > 0 => bytes_below(&entry.path(), depth - 1),
        Ok(about) if about.is_file() => about.len(),
        _ => 0,
    });
    each.sum()
}

/// Notes the received messages when the connection has ended, and forces them to the disk, so that they need not be
/// sent again.
fn keep(shared: &Shared, received: &mut RecordingWriter, failures: u64) -> io::Result<u64> {
    let next = received.note()?;
    if let Some(durable) = shared.durable.as_ref().filter(|_| received.durable() < next) {
        if durable.sync(failures, &mut || Ok(())).is_ok() {
            received.set_durable(next);
        }
    }
    if shared.failures() != failures {
        received.doubt();
    }
    received.note_again()
}

/// Takes messages until the recording is complete. `failures`: the number of syncs that had failed when its folder
/// was opened.
fn receive(
    shared: &Shared,
    connection: &mut Connection,
    frames: &mut Frames,
    open: &Open,
    received: &mut RecordingWriter,
    failures: u64,
) -> Result<(), End> {
    let resume = ToRecorder::Resume {
        version: open.version,
        recording: open.recording,
        next: received.next(),
    };
    // With a question for the time, whose answer comes before the first message.
    let mut pings = 0;
    let ping = match received.clock().is_some() {
        true => ask(received, &mut pings),
        false => Vec::new(),
    };
    let mut told = (0, false);
    let left_out = quota_news(received, open, &mut told);
    connection.send_short(&[resume.encode(), ping, left_out].concat())?;
    let key = (open.host.clone(), open.recording);
    let (mut heard, mut asked) = (Instant::now(), Instant::now());
    let (mut acknowledged, mut counted) = (received.next(), Progress::of(received));
    let (mut noted_bytes, mut synced_bytes) = (0, 0);
    let (mut synced, mut part) = (Instant::now(), None::<Part>);
    loop {
        let wanted = frames.wanted(READ_BYTES);
        let came = connection.receive(frames.space(wanted))?;
        let came_ns = clock_ns(ClockId::Monotonic);
        if let Some(bytes) = came {
            heard = Instant::now();
            frames.filled(bytes);
        }
        let (mut is_next, mut must_note) = (false, false);
        // Some may have come with the first message, and count although the connection has ended.
        while let Some((kind, payload)) = frames.next_frame().map_err(refused)? {
            is_next = true;
            let said = FromRecorder::decode(kind, payload).map_err(refused)?;
            match said {
                FromRecorder::Data(FromGuest::Pong { number, received_ns, sent_ns, .. }) => {
                    let clock = received.clock();
                    let times = (received_ns, sent_ns);
                    if clock.is_some_and(|clock| clock.take(number, times, came_ns)) {
                        let ping = ask(received, &mut pings);
                        connection.send_short(&ping)?;
                    }
                }
                said => received.take(&said).inspect_err(|why| note_failure(shared, why))?,
            }
        }
        received.write_clock(false);
        if is_next {
            begin_next(frames, &mut part);
        }
        let coming = frames.coming().filter(|coming| *coming > OWN_BYTES);
        match (coming, &part) {
            (Some(coming), _) if part.as_ref().is_none_or(|part| part.bytes() < coming as u64) => {
                frames.shrink(OWN_BYTES);
                drop(part.take());
                let again = ToRecorder::Ack { next: acknowledged }.encode();
                let mut alive = || match shared.is_stopping.load(Ordering::Acquire) {
                    true => Err(ErrorKind::ConnectionAborted.into()),
                    false => connection.send_short(&again),
                };
                part = Some(shared.memory.take(coming as u64, &mut alive)?);
                heard = Instant::now();
            }
            (Some(_), Some(part)) if part.is_kept_from_others(MESSAGE) => {
                let why = "its message takes too long, and others wait for memory";
                return Err(End::Broken(why.to_owned()));
            }
            // It is likely to be needed again, and new memory costs as much as copying into it.
            (None, Some(_)) if heard.elapsed() >= KEEP_MEMORY || shared.memory.look().1 > 0 => {
                frames.shrink(OWN_BYTES);
                part = None;
            }
            _ => {}
        }
        if came == Some(0) && !received.is_closed() {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let bytes = received.bytes();
        let progress = Progress::of(received);
        if progress != counted {
            let was_full = received.quota().1;
            received.set_full(count(shared, open, counted, progress)?);
            // Until that is on the disk no packet may follow those that were left out: what comes again behind it would be
            // taken for what is in the files.
            must_note = was_full && !received.quota().1;
            shared.set_waiting(&key, true);
            counted = progress;
        }
        let is_idle = came.is_none();
        let is_waiting = received.next() != acknowledged;
        let (period, most) = match shared.limits.sync {
            Some(period) => (period, SYNC_BYTES),
            None => (Duration::ZERO, NOTE_BYTES),
        };
        if is_idle || bytes - noted_bytes >= NOTE_BYTES {
            // A relay that is started again after being killed continues here.
            received.note()?;
            noted_bytes = bytes;
        }
        let left = period.saturating_sub(synced.elapsed());
        let is_due = (is_idle && left.is_zero()) || received.is_closed();
        if is_waiting && (is_due || must_note || bytes - synced_bytes >= most) {
            let before = (acknowledged, failures);
            acknowledged = acknowledge(shared, connection, (received, open), before, &mut told)?;
            shared.set_waiting(&key, false);
            (synced_bytes, synced) = (bytes, Instant::now());
        }
        if received.is_closed() {
            return drained(connection);
        }
        if is_idle {
            connection.flush()?;
            if asked.elapsed() >= PING && !connection.has_more() {
                connection.send_short(&ask(received, &mut pings))?;
                asked = Instant::now();
            }
            if heard.elapsed() > SILENCE {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
            let is_waiting = received.next() != acknowledged;
            let pause = if is_waiting { left.min(PING) } else { PING };
            let pause = if part.is_some() { pause.min(KEEP_MEMORY) } else { pause };
            connection.wait(Until::Readable, None, pause)?;
        }
        debug_assert!(frames.held() <= FRAME_BYTES_MAX + READ_BYTES);
    }
}

/// Returns the next question for the recorder's time.
fn ask(received: &mut RecordingWriter, pings: &mut u64) -> Vec<u8> {
    *pings += 1;
    let number = received.clock().map(|clock| clock.ask(clock_ns(ClockId::Monotonic)));
    ToRecorder::Ping { number: number.unwrap_or(*pings) }.encode()
}

/// Begins the time limit for the next message, or gives the memory back if other connections wait for some.
fn begin_next(frames: &mut Frames, part: &mut Option<Part>) {
    match part {
        Some(one) if !one.is_kept_from_others(Duration::ZERO) => one.begin(),
        Some(_) => {
            frames.shrink(OWN_BYTES);
            *part = None;
        }
        None => {}
    }
}

/// Notes the progress of the messages, forces them to the disk if the relay is set to do so, and acknowledges them.
/// Returns the number of the first message that is not acknowledged.
fn acknowledge(
    shared: &Shared,
    connection: &mut Connection,
    (received, open): (&mut RecordingWriter, &Open),
    (before, failures): (u64, u64),
    told: &mut (u64, bool),
) -> io::Result<u64> {
    let next = received.note()?;
    if let Some(durable) = &shared.durable {
        // Send something, so that the recorder does not take a slow disk for a dead relay.
        let again = ToRecorder::Ack { next: before }.encode();
        durable.sync(failures, &mut || connection.send_short(&again))?;
    }
    if received.set_durable(next) {
        received.note_again()?;
    }
    let left_out = quota_news(received, open, told);
    connection.send_short(&[left_out, ToRecorder::Ack { next }.encode()].concat())?;
    Ok(next)
}

/// Returns the message to the recorder about packets discarded for lack of space; empty if nothing has changed since
/// `told`.
fn quota_news(received: &RecordingWriter, open: &Open, told: &mut (u64, bool)) -> Vec<u8> {
    let now = received.quota();
    if std::mem::replace(told, now) == now || !open.knows_discarded() {
        return Vec::new();
    }
    ToRecorder::Discarded { records: now.0, is_full: now.1 }.encode()
}

/// Waits a limited time until the last acknowledgement is sent.
fn drained(connection: &mut Connection) -> Result<(), End> {
    let until = Instant::now() + Duration::from_secs(5);
    while !connection.flush()? && Instant::now() < until {
        connection.wait(Until::ReadableOrWritable, None, Duration::from_millis(100))?;
    }
    Ok(())
}

fn refused(problem: impl std::fmt::Display) -> End {
    End::Refused(problem.to_string())
}

/// Adds what was received since `before` to the figures of a host. Returns whether the host's share of the space is
/// used up, so that packets are discarded.
///
/// # Errors
/// What describes its traces does not fit either.
fn count(shared: &Shared, open: &Open, before: Progress, now: Progress) -> Result<bool, End> {
    let (most, name) = (shared.limits.host_bytes, &*open.host);
    let most_of_all = most_bytes(most, open);
    let (mut bytes, is_due) = shared.with_host(name, |host| {
        let bytes = now.bytes.saturating_sub(before.bytes);
        host.bytes = host.bytes.saturating_add(bytes);
        host.written = host.written.saturating_add(bytes);
        host.messages = host.messages.saturating_add(now.messages.saturating_sub(before.messages));
        let discarded = now.discarded.saturating_sub(before.discarded);
        host.discarded = host.discarded.saturating_add(discarded);
        host.left_out = host.left_out.saturating_add(now.quota.saturating_sub(before.quota));
        let heard = Instant::now();
        host.heard = Some(heard);
        (host.bytes, host.next_recount.is_none_or(|next| heard >= next))
    });
    // Descriptions that are written again and again count each time, until the files are added up.
    if (bytes > most && is_due) || bytes > most_of_all {
        bytes = recount(shared, name);
    }
    let is_full = bytes > most;
    if shared.with_host(name, |host| std::mem::replace(&mut host.is_full, is_full)) != is_full {
        (shared.log)(RelayEvent::Full { host: name.to_owned(), is_full, most });
    }
    match bytes > most_of_all {
        true => Err(End::Refused(too_many_bytes(most))),
        false => Ok(is_full),
    }
}

#[cfg(test)]
mod tests;
