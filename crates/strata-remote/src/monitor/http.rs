//! A server of a few short pages by HTTP, for monitors. It has one thread, which waits for all connections at the same time:
//! who asks slowly, takes nothing or says nothing is let go after a short time, and delays nobody. Nothing in a request is
//! trusted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::transport::accept_pause::pause_after;

/// Longest request that the server accepts \[byte\].
const REQUEST_BYTES_MAX: usize = 4096;
/// The most connections at the same time. At the limit, the oldest one ends when another one comes.
const CONNECTIONS_MAX: usize = 64;
const REQUEST: Duration = Duration::from_secs(2);
/// Period at which the server of pages checks whether it is to end.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// HTTP status, such as 200.
    pub status: u16,
    /// Content type of the page.
    pub content_type: &'static str,
    /// Text of the page.
    pub body: String,
}

/// A small HTTP server of pages, for monitoring.
#[derive(Debug)]
pub struct PageServer {
    listener: TcpListener,
    /// Longest time of a connection.
    most: Duration,
}

/// A connection whose answer was not sent completely.
struct Asking {
    socket: TcpStream,
    since: Instant,
    request: Vec<u8>,
    /// The answer, once the request is complete, and the number of its bytes that were sent.
    answer: Option<(Vec<u8>, usize)>,
}

impl PageServer {
    /// Listens at the address.
    ///
    /// # Errors
    /// A system call failed.
    pub fn listen(address: SocketAddr) -> io::Result<PageServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(PageServer { listener, most: REQUEST })
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    /// A system call failed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests with the page that `page` returns for a path, until `is_over` returns true. `None`: the page
    /// does not exist.
    pub fn serve(&self, page: &dyn Fn(&str) -> Option<Page>, is_over: &dyn Fn() -> bool) {
        let period = Timespec::try_from(LOOK_PERIOD).ok();
        let mut asking: Vec<Asking> = Vec::new();
        while !is_over() {
            let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(asking.iter().map(|one| {
                let wanted = if one.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
                PollFd::new(&one.socket, wanted)
            }));
            if poll(&mut fds, period.as_ref()).is_err() {
                continue;
            }
            drop(fds);
            match self.listener.accept() {
                Ok((socket, _)) => {
                    if asking.len() >= CONNECTIONS_MAX {
                        asking.remove(0);
                    }
                    asking.extend(Asking::new(socket));
                }
                Err(error) => pause_after(&error),
            }
            let now = Instant::now();
            asking.retain_mut(|one| {
                let is_late = now.saturating_duration_since(one.since) > self.most;
                // Invalid requests get no answer.
                !is_late && one.go_on(page).is_ok_and(|is_done| !is_done)
            });
        }
    }
}

impl Asking {
    fn new(socket: TcpStream) -> io::Result<Asking> {
        socket.set_nonblocking(true)?;
        Ok(Asking { socket, since: Instant::now(), request: Vec::new(), answer: None })
    }

    /// Reads the request and writes the answer as far as possible without waiting. Returns true once all of the
    /// answer was sent.
    fn go_on(&mut self, page: &dyn Fn(&str) -> Option<Page>) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        while self.answer.is_none() {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    self.request.extend_from_slice(buffer.get(..bytes).unwrap_or_default())
                }
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.request.windows(4).any(|four| four == b"\r\n\r\n") {
                self.answer = Some((answer(&self.request, page).into_bytes(), 0));
            } else if self.request.len() > REQUEST_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        let Some((answer, sent)) = &mut self.answer else { return Ok(false) };
        while let Some(rest) = answer.get(*sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => *sent += bytes,
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn is_passing(error: &io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind())
}

/// Returns the answer to a request that is complete.
fn answer(request: &[u8], page: &dyn Fn(&str) -> Option<Page>) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let found = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => page(path.split('?').next().unwrap_or_default()),
        _ => Some(Page {
            status: 405,
            content_type: "text/plain",
            body: "only GET is answered\n".to_owned(),
        }),
    };
    let Page { status, content_type, body } = found.unwrap_or_else(|| Page {
        status: 404,
        content_type: "text/plain",
        body: "there are /metrics and /health\n".to_owned(),
    });
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut socket = TcpStream::connect(address).unwrap();
        // The server may have closed the connection by then, as the request is too long.
        let _ = socket.write_all(request.as_bytes());
        let _ = socket.shutdown(Shutdown::Write);
        let mut said = String::new();
        // A request that is none may end with a reset.
        let _ = socket.read_to_string(&mut said);
        said
    }

    #[test]
    fn pages_are_answered_and_what_is_no_request_is_not() {
        let server = PageServer::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, is_over) = (server.address().unwrap(), AtomicBool::new(false));
        let page = |path: &str| {
            let body = "it is well\n".to_owned();
            (path == "/health").then_some(Page { status: 200, content_type: "text/plain", body })
        };
        std::thread::scope(|scope| {
            scope.spawn(|| server.serve(&page, &|| is_over.load(Ordering::Relaxed)));
            let good = ask(address, "GET /health?x HTTP/1.1\r\nHost: a\r\n\r\n");
            let none = ask(address, "GET /../etc/passwd HTTP/1.1\r\n\r\n");
            let post = ask(address, "POST /health HTTP/1.1\r\n\r\n");
            let long = ask(address, &"x".repeat(20_000));
            is_over.store(true, Ordering::Relaxed);
            assert!(good.starts_with("HTTP/1.1 200") && good.ends_with("it is well\n"), "{good}");
            assert!(none.starts_with("HTTP/1.1 404") && post.starts_with("HTTP/1.1 405"));
            assert_eq!(long, "");
        });
    }

    #[test]
    fn connections_that_say_nothing_or_take_nothing_delay_nobody() {
        let mut server = PageServer::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        // None of them ends while the test goes on.
        server.most = Duration::from_secs(3600);
        let (address, is_over) = (server.address().unwrap(), AtomicBool::new(false));
        let page = |path: &str| {
            // More than the system's buffers of the two sockets hold.
            let body =
                if path == "/long" { "x".repeat(16 << 20) } else { "it is well\n".to_owned() };
            Some(Page { status: 200, content_type: "text/plain", body })
        };
        std::thread::scope(|scope| {
            scope.spawn(|| server.serve(&page, &|| is_over.load(Ordering::Relaxed)));
            let mut slow = Vec::new();
            for said in ["", "GET /"].repeat(10).into_iter().chain(["GET /long HTTP/1.1\r\n\r\n"]) {
                let mut socket = TcpStream::connect(address).unwrap();
                socket.write_all(said.as_bytes()).unwrap();
                slow.push(socket);
            }
            let good = ask(address, "GET /health HTTP/1.1\r\n\r\n");
            assert!(good.ends_with("it is well\n"), "{good}");
            // Beyond the limit the oldest one ends.
            let more: Vec<_> =
                (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
            let ended = slow[0].read(&mut [0; 1]);
            is_over.store(true, Ordering::Relaxed);
            assert!(!matches!(ended, Ok(1..)), "{ended:?}");
            drop(more);
        });
    }
}
