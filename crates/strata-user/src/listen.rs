//! A socket in a folder that processes look into when they start, so that new ones need not be found.

mod folder;

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

pub use folder::listening_folder;

use crate::access::{self, set_access, Access};
use crate::announce::{
    receive, set_option, AnnounceMessage, AnnouncementCounters, Received, SO_PASSPIDFD,
};
use crate::clock::Clock;
use crate::closing;
use crate::error::Error;
use crate::person::{accounts, person};
use crate::request;
use crate::spec::SessionSpec;

/// Connections that have not sent anything yet; at so many half are closed, of who has most. Fewer where this program
/// may not have four times as many files open: what it records needs them.
const CONNECTIONS_MAX: usize = 1024;

/// A connection that has sent nothing for so long is no announcement. A process that has connected makes its session
/// before it sends, which takes long where hundreds of others want a CPU.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(60);

/// A user whose processes have sent so many messages that are no announcements is no longer listened to.
const BAD_MAX: u32 = 64;

/// Users who have sent such messages; at so many only those are listened to who have an account, or have
/// announced themselves.
const USERS_MAX: usize = access::USERS_MAX;

/// Sockets that were given up with connections in them that nobody could close; at so many nobody is listened to
/// any more.
const SOCKETS_MAX: u32 = 64;

/// Somebody who has connected, and sent nothing yet.
#[derive(Debug)]
struct PendingConnection {
    socket: OwnedFd,
    since: Instant,
    /// Who has connected, by the kernel's word.
    uid: u32,
}

/// A listening socket, `FOLDER/PID.sock`; removed with this.
#[derive(Debug)]
pub struct ProgramListener {
    socket: OwnedFd,
    epoll: OwnedFd,
    path: PathBuf,
    /// Accepted, nothing received yet; oldest first.
    connections: VecDeque<PendingConnection>,
    connections_max: usize,
    /// [`CONNECTION_PATIENCE`], but for tests.
    patience: Duration,
    /// Connections that the kernel has room for.
    room: u64,
    /// Accepted since there was none to accept.
    in_a_row: u64,
    had_no_room: bool,
    counters: AnnouncementCounters,
    /// Messages that were no announcements, by the person who had connected.
    bad: HashMap<u32, u32>,
    /// Persons who are no longer listened to, of whom nobody was told yet.
    silenced: Vec<u32>,
    /// Users who have announced themselves; with `only_known`, and those with an account.
    known: BTreeSet<u32>,
    /// Users whom the kernel lets in no more.
    denied: BTreeSet<u32>,
    /// Only `known` are let in.
    only_known: bool,
    /// The kernel does so.
    access_works: bool,
    /// Sockets before this one, and who was the reason for giving them up.
    given_up: Vec<u32>,
    /// What every process is asked for from its begin.
    wanted: Option<String>,
    /// It has no name any more.
    is_withdrawn: bool,
    /// False: no connections are accepted any more, since the socket has no name and more of a user's wait than can be
    /// closed.
    accepts: bool,
}

impl ProgramListener {
    /// Listens in the folder for our user: `/run/strata` for root, else one that only we may write to.
    ///
    /// # Errors
    /// [`Error::Folder`], [`Error::Socket`]: of the last folder that was tried.
    pub fn new() -> Result<ProgramListener, Error> {
        let uid = geteuid().as_raw();
        if uid == 0 {
            return ProgramListener::in_folder(Path::new(user::SOCKETS_ROOT));
        }
        let folder = |pattern: &str| PathBuf::from(pattern.replace("%u", &uid.to_string()));
        ProgramListener::in_folder(&folder(user::SOCKETS_USER))
            .or_else(|_| ProgramListener::in_folder(&folder(user::SOCKETS_TMP)))
    }

    /// Listens in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Folder`]: it is not ours alone. [`Error::Socket`].
    pub fn in_folder(folder: &Path) -> Result<ProgramListener, Error> {
        prepare(folder)?;
        let error = |what| move |code: Errno| Error::Socket { what, source: code.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(error("making an epoll"))?;
        let (socket, path) = listen_in(folder, |_| ())?;
        // Behind it, so that we do not take a name at which another tracer may just be looking.
        remove_stale(folder, &path);
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(files_max / 4).unwrap_or(usize::MAX).max(2);
        let listener = ProgramListener {
            socket,
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
        };
        listener.watch(&listener.socket).map_err(error("watching"))?;
        Ok(listener)
    }

    /// Every process that begins from now on, and may announce itself here, makes the session of this generation by
    /// itself before its first event: [`AppSession::adopt`](crate::AppSession::adopt) takes it.
    ///
    /// # Errors
    /// [`Error::Folder`]: the request could not be written; nothing is asked for.
    pub fn ask_for(
        &mut self,
        generation: u64,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<(), Error> {
        let text = request::text(generation, spec, clock);
        self.leave(&text)?;
        self.wanted = Some(text);
        Ok(())
    }

    /// From now on processes only announce themselves.
    pub fn ask_for_nothing(&mut self) {
        if self.wanted.take().is_some() {
            request::withdraw(&self.path);
        }
    }

    /// From now on nobody finds the socket. Who has connected is still heard.
    pub fn take_no_more(&mut self) {
        self.ask_for_nothing();
        // Another tracer may have the name from then on: there is one with our number in each PID namespace.
        if !std::mem::replace(&mut self.is_withdrawn, true) {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn leave(&self, text: &str) -> Result<(), Error> {
        request::leave(&self.path, text).map_err(|source| {
            // What was asked for before does not hold either.
            request::withdraw(&self.path);
            let path = request::beside(&self.path);
            Error::Folder { path, reason: format!("cannot be written: {source}") }
        })
    }

    fn watch(&self, fd: &OwnedFd) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Messages so far.
    #[must_use]
    pub fn counters(&self) -> &AnnouncementCounters {
        &self.counters
    }

    /// Users whose processes have sent so much that is no announcement that they are no longer listened to;
    /// each is named once.
    pub fn silenced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.silenced)
    }

    /// Have so many connected at once that the kernel may have had no room for others? They have told nobody, and nobody
    /// has counted them.
    #[must_use]
    pub fn had_no_room(&self) -> bool {
        self.had_no_room
    }

    /// Are only those users listened to who have an account, or had announced themselves, since others were too
    /// many?
    #[must_use]
    pub fn only_known(&self) -> bool {
        self.only_known
    }

    /// The next process, without waiting. [`Received::End`]: so much was sent that cannot be closed, and its
    /// users cannot be kept from sending more, so that nobody is listened to any more.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn receive(&mut self) -> Result<Received, Error> {
        if self.has_ended() {
            return Ok(Received::End);
        }
        // So many have sent what is no announcement, or so much that cannot be closed.
        if closing::is_full() || self.bad.len() >= USERS_MAX {
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
                closing::let_go(connection.socket, uid);
                continue;
            }
            match receive(connection.socket.as_fd(), &mut self.counters) {
                // Only root records the programs of others; nobody else is sent them in good faith.
                Ok(AnnounceMessage::Process { sender, .. }) if !is_heard(sender.uid()) => (),
                // One message each; then the connection is closed.
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
            if closing::let_go(connection.socket, uid) {
                self.blame(uid);
            }
        }
        self.connections = waiting;
        if more && self.connections.len() >= self.connections_max {
            // Silent ones shall not keep out those who wait to be accepted. Where one had something to say, the others
            // were not asked: they may be as many as have begun just now.
            self.drop_silent();
        }
        result
    }

    /// Lets go of silent connections until half of the room is free: of each person's those beyond an equal share, the
    /// oldest first.
    fn drop_silent(&mut self) {
        let room = self.connections_max / 2;
        let mut of: HashMap<u32, usize> = HashMap::new();
        for connection in &self.connections {
            *of.entry(person(connection.uid)).or_default() += 1;
        }
        let mut counts: Vec<usize> = of.into_values().collect();
        counts.sort_unstable();
        // Who has less than the share leaves the rest to the others.
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
                closing::let_go(connection.socket, connection.uid);
            }
        }
    }

    /// Is nobody listened to any more?
    fn has_ended(&self) -> bool {
        let cannot_refuse = !self.access_works && (self.only_known || closing::is_full());
        self.given_up.len() >= SOCKETS_MAX as usize || cannot_refuse
    }

    /// From now on lets nobody in whose number anybody could have taken.
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

    /// This user's process has sent what is no announcement.
    fn blame(&mut self, uid: u32) {
        let was = self.is_silenced(uid);
        let bad = self.bad.entry(person(uid)).or_default();
        *bad = match closing::has_too_many(uid) {
            true => BAD_MAX,
            false => bad.saturating_add(1),
        };
        if !was && self.is_silenced(uid) {
            self.silenced.push(person(uid));
            self.deny(uid);
        }
    }

    fn is_silenced(&self, uid: u32) -> bool {
        self.bad.get(&person(uid)).is_some_and(|bad| *bad >= BAD_MAX)
    }

    /// Is what this user sends not read?
    fn is_unwanted(&self, uid: u32) -> bool {
        self.is_silenced(uid) || (self.only_known && !self.known.contains(&uid))
    }

    /// Closes a connection unread that has just been accepted.
    fn turn_away(&mut self, socket: OwnedFd, uid: u32) {
        if self.is_silenced(uid) {
            self.deny(uid);
        }
        if closing::let_go(socket, uid) && closing::has_too_many(uid) {
            self.deny(uid);
            self.give_socket_up(uid);
        }
    }

    /// Has the kernel refuse further connections of this user.
    fn deny(&mut self, uid: u32) {
        // Nobody but root and this user comes here; and root is refused nothing.
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

    /// More of this user's connections wait than can be closed, and behind them those of others: they are left to
    /// a thread of that user's, with the socket, and others connect to a new one. Who had connected is found by
    /// searching.
    fn give_socket_up(&mut self, uid: u32) {
        // With another number of the same person: then all such numbers are refused.
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
        // First of all: from the moment on when it listens, anybody may connect.
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
                request::withdraw(&self.path);
                let _ = fs::remove_file(&self.path);
                self.path = path;
                if self.wanted.as_ref().is_some_and(|text| self.leave(text).is_err()) {
                    self.wanted = None;
                }
                let old = std::mem::replace(&mut self.socket, socket);
                let _ = epoll::delete(&self.epoll, &old);
                closing::close_elsewhere([old], uid);
            }
            // As before, with nobody who listens.
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
                    let uid = sockopt::socket_peercred(&socket)
                        .map_or(u32::MAX, |peer| peer.uid.as_raw());
                    if self.is_unwanted(uid) {
                        self.turn_away(socket, uid);
                        continue;
                    }
                    // Not watched, it would still be looked at with the next one.
                    let _ = self.watch(&socket);
                    self.connections.push_back(PendingConnection {
                        socket,
                        since: Instant::now(),
                        uid,
                    });
                }
                Err(Errno::AGAIN) => {
                    self.in_a_row = 0;
                    break;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => (),
                // Too many descriptors: what has come is still served.
                Err(Errno::MFILE | Errno::NFILE) if !self.connections.is_empty() => break,
                Err(code) => {
                    return Err(Error::Socket { what: "accepting", source: code.into() });
                }
            }
        }
        Ok(())
    }
}

impl AsFd for ProgramListener {
    /// Readable when there may be something to [`receive`](Self::receive).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for ProgramListener {
    fn drop(&mut self) {
        self.take_no_more();
        for connection in self.connections.drain(..) {
            closing::let_go(connection.socket, connection.uid);
        }
        closing::let_go_shared(&self.socket);
    }
}

/// May a process of this user announce itself to us?
fn is_heard(uid: u32) -> bool {
    let ours = geteuid();
    ours.is_root() || ours.as_raw() == uid
}

/// Does the kernel hand over a pidfd of who has sent a message?
#[must_use]
pub fn holds_senders() -> bool {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    socket.is_ok_and(|socket| set_option(socket.as_fd(), SO_PASSPIDFD, 1).is_ok())
}

#[cfg(test)]
mod tests {
    use super::folder::NEW_AGE;
    use super::*;
    use rustix::event::{poll, PollFd, PollFlags, Timespec};
    use rustix::fs::CWD;
    use rustix::net::{bind, connect, SocketAddrUnix};
    use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// A folder of this test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir();
            Folder(path.join(format!("strata-listen-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
        }
    }

    fn connect_to(path: &Path) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        socket
    }

    fn announce(socket: &OwnedFd) {
        let fake = crate::testing::Fake::new();
        let mut text = user::MAGIC.to_ne_bytes().to_vec();
        text.extend(user::VERSION.to_ne_bytes());
        text.extend(7u32.to_ne_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fake.fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
    }

    fn readable(listener: &ProgramListener) -> bool {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    /// Nothing comes any more. A process that another test begins holds all that is open, up to its execve: so long a
    /// connection that was closed here is heard of.
    fn falls_silent(listener: &ProgramListener) -> bool {
        let limit = Instant::now() + Duration::from_secs(60);
        while readable(listener) && Instant::now() < limit {
            std::thread::yield_now();
        }
        !readable(listener)
    }

    #[test]
    fn no_room_is_said_when_as_many_wait_as_the_kernel_has_room_for() {
        let folder = Folder::new("room");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        assert!((1..=4096).contains(&listener.room));
        listener.room = 8;
        for (waiting, said) in [(7, false), (7, false), (8, true)] {
            let clients: Vec<OwnedFd> = (0..waiting).map(|_| connect_to(listener.path())).collect();
            assert!(matches!(listener.receive().unwrap(), Received::Nothing));
            assert_eq!(listener.had_no_room(), said);
            drop(clients);
        }
    }

    #[test]
    fn receive_of_processes_that_connect_send_and_close() {
        let folder = Folder::new("receive");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        listener.patience = Duration::from_secs(3600);
        assert!(!readable(&listener));
        // Connected and silent; then some that are quick.
        let silent = connect_to(listener.path());
        for _ in 0..3 {
            announce(&connect_to(listener.path()));
        }
        assert!(readable(&listener));
        for _ in 0..3 {
            let Received::Process { sender, .. } = listener.receive().unwrap() else {
                panic!("none")
            };
            assert_eq!(sender.pid(), std::process::id());
        }
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert!(falls_silent(&listener));
        announce(&silent);
        assert!(readable(&listener));
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        assert_eq!(listener.counters().received, 4);
    }

    #[test]
    fn take_no_more_hears_those_who_have_connected_and_nobody_else() {
        let folder = Folder::new("no-more");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        listener.ask_for(7, &crate::testing::spec(&["*"]), &Clock::new()).unwrap();
        let (silent, path) = (connect_to(listener.path()), listener.path().to_owned());
        announce(&connect_to(&path));
        assert!(request::beside(&path).exists());
        listener.take_no_more();
        assert!(!path.exists() && !request::beside(&path).exists());
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        // Its name is another's now, who keeps it, whatever happens here.
        let mut other = ProgramListener::in_folder(&folder.0).unwrap();
        assert_eq!(other.path(), path);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let before = mode(&path);
        listener.close_to_unknown();
        assert_eq!(mode(&path), before);
        listener.give_socket_up(4711);
        announce(&silent);
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        drop(listener);
        announce(&connect_to(&path));
        assert!(matches!(other.receive().unwrap(), Received::Process { .. }));
        drop(other);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }

    /// Those of one person do not have those of others closed.
    #[test]
    fn malicious_silent_connections_of_one_person_close_only_their_own() {
        if !geteuid().is_root() {
            return;
        }
        let folder = Folder::new("share");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        listener.connections_max = 32;
        let honest = connect_to(listener.path());
        let path = listener.path().to_owned();
        let silent: Vec<OwnedFd> =
            (0..100).map(|_| as_user(61_021, &path, |socket| socket).unwrap()).collect();
        for _ in 0..10 {
            assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        }
        announce(&honest);
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        drop(silent);
    }

    #[test]
    fn malicious_connections_that_stay_silent_do_not_keep_others_out() {
        let folder = Folder::new("silent");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        let most = listener.connections_max;
        let silent: Vec<OwnedFd> = (0..most + 10).map(|_| connect_to(listener.path())).collect();
        announce(&connect_to(listener.path()));
        let received = (0..3).map(|_| listener.receive().unwrap());
        let processes = received.filter(|r| matches!(r, Received::Process { .. })).count();
        assert_eq!(processes, 1);
        assert!(listener.connections.len() < most);
        drop(silent);
    }

    /// More than are looked at together: none of them is let go of before it was asked.
    #[test]
    fn receive_of_more_processes_than_wait_at_once_drops_none() {
        let folder = Folder::new("crowd");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        listener.connections_max = 4;
        let silent: Vec<OwnedFd> = (0..3).map(|_| connect_to(listener.path())).collect();
        (0..20).for_each(|_| announce(&connect_to(listener.path())));
        for number in 0..20 {
            let received = listener.receive().unwrap();
            assert!(matches!(received, Received::Process { .. }), "{number}: {received:?}");
        }
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        drop(silent);
    }

    /// With these descriptors, which are no memory.
    fn send_bad(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) {
        let mut text = user::MAGIC.to_ne_bytes().to_vec();
        text.extend(user::VERSION.to_ne_bytes());
        text.extend(7u32.to_ne_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
    }

    #[test]
    fn malicious_messages_of_a_user_silence_that_user_and_are_told_once() {
        // Where nobody else sends descriptors that wait to be closed.
        let test = "listen::tests::alone_messages_that_are_none";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    #[ignore = "run by malicious_messages_of_a_user_silence_that_user_and_are_told_once"]
    fn alone_messages_that_are_none() {
        let folder = Folder::new("silenced");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        let file = fs::File::open("/proc/self/exe").unwrap();
        for _ in 0..BAD_MAX - 1 {
            send_bad(&connect_to(listener.path()), &[file.as_fd()]);
        }
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert!(listener.silenced().is_empty());
        // Not yet too many.
        announce(&connect_to(listener.path()));
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        for _ in 0..10 {
            send_bad(&connect_to(listener.path()), &[file.as_fd()]);
        }
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert_eq!(listener.silenced(), [geteuid().as_raw()]);
        announce(&connect_to(listener.path()));
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert_eq!((listener.counters().received, listener.silenced()), (1, vec![]));
        assert_eq!(listener.counters().bad_descriptor, u64::from(BAD_MAX));
    }

    /// As another user: connects, and sends what `send` sends.
    fn as_user<R: Send>(
        uid: u32,
        path: &Path,
        send: impl FnOnce(OwnedFd) -> R + Send,
    ) -> Option<R> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: no memory is involved; of this thread only.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }, 0);
                let flags = SocketFlags::CLOEXEC;
                let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
                let socket = socket.unwrap();
                let connected = connect(&socket, &SocketAddrUnix::new(path).unwrap());
                connected.is_ok().then(|| send(socket))
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn malicious_user_whose_descriptors_hang_is_kept_out_and_others_are_heard() {
        if geteuid().is_root() {
            let test = "listen::tests::alone_descriptors_of_a_user_that_hang";
            crate::testing::run_alone(test, || Ok(()));
        }
    }

    #[test]
    #[ignore = "run by malicious_user_whose_descriptors_hang_is_kept_out_and_others_are_heard"]
    fn alone_descriptors_of_a_user_that_hang() {
        const MALLORY: u32 = 61_011;
        const ALICE: u32 = 61_012;
        let folder = Folder::new("hang");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        if !listener.set_access(listener.path()) {
            eprintln!("no access lists in {}", folder.0.display());
            return;
        }
        let (hangs, _other_end) = crate::closing::tests::lingering();
        let file = fs::File::open("/proc/self/exe").unwrap();
        // The first one hangs, and so those behind it are not closed either.
        as_user(MALLORY, listener.path(), |socket| send_bad(&socket, &[hangs.as_fd()])).unwrap();
        // Who closes the last one waits: that is not to be this thread.
        drop(hangs);
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        // More than this user's share, and more than that of all.
        let first = listener.path().to_owned();
        let mut refused = 0;
        for _ in 0..40 {
            for _ in 0..40 {
                let fds = [file.as_fd(); 100];
                let sent = as_user(MALLORY, listener.path(), |socket| send_bad(&socket, &fds));
                refused += u32::from(sent.is_none());
            }
            assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        }
        assert!(refused > 1000, "{refused}");
        assert_eq!((listener.silenced(), listener.only_known()), (vec![MALLORY], false));
        assert!(closing::has_too_many(MALLORY) && !closing::is_full());
        // Others are heard, on whichever socket.
        as_user(ALICE, listener.path(), |socket| announce(&socket)).unwrap();
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        // With the backlog full of its connections the socket itself is given up.
        listener.give_socket_up(MALLORY);
        let second = listener.path().to_owned();
        assert!(second != first && !first.exists() && !listener.only_known());
        assert!(as_user(MALLORY, &second, drop).is_none());
        assert!(as_user(MALLORY + 5, &second, drop).is_some());
        // And once more, as another number of the same person would do it: who was heard is heard.
        listener.give_socket_up(MALLORY);
        assert!(listener.only_known() && !second.exists());
        assert!(as_user(MALLORY + 5, listener.path(), drop).is_none());
        as_user(ALICE, listener.path(), |socket| announce(&socket)).unwrap();
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    }

    #[test]
    fn malicious_second_message_on_a_connection_is_not_closed_here() {
        let folder = Folder::new("second");
        let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
        let socket = connect_to(listener.path());
        let file = fs::File::open("/proc/self/exe").unwrap();
        announce(&socket);
        send_bad(&socket, &[file.as_fd(); 8]);
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        assert_eq!(listener.bad.get(&geteuid().as_raw()), Some(&1));
    }

    #[test]
    fn folder_and_socket_have_the_modes_that_processes_check() {
        let folder = Folder::new("modes");
        let listener = ProgramListener::in_folder(&folder.0).unwrap();
        let root = geteuid().is_root();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&folder.0), if root { 0o755 } else { 0o700 });
        assert_eq!(mode(listener.path()), if root { 0o666 } else { 0o600 });
        let name = format!("{}.sock", std::process::id());
        assert_eq!(listener.path(), folder.0.join(name));
        let path = listener.path().to_owned();
        let second = ProgramListener::in_folder(&folder.0).unwrap();
        assert_ne!(second.path(), path);
        drop((listener, second));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }

    #[test]
    fn stale_sockets_are_removed_and_live_ones_stay() {
        let folder = Folder::new("stale");
        let live = ProgramListener::in_folder(&folder.0).unwrap();
        let stale = folder.0.join("1.sock");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&stale).unwrap()).unwrap();
        drop(socket);
        fs::write(folder.0.join("notes"), "").unwrap();
        let _second = ProgramListener::in_folder(&folder.0).unwrap();
        assert!(!stale.exists() && live.path().exists() && folder.0.join("notes").exists());
    }

    /// Its name stays, whoever begins meanwhile; that of one who was killed meanwhile does not.
    #[test]
    fn socket_on_which_somebody_is_about_to_listen_is_not_stale() {
        let folder = Folder::new("about");
        let first = ProgramListener::in_folder(&folder.0).unwrap();
        let left = folder.0.join("1.sock.new");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&left).unwrap()).unwrap();
        drop(socket);
        let (socket, path) = listen_in(&folder.0, |new| {
            remove_stale(&folder.0, first.path());
            assert!(new.exists() && new != first.path() && left.exists());
        })
        .unwrap();
        remove_stale(&folder.0, first.path());
        assert!(path.exists() && path != first.path() && path.extension().unwrap() == "sock");
        connect_to(&path);
        // A process that another test begins holds it, up to its execve.
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
        drop(socket);
        let old = std::time::SystemTime::now() - 2 * NEW_AGE;
        let old = rustix::fs::Timespec {
            tv_sec: old.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, &left, &times, rustix::fs::AtFlags::empty()).unwrap();
        remove_stale(&folder.0, first.path());
        assert!(!left.exists() && !path.exists() && first.path().exists());
    }

    #[test]
    fn folder_that_others_can_write_to_or_that_is_none_is_refused() {
        let refused = |path: &Path| match ProgramListener::in_folder(path) {
            Err(Error::Folder { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        let folder = Folder::new("refused");
        fs::create_dir(&folder.0).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(refused(&folder.0).contains("770"));
        let link = Folder::new("link");
        std::os::unix::fs::symlink("/tmp", &link.0).unwrap();
        assert!(refused(&link.0).contains("no folder"));
        assert!(refused(Path::new("/proc/strata")).contains("cannot be made"));
        if geteuid().is_root() {
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(&folder.0, Some(65534), None).unwrap();
            assert!(refused(&folder.0).contains("65534"));
        }
    }
}
