//! A TCP connection, plain or with TLS, whose calls never block.
//!
//! Callers wait with [`Connection::wait`], for the socket and for one other descriptor. At most one chunk is encrypted
//! ahead of what the peer takes, so that a connection's memory is bounded whatever the peer does.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

/// The most bytes that are encrypted in one call \[byte\].
const CHUNK: usize = 64 << 10;

/// A connection whose calls never block.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    tls: Option<Box<rustls::Connection>>,
    /// Bytes of short messages that a socket without TLS has not accepted yet.
    out: Vec<u8>,
}

/// Conditions that [`Connection::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The peer has sent something.
    Readable,
    /// The peer has sent something, or can take something.
    ReadableOrWritable,
}

impl Connection {
    /// Makes a plain connection of a connected socket.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn plain(socket: TcpStream) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        // Acknowledgements are short, and must not wait for more data.
        socket.set_nodelay(true)?;
        Ok(Connection { socket, tls: None, out: Vec::new() })
    }

    /// Makes the client's side of a TLS connection of a connected socket.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn client(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Connection> {
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let plain = Connection::plain(socket)?;
        Ok(Connection { tls: Some(Box::new(tls.into())), ..plain })
    }

    /// Makes the server's side of a TLS connection of an accepted socket.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn server(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Connection> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let plain = Connection::plain(socket)?;
        Ok(Connection { tls: Some(Box::new(tls.into())), ..plain })
    }

    /// Returns the peer's certificate, once the handshake is done.
    pub(crate) fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        let all = self.tls.as_ref()?.peer_certificates()?;
        all.first().map(|one| one.clone().into_owned())
    }

    /// Returns true if the TLS handshake is not complete.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Sends as many of the bytes as the peer takes now. Returns their number, which may be 0.
    ///
    /// # Errors
    /// The connection or TLS failed.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush()? || self.is_handshaking() {
            return Ok(0);
        }
        let Some(tls) = &mut self.tls else {
            return match self.socket.write(bytes) {
                Ok(0) if !bytes.is_empty() => Err(ErrorKind::WriteZero.into()),
                Err(error) if is_later(&error) => Ok(0),
                other => other,
            };
        };
        let chunk = bytes.get(..CHUNK.min(bytes.len())).unwrap_or_default();
        let taken = tls.writer().write(chunk)?;
        self.flush()?;
        Ok(taken)
    }

    /// Sends a short message, or keeps it if the peer does not take it now.
    ///
    /// # Errors
    /// The connection or TLS failed.
    pub(crate) fn send_short(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes)?,
            None => self.out.extend_from_slice(bytes),
        }
        self.flush().map(drop)
    }

    /// Sends the bytes that were kept. Returns true if none are left.
    ///
    /// # Errors
    /// The connection or TLS failed.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.has_more() {
            let written = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.socket),
                None => self.socket.write(&self.out),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) if self.tls.is_none() => drop(self.out.drain(..written)),
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns true if there are bytes that the peer has not taken.
    pub(crate) fn has_more(&self) -> bool {
        self.tls.as_ref().map_or(!self.out.is_empty(), |tls| tls.wants_write())
    }

    /// Receives bytes from the peer. Returns `None` if there are none now, and 0 if the peer has ended the connection.
    ///
    /// # Errors
    /// The connection failed, or the peer violated the TLS protocol.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(tls) = &mut self.tls else {
            return match self.socket.read(into) {
                Err(error) if is_later(&error) => Ok(None),
                other => other.map(Some),
            };
        };
        loop {
            match tls.reader().read(into) {
                // TLS reports an end without its closing message as an error. That is no problem here: frames show
                // whether they are complete.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) if is_later(&error) => {}
                other => return other.map(Some),
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) if tls.is_handshaking() => return Ok(Some(0)),
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Err(error) = tls.process_new_packets() {
                // Tell the peer the reason, if it reads it.
                let _ = tls.write_tls(&mut self.socket);
                return Err(io::Error::other(error));
            }
            if tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Err(error) if !is_later(&error) => return Err(error),
                    _ => {}
                }
            }
        }
    }

    /// Waits until the peer or the descriptor `other` is ready, at most for the time `within`.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn wait(
        &self,
        until: Until,
        other: Option<BorrowedFd<'_>>,
        within: Duration,
    ) -> io::Result<()> {
        let writes = until == Until::ReadableOrWritable || self.has_more();
        let flags = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let within = Timespec::try_from(within).map_err(io::Error::other)?;
        let mut fds = vec![PollFd::new(&self.socket, flags)];
        fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&within)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a second handle of the socket, with which another thread can end the connection.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn socket(&self) -> io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// Ends the connection in an orderly way. Bytes that the peer has not accepted yet do not arrive.
    pub(crate) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // The peer may be gone.
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Returns true if the call may succeed later.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
