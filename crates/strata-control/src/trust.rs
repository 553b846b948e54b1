//! The trustee of a session: a process that holds the memory of programs and of the kernel's buffers, and outlives the
//! session when that is killed.
//!
//! ```text
//! session                               trustee
//!   connects                        ─▶
//!                                   ◀─   what it holds, a message for each; then that this was all
//!   hold NUMBER, facts, descriptors ─▶
//!   drop NUMBER                     ─▶   closes them
//!   end                             ─▶   ends
//!   is killed                            waits for the next one that connects; ends if it holds nothing, or if
//!                                        its socket was removed
//! ```
//!
//! A message is one of a socket of sequenced packets. The trustee looks neither at facts nor into what descriptors refer
//! to. Both ends ask the kernel who the other one is: this user, or root.

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

/// What the file is called where it listens.
pub(crate) const TRUSTEE: &str = "trustee";
/// What is known of one, at most \[byte\].
pub const FACTS_BYTES_MAX: usize = 16 << 10;
/// Descriptors of one.
const FDS_MAX: usize = 2;
/// "strata" and the version of what is said.
const MAGIC: u64 = u64::from_le_bytes(*b"strataT\x01");
/// Magic, kind, nothing, number.
const HEADER_BYTES: usize = 24;
/// Threads of tests may have no CPU for longer than processes \[s\].
const SECONDS: u64 = if cfg!(test) { 60 } else { 10 };
/// A trustee that nobody talks to looks so often whether it is still wanted.
const LOOK_PERIOD: Duration = Duration::from_secs(SECONDS);
/// Who does not take, or say, what is said at once, is given up.
const PATIENCE: Duration = Duration::from_secs(SECONDS);
/// How often it is tried again where the kernel has too many descriptors of this user on their way, and how far apart.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Descriptors that a trustee needs for itself, and some more.
const FDS_OWN: u64 = 16;
/// Who may wait to be heard.
const BACKLOG: i32 = 4;

const HOLD: u32 = 1;
const DROP: u32 = 2;
const END: u32 = 3;
const ALL: u32 = 4;

/// What is held, as it was given.
#[derive(Debug)]
pub struct HeldMemory {
    /// Unlike that of any other.
    pub number: u64,
    /// What is known of it; the trustee does not look at it.
    pub facts: Vec<u8>,
    /// One or two.
    pub fds: Vec<OwnedFd>,
}

/// What one end says to the other.
#[derive(Debug)]
enum TrustMessage {
    Hold(HeldMemory),
    Drop(u64),
    End,
    /// That was all.
    All,
    /// It did not come whole: it was longer, or this process may not have so many descriptors.
    Cut,
    /// None of these: it changes nothing.
    Nonsense,
}

impl TrustMessage {
    /// From bytes that may be anything; `is_cut`: it was longer, or had more descriptors than there was room for.
    fn decode(bytes: &[u8], fds: Vec<OwnedFd>, is_cut: bool) -> TrustMessage {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let (Some(magic), Some(kind), Some(number)) = (word(0), word(8), word(16)) else {
            return TrustMessage::Nonsense;
        };
        let facts = &bytes[HEADER_BYTES..];
        if u64::from_le_bytes(magic) != MAGIC || facts.len() > FACTS_BYTES_MAX {
            return TrustMessage::Nonsense;
        }
        if is_cut {
            return TrustMessage::Cut;
        }
        let number = u64::from_le_bytes(number);
        let is_bare = facts.is_empty() && fds.is_empty();
        match u32::try_from(u64::from_le_bytes(kind)) {
            Ok(HOLD) if !fds.is_empty() && fds.len() <= FDS_MAX => {
                TrustMessage::Hold(HeldMemory { number, facts: facts.to_vec(), fds })
            }
            Ok(DROP) if is_bare => TrustMessage::Drop(number),
            Ok(END) if is_bare => TrustMessage::End,
            Ok(ALL) if is_bare => TrustMessage::All,
            _ => TrustMessage::Nonsense,
        }
    }
}

/// Sends one.
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

/// The next one; `None`: the other end is gone.
fn hear(socket: BorrowedFd<'_>) -> Result<Option<TrustMessage>, Errno> {
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
    Ok(Some(TrustMessage::decode(bytes, fds, is_cut)))
}

/// A session's end of the line.
#[derive(Debug)]
pub struct Trust(OwnedFd);

impl Trust {
    /// Has this held, from now on or in the place of what has its number. Does not wait.
    ///
    /// # Errors
    /// [`Errno::AGAIN`], [`Errno::NOBUFS`], [`Errno::TOOMANYREFS`]: not now. Else there is no trustee any more.
    pub fn hold(&self, number: u64, facts: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        say(self.0.as_fd(), (HOLD, number), facts, fds, SendFlags::DONTWAIT)
    }

    /// It need not be held any longer. Does not wait.
    ///
    /// # Errors
    /// As of [`hold`](Self::hold).
    pub fn let_go(&self, number: u64) -> Result<(), Errno> {
        say(self.0.as_fd(), (DROP, number), &[], &[], SendFlags::DONTWAIT)
    }

    /// Has it end, and waits until it has let go of everything, if that is soon. Returns whether it has.
    pub fn end(self) -> bool {
        let socket = self.0.as_fd();
        // Who is gone has ended.
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
    /// The trustee that the session of this name has left that was killed, and what it holds; `None`: there is none.
    ///
    /// # Errors
    /// What the system says; it is another user's, or does not answer. [`Errno::MFILE`]: it holds more than this process may
    /// have open, and goes on doing so.
    pub fn trustee(&self) -> io::Result<Option<(Trust, Vec<HeldMemory>)>> {
        let socket = new_socket()?;
        for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&socket, which, Some(PATIENCE))?;
        }
        let address = SocketAddrUnix::new(self.path(TRUSTEE))?;
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
                Ok(Some(TrustMessage::Hold(held))) => all.push(held),
                Ok(Some(TrustMessage::All)) => return Ok(Some((Trust(socket), all))),
                Ok(Some(TrustMessage::Cut)) => return Err(Errno::MFILE.into()),
                Ok(Some(_)) => {}
                // It held nothing, and was just about to end.
                Ok(None) | Err(Errno::CONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Where a trustee listens. Only one process is to go on with it: see [`Trustee::serve`].
    ///
    /// # Errors
    /// What the system says.
    pub fn new_trustee(&self) -> io::Result<Trustee> {
        let file = format!("{}.{TRUSTEE}", self.name());
        let _ = fs::unlinkat(self.folder(), &*file, AtFlags::empty());
        let listener = new_socket()?;
        bind(&listener, &SocketAddrUnix::new(self.path(TRUSTEE))?)?;
        fs::chmodat(self.folder(), &*file, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let status = fs::statat(self.folder(), &*file, AtFlags::SYMLINK_NOFOLLOW)?;
        listen(&listener, BACKLOG)?;
        sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(LOOK_PERIOD))?;
        let number = (status.st_dev, status.st_ino);
        Ok(Trustee { listener, folder: self.folder().try_clone_to_owned()?, file, number })
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// A trustee's end of the line.
#[derive(Debug)]
pub struct Trustee {
    listener: OwnedFd,
    folder: OwnedFd,
    file: String,
    number: (u64, u64),
}

/// What became of a session.
#[derive(Debug, PartialEq, Eq)]
enum SessionFate {
    /// It has ended as it should.
    Ended,
    /// It was killed, or is no session.
    Killed,
}

impl Trustee {
    /// The descriptors that it needs.
    #[must_use]
    pub fn fds(&self) -> [RawFd; 2] {
        [self.listener.as_raw_fd(), self.folder.as_raw_fd()]
    }

    /// Holds what it is given, until a session says that it has ended, or nobody can want it any more.
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
                // Out of memory, or of what the system has of files: they may come back.
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

/// Says what it holds, and does what it is told, as long as the session is there.
fn attend(session: BorrowedFd<'_>, held: &mut BTreeMap<u64, HeldMemory>) -> SessionFate {
    let timeout = sockopt::set_socket_timeout(session, sockopt::Timeout::Send, Some(PATIENCE));
    if timeout.and_then(|()| tell(session, held)).is_err() {
        return SessionFate::Killed;
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(files.saturating_sub(FDS_OWN)).unwrap_or(usize::MAX) / FDS_MAX;
    loop {
        match hear(session) {
            // Beyond, it could not hear the next session.
            Ok(Some(TrustMessage::Hold(one))) if held.len() < most => {
                drop(held.insert(one.number, one))
            }
            Ok(Some(TrustMessage::Drop(number))) => drop(held.remove(&number)),
            Ok(Some(TrustMessage::End)) => return SessionFate::Ended,
            Ok(Some(
                TrustMessage::Hold(_)
                | TrustMessage::All
                | TrustMessage::Cut
                | TrustMessage::Nonsense,
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
#[path = "trust_tests.rs"]
mod tests;
