//! Viewers on other hosts: each is sent the messages of one recording while it grows.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};
use strata_collect::{is_passing, Directory};
use strata_model::Uuid;
use strata_relay::{Frames, FromRecorder, FromViewer, ToViewer, Watch, VIEW_VERSION};

use super::limits::ViewRights;
use crate::recording_folder::folder_messages::{find_recording, FolderMessages, Seen};
use crate::recording_folder::folder_names;
use crate::recording_folder::recording_state::recording_in;
use crate::recording_folder::recording_writer::STREAMS_MAX;
use crate::transport::certificates::is_for;
use crate::transport::connection::{Connection, Until};

/// The most viewers at the same time.
const VIEWERS_MAX: u64 = 64;
/// Shortest pause between two looks for new data in a recording.
const PAUSE: Duration = Duration::from_millis(100);
const LOOK_SHARE: u32 = 10;
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest time for which a viewer may accept no data.
const SILENCE: Duration = Duration::from_secs(60);
/// Number of bytes that are collected before they are sent to a viewer \[byte\].
const GATHERED_BYTES: usize = 64 << 10;

/// Longest time until a viewer has listed the packets that it has already.
const GREET: Duration = Duration::from_secs(10);

/// The parts of a relay's state that serving viewers needs.
pub(super) struct ViewDesk<'s> {
    /// The relay's folder.
    pub(super) root: &'s Directory,
    pub(super) is_stopping: &'s AtomicBool,
    /// Number of viewers.
    pub(super) viewers: &'s AtomicU64,
    /// Function that returns true if the recorder of a host's recording is connected, or may come again at any moment.
    pub(super) has_recorder: &'s dyn Fn(&str, Uuid) -> bool,
}

/// Why a viewer's connection ends before the recording has ended.
pub(super) enum ViewEnd {
    /// The connection broke.
    Broken(String),
    /// The relay does not show this recording, and tells the viewer so.
    Refused(String),
    /// The relay cannot show the recording now, and tells the viewer so.
    Later(String),
}

impl From<io::Error> for ViewEnd {
    fn from(error: io::Error) -> ViewEnd {
        ViewEnd::Broken(error.to_string())
    }
}

/// Returns the end of a connection for which a file of the recording cannot be read. The viewer may connect again if the
/// file was incomplete, since the recorder may have been writing it at that moment; otherwise the recording is refused.
fn unreadable(error: &io::Error) -> ViewEnd {
    let why = format!("the recording cannot be shown: {error}");
    let is_half = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof].contains(&error.kind());
    match is_half || is_passing(error) {
        true => ViewEnd::Later(why),
        false => ViewEnd::Refused(why),
    }
}

fn nonsense(problem: impl std::fmt::Display) -> ViewEnd {
    ViewEnd::Refused(problem.to_string())
}

/// Checks that a viewer may read what it asks for.
pub(super) fn check(
    rights: &ViewRights,
    connection: &Connection,
    watch: FromViewer,
) -> Result<Watch, ViewEnd> {
    let FromViewer::Watch(watch) = watch else {
        return Err(ViewEnd::Broken("its first message asks for no recording".to_owned()));
    };
    if watch.version != VIEW_VERSION {
        return Err(ViewEnd::Refused(format!(
            "the relay speaks version {VIEW_VERSION} of the viewers' protocol, the viewer {}. Use the same strata on both",
            watch.version
        )));
    }
    if !watch.is_of_our_order {
        return Err(ViewEnd::Refused("the viewer's byte order is not the relay's".to_owned()));
    }
    let session = &watch.session;
    if !folder_names::is_host(&watch.host)
        || !(session.is_empty() || folder_names::is_session(session))
    {
        let (host, session) = (watch.host.escape_debug(), session.escape_debug());
        return Err(ViewEnd::Refused(format!("'{host}/{session}' can be no recording")));
    }
    let certificate = connection.peer_certificate();
    let is_named =
        |name: &str| certificate.as_ref().is_some_and(|certificate| is_for(certificate, name));
    let may_read = match rights {
        ViewRights::All => true,
        ViewRights::Names(names) => names.iter().any(|name| is_named(name)),
        ViewRights::Own => false,
    };
    if may_read || is_named(&watch.host) {
        return Ok(watch);
    }
    Err(ViewEnd::Refused(match certificate {
        Some(_) => format!(
            "its certificate is neither for '{}' nor for one of the relay's --viewers, so it may not read these recordings",
            watch.host
        ),
        None => "without TLS a viewer cannot prove its identity, and the relay was not started with --viewers all".to_owned(),
    }))
}

/// Counts a viewer until the value ends.
struct Counted<'s>(&'s AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a recording until it has ended.
pub(super) fn serve(
    desk: &ViewDesk<'_>,
    connection: &mut Connection,
    frames: &mut Frames,
    watch: &Watch,
) -> Result<(), ViewEnd> {
    let before = desk.viewers.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(desk.viewers);
    if before >= VIEWERS_MAX {
        return Err(ViewEnd::Later(format!("there are {VIEWERS_MAX} viewers")));
    }
    let folder =
        find_recording(desk.root, &watch.host, &watch.session).map_err(ViewEnd::Refused)?;
    let recording = recording_in(folder.path());
    let recording = recording.ok_or_else(|| ViewEnd::Later("the recording begins".to_owned()))?;
    let session = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let shown = ToViewer::Shown { version: VIEW_VERSION, recording, session };
    connection.send_short(&shown.encode())?;
    let seen = seen(desk, connection, frames)?;
    let mut messages = FolderMessages::new(&folder, seen);
    let mut gathered = Vec::new();
    loop {
        let began = Instant::now();
        let now = clock_gettime(ClockId::Realtime);
        let now_ns = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
        let has_recorder = (desk.has_recorder)(&watch.host, recording);
        let mut is_broken = false;
        let looked = messages.look(has_recorder, &mut |message: &FromRecorder<'_>| {
            gathered.extend_from_slice(&message.encode());
            match gathered.len() < GATHERED_BYTES {
                true => Ok(()),
                false => send(desk, connection, &mut gathered).inspect_err(|_| is_broken = true),
            }
        });
        let looked = looked.map_err(|error| match is_broken {
            true => error.into(),
            false => unreadable(&error),
        })?;
        if !looked.has_more {
            let is_recorded = looked.is_recorded;
            gathered.extend_from_slice(&ToViewer::Looked { now_ns, is_recorded }.encode());
        }
        send(desk, connection, &mut gathered)?;
        if !looked.is_recorded {
            return Ok(());
        }
        if !looked.has_more {
            wait(desk, connection, (began.elapsed() * LOOK_SHARE).clamp(PAUSE, PAUSE_MAX))?;
        }
    }
}

/// Receives the list of packets that the viewer has already.
fn seen(
    desk: &ViewDesk<'_>,
    connection: &mut Connection,
    frames: &mut Frames,
) -> Result<Seen, ViewEnd> {
    let (until, mut seen) = (Instant::now() + GREET, Seen::new());
    let mut buffer = [0; 4096];
    loop {
        while let Some((kind, payload)) = frames.next_frame().map_err(nonsense)? {
            match FromViewer::decode(kind, payload).map_err(nonsense)? {
                FromViewer::Have { id, stream, sequence } => {
                    seen.insert((id, stream), sequence);
                }
                FromViewer::Ready => return Ok(seen),
                FromViewer::Watch(_) => {
                    return Err(ViewEnd::Broken("it asks for a second recording".to_owned()));
                }
            }
        }
        let now = Instant::now();
        let is_late = now >= until || desk.is_stopping.load(Ordering::Acquire);
        if is_late || seen.len() as u64 > STREAMS_MAX || frames.held() > buffer.len() * 2 {
            return Err(ViewEnd::Broken("it does not say what it has".to_owned()));
        }
        match connection.receive(&mut buffer)? {
            Some(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Some(bytes) => frames.push(buffer.get(..bytes).unwrap_or_default()),
            None => connection.wait(Until::Readable, None, until - now)?,
        }
    }
}

/// Sends all of these bytes. Fails if the viewer accepts none for too long.
fn send(desk: &ViewDesk<'_>, connection: &mut Connection, bytes: &mut Vec<u8>) -> io::Result<()> {
    let (mut sent, mut moved) = (0, Instant::now());
    loop {
        let is_flushed = connection.flush()?;
        let rest = bytes.get(sent..).unwrap_or_default();
        if rest.is_empty() && is_flushed {
            break;
        }
        let now = connection.send(rest)?;
        if now > 0 {
            (sent, moved) = (sent + now, Instant::now());
            continue;
        }
        is_there(desk, connection)?;
        if moved.elapsed() > SILENCE {
            return Err(ErrorKind::TimedOut.into());
        }
        connection.wait(Until::ReadableOrWritable, None, PAUSE)?;
    }
    bytes.clear();
    // The largest message is much larger than the others.
    bytes.shrink_to(GATHERED_BYTES * 2);
    Ok(())
}

/// Waits until the next look.
fn wait(desk: &ViewDesk<'_>, connection: &mut Connection, time: Duration) -> io::Result<()> {
    let until = Instant::now() + time;
    loop {
        is_there(desk, connection)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        connection.wait(Until::Readable, None, left.min(PAUSE))?;
    }
}

/// Returns an error if the viewer has closed the connection, or sends something.
fn is_there(desk: &ViewDesk<'_>, connection: &mut Connection) -> io::Result<()> {
    if desk.is_stopping.load(Ordering::Acquire) {
        return Err(ErrorKind::ConnectionAborted.into());
    }
    match connection.receive(&mut [0; 64])? {
        None => Ok(()),
        Some(0) => Err(ErrorKind::UnexpectedEof.into()),
        Some(_) => Err(io::Error::other("a viewer has nothing to say")),
    }
}
