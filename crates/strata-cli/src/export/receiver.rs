//! Sends requests with spans to a receiver by HTTP, and again where that may help.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{bail, Result};
use strata_ctf::model::TimeSource;
use strata_export::otlp::http::Answer;
use strata_session::stop::Stop;

use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{clean, counted, time};

/// The path of a receiver of spans, where an address has none.
const PATH: &str = "/v1/traces";
/// The port of plain HTTP.
const PORT: u16 = 80;
/// The most times that a request is sent.
const TRIES: u32 = 5;
/// The pause before a request is sent again, if the receiver names none; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The port of receivers by gRPC.
const GRPC_PORT: u16 = 4317;
/// The most time for a connection, and for a step of the receiver.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const STEP_MAX: Duration = Duration::from_secs(30);
/// The most time in which a receiver has to take a request.
const TAKE_MAX: Duration = Duration::from_secs(120);
/// The most time for all of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The most bytes that are written in one step.
const WRITE_BYTES: usize = 64 << 10;
/// The period at which a pause, or a wait for the receiver, checks for the user's request to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The address of a receiver of spans: `http://HOST:PORT/v1/traces`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
    path: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

impl Address {
    /// Reads an address; returns `None` for the name of a file.
    pub(super) fn parse(text: &str) -> Result<Option<Address>> {
        if text.starts_with("https://") {
            bail!(
                "export: {} needs TLS, which this does not speak. Send to a Collector of OpenTelemetry beside it, \
                 which speaks it and keeps the keys: -o http://localhost:4318",
                clean(text)
            );
        }
        let Some(rest) = text.strip_prefix("http://") else { return Ok(None) };
        let wrong = |what: &str| {
            anyhow::anyhow!(
                "export: '{}' has {what}. Use -o http://HOST:PORT, such as http://localhost:4318",
                clean(text)
            )
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(wrong("a user's name, which is not sent"));
        }
        let has_odd = |text: &str| !text.chars().all(|letter| letter.is_ascii_graphic());
        if has_odd(rest) || rest.contains(['?', '#']) {
            return Err(wrong("letters that an address does not have"));
        }
        let (host, port) = match authority.rfind(':').filter(|_| !authority.ends_with(']')) {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        };
        let port = match port.strip_prefix(':') {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(wrong("no port from 1 to 65535 after the ':'")),
            },
        };
        if host.is_empty() || host.contains(':') && !host.starts_with('[') {
            return Err(wrong("no host; an address of IPv6 stands in brackets, [::1]"));
        }
        let path = if path.len() <= 1 { PATH } else { path };
        Ok(Some(Address { host: host.to_owned(), port, path: path.to_owned() }))
    }
}

/// The outcome of sending a request once, if it was not accepted.
enum Sent {
    Accepted(Answer),
    /// The same request may be accepted later, after this time if the receiver says one.
    NotNow(String, Option<Duration>),
    Refused(String),
}

/// A receiver of spans.
pub(super) struct Receiver<'r> {
    address: &'r Address,
    media_type: &'static str,
    time: TimeSource,
    stop: &'r Stop,
    /// True if a connection to the address was possible.
    is_reached: bool,
    /// The number of spans that the receiver has refused, and its last message about that.
    pub(super) rejected: u64,
    /// The number of requests that the receiver has accepted.
    pub(super) accepted: u64,
    remark: String,
}

impl<'r> Receiver<'r> {
    pub(super) fn new(
        address: &'r Address,
        media_type: &'static str,
        time: TimeSource,
        stop: &'r Stop,
    ) -> Receiver<'r> {
        Receiver {
            address,
            media_type,
            time,
            stop,
            is_reached: false,
            rejected: 0,
            accepted: 0,
            remark: String::new(),
        }
    }

    /// Sends a request, up to [`TRIES`] times.
    ///
    /// # Errors
    /// The receiver cannot be reached, or refuses the request. [`ErrorKind::Interrupted`] if it was asked to stop.
    pub(super) fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let mut pause = FIRST_PAUSE;
        let mut number = 1;
        loop {
            let (why, after) = match self.send_once(body) {
                Sent::Accepted(answer) => {
                    self.accepted += 1;
                    self.rejected = self.rejected.saturating_add(answer.rejected);
                    if !answer.text.is_empty() {
                        self.remark = answer.text;
                    }
                    return Ok(());
                }
                Sent::Refused(why) => return Err(io::Error::other(why)),
                Sent::NotNow(why, after) => (why, after),
            };
            if self.stop.requests() > 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            if number == TRIES {
                return Err(io::Error::other(format!("{why} (tried {TRIES} times)")));
            }
            number += 1;
            let length = after.unwrap_or(pause);
            let text = format!("{why}. Sending again in {}", time(length));
            stderr::message(&Message { weight: Weight::Talk, text });
            self.pause(length)?;
            pause *= 2;
        }
    }

    /// Returns a remark with the receiver's messages about spans that it has accepted or refused; `None` if there are
    /// none.
    pub(super) fn remark(&self) -> Option<String> {
        let remark = clean(&self.remark);
        match (self.rejected, remark.is_empty()) {
            (0, true) => None,
            (0, false) => Some(format!("the receiver says: {remark}")),
            (rejected, true) => Some(format!("the receiver refuses {}", counted(rejected, "span"))),
            (rejected, false) => {
                Some(format!("the receiver refuses {}: {remark}", counted(rejected, "span")))
            }
        }
    }

    fn pause(&self, length: Duration) -> io::Result<()> {
        let begin = self.time.now();
        loop {
            if self.stop.requests() > 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            let left = length.saturating_sub(self.time.elapsed(begin));
            if left.is_zero() {
                return Ok(());
            }
            self.time.pause(left.min(LOOK));
        }
    }

    fn send_once(&mut self, body: &[u8]) -> Sent {
        let connection = match self.connect() {
            Ok(connection) => connection,
            // It may come back, if it was there.
            Err(why) if self.is_reached => return Sent::NotNow(why, None),
            Err(why) => return Sent::Refused(why),
        };
        self.is_reached = true;
        let answer = match self.exchange(connection, body) {
            Ok(answer) => answer,
            Err(sent) => return sent,
        };
        if answer.is_accepted() {
            return Sent::Accepted(answer);
        }
        let mut why = format!("the receiver answers with status {}", answer.status);
        if !answer.text.is_empty() {
            why = format!("{why}: {}", clean(&answer.text));
        }
        match answer.status {
            _ if answer.is_temporary() => return Sent::NotNow(why, answer.retry_after),
            300..=399 => why += ". Redirects are not followed: use -o with the address itself",
            404 | 405 => why += &format!(". Receivers of spans usually have the path {PATH}"),
            415 => why += ". Use --protobuf, or leave it out",
            _ => {}
        }
        Sent::Refused(why)
    }

    /// Sends the request on a connection, and reads the answer.
    fn exchange(&self, mut connection: TcpStream, body: &[u8]) -> Result<Answer, Sent> {
        let Address { host, port, path } = self.address;
        let failed = |what: &str, error: &io::Error| Sent::NotNow(format!("{what}: {error}"), None);
        for limit in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            let set = limit(&connection, Some(LOOK));
            set.map_err(|error| failed("cannot use the connection", &error))?;
        }
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             User-Agent: strata/{}\r\nConnection: close\r\n\r\n",
            self.media_type,
            body.len(),
            env!("CARGO_PKG_VERSION")
        );
        let written = self.write(&mut connection, &[head.as_bytes(), body]);
        // One that refuses a request may answer and hang up before it has read all of it.
        let mut bytes = Vec::new();
        let (begin, mut part) = (self.time.now(), vec![0; 16 << 10]);
        loop {
            let count = match self.step(|| connection.read(&mut part)) {
                Ok(count) => count,
                Err(error) => {
                    let error = written.as_ref().err().unwrap_or(&error);
                    return Err(failed("the connection ended before an answer", error));
                }
            };
            bytes.extend_from_slice(part.get(..count).unwrap_or_default());
            match Answer::read(&bytes, count == 0) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) if self.time.elapsed(begin) > ANSWER_MAX => {
                    let why = format!("no whole answer for {} s", ANSWER_MAX.as_secs());
                    return Err(Sent::NotNow(why, None));
                }
                Ok(None) => {}
                // The connection broke. It may hold the next time.
                Err(why) if count == 0 => return Err(Sent::NotNow(why, None)),
                Err(mut why) => {
                    if *port == GRPC_PORT {
                        why += &format!(
                            ". {GRPC_PORT} is the port of gRPC; receivers by HTTP usually have the port 4318"
                        );
                    }
                    return Err(Sent::Refused(why));
                }
            }
        }
    }

    /// Writes all of a request, for up to [`TAKE_MAX`].
    fn write(&self, connection: &mut TcpStream, parts: &[&[u8]]) -> io::Result<()> {
        let begin = self.time.now();
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let part = rest.get(..WRITE_BYTES).unwrap_or(rest);
                let count = self.step(|| connection.write(part))?;
                if count == 0 {
                    return Err(ErrorKind::WriteZero.into());
                }
                rest = rest.get(count..).unwrap_or_default();
                if !rest.is_empty() && self.time.elapsed(begin) > TAKE_MAX {
                    let limit = TAKE_MAX.as_secs();
                    let why = format!("the receiver has not taken the request for {limit} s");
                    return Err(io::Error::other(why));
                }
            }
        }
        Ok(())
    }

    /// Repeats a step of a connection until something has happened, for up to [`STEP_MAX`].
    fn step(&self, mut step: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let begin = self.time.now();
        loop {
            if self.stop.requests() > 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            match step() {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                done => return done,
            }
            if self.time.elapsed(begin) > STEP_MAX {
                let why = format!("nothing happened for {} s", STEP_MAX.as_secs());
                return Err(io::Error::other(why));
            }
        }
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let Address { host, port, .. } = self.address;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, *port).to_socket_addrs();
        let found =
            found.map_err(|error| format!("the host '{}' is not found: {error}", clean(host)))?;
        let mut why = format!("the host '{}' has no address", clean(host));
        for address in found {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(connection) => return Ok(connection),
                Err(error) => why = format!("cannot connect to {address}: {error}"),
            }
        }
        why += match *port {
            PORT => ". Receivers of spans usually have the port 4318",
            _ => ". Look whether a receiver of spans, such as a Collector, runs there",
        };
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn address_has_a_host_a_port_and_a_path() {
        let read = |text| Address::parse(text).unwrap().unwrap().to_string();
        assert_eq!(read("http://box:4318"), "http://box:4318/v1/traces");
        assert_eq!(read("http://box:4318/"), "http://box:4318/v1/traces");
        assert_eq!(read("http://box/otlp/v1/traces"), "http://box:80/otlp/v1/traces");
        assert_eq!(read("http://[::1]:4318"), "http://[::1]:4318/v1/traces");
        assert_eq!(read("http://[::1]"), "http://[::1]:80/v1/traces");
        for name in ["spans.jsonl", "http:/x", "./http://x", "-"] {
            assert_eq!(Address::parse(name).unwrap(), None, "{name}");
        }
        for (wrong, said) in [
            ("https://box:4318", "TLS"),
            ("http://", "no host"),
            ("http://:4318", "no host"),
            ("http://::1:4318", "brackets"),
            ("http://box:0", "no port"),
            ("http://box:99999", "no port"),
            ("http://box:", "no port"),
            ("http://me:secret@box", "user's name"),
            ("http://box/a b", "letters"),
            ("http://box/a\r\nX: y", "letters"),
        ] {
            let error = Address::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    /// Answers each connection with the next of these texts, and returns the requests.
    fn answering(answers: &'static [&'static str]) -> (Address, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).unwrap().unwrap();
        let server = thread::spawn(move || {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut connection, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut part = [0; 4096];
                while !request.ends_with(b"spans") {
                    let count = connection.read(&mut part).unwrap();
                    assert!(count > 0);
                    request.extend_from_slice(&part[..count]);
                }
                requests.push(String::from_utf8(request).unwrap());
                connection.write_all(answer.as_bytes()).unwrap();
            }
            requests
        });
        (address, server)
    }

    #[test]
    fn request_is_sent_again_where_that_may_help() {
        let (address, server) = answering(&[
            "HTTP/1.1 503 x\r\nRetry-After: 20\r\nContent-Length: 0\r\n\r\n",
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"2\"}}",
        ]);
        let (time, stop) = (TimeSource::manual(0), Stop::new());
        let begin = time.now();
        let mut receiver = Receiver::new(&address, "application/json", time.clone(), &stop);
        receiver.send(b"spans").unwrap();
        assert_eq!(receiver.rejected, 2);
        // What the receiver asked for, and then twice the first pause.
        assert_eq!(time.elapsed(begin), Duration::from_secs(20) + FIRST_PAUSE * 2);
        let requests = server.join().unwrap();
        assert_eq!(requests.len(), 3);
        let request = requests.first().unwrap();
        assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(request.contains("\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"));
    }

    #[test]
    fn what_does_not_speak_http_is_not_asked_again() {
        let (address, server) = answering(&["220 mail\r\n\r\n"]);
        let (time, stop) = (TimeSource::manual(0), Stop::new());
        let mut receiver = Receiver::new(&address, "application/json", time, &stop);
        let said = receiver.send(b"spans").unwrap_err().to_string();
        assert!(said.contains("does not speak HTTP") && !said.contains("tried"), "{said}");
        assert_eq!((server.join().unwrap().len(), receiver.accepted), (1, 0));
    }

    /// Has a receiver take the first part of a request, then calls `then` with the connection.
    fn slow(then: impl FnOnce(TcpStream) + Send + 'static) -> (Address, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).unwrap().unwrap();
        let server = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            assert!(connection.read(&mut [0; 64]).unwrap() > 0);
            then(connection);
        });
        (address, server)
    }

    #[test]
    fn request_to_stop_ends_the_wait_for_an_answer() {
        let (stop, (hang_up, wait)) = (Stop::new(), std::sync::mpsc::channel::<()>());
        let asking = stop.clone();
        let (address, server) = slow(move |connection| {
            asking.request(2);
            assert!(wait.recv().is_err());
            drop(connection);
        });
        let begin = std::time::Instant::now();
        let mut receiver =
            Receiver::new(&address, "application/json", TimeSource::machine(), &stop);
        assert_eq!(receiver.send(b"spans").unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(begin.elapsed() < STEP_MAX);
        drop(hang_up);
        server.join().unwrap();
    }

    #[test]
    fn receiver_that_takes_a_request_too_slowly_is_left() {
        let (time, stop) = (TimeSource::manual(0), Stop::new());
        let passing = time.clone();
        let (address, server) = slow(move |mut connection| {
            connection.set_read_timeout(Some(LOOK)).unwrap();
            let mut part = vec![0; 64 << 10];
            loop {
                match connection.read(&mut part) {
                    Ok(0) => break,
                    Err(error) if error.kind() != ErrorKind::WouldBlock => break,
                    _ => passing.pause(Duration::from_secs(2)),
                }
            }
        });
        let mut receiver = Receiver::new(&address, "application/json", time, &stop);
        // More than the buffers of both ends hold.
        let sent = receiver.send_once(&vec![b' '; 32 << 20]);
        let Sent::NotNow(why, None) = sent else { panic!("it was sent") };
        assert!(why.contains("has not taken") || why.contains("nothing happened"), "{why}");
        server.join().unwrap();
    }

    #[test]
    fn refusal_is_not_tried_again_and_says_why() {
        let (address, server) =
            answering(&["HTTP/1.1 404 x\r\nContent-Length: 9\r\n\r\nno \x1b[31mpg"]);
        let (time, stop) = (TimeSource::manual(0), Stop::new());
        let mut receiver = Receiver::new(&address, "application/json", time.clone(), &stop);
        let said = receiver.send(b"spans").unwrap_err().to_string();
        assert!(said.contains("status 404: no ") && said.contains(PATH), "{said}");
        assert!(!said.contains('\x1b'), "{said}");
        assert_eq!(server.join().unwrap().len(), 1);
        // Nobody listens there any more.
        let begin = time.now();
        let said = receiver.send(b"spans").unwrap_err().to_string();
        assert!(said.contains("cannot connect") && said.contains("tried 5 times"), "{said}");
        assert_eq!(time.elapsed(begin), FIRST_PAUSE * 15);
        // Where nobody has ever listened, the address is wrong.
        let mut other = Receiver::new(&address, "application/json", time.clone(), &stop);
        let said = other.send(b"spans").unwrap_err().to_string();
        assert!(said.contains("cannot connect") && said.contains("runs there"), "{said}");
        assert!(!said.contains("tried"), "{said}");
        stop.request(2);
        let stopped = receiver.send(b"spans").unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
    }
}
