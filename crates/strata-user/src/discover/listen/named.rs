//! A socket with an abstract name. Its name lies in no folder, so chroot() and mount namespaces do not hide it; other
//! network namespaces do. Any process in the network namespace can connect, and /proc/net/unix shows the name.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};

use super::folder::{room, BACKLOG};
use crate::attach::session::new_generation;
use crate::discover::announcement::ask_for_senders;
use crate::error::Error;

/// The number of refused strangers at which the socket is given up.
const STRANGERS_MAX: u32 = 4096;

#[derive(Debug)]
pub(super) struct NamedSocket {
    socket: OwnedFd,
    name: String,
    /// Number of unaccepted connections that the kernel queues.
    room: u64,
    /// Connections that were accepted since the queue was last empty.
    in_a_row: u64,
    strangers: u32,
    /// True if the socket accepts only connections that exist already.
    ends: bool,
}

impl NamedSocket {
    /// Listens at an abstract name that nobody can have had before.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub(super) fn new() -> Result<NamedSocket, Error> {
        let error = |what| move |code: Errno| Error::Socket { what, source: code.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(error("making one"))?;
        // A random number of its own: the session's generation is a secret, and this name is not.
        let name = format!("strata-{}-{:016x}", std::process::id(), new_generation());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes());
        address
            .and_then(|address| bind(&socket, &address))
            .map_err(error("giving one an abstract name"))?;
        ask_for_senders(socket.as_fd())
            .map_err(|source| Error::Socket { what: "asking for credentials", source })?;
        listen(&socket, BACKLOG).map_err(error("listening"))?;
        Ok(NamedSocket { socket, name, room: room(), in_a_row: 0, strangers: 0, ends: false })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Accepts the next connection. Also returns true if the queue had room for others after it. `None`: nobody has
    /// connected.
    ///
    /// # Errors
    /// The connection could not be accepted.
    pub(super) fn accept(&mut self) -> Result<Option<(OwnedFd, bool)>, Errno> {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.in_a_row += 1;
                    return Ok(Some((socket, self.in_a_row < self.room)));
                }
                Err(Errno::AGAIN) => {
                    self.in_a_row = 0;
                    return Ok(None);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => (),
                Err(code) => return Err(code),
            }
        }
    }

    /// Counts a refused connection of a process that does not belong to the command. Returns true if there were so
    /// many that the socket is to be given up.
    pub(super) fn turned_away(&mut self) -> bool {
        self.strangers = self.strangers.saturating_add(1);
        self.strangers >= STRANGERS_MAX
    }

    /// Makes the socket end once all existing connections are accepted.
    pub(super) fn take_no_more(&mut self) {
        self.ends = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ends
    }
}
