//! A server of a few short pages by HTTP, for monitors. It serves one request at a time, within a short time, and
//! trusts nothing in it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// Longest request \[byte\]; the longest time for a request and its answer follows.
const REQUEST_BYTES_MAX: usize = 4096;
const REQUEST: Duration = Duration::from_secs(2);
/// Period at which the server checks whether it is to end.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Time after which a connection that could not be accepted is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// A server of pages.
#[derive(Debug)]
pub struct PageServer(TcpListener);

impl PageServer {
    /// Listens at the address.
    ///
    /// # Errors
    /// A system call failed.
    pub fn listen(address: SocketAddr) -> io::Result<PageServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(PageServer(listener))
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    /// A system call failed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers requests with the page that `page` returns for a path, until `is_over` returns true. `None`: the page
    /// does not exist.
    pub fn serve(&self, page: &dyn Fn(&str) -> Option<Page>, is_over: &dyn Fn() -> bool) {
        let period = Timespec::try_from(LOOK_PERIOD).ok();
        while !is_over() {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            if poll(&mut fds, period.as_ref()).is_err() {
                continue;
            }
            match self.0.accept() {
                // Invalid requests get no answer.
                Ok((socket, _)) => drop(answer(socket, page)),
                Err(error) => pause_after(&error),
            }
        }
    }
}

/// Waits after a connection could not be accepted: where no file can be opened, it stays ready to be, and the next attempts
/// would take a whole CPU. Returns at once if the connection only was gone.
pub(crate) fn pause_after(error: &io::Error) {
    let gone = [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted, ErrorKind::Interrupted];
    if !gone.contains(&error.kind()) {
        std::thread::sleep(ACCEPT_PAUSE);
    }
}

fn answer(mut socket: TcpStream, page: &dyn Fn(&str) -> Option<Page>) -> io::Result<()> {
    let until = Instant::now() + REQUEST;
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(REQUEST))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_BYTES_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            bytes => request.extend_from_slice(buffer.get(..bytes).unwrap_or_default()),
        }
    }
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
    write!(
        socket,
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
    fn accepting_pauses_only_where_it_would_fail_again() {
        let begin = Instant::now();
        pause_after(&io::Error::from(rustix::io::Errno::MFILE));
        assert!(begin.elapsed() >= ACCEPT_PAUSE);
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
}
