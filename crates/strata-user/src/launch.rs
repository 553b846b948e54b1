//! A command that this tracer starts: what its environment says, and the socket on which it and its
//! descendants announce themselves.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};
use strata_abi::user;

use crate::announce::{
    ask_for_senders, receive, set_option, AnnounceMessage, AnnouncementCounters, Received,
};
use crate::clock::Clock;
use crate::closing;
use crate::error::Error;
use crate::request;
use crate::spec::SessionSpec;

/// Room for announcements that nobody has taken yet \[byte\]; some thousand of them.
const BUFFER_BYTES: i32 = 8 << 20;

/// The socket pair for one command that is about to be started.
#[derive(Debug)]
pub struct Launch {
    ours: OwnedFd,
    theirs: OwnedFd,
    inode: u64,
}

impl Launch {
    /// Makes the sockets. Both are closed on exec: clear that flag of [`child_fd`](Self::child_fd) in
    /// the child only.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn new() -> Result<Launch, Error> {
        let error = |source| Error::Socket { what: "making a pair", source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|code| error(code.into()))?;
        ask_for_senders(ours.as_fd()).map_err(error)?;
        // What counts is the sender's buffer. Beyond the system's limit only for root; else up to it.
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

    /// What the command must inherit, under the same number.
    #[must_use]
    pub fn child_fd(&self) -> BorrowedFd<'_> {
        self.theirs.as_fd()
    }

    /// The value of [`ENVIRONMENT`](crate::ENVIRONMENT) for the command.
    #[must_use]
    pub fn environment(&self, generation: u64, spec: &SessionSpec, clock: &Clock) -> String {
        let socket = (self.theirs.as_raw_fd(), self.inode);
        format!(
            "{}:socket={}.{};{}",
            user::VERSION,
            socket.0,
            socket.1,
            request::text(generation, spec, clock)
        )
    }

    /// The command has been started (or could not be): closes our copy of its end.
    #[must_use]
    pub fn started(self) -> Announcements {
        let counters = AnnouncementCounters::default();
        Announcements { socket: self.ours, counters, has_ended: false }
    }
}

/// Messages that are no announcements, which are passed over in one go: more than find room in the socket. Whoever
/// sends them for ever holds nobody up.
const IGNORED_MAX: u32 = 1024;

/// Where a command and its descendants announce themselves.
#[derive(Debug)]
pub struct Announcements {
    socket: OwnedFd,
    counters: AnnouncementCounters,
    /// So much was sent that cannot be closed.
    has_ended: bool,
}

impl Announcements {
    /// The next process, without waiting.
    ///
    /// [`Received::End`] says that nobody holds the other end any more, or that a descendant has shut
    /// it down: wait for the command itself too. Or that so much was sent which cannot be closed that nothing
    /// more is taken.
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
                // Of strangers, who have no part of this socket, nothing ends it.
                AnnounceMessage::Ignored { uid, .. } => {
                    self.has_ended = closing::has_too_many(uid);
                    continue;
                }
                AnnounceMessage::Nothing => Received::Nothing,
                AnnounceMessage::End => Received::End,
            });
        }
        Ok(Received::Nothing)
    }

    /// Messages so far.
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
        closing::let_go_shared(&self.socket);
    }
}
