//! The fdstore of a session: a process that holds descriptors of memory of programs and of the kernel's buffers, and
//! that outlives the session if the session is killed.
//!
//! ```text
//! session                               fdstore
//!   connects                        ─▶
//!                                   ◀─   what it holds, a message for each; then that this was all
//!   hold NUMBER, facts, descriptors ─▶
//!   drop NUMBER                     ─▶   closes them
//!   end                             ─▶   ends
//!   is killed                            waits for the next one that connects; ends if it holds nothing, or if
//!                                        its socket was removed
//! ```
//!
//! A message is one of a socket of sequenced packets. The fdstore looks neither at facts nor into what descriptors refer
//! Each message is one packet of a sequenced-packet socket. The fdstore does not read facts, nor what descriptors refer
//! to. Both ends ask the kernel who the peer is: it must be this user, or root.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::fs::{self, AtFlags, Mode};
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{
    accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with, sockopt, AddressFamily,
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{getrlimit, Resource};

use crate::folder::{is_at, is_ours, Claim};

/// Name of the socket at which the fdstore listens.
pub(crate) const FDSTORE: &str = "fdstore";
/// The most bytes of facts about one piece of memory \[byte\].
pub const FACTS_BYTES_MAX: usize = 16 << 10;
/// The most descriptors of one piece of memory.
const FDS_MAX: usize = 2;
/// Magic number of messages: "strata" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"strataT\x01");
/// Size of the header: magic, kind, padding, number \[byte\].
const HEADER_BYTES: usize = 24;
/// Time limit of waits; longer in tests, whose threads may wait longer for a CPU \[s\].
const SECONDS: u64 = if cfg!(test) { 60 } else { 10 };
/// Period at which an fdstore without a session checks whether it is still needed.
const LOOK_PERIOD: Duration = Duration::from_secs(SECONDS);
/// Time limit for a message to be accepted or sent; the peer is given up after it.
const PATIENCE: Duration = Duration::from_secs(SECONDS);
/// Limit on attempts, and the pause between them, when the kernel has too many of this user's descriptors in flight.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Descriptors that the fdstore needs for itself, with a reserve.
const FDS_OWN: u64 = 16;
/// The most processes that wait to be accepted.
const BACKLOG: i32 = 4;

const HOLD: u32 = 1;
const DROP: u32 = 2;
const END: u32 = 3;
const ALL: u32 = 4;

/// Memory that the fdstore holds, as the session passed it.
#[derive(Debug)]
pub struct HeldMemory {
    /// Number of the memory, unlike that of any other.
    pub number: u64,
    /// Facts about the memory, which the fdstore does not read.
    pub facts: Vec<u8>,
    /// One or two descriptors of the memory.
    pub fds: Vec<OwnedFd>,
}

/// Message between a session and its fdstore.
#[derive(Debug)]
enum FdStoreMessage {
    Hold(HeldMemory),
    Drop(u64),
    End,
    /// End of the list of the memory that is held.
    All,
    /// The message was truncated: it was too long, or this process may not have so many descriptors.
    Cut,
    /// Any other message, which is ignored.
    Nonsense,
}

impl FdStoreMessage {
    /// Decodes bytes that may be anything. `is_cut` is true if the message was longer, or had more descriptors than
    /// fit.
    fn decode(bytes: &[u8], fds: Vec<OwnedFd>, is_cut: bool) -> FdStoreMessage {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let (Some(magic), Some(kind), Some(number)) = (word(0), word(8), word(16)) else {
            return FdStoreMessage::Nonsense;
        };
        let facts = &bytes[HEADER_BYTES..];
        if u64::from_le_bytes(magic) != MAGIC || facts.len() > FACTS_BYTES_MAX {
            return FdStoreMessage::Nonsense;
        }
        if is_cut {
            return FdStoreMessage::Cut;
        }
        let number = u64::from_le_bytes(number);
        let is_bare = facts.is_empty() && fds.is_empty();
        match u32::try_from(u64::from_le_bytes(kind)) {
            Ok(HOLD) if !fds.is_empty() && fds.len() <= FDS_MAX => {
                FdStoreMessage::Hold(HeldMemory { number, facts: facts.to_vec(), fds })
            }
            Ok(DROP) if is_bare => FdStoreMessage::Drop(number),
            Ok(END) if is_bare => FdStoreMessage::End,
            Ok(ALL) if is_bare => FdStoreMessage::All,
            _ => FdStoreMessage::Nonsense,
        }
    }
}

/// Sends one message.
fn say(
    socket: BorrowedFd<'_>,
    (kind, number): (u32, u64),
    facts: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let header = [MAGIC, kind.into(), number].map(u64::to_le_bytes).concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if facts.len() > FACTS_BYTES_MAX || fds.len() > FDS_MAX {
        return Err(Errno::MSGSIZE);
    }
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    let parts = [IoSlice::new(&header), IoSlice::new(facts)];
    retry_on_intr(|| sendmsg(socket, &parts, &mut control, flags | SendFlags::NOSIGNAL)).map(drop)
}

/// Receives the next message; `None` if the other end is closed.
fn hear(socket: BorrowedFd<'_>) -> Result<Option<FdStoreMessage>, Errno> {
    let mut bytes = [0; HEADER_BYTES + FACTS_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = part {
            fds.extend(more);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    let is_cut = got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let bytes = bytes.get(..got.bytes).unwrap_or_default();
    Ok(Some(FdStoreMessage::decode(bytes, fds, is_cut)))
}

/// A session's connection to its fdstore.
#[derive(Debug)]
pub struct FdStoreClient(OwnedFd);

impl FdStoreClient {
    /// Sends memory to be held, in place of any memory with the same number. Does not wait.
    ///
    /// # Errors
    /// [`Errno::AGAIN`], [`Errno::NOBUFS`], [`Errno::TOOMANYREFS`]: not possible now. With any other error, the fdstore
    /// is gone.
    pub fn hold(&self, number: u64, facts: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        say(self.0.as_fd(), (HOLD, number), facts, fds, SendFlags::DONTWAIT)
    }

    /// Releases memory that the fdstore holds. Does not wait.
    ///
    /// # Errors
    /// As of [`hold`](Self::hold).
    pub fn let_go(&self, number: u64) -> Result<(), Errno> {
        say(self.0.as_fd(), (DROP, number), &[], &[], SendFlags::DONTWAIT)
    }

    /// Ends the fdstore, and waits a limited time until it has closed everything. Returns true if it has.
    pub fn end(self) -> bool {
        let socket = self.0.as_fd();
        // An fdstore that is gone has ended.
        let asked = sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(PATIENCE))
            .and_then(|()| say(socket, (END, 0), &[], &[], SendFlags::empty()));
        if asked.is_err() {
            return asked == Err(Errno::PIPE);
        }
        loop {
            match hear(socket) {
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::CONNRESET) => return true,
                Err(_) => return false,
            }
        }
    }
}

impl Claim {
    /// Connects to the fdstore that a killed session of this name has left. Returns the connection and the memory that
    /// the fdstore holds; `None` if there is no fdstore.
    ///
    /// # Errors
    /// A system call failed, the fdstore is another user's, or it does not answer. [`Errno::MFILE`]: it holds more than
    /// this process may have open, and continues to hold it.
    pub fn connect_fdstore(&self) -> io::Result<Option<(FdStoreClient, Vec<HeldMemory>)>> {
        let socket = new_socket()?;
        for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&socket, which, Some(PATIENCE))?;
        }
        let address = SocketAddrUnix::new(self.path(FDSTORE))?;
        match retry_on_intr(|| connect(&socket, &address)) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let uid = sockopt::socket_peercred(&socket)?.uid.as_raw();
        if !is_ours(uid) {
            return Err(io::Error::other(format!("it is a process of user {uid}")));
        }
        let mut all = Vec::new();
        loop {
            match hear(socket.as_fd()) {
                Ok(Some(FdStoreMessage::Hold(held))) => all.push(held),
                Ok(Some(FdStoreMessage::All)) => return Ok(Some((FdStoreClient(socket), all))),
                Ok(Some(FdStoreMessage::Cut)) => return Err(Errno::MFILE.into()),
                Ok(Some(_)) => {}
                // The fdstore held nothing, and was about to end.
                Ok(None) | Err(Errno::CONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Opens the socket at which the fdstore listens. Only one process may continue with it: see
    /// [`FdStoreServer::serve`].
    ///
    /// # Errors
    /// A system call failed.
    pub fn new_fdstore(&self) -> io::Result<FdStoreServer> {
        let file = format!("{}.{FDSTORE}", self.name());
        let _ = fs::unlinkat(self.folder(), &*file, AtFlags::empty());
        let listener = new_socket()?;
        bind(&listener, &SocketAddrUnix::new(self.path(FDSTORE))?)?;
        fs::chmodat(self.folder(), &*file, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let status = fs::statat(self.folder(), &*file, AtFlags::SYMLINK_NOFOLLOW)?;
        listen(&listener, BACKLOG)?;
        sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(LOOK_PERIOD))?;
        let number = (status.st_dev, status.st_ino);
        Ok(FdStoreServer { listener, folder: self.folder().try_clone_to_owned()?, file, number })
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The fdstore's listening socket, and the place of its name.
#[derive(Debug)]
pub struct FdStoreServer {
    listener: OwnedFd,
    folder: OwnedFd,
    file: String,
    number: (u64, u64),
}

/// End of a session, as its fdstore sees it.
#[derive(Debug, PartialEq, Eq)]
enum SessionFate {
    /// The session ended normally.
    Ended,
    /// The session was killed, or the peer was no session.
    Killed,
}

impl FdStoreServer {
    /// Descriptors that the fdstore needs.
    #[must_use]
    pub fn fds(&self) -> [RawFd; 2] {
        [self.listener.as_raw_fd(), self.folder.as_raw_fd()]
    }

    /// Holds the memory that sessions send, until a session announces its end, or nobody can need the memory any more.
    pub fn serve(&self) {
        let mut held = BTreeMap::new();
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(session) if is_of_user(&session) => {
                    if attend(session.as_fd(), &mut held) == SessionFate::Ended {
                        return;
                    }
                }
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => {}
                // The system has no memory or files left, which may change.
                Err(_) => std::thread::sleep(PATIENCE),
            }
            if held.is_empty() || !is_at(self.folder.as_fd(), &self.file, self.number) {
                return;
            }
        }
    }
}

fn is_of_user(session: &OwnedFd) -> bool {
    sockopt::socket_peercred(session).is_ok_and(|peer| is_ours(peer.uid.as_raw()))
}

/// Reports the memory that is held, and follows the session's requests, until the session has ended. Returns how it
/// ended.
fn attend(session: BorrowedFd<'_>, held: &mut BTreeMap<u64, HeldMemory>) -> SessionFate {
    let timeout = sockopt::set_socket_timeout(session, sockopt::Timeout::Send, Some(PATIENCE));
    if timeout.and_then(|()| tell(session, held)).is_err() {
        return SessionFate::Killed;
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(files.saturating_sub(FDS_OWN)).unwrap_or(usize::MAX) / FDS_MAX;
    loop {
        match hear(session) {
            // With more descriptors, it could not receive messages of the next session.
            Ok(Some(FdStoreMessage::Hold(one))) if held.len() < most => {
                drop(held.insert(one.number, one))
            }
            Ok(Some(FdStoreMessage::Drop(number))) => drop(held.remove(&number)),
            Ok(Some(FdStoreMessage::End)) => return SessionFate::Ended,
            Ok(Some(
                FdStoreMessage::Hold(_)
                | FdStoreMessage::All
                | FdStoreMessage::Cut
                | FdStoreMessage::Nonsense,
            )) => {}
            Ok(None) | Err(_) => return SessionFate::Killed,
        }
    }
}

fn tell(session: BorrowedFd<'_>, held: &BTreeMap<u64, HeldMemory>) -> Result<(), Errno> {
    for one in held.values() {
        let fds: Vec<BorrowedFd<'_>> = one.fds.iter().map(AsFd::as_fd).collect();
        let mut tries = 0;
        loop {
            match say(session, (HOLD, one.number), &one.facts, &fds, SendFlags::empty()) {
                Err(Errno::TOOMANYREFS) if tries < TRIES => tries += 1,
                said => break said?,
            }
            std::thread::sleep(PAUSE);
        }
    }
    say(session, (ALL, 0), &[], &[], SendFlags::empty())
}

#[cfg(test)]
#[path = "fdstore_tests.rs"]
mod tests;
