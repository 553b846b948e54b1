//! A command that this tracer starts: its environment variable, and the socket on which it and its descendants announce
//! themselves.

use std::fmt::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};
use strata_abi::user;

use crate::attach::clock::Clock;
use crate::decide::session_spec::SessionSpec;
use crate::discover::announcement::{
    ask_for_senders, receive, set_option, AnnounceMessage, AnnouncementCounters, Received,
};
use crate::discover::descriptor_closer;
use crate::discover::listen::ProgramListener;
use crate::discover::request_text;
use crate::error::Error;

/// Size of the socket's buffer, for some thousand announcements \[byte\].
const BUFFER_BYTES: i32 = 8 << 20;

/// The socket pair for a command that is about to be started.
#[derive(Debug)]
pub struct Launch {
    ours: OwnedFd,
    theirs: OwnedFd,
    inode: u64,
}

impl Launch {
    /// Makes the sockets. Both are closed on exec: clear that flag of [`child_fd`](Self::child_fd) in the child only.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn new() -> Result<Launch, Error> {
        let error = |source| Error::Socket { what: "making a pair", source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|code| error(code.into()))?;
        ask_for_senders(ours.as_fd()).map_err(error)?;
        // Only the sender's buffer matters. Root may exceed the system's limit; others get at most that.
        for socket in [&ours, &theirs] {
            for name in
                [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE]
            {
                let _ = set_option(socket.as_fd(), name, BUFFER_BYTES);
            }
        }
        let stat = rustix::fs::fstat(&theirs).map_err(|code| error(code.into()))?;
        Ok(Launch { ours, theirs, inode: stat.st_ino })
    }

    /// Socket that the command must inherit, under the same number.
    #[must_use]
    pub fn child_fd(&self) -> BorrowedFd<'_> {
        self.theirs.as_fd()
    }

    /// Value of [`ENVIRONMENT`](crate::ENVIRONMENT) for the command. Descendants that have not inherited the socket
    /// announce themselves to `listener`.
    #[must_use]
    pub fn environment(
        &self,
        generation: u64,
        spec: &SessionSpec,
        clock: &Clock,
        listener: Option<&ProgramListener>,
    ) -> String {
        let (number, inode) = (self.theirs.as_raw_fd(), self.inode);
        let mut text = format!("{}:socket={number}.{inode};", user::VERSION);
        let path = listener.and_then(|listener| listener.path().to_str());
        let name = listener.and_then(ProgramListener::name);
        for (key, value) in [("path", path), ("name", name)] {
            // A value with a ';' could not be separated from what follows, so it is left out.
            if let Some(value) = value.filter(|value| !value.is_empty() && !value.contains(';')) {
                // Writing to a String cannot fail.
                let _ = write!(text, "{key}={value};");
            }
        }
        text + &request_text::text(generation, spec, clock)
    }

    /// Closes our copy of the child's end, after the command has been started, or could not be.
    #[must_use]
    pub fn started(self) -> Announcements {
        let counters = AnnouncementCounters::default();
        Announcements { socket: self.ours, counters, has_ended: false }
    }
}

/// The most invalid messages that one call of [`Announcements::receive`] skips: more than fit into the socket. So
/// nobody can delay us for ever by sending them.
const IGNORED_MAX: u32 = 1024;

/// Socket on which a command and its descendants announce themselves.
#[derive(Debug)]
pub struct Announcements {
    socket: OwnedFd,
    counters: AnnouncementCounters,
    /// True if the socket is treated as closed, since too many descriptors were sent to it that cannot be closed.
    has_ended: bool,
}

impl Announcements {
    /// Returns the next announcement, without waiting.
    ///
    /// [`Received::End`] means that nobody holds the other end any more, or that a descendant has shut it down: the
    /// command itself may still run. It is also returned if so many descriptors were sent that cannot be closed that
    /// nothing more is taken.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn receive(&mut self) -> Result<Received, Error> {
        for _ in 0..IGNORED_MAX {
            if self.has_ended {
                return Ok(Received::End);
            }
            return Ok(match receive(self.socket.as_fd(), &mut self.counters)? {
                AnnounceMessage::Process { fd, sender, announcement } => {
                    Received::Process { fd, sender, announcement }
                }
                AnnounceMessage::Absent { sender, absence } => Received::Absent { sender, absence },
                // Strangers' messages cannot end it, since strangers have no part in this socket.
                AnnounceMessage::Ignored { uid, .. } => {
                    self.has_ended = descriptor_closer::has_too_many(uid);
                    continue;
                }
                AnnounceMessage::Nothing => Received::Nothing,
                AnnounceMessage::End => Received::End,
            });
        }
        Ok(Received::Nothing)
    }

    /// Counters of the messages so far.
    #[must_use]
    pub fn counters(&self) -> &AnnouncementCounters {
        &self.counters
    }
}

impl AsFd for Announcements {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        descriptor_closer::let_go_shared(&self.socket);
    }
}
