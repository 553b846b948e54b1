//! The socket of a session: the session that listens, and clients that send requests.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::{retry_on_intr, Errno};
use rustix::net::{
    accept_with, bind, connect, listen, recv, send, socket_with, sockopt, AddressFamily, RecvFlags,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::geteuid;

use crate::error::ControlError;
use crate::folder::{is_ours, system, Claim, Folder};
use crate::group::Group;
use crate::message::{decode_reply, encode_reply, Reply, Request};

/// Longest message \[byte\].
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest silence of a client before it is disconnected, since others wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest silence of a client that is a member of the session's group, which is less trusted.
const MEMBER_PATIENCE: Duration = Duration::from_millis(200);
/// Longest wait for an answer: a snapshot of large buffers to a slow disk takes that long, nothing else does.
const ANSWER_PATIENCE: Duration = Duration::from_secs(600);
/// Longest wait for the answer to a status request, which a session sends at once if it gets a CPU.
const STATUS_PATIENCE: Duration = Duration::from_secs(30);
/// Limit on the checks, and the pause between them, whether a session that gave no answer has ended.
const LOOKS: u32 = 20;
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// The most clients that wait to be accepted.
const BACKLOG: i32 = 128;

/// The socket at which a session accepts requests.
#[derive(Debug)]
pub struct SessionListener {
    socket: OwnedFd,
    claim: Claim,
    /// Group whose members may request the status.
    group: Option<Group>,
    /// Longest silence of a client: [`PATIENCE`], or longer in tests.
    pub(crate) patience: Duration,
}

fn socket(name: &str) -> Result<OwnedFd, ControlError> {
    let failed = |errno: Errno| system(name, "make a socket", errno.into());
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)
}

impl SessionListener {
    /// Listens under the name that was claimed.
    ///
    /// # Errors
    /// A system call failed.
    pub fn new(claim: Claim) -> Result<SessionListener, ControlError> {
        SessionListener::open_to(None, claim)
    }

    /// Opens the socket. Members of `group` may request the session's status.
    ///
    /// # Errors
    /// A system call failed; [`ControlError::Group`]: this is not root.
    pub fn open_to(group: Option<Group>, claim: Claim) -> Result<SessionListener, ControlError> {
        if let Some(group) = group.as_ref().filter(|_| !geteuid().is_root()) {
            let (group, why) = (group.name().to_owned(), "only root's sessions are".to_owned());
            return Err(ControlError::Group { group, why });
        }
        let failed = |what| {
            let name = claim.name().to_owned();
            move |errno: Errno| system(&name, what, errno.into())
        };
        let socket = socket(claim.name())?;
        let address = SocketAddrUnix::new(claim.socket()).map_err(failed("name its socket"))?;
        bind(&socket, &address).map_err(failed("bind its socket"))?;
        // Nobody can connect before the socket listens.
        claim.give(group.as_ref()).map_err(failed("give its socket its rights"))?;
        listen(&socket, BACKLOG).map_err(failed("listen"))?;
        Ok(SessionListener { socket, claim, group, patience: PATIENCE })
    }

    /// Name of the session.
    #[must_use]
    pub fn name(&self) -> &str {
        self.claim.name()
    }

    /// Claim on the session's name.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Makes [`SessionListener::serve`] return soon, by a connection without a request. Does not wait.
    pub fn wake(&self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        if let (Ok(socket), Ok(address)) = (socket, SocketAddrUnix::new(self.claim.socket())) {
            let _ = connect(&socket, &address);
        }
    }

    /// Accepts one client, and sends the reply that `answer` returns. Clients that may not send requests, send none or
    /// invalid ones, or disconnect are ignored.
    ///
    /// # Errors
    /// The socket itself failed.
    pub fn serve(&self, answer: &mut dyn FnMut(Request) -> Reply) -> io::Result<()> {
        if let Some(connection) = self.accept()? {
            connection.answer(answer);
        }
        Ok(())
    }

    /// Accepts the next client, which any thread can answer. Returns `None` if the client may not send requests.
    ///
    /// # Errors
    /// The socket itself failed.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        let connection = match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(connection) => connection,
            Err(Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let Ok(peer) = sockopt::socket_peercred(&connection) else { return Ok(None) };
        let is_of = |group: &Group| group.has(connection.as_fd(), peer.gid.as_raw());
        let is_owner = is_ours(peer.uid.as_raw());
        let is_known = is_owner || self.group.as_ref().is_some_and(is_of);
        let patience = match is_owner {
            true => self.patience,
            false => self.patience.min(MEMBER_PATIENCE),
        };
        let uid = peer.uid.as_raw();
        Ok(is_known.then_some(Connection { socket: connection, is_owner, uid, patience }))
    }
}

/// A client that has connected.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// True if the client is this user or root, false if it is a member of the session's group.
    is_owner: bool,
    /// User id of the client, as the kernel reports it.
    uid: u32,
    /// Longest silence of the client before it is disconnected.
    pub(crate) patience: Duration,
}

impl Connection {
    /// User id of the client if it is a member of the session's group, and neither the session's own user nor root.
    #[must_use]
    pub fn member(&self) -> Option<u32> {
        (!self.is_owner).then_some(self.uid)
    }

    /// Receives the client's request, and sends the reply that `answer` returns.
    pub fn answer(self, answer: &mut dyn FnMut(Request) -> Reply) {
        // The client may have disconnected, which is no problem here.
        let _ = self.heard(&mut |request| match self.is_owner || request.is_for_members() {
            true => answer(request),
            false => {
                Err("members of its group may ask for its status only, and for a snapshot where root has said; ask who has \
                     started it"
                    .into())
            }
        });
    }

    fn heard(&self, answer: &mut dyn FnMut(Request) -> Reply) -> Result<(), Errno> {
        let connection = &self.socket;
        for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(connection, which, Some(self.patience))?;
        }
        let reply = match receive(connection)? {
            Some(bytes) => Request::decode(&bytes).and_then(answer),
            None => Err(format!("a request is at most {MESSAGE_BYTES_MAX} bytes")),
        };
        let mut bytes = encode_reply(&reply);
        if bytes.len() > MESSAGE_BYTES_MAX {
            bytes = encode_reply(&Err("the answer is too long".to_owned()));
        }
        say(connection, &bytes)
    }
}

// A call on a socket with a timeout is not restarted by the kernel when a signal, or a debugger that attaches,
// interrupts it.

/// Sends one message.
fn say(socket: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
    retry_on_intr(|| send(&socket, bytes, SendFlags::NOSIGNAL)).map(drop)
}

/// Receives one message; `None` if it is too long.
fn receive(socket: impl AsFd) -> Result<Option<Vec<u8>>, Errno> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX + 1];
    let (read, whole) = retry_on_intr(|| recv(&socket, &mut buffer[..], RecvFlags::TRUNC))?;
    buffer.truncate(read);
    Ok((whole <= MESSAGE_BYTES_MAX).then_some(buffer))
}

/// Sends a request to the session of this name. Returns the facts of its reply.
///
/// # Errors
/// [`ControlError::Absent`], [`ControlError::Killed`], [`ControlError::Stranger`], [`ControlError::Silent`],
/// [`ControlError::Refused`], or a system call failed.
pub fn ask(folder: &Folder, name: &str, request: &Request) -> Result<Map, ControlError> {
    let patience = match request {
        Request::Status | Request::Plan => STATUS_PATIENCE,
        _ => ANSWER_PATIENCE,
    };
    ask_within(folder, name, request, patience)
}

/// Sends a request, and waits for the reply, at most for the time `patience`.
pub(crate) fn ask_within(
    folder: &Folder,
    name: &str,
    request: &Request,
    patience: Duration,
) -> Result<Map, ControlError> {
    let failed = |what| move |errno: Errno| system(name, what, errno.into());
    let address = SocketAddrUnix::new(folder.socket(name)?).map_err(failed("name its socket"))?;
    let socket = socket(name)?;
    let silent = || ControlError::Silent {
        name: name.to_owned(),
        pid: folder.pid(name).unwrap_or(0),
        seconds: patience.as_secs(),
    };
    // A stopped session accepts nobody, and connecting waits as well if many clients wait.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))
        .map_err(failed("ask it"))?;
    match retry_on_intr(|| connect(&socket, &address)) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(silent()),
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(absent(folder, name)),
        Err(errno) => return Err(failed("connect to it")(errno)),
    }
    let peer = sockopt::socket_peercred(&socket).map_err(failed("see whose it is"))?;
    let uid = peer.uid.as_raw();
    if !is_ours(uid) {
        return Err(ControlError::Stranger { name: name.to_owned(), uid });
    }
    let ended = || ended(folder, name);
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))
        .and_then(|()| sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience)))
        .and_then(|()| say(&socket, &request.encode()))
        .map_err(|errno| match errno {
            Errno::PIPE | Errno::CONNRESET => ended(),
            errno => failed("ask it")(errno),
        })?;
    let bytes = receive(&socket).map_err(|errno| match errno {
        Errno::AGAIN => silent(),
        Errno::CONNRESET => ended(),
        errno => failed("hear its answer")(errno),
    })?;
    let message = |what: String| ControlError::Message { name: name.to_owned(), what };
    let bytes = bytes.ok_or_else(|| message("it is too long".to_owned()))?;
    if bytes.is_empty() {
        return Err(ended());
    }
    match decode_reply(&bytes).map_err(message)? {
        Ok(facts) => Ok(facts),
        Err(why) => Err(ControlError::Refused { name: name.to_owned(), why }),
    }
}

/// Makes the error for a name at which no session listens.
fn absent(folder: &Folder, name: &str) -> ControlError {
    let name = name.to_owned();
    match folder.is_killed(&name) {
        true => ControlError::Killed { name },
        false => ControlError::Absent { name },
    }
}

/// Makes the error for a connection that was closed without an answer: the session has ended, or could not receive the
/// request.
fn ended(folder: &Folder, name: &str) -> ControlError {
    // The kernel closes the files of a killed process one after the other.
    for _ in 0..LOOKS {
        if folder.pid(name).is_none() {
            return absent(folder, name);
        }
        std::thread::sleep(LOOK_PERIOD);
    }
    let why = "it has closed the connection without an answer. Try again".to_owned();
    ControlError::Refused { name: name.to_owned(), why }
}

type Map = serde_json::Map<String, serde_json::Value>;
