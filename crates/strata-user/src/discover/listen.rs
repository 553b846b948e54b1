//! A socket in a folder that processes look into when they start, so that new ones need not be found.
//!
//! ```text
//! /run/strata/4711.sock          root's: heard by processes of all users
//! /run/user/1000/strata/…        that of another user; or below /tmp, if the user has no such folder
//! an abstract name               for programs that cannot see the folder, such as those in another root folder
//! NAME.request                   beside NAME.sock: the request to make a session at once (request_text.rs)
//! ```
//!
//! A process connects, makes its session if the request asks for it, and sends one announcement. A connection that is
//! silent may still be making its session, so it is held for a minute.
//!
//! # What others can do to it
//! Every user of the machine can connect to root's socket, as often as they like. The rule is that nobody's messages may
//! keep others from being heard, and that each limit is per person (a user, or all users of a container):
//!
//! - connections are bounded; when there is no more room, those of the person with the most are closed first;
//! - a user who has sent 64 invalid messages, or messages beyond what the caller lets a user send, is silenced, and refused by an access list of the socket if the kernel can;
//! - if strangers without an account are too many, only known users are heard;
//! - a socket whose queue a user has filled is given up, and replaced by another.
//!
//! Each of these is reported once by the caller: [`ProgramListener::silenced`], [`ProgramListener::only_known`],
//! [`ProgramListener::had_no_room`]. A listener is used by one thread, which polls its descriptor and calls
//! [`ProgramListener::receive`] until nothing more comes. Attacks are tests in tests/attack.

mod folder;
mod named;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{accept_with, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};
use rustix::process::{geteuid, getrlimit, Resource};
use strata_abi::user;

use folder::{listen_in, prepare, remove_stale, room};
use named::NamedSocket;

pub use folder::listening_folder;

use crate::attach::clock::Clock;
use crate::decide::session_spec::SessionSpec;
use crate::discover::announcement::{
    receive, set_option, AnnounceMessage, AnnouncementCounters, Received, Sender, SO_PASSPIDFD,
};
use crate::discover::descriptor_closer;
use crate::discover::request_text;
use crate::error::Error;
use crate::users::persons::{accounts, person};
use crate::users::socket_access::{self, set_access, Access};

/// The most connections that may wait for their first message. At this limit half of them are closed, first those of
/// the user who has most. Lower if this program may not open four times as many files, since recording needs
/// descriptors.
const CONNECTIONS_MAX: usize = 1024;

/// Longest time that a silent connection is kept. A process makes its session between connecting and sending, which
/// takes long when hundreds of others want a CPU.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(60);

/// The number of invalid messages from a user after which no message of the user is read.
const BAD_MAX: u32 = 64;

/// The most users who may have sent invalid messages. At this limit only users with an account, or who have announced
/// themselves before, are listened to.
const USERS_MAX: usize = socket_access::USERS_MAX;

/// The most sockets that may be given up because they hold connections that cannot be closed. At this limit nobody is
/// listened to any more.
const SOCKETS_MAX: u32 = 64;

/// A connection on which nothing has been received yet.
#[derive(Debug)]
struct PendingConnection {
    socket: OwnedFd,
    since: Instant,
    /// User who has connected, as the kernel reports it.
    uid: u32,
}

/// A listening socket, `FOLDER/PID.sock`, whose name is removed on drop. A listener for a command may also have a
/// socket with an abstract name.
#[derive(Debug)]
pub struct ProgramListener {
    socket: OwnedFd,
    named: Option<NamedSocket>,
    epoll: OwnedFd,
    path: PathBuf,
    /// Accepted connections from which nothing was received yet, oldest first.
    connections: VecDeque<PendingConnection>,
    connections_max: usize,
    /// Longest time that a silent connection is kept: [`CONNECTION_PATIENCE`], except in tests.
    patience: Duration,
    /// Number of unaccepted connections that the kernel queues.
    room: u64,
    /// Connections that were accepted since the queue was last empty.
    in_a_row: u64,
    had_no_room: bool,
    counters: AnnouncementCounters,
    /// Number of invalid messages by the person who sent them.
    bad: HashMap<u32, u32>,
    /// Users who are no longer listened to, and were not reported to the caller yet.
    silenced: Vec<u32>,
    /// Users who have announced themselves; with `only_known`, also those with an account.
    known: BTreeSet<u32>,
    /// Users whose connections the kernel refuses.
    denied: BTreeSet<u32>,
    /// True if only the users in `known` are let in.
    only_known: bool,
    /// True if the kernel enforces the socket's access list.
    access_works: bool,
    /// The users for whom earlier sockets were given up.
    given_up: Vec<u32>,
    /// The request to every new process, if there is one.
    wanted: Option<String>,
    /// True if the socket's name was removed, or there never was one.
    is_withdrawn: bool,
    /// True if connections to the socket are still accepted. False once the name is removed and more connections of one
    /// user wait than can be closed.
    accepts: bool,
}

impl ProgramListener {
    /// Listens in the folder for our user: `/run/strata` for root, for others a folder that only that user may write
    /// to.
    ///
    /// # Errors
    /// [`Error::Folder`], [`Error::Socket`]: the error for the last folder that was tried.
    pub fn new() -> Result<ProgramListener, Error> {
        let uid = geteuid().as_raw();
        if uid == 0 {
            return ProgramListener::in_folder(Path::new(user::SOCKETS_ROOT));
        }
        let folder = |pattern: &str| PathBuf::from(pattern.replace("%u", &uid.to_string()));
        ProgramListener::in_folder(&folder(user::SOCKETS_USER))
            .or_else(|_| ProgramListener::in_folder(&folder(user::SOCKETS_TMP)))
    }

    /// Listens in this folder, which is made if it does not exist.
    ///
    /// # Errors
    /// [`Error::Folder`]: other users may write to the folder. [`Error::Socket`].
    pub fn in_folder(folder: &Path) -> Result<ProgramListener, Error> {
        prepare(folder)?;
        let (socket, path) = listen_in(folder, |_| ())?;
        // After listening, so that we do not take a name at which another tracer may be looking.
        remove_stale(folder, &path);
        let listener = ProgramListener::of(socket, path)?;
        let error = |code: Errno| Error::Socket { what: "watching", source: code.into() };
        listener.watch(&listener.socket).map_err(error)?;
        Ok(listener)
    }

    /// Listens for the programs of a command: in the folder of [`new`](Self::new), and at an abstract name, which
    /// programs can reach that do not see the folder. If one of the two cannot be had, listens at the other.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn for_command() -> Result<ProgramListener, Error> {
        let named = NamedSocket::new();
        let mut listener = match (ProgramListener::new(), &named) {
            (Ok(listener), _) => listener,
            (Err(error), Err(_)) => return Err(error),
            (Err(_), Ok(_)) => ProgramListener::without_folder()?,
        };
        if let Ok(named) = named {
            listener.listen_by(named)?;
        }
        Ok(listener)
    }

    /// Listens without a folder, on the abstract name only.
    fn without_folder() -> Result<ProgramListener, Error> {
        let error = |code: Errno| Error::Socket { what: "making one", source: code.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let mut listener = ProgramListener::of(socket.map_err(error)?, PathBuf::new())?;
        listener.is_withdrawn = true;
        listener.accepts = false;
        Ok(listener)
    }

    fn listen_by(&mut self, named: NamedSocket) -> Result<(), Error> {
        let error = |code: Errno| Error::Socket { what: "watching", source: code.into() };
        self.watch(named.socket()).map_err(error)?;
        self.named = Some(named);
        Ok(())
    }

    fn of(socket: OwnedFd, path: PathBuf) -> Result<ProgramListener, Error> {
        let error = |code: Errno| Error::Socket { what: "making an epoll", source: code.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(error)?;
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(files_max / 4).unwrap_or(usize::MAX).max(2);
        Ok(ProgramListener {
            socket,
            named: None,
            epoll,
            path,
            connections: VecDeque::new(),
            connections_max: share.min(CONNECTIONS_MAX),
            patience: CONNECTION_PATIENCE,
            room: room(),
            in_a_row: 0,
            had_no_room: false,
            counters: AnnouncementCounters::default(),
            bad: HashMap::new(),
            silenced: Vec::new(),
            known: BTreeSet::new(),
            denied: BTreeSet::new(),
            only_known: false,
            access_works: true,
            given_up: Vec::new(),
            wanted: None,
            is_withdrawn: false,
            accepts: true,
        })
    }

    /// Publishes a request that every new process make the session `generation` before its first event.
    /// [`AppSession::adopt`](crate::AppSession::adopt) takes such a session over. Only processes that may announce
    /// themselves here follow the request.
    ///
    /// # Errors
    /// [`Error::Folder`]: the request could not be written, and none is in force.
    pub fn ask_for(
        &mut self,
        generation: u64,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<(), Error> {
        let text = request_text::text(generation, spec, clock);
        self.leave(&text)?;
        self.wanted = Some(text);
        Ok(())
    }

    /// Withdraws the request: from now on, new processes announce themselves without making a session.
    pub fn ask_for_nothing(&mut self) {
        if self.wanted.take().is_some() {
            request_text::withdraw(&self.path);
        }
    }

    /// Removes the socket's name. Connections that exist are still received.
    pub fn take_no_more(&mut self) {
        self.ask_for_nothing();
        if let Some(named) = &mut self.named {
            named.take_no_more();
        }
        // From then on another tracer may have this name: each PID namespace has a process with our number.
        if !std::mem::replace(&mut self.is_withdrawn, true) {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn leave(&self, text: &str) -> Result<(), Error> {
        request_text::leave(&self.path, text).map_err(|source| {
            // An earlier request does not hold either.
            request_text::withdraw(&self.path);
            let path = request_text::beside(&self.path);
            Error::Folder { path, reason: format!("cannot be written: {source}") }
        })
    }

    fn watch(&self, fd: &OwnedFd) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Path of the socket; empty if the listener has no folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The abstract socket name at which the listener also listens; `None` if it has none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.named.as_ref().map(NamedSocket::name)
    }

    /// Counters of the messages so far.
    #[must_use]
    pub fn counters(&self) -> &AnnouncementCounters {
        &self.counters
    }

    /// Returns the users that are no longer listened to, because their processes have sent too many invalid messages.
    /// Each user is returned once.
    pub fn silenced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.silenced)
    }

    /// Returns true if so many processes connected at once that the kernel may have refused others. Refused
    /// connections cannot be counted.
    #[must_use]
    pub fn had_no_room(&self) -> bool {
        self.had_no_room
    }

    /// Returns whether only known users are listened to, because there were too many others: those who have an
    /// account or had announced themselves before.
    #[must_use]
    pub fn only_known(&self) -> bool {
        self.only_known
    }

    /// Returns the next announcement, without waiting. [`Received::End`]: nobody is listened to any more, because too
    /// many connections cannot be closed and their users cannot be kept from making more.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn receive(&mut self) -> Result<Received, Error> {
        if self.has_ended() {
            return Ok(Received::End);
        }
        // Too many users have sent invalid messages, or too many connections cannot be closed.
        if descriptor_closer::is_full() || self.bad.len() >= USERS_MAX {
            self.close_to_unknown();
        }
        self.accept()?;
        let mut waiting = VecDeque::new();
        let mut result = Ok(Received::Nothing);
        let mut more = true;
        while let Some(connection) = self.connections.pop_front() {
            let uid = connection.uid;
            if !more {
                waiting.push_back(connection);
                continue;
            }
            if self.is_unwanted(uid) {
                descriptor_closer::let_go(connection.socket, uid);
                continue;
            }
            match receive(connection.socket.as_fd(), &mut self.counters) {
                // Only root records programs of other users, so nobody else should get their announcements.
                Ok(
                    AnnounceMessage::Process { sender, .. }
                    | AnnounceMessage::Absent { sender, .. },
                ) if !is_heard(sender.uid()) => (),
                Ok(AnnounceMessage::Absent { sender, absence }) => {
                    result = Ok(Received::Absent { sender, absence });
                    more = false;
                }
                // A connection carries one message, and is then closed.
                Ok(AnnounceMessage::Process { fd, sender, announcement }) => {
                    if self.known.len() < USERS_MAX {
                        self.known.insert(uid);
                    }
                    result = Ok(Received::Process { fd, sender, announcement });
                    more = false;
                }
                Ok(AnnounceMessage::Nothing) if connection.since.elapsed() < self.patience => {
                    waiting.push_back(connection);
                    continue;
                }
                Ok(AnnounceMessage::Ignored { bad: true, .. }) => self.blame(uid),
                Ok(
                    AnnounceMessage::Nothing
                    | AnnounceMessage::Ignored { .. }
                    | AnnounceMessage::End,
                ) => (),
                Err(error) => {
                    result = Err(error);
                    more = false;
                }
            }
            if descriptor_closer::let_go(connection.socket, uid) {
                self.blame(uid);
            }
        }
        self.connections = waiting;
        if more && self.connections.len() >= self.connections_max {
            // Silent connections must not keep out those that wait to be accepted. If a message was found, the
            // remaining ones were not read: they may all be new.
            self.drop_silent();
        }
        result
    }

    /// Closes silent connections until half of the room is free. Each person keeps an equal share, and loses the oldest
    /// connections beyond it.
    fn drop_silent(&mut self) {
        let room = self.connections_max / 2;
        let mut of: HashMap<u32, usize> = HashMap::new();
        for connection in &self.connections {
            *of.entry(person(connection.uid)).or_default() += 1;
        }
        let mut counts: Vec<usize> = of.into_values().collect();
        counts.sort_unstable();
        // A person with less than the share leaves the rest to the others.
        let (mut left, mut share) = (room, room);
        for (index, count) in counts.iter().enumerate() {
            share = left / (counts.len() - index);
            if *count > share {
                break;
            }
            left -= count;
        }
        let mut kept: HashMap<u32, usize> = HashMap::new();
        for connection in std::mem::take(&mut self.connections).into_iter().rev() {
            let kept = kept.entry(person(connection.uid)).or_default();
            if *kept < share.max(1) && self.connections.len() < room {
                *kept += 1;
                self.connections.push_front(connection);
            } else {
                descriptor_closer::let_go(connection.socket, connection.uid);
            }
        }
    }

    /// Returns true if nobody is listened to any more.
    fn has_ended(&self) -> bool {
        let cannot_refuse = !self.access_works && (self.only_known || descriptor_closer::is_full());
        self.given_up.len() >= SOCKETS_MAX as usize || cannot_refuse
    }

    /// Restricts the socket to users who are known, and refuses user ids that anybody could have taken.
    fn close_to_unknown(&mut self) {
        if std::mem::replace(&mut self.only_known, true) {
            return;
        }
        self.known.insert(geteuid().as_raw());
        for uid in accounts() {
            let is_refused = self.is_silenced(uid) || self.given_up.contains(&person(uid));
            if !is_refused && self.known.len() < USERS_MAX {
                self.known.insert(uid);
            }
        }
        if geteuid().is_root() {
            self.access_works = self.access_works && self.set_access(&self.path);
        }
    }

    /// Counts an invalid message of this user's process.
    fn blame(&mut self, uid: u32) {
        let was = self.is_silenced(uid);
        let bad = self.bad.entry(person(uid)).or_default();
        *bad = match descriptor_closer::has_too_many(uid) {
            true => BAD_MAX,
            false => bad.saturating_add(1),
        };
        if !was && self.is_silenced(uid) {
            self.silenced.push(person(uid));
            self.deny(uid);
        }
    }

    /// Counts a message as invalid because the sender's user has sent more than the limit. Our own user is not
    /// blamed.
    pub fn count_as_bad(&mut self, sender: &Sender) {
        if sender.uid() != geteuid().as_raw() {
            self.blame(sender.uid());
        }
    }

    fn is_silenced(&self, uid: u32) -> bool {
        self.bad.get(&person(uid)).is_some_and(|bad| *bad >= BAD_MAX)
    }

    /// Returns true if messages of this user are not read.
    fn is_unwanted(&self, uid: u32) -> bool {
        self.is_silenced(uid) || (self.only_known && !self.known.contains(&uid))
    }

    /// Closes a connection that has just been accepted, without reading it.
    fn turn_away(&mut self, socket: OwnedFd, uid: u32) {
        if self.is_silenced(uid) {
            self.deny(uid);
        }
        if descriptor_closer::let_go(socket, uid) && descriptor_closer::has_too_many(uid) {
            self.deny(uid);
            self.give_socket_up(uid);
        }
    }

    /// Makes the kernel refuse further connections of this user.
    fn deny(&mut self, uid: u32) {
        // Only root's socket is open to other users; and root itself is refused nothing.
        let is_of_use = geteuid().is_root() && uid != 0 && self.access_works;
        if is_of_use && self.denied.insert(uid) {
            self.known.retain(|other| person(*other) != person(uid));
            if self.denied.len() > USERS_MAX {
                self.close_to_unknown();
            }
            self.access_works = self.set_access(&self.path);
        }
    }

    fn set_access(&self, path: &Path) -> bool {
        if self.is_withdrawn {
            return true;
        }
        let access = match self.only_known {
            true => Access::Only(&self.known),
            false => Access::AllBut(&self.denied),
        };
        set_access(path, access).is_ok()
    }

    /// Replaces the socket by a new one, because this user has more waiting connections than can be closed. A
    /// separate thread closes the old socket. Processes that had connected to the old socket are found by
    /// searching.
    fn give_socket_up(&mut self, uid: u32) {
        // The same person has used another user id: then refuse all ids that the person can use.
        let again = self.given_up.contains(&person(uid));
        self.given_up.push(person(uid));
        if again {
            self.close_to_unknown();
        }
        if self.is_withdrawn {
            self.accepts = false;
            return;
        }
        let folder = self.path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let mut works = self.access_works && geteuid().is_root();
        // Set the access list first: as soon as the socket listens, anybody may connect.
        let renewed = listen_in(&folder, |path| works = works && self.set_access(path));
        self.access_works = works;
        let renewed = renewed.and_then(|(socket, path)| {
            let error = |code: Errno| Error::Socket { what: "watching anew", source: code.into() };
            match self.watch(&socket) {
                Ok(()) => Ok((socket, path)),
                Err(code) => {
                    let _ = fs::remove_file(path);
                    Err(error(code))
                }
            }
        });
        match renewed {
            Ok((socket, path)) => {
                request_text::withdraw(&self.path);
                let _ = fs::remove_file(&self.path);
                self.path = path;
                if self.wanted.as_ref().is_some_and(|text| self.leave(text).is_err()) {
                    self.wanted = None;
                }
                let old = std::mem::replace(&mut self.socket, socket);
                let _ = epoll::delete(&self.epoll, &old);
                descriptor_closer::close_elsewhere([old], uid);
            }
            // No new socket: end as if the limit on given-up sockets were reached.
            Err(_) => self.given_up.resize(SOCKETS_MAX as usize, uid),
        }
        if !self.access_works {
            self.given_up.resize(SOCKETS_MAX as usize, uid);
        }
    }

    fn accept(&mut self) -> Result<(), Error> {
        while self.accepts && self.connections.len() < self.connections_max && !self.has_ended() {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.in_a_row += 1;
                    self.had_no_room |= self.in_a_row >= self.room;
                    let uid = connected_user(&socket);
                    if self.is_unwanted(uid) {
                        self.turn_away(socket, uid);
                        continue;
                    }
                    self.hold(socket, uid);
                }
                Err(Errno::AGAIN) => {
                    self.in_a_row = 0;
                    break;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => (),
                // No descriptor is free: serve the connections that were accepted.
                Err(Errno::MFILE | Errno::NFILE) if !self.connections.is_empty() => break,
                Err(code) => {
                    return Err(Error::Socket { what: "accepting", source: code.into() });
                }
            }
        }
        self.accept_named()
    }

    /// Keeps a connection until it sends something.
    fn hold(&mut self, socket: OwnedFd, uid: u32) {
        // If it cannot be watched, the connection is read when the next one wakes us.
        let _ = self.watch(&socket);
        self.connections.push_back(PendingConnection { socket, since: Instant::now(), uid });
    }

    /// Accepts connections at the abstract name, which every process can use, since no access list protects it. If
    /// too many processes connect that do not belong to the command, the name is given up; programs that can reach
    /// only that name are found by searching.
    fn accept_named(&mut self) -> Result<(), Error> {
        while self.connections.len() < self.connections_max {
            let Some(named) = &mut self.named else { return Ok(()) };
            let (socket, has_room) = match named.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) if named.has_ended() => {
                    self.leave_name(geteuid().as_raw());
                    break;
                }
                Ok(None) => break,
                Err(Errno::MFILE | Errno::NFILE) if !self.connections.is_empty() => break,
                Err(code) => {
                    return Err(Error::Socket { what: "accepting", source: code.into() });
                }
            };
            self.had_no_room |= !has_room;
            let uid = connected_user(&socket);
            if is_heard(uid) && !self.is_unwanted(uid) {
                self.hold(socket, uid);
                continue;
            }
            let holds_up =
                descriptor_closer::let_go(socket, uid) && descriptor_closer::has_too_many(uid);
            if holds_up || self.named.as_mut().is_none_or(NamedSocket::turned_away) {
                self.leave_name(uid);
            }
        }
        Ok(())
    }

    /// Gives up the abstract name. A thread for user `uid` closes the connections that wait there.
    fn leave_name(&mut self, uid: u32) {
        if let Some(named) = self.named.take() {
            let socket = named.into_socket();
            let _ = epoll::delete(&self.epoll, &socket);
            descriptor_closer::close_elsewhere([socket], uid);
        }
    }
}

/// Returns the user of the process that has connected, as the kernel reports it.
fn connected_user(socket: &OwnedFd) -> u32 {
    sockopt::socket_peercred(socket).map_or(u32::MAX, |peer| peer.uid.as_raw())
}

impl AsFd for ProgramListener {
    /// Descriptor that is readable when there may be something to [`receive`](Self::receive).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for ProgramListener {
    fn drop(&mut self) {
        self.take_no_more();
        for connection in self.connections.drain(..) {
            descriptor_closer::let_go(connection.socket, connection.uid);
        }
        descriptor_closer::let_go_shared(&self.socket);
        self.leave_name(geteuid().as_raw());
    }
}

/// Returns true if processes of this user may announce themselves to us.
fn is_heard(uid: u32) -> bool {
    let ours = geteuid();
    ours.is_root() || ours.as_raw() == uid
}

/// Returns true if the kernel passes a pidfd of a message's sender.
#[must_use]
pub fn holds_senders() -> bool {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    socket.is_ok_and(|socket| set_option(socket.as_fd(), SO_PASSPIDFD, 1).is_ok())
}

#[cfg(test)]
mod tests;
