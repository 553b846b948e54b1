//! Notifies the service manager, if it has started this process: see sd_notify(3).
//!
//! A unit with `Type=notify` is told that the session is ready, how it is (`STATUS=`) and that it ends. With
//! `WatchdogSec=`, it is also told that the session's loop turns. That is the loop that answers requests, looks at
//! triggers and the disk, and ends the session: a notice of each turn comes from there, and nothing else sends a ping.
//!
//! A session that ends sends to its relay what is still in its backlog. As long as the relay acknowledges more of it, the
//! manager is asked for more time (`EXTEND_TIMEOUT_USEC=`), beyond the unit's `TimeoutStopSec=`.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use strata_session::report::{Notice, Progress, SentSoFar};
use strata_session::SessionState;

use crate::units::{count, counted, size};

/// The shortest time between two texts for the manager.
const STATUS_PERIOD: Duration = Duration::from_secs(5);

/// The time that the manager is asked for at the end. A relay that acknowledges nothing more for as long is given up.
const EXTENSION: Duration = Duration::from_secs(120);
/// How often a thread looks whether the relay has acknowledged more.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// The shortest time between two requests for more time.
const ASK_PERIOD: Duration = Duration::from_secs(10);

/// The service manager that has started this process, or nobody.
#[derive(Debug)]
pub struct ServiceManager {
    /// The manager's address; `None` if there is no manager.
    address: Option<SocketAddr>,
    /// Half of the time after which the manager ends a session that has sent no ping.
    ping_period: Option<Duration>,
    last_ping: Option<Instant>,
    last_status: Option<Instant>,
    status: String,
}

impl ServiceManager {
    /// Returns the manager that this process' environment names.
    pub fn of_environment() -> ServiceManager {
        let text = |name| env::var(name).ok();
        let address = env::var_os("NOTIFY_SOCKET").and_then(|path| address(path.as_bytes()).ok());
        let period = ping_period(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        ServiceManager::new(address, period)
    }

    fn new(address: Option<SocketAddr>, ping_period: Option<Duration>) -> ServiceManager {
        let (last_ping, last_status, status) = (None, None, String::new());
        ServiceManager { address, ping_period, last_ping, last_status, status }
    }

    /// Tells the manager what follows from a notice of the session's loop.
    pub fn hear(&mut self, notice: &Notice, now: Instant) {
        let Some(address) = &self.address else { return };
        let is_due = |last: Option<Instant>, period| {
            last.is_none_or(|last| now.saturating_duration_since(last) >= period)
        };
        let mut message = Vec::new();
        match notice {
            Notice::Stopping => message.push("STOPPING=1".to_owned()),
            Notice::Progress(progress) if is_due(self.last_status, STATUS_PERIOD) => {
                let status = status_text(progress);
                if status != self.status {
                    message.push(format!("STATUS={status}"));
                    self.last_status = Some(now);
                    self.status = status;
                }
            }
            _ => {}
        }
        if let Notice::Sending(sent) = notice {
            extend_while_sending(address.clone(), sent.clone());
        }
        if self.ping_period.is_some_and(|period| is_due(self.last_ping, period)) {
            message.push("WATCHDOG=1".to_owned());
            self.last_ping = Some(now);
        }
        if !message.is_empty() {
            // A manager that does not listen need not know.
            let _ = tell(address, message.join("\n").as_bytes());
        }
    }
}

/// Asks for more time as long as a relay takes what is sent: in a thread, since the session's own waits for the relay. The
/// thread ends with the process.
fn extend_while_sending(address: SocketAddr, sent: SentSoFar) {
    let watch = move || {
        let mut extension = Extension::default();
        loop {
            if let Some(text) = extension.look(sent.messages(), Instant::now()) {
                let _ = tell(&address, text.as_bytes());
            }
            std::thread::sleep(LOOK_PERIOD);
        }
    };
    // Without the thread the unit's own time counts.
    let _ = std::thread::Builder::new().name("strata-extend".to_owned()).spawn(watch);
}

/// When the manager is asked for more time.
#[derive(Debug, Default)]
struct Extension {
    /// The number of messages at the last request, and its time.
    last: Option<(u64, Instant)>,
}

impl Extension {
    /// Returns what the manager is told, if the relay has acknowledged more messages since the last request.
    fn look(&mut self, messages: u64, now: Instant) -> Option<String> {
        let is_due = self.last.is_none_or(|(before, at)| {
            messages > before && now.saturating_duration_since(at) >= ASK_PERIOD
        });
        is_due.then(|| {
            self.last = Some((messages, now));
            format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros())
        })
    }
}

/// Returns how a session is, in the words of `strata status`.
fn status_text(progress: &Progress) -> String {
    let state = match progress.state {
        _ if progress.has_no_room => "no room",
        SessionState::Created => "created",
        SessionState::Recording => "recording",
        SessionState::Stopped => "stopped",
        SessionState::Stopping => "stopping",
        SessionState::Killed => "killed",
    };
    let mut text = format!(
        "{state}: {}, {}, {} discarded",
        counted(progress.records, "record"),
        size(progress.bytes),
        count(progress.discarded)
    );
    if progress.overwritten > 0 {
        text.push_str(&format!(", {} overwritten", count(progress.overwritten)));
    }
    text
}

/// Returns half of the manager's patience, if it is this process that it waits for. `usec`: the patience in
/// microseconds; `pid`: the process that is meant, or all of the unit if it is not given.
fn ping_period(usec: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let usec: u64 = usec?.parse().ok()?;
    (usec > 0).then(|| Duration::from_micros(usec / 2))
}

/// Notifies the service manager that the session is ready.
pub fn is_ready() {
    let path = env::var_os("NOTIFY_SOCKET");
    if let Some(address) = path.and_then(|path| address(path.as_bytes()).ok()) {
        let _ = tell(&address, b"READY=1");
    }
}

fn address(path: &[u8]) -> io::Result<SocketAddr> {
    match path {
        [] => Err(io::ErrorKind::InvalidInput.into()),
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
    }
}

fn tell(address: &SocketAddr, text: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text, address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the manager was told, each line once.
    fn read(socket: &UnixDatagram) -> Vec<String> {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(bytes) = socket.recv(&mut buffer) {
            let text = String::from_utf8(buffer[..bytes].to_vec()).unwrap();
            all.extend(text.lines().map(str::to_owned));
        }
        all
    }

    #[test]
    fn manager_is_reported_at_a_path_and_at_an_abstract_name() {
        let path = env::temp_dir().join(format!("strata-notify-{}", std::process::id()));
        let name = format!("strata-notify-{}", std::process::id());
        let at_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, at) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&at_name).unwrap(), format!("@{name}").into_bytes()),
        ] {
            tell(&address(&at).unwrap(), b"READY=1").unwrap();
            socket.set_nonblocking(true).unwrap();
            assert_eq!(read(&socket), ["READY=1"]);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(tell(&address(path.as_os_str().as_bytes()).unwrap(), b"x").is_err());
        assert!(address(b"").is_err());
    }

    #[test]
    fn ping_is_due_in_half_of_the_time_and_only_for_the_process_that_is_meant() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(ping_period(Some("2000000"), None, 7), second);
        assert_eq!(ping_period(Some("2000000"), Some("7"), 7), second);
        for (usec, pid) in [
            (Some("2000000"), Some("8")),
            (Some("2000000"), Some("x")),
            (Some("0"), None),
            (Some("-1"), None),
            (Some("99999999999999999999"), None),
            (None, Some("7")),
        ] {
            assert_eq!(ping_period(usec, pid, 7), None, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn more_time_is_asked_for_while_the_relay_acknowledges_and_no_longer() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let asks = Some("EXTEND_TIMEOUT_USEC=120000000".to_owned());
        let mut extension = Extension::default();
        assert_eq!(extension.look(5, at(0)), asks, "when it begins to end");
        assert_eq!(extension.look(9, at(9)), None, "it has asked a while ago");
        assert_eq!(extension.look(9, at(10)), asks);
        assert_eq!(extension.look(9, at(500)), None, "the relay acknowledges nothing");
        assert_eq!(extension.look(10, at(501)), asks);
    }

    #[test]
    fn manager_is_pinged_by_notices_of_the_loop_and_reported_a_status_when_it_changes() {
        let name = format!("strata-watchdog-{}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut manager = ServiceManager::new(Some(at), Some(Duration::from_secs(1)));
        let begin = Instant::now();
        let at_ms = |ms| begin + Duration::from_millis(ms);
        let progress = |records, has_no_room| {
            Notice::Progress(Progress { records, has_no_room, ..Progress::default() })
        };
        manager.hear(&progress(1, false), at_ms(0));
        assert_eq!(read(&socket), ["STATUS=recording: 1 record, 0 B, 0 discarded", "WATCHDOG=1"]);
        // Neither the ping nor the text is due.
        manager.hear(&progress(2, false), at_ms(999));
        assert_eq!(read(&socket), [""; 0]);
        manager.hear(&progress(2, false), at_ms(1000));
        assert_eq!(read(&socket), ["WATCHDOG=1"]);
        // Also while the loop attaches to many events.
        manager.hear(&Notice::Attaching { attached: 1, total: 9 }, at_ms(2000));
        assert_eq!(read(&socket), ["WATCHDOG=1"]);
        manager.hear(&progress(2, true), at_ms(5000));
        assert_eq!(read(&socket), ["STATUS=no room: 2 records, 0 B, 0 discarded", "WATCHDOG=1"]);
        manager.hear(&progress(2, true), at_ms(10_000));
        assert_eq!(read(&socket), ["WATCHDOG=1"], "the status is as before");
        manager.hear(&Notice::Stopping, at_ms(10_001));
        assert_eq!(read(&socket), ["STOPPING=1"]);
        // Without a manager, and without a watchdog.
        ServiceManager::new(None, Some(Duration::ZERO)).hear(&Notice::Stopping, begin);
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        ServiceManager::new(Some(at), None).hear(&Notice::Stopping, begin);
        assert_eq!(read(&socket), ["STOPPING=1"]);
    }
}
