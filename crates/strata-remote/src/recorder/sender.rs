//! The thread that sends: it connects to the relay, continues where the relay is, and connects again when the
//! connection breaks.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};
use strata_relay::{
    CounterPair, Frames, FromGuest, FromRecorder, Open, ToRecorder, REMOTE_VERSION,
};

use crate::recorder::backlog::Frame;
use crate::recorder::relay_link::Link;
use crate::transport::connection::{Connection, Until};
use crate::transport::target::{printable, Target, CONNECT};

/// Pauses between attempts to connect: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Longest silence of the relay, which asks for the time more often than that.
const SILENCE: Duration = Duration::from_secs(30);
/// The most bytes of a relay's messages that may be unread \[byte\].
const FRAMES_MAX: usize = 1 << 20;

/// Why a connection ended.
enum End {
    /// The recording is over: all was sent, or the recorder does not wait for the rest.
    Over,
    /// The connection broke; another one may succeed.
    Broken(String),
    /// The relay refuses this recording.
    Refused(String),
    /// The relay cannot take messages now.
    Later(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        // Certificates do not become valid by trying again.
        let is_of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match is_of_tls {
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)) => {
                End::Refused(format!("TLS: {error}"))
            }
            _ => End::Broken(error.to_string()),
        }
    }
}

/// State of the sending thread.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) link: Arc<Link>,
    pub(crate) target: Target,
    /// The first message, except for its number.
    pub(crate) open: Open,
    /// Function that reads the CPU's counter and the clock.
    pub(crate) pair: fn() -> CounterPair,
    /// True if the relay has taken an earlier part of the same session.
    pub(crate) is_later_part: bool,
}

impl Sender {
    /// Sends until all is sent, the recorder does not wait for the rest, or the relay refuses the recording.
    pub(crate) fn run(&self) {
        let (mut pause, mut was_there) = (PAUSE.0, false);
        loop {
            let mut is_there = false;
            let end = self.connect_and_send(&mut is_there);
            was_there |= is_there;
            // A relay without space, for example, needs time.
            let is_quick = is_there && !matches!(end, End::Later(_));
            match end {
                End::Over => return,
                // A relay that has accepted the recording before may do so again.
                End::Refused(why) if was_there && why.starts_with("TLS") => self.link.broke(why),
                // So may one that has no space for another part, once there is some.
                End::Refused(why) if self.is_later_part && !was_there => self.link.broke(why),
                End::Refused(why) => return self.link.fail(why),
                End::Broken(why) | End::Later(why) => self.link.broke(why),
            }
            pause = if is_quick { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            if !self.link.pause(pause) {
                return;
            }
        }
    }

    fn connect_and_send(&self, is_there: &mut bool) -> End {
        let connected = self.target.connect().map_err(End::from);
        let connected = connected.and_then(|connection| self.greet(connection));
        let (mut connection, mut frames) = match connected {
            Ok(connected) => connected,
            Err(end) => return end,
        };
        *is_there = true;
        match self.send(&mut connection, &mut frames) {
            Ok(()) => {
                connection.close();
                End::Over
            }
            Err(end) => end,
        }
    }

    /// Sends the first message, and receives the number of the message to continue with.
    fn greet(&self, mut connection: Connection) -> Result<(Connection, Frames), End> {
        let open = Open { first: self.link.first(), ..self.open.clone() };
        connection.send_short(&FromRecorder::Open(open).encode())?;
        let (mut frames, until) = (Frames::default(), Instant::now() + 2 * CONNECT);
        while Instant::now() < until {
            if self.link.is_over() {
                return Err(End::Over);
            }
            receive(&mut connection, &mut frames)?;
            if let Some((kind, payload)) = frames.next_frame().map_err(io::Error::other)? {
                match ToRecorder::decode(kind, payload).map_err(io::Error::other)? {
                    ToRecorder::Resume { version, .. } if version != REMOTE_VERSION => {
                        return Err(End::Refused(format!(
                            "it speaks version {version} of the protocol, this strata {REMOTE_VERSION}"
                        )));
                    }
                    ToRecorder::Resume { recording, next, .. }
                        if recording == self.open.recording =>
                    {
                        self.link.resume(next).map_err(End::Refused)?;
                        // The relay says if it still discards.
                        self.link.set_quota(0, false);
                        return Ok((connection, frames));
                    }
                    ToRecorder::Refuse { why } => return Err(End::Refused(printable(&why))),
                    ToRecorder::Later { why } => return Err(End::Later(printable(&why))),
                    _ => return Err(io::Error::other("its first answer makes no sense").into()),
                }
            }
            connection.wait(Until::Readable, None, Duration::from_millis(100))?;
        }
        Err(io::Error::from(ErrorKind::TimedOut).into())
    }

    fn send(&self, connection: &mut Connection, frames: &mut Frames) -> Result<(), End> {
        let (mut frame, mut at): (Option<Frame>, usize) = (None, 0);
        let mut asked: Option<(u64, u64)> = None;
        let mut heard = Instant::now();
        loop {
            if receive(connection, frames)? {
                heard = Instant::now();
            }
            while let Some((kind, payload)) = frames.next_frame().map_err(io::Error::other)? {
                match ToRecorder::decode(kind, payload).map_err(io::Error::other)? {
                    ToRecorder::Ack { next } => {
                        if !self.link.acknowledge(next) {
                            return Err(
                                io::Error::other("it acknowledges what was not sent").into()
                            );
                        }
                    }
                    ToRecorder::Ping { number } => asked = Some((number, now_ns())),
                    ToRecorder::Discarded { records, is_full } => {
                        self.link.set_quota(records, is_full);
                    }
                    ToRecorder::Refuse { why } => return Err(End::Refused(printable(&why))),
                    ToRecorder::Later { why } => return Err(End::Later(printable(&why))),
                    ToRecorder::Resume { .. } => {
                        return Err(io::Error::other("it resumes twice").into());
                    }
                }
            }
            if self.link.is_over() {
                return Ok(());
            }
            loop {
                if frame.is_none() {
                    at = 0;
                    frame = match asked.take() {
                        Some((number, received_ns)) => {
                            let pair = (self.pair)();
                            let pong =
                                FromGuest::Pong { number, received_ns, sent_ns: now_ns(), pair };
                            Some(FromRecorder::Data(pong).encode().into())
                        }
                        None => self.link.take().map_err(|error| {
                            End::Refused(format!("the spool cannot be read: {error}"))
                        })?,
                    };
                }
                let Some(bytes) = frame.as_ref().and_then(|frame| frame.get(at..)) else { break };
                let sent = connection.send(bytes)?;
                if sent == 0 {
                    break;
                }
                if sent == bytes.len() {
                    frame = None;
                }
                at += sent;
            }
            let until = match frame.is_some() {
                true => Until::ReadableOrWritable,
                false => Until::Readable,
            };
            connection.wait(until, Some(self.link.wake_fd()), Duration::from_secs(1))?;
            self.link.clear_wake();
            if heard.elapsed() > SILENCE {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
        }
    }
}

/// Reads everything that the relay has sent, since data that TLS has decrypted do not wake the thread. Returns true if
/// there was something.
fn receive(connection: &mut Connection, frames: &mut Frames) -> io::Result<bool> {
    let (mut buffer, mut came) = ([0; 4096], false);
    loop {
        // Process what arrived before the end first: the reason for it may be among that.
        let bytes = match connection.receive(&mut buffer) {
            Ok(None) => return Ok(came),
            Ok(Some(0)) | Err(_) if came => return Ok(true),
            Ok(Some(0)) => return Err(ErrorKind::ConnectionAborted.into()),
            Ok(Some(bytes)) => bytes,
            Err(error) => return Err(error),
        };
        frames.push(buffer.get(..bytes).unwrap_or_default());
        came = true;
        if frames.held() > FRAMES_MAX {
            return Err(io::Error::other("it sends more than a relay has to say"));
        }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use strata_model::Uuid;

    use super::*;
    use crate::recorder::output::{Recording, RemoteOutput};
    use crate::transport::address::Address;

    const RECORDING: Uuid = Uuid([7; 16]);

    /// Begins a recording at a relay that refuses it, and says what comes then.
    fn refused(is_later_part: bool) -> (TcpListener, RemoteOutput) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let address = Address::parse_local(&address).unwrap();
        let target = Target { address, tls: None, host: None, spool: None };
        let recording = Recording {
            uuid: RECORDING,
            boot: None,
            host: "box".into(),
            session: "s".into(),
            pair: CounterPair::default,
            begin: || (),
            is_later_part,
        };
        let output = RemoteOutput::begin(target, recording).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        let why = "it has as many as it may have".to_owned();
        socket.write_all(&ToRecorder::Refuse { why }.encode()).unwrap();
        (listener, output)
    }

    #[test]
    fn later_part_that_is_refused_waits_until_the_relay_takes_it() {
        let (listener, output) = refused(true);
        let (mut socket, _) = listener.accept().unwrap();
        let look = output.link().look();
        assert!(!look.is_connected && look.problem.unwrap().contains("as many as"));
        assert_eq!(output.link().failure(), None);
        let resume = ToRecorder::Resume { version: REMOTE_VERSION, recording: RECORDING, next: 0 };
        socket.write_all(&resume.encode()).unwrap();
        while !output.link().look().is_connected {
            std::thread::yield_now();
        }
        // From then on a refusal is for what was sent.
        let why = "what is that".to_owned();
        socket.write_all(&ToRecorder::Refuse { why }.encode()).unwrap();
        while output.link().failure().is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn recording_that_is_refused_has_failed() {
        let (_listener, output) = refused(false);
        while output.link().failure().is_none() {
            std::thread::yield_now();
        }
        assert!(output.link().failure().unwrap().contains("as many as"));
    }
}
