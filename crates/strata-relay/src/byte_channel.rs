//! A channel of bytes to the other recorder: its address, and reading and writing with limited waiting.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{socket_with, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::vsock;

/// Time limit for making a TCP connection.
const CONNECT: Duration = Duration::from_secs(2);

/// Address of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A unix socket, or a device such as a virtio-serial port.
    Path(PathBuf),
    /// TCP address, `HOST:PORT`.
    Tcp(String),
    /// A socket between a guest and its host. The host listens at the port for the guest with this number.
    Vsock {
        /// Number of the machine at the other end; the host's number is 2 for every guest.
        cid: u32,
        /// Port at which the host listens.
        port: u32,
    },
}

/// The text that is no address of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceProblem(String);

impl fmt::Display for PlaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "'{text}' is no channel; write the path of a unix socket or of a device, tcp:HOST:PORT, or vsock:CID:PORT")
    }
}

impl std::error::Error for PlaceProblem {}

impl Place {
    /// Parses the address of a channel: a path, `tcp:HOST:PORT`, or `vsock:CID:PORT`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<Place, PlaceProblem> {
        let problem = || PlaceProblem(text.escape_debug().take(100).collect());
        if let Some(address) = text.strip_prefix("vsock:") {
            let (cid, port) = address.split_once(':').ok_or_else(problem)?;
            let number = |text: &str| {
                text.parse::<u32>().ok().filter(|number| (1..u32::MAX).contains(number))
            };
            let (cid, port) = number(cid).zip(number(port)).ok_or_else(problem)?;
            return Ok(Place::Vsock { cid, port });
        }
        match text.strip_prefix("tcp:") {
            Some(address) => {
                let (host, port) = address.rsplit_once(':').ok_or_else(problem)?;
                let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
                (is_port && !host.is_empty())
                    .then(|| Place::Tcp(address.to_owned()))
                    .ok_or_else(problem)
            }
            None if text.is_empty() => Err(problem()),
            None => Ok(Place::Path(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Path(path) => write!(f, "{}", path.display()),
            Place::Tcp(address) => write!(f, "tcp:{address}"),
            Place::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
        }
    }
}

/// Connects to a unix socket, without waiting: the listening process may never accept the connection.
///
/// # Errors
/// A system call failed; `ConnectionRefused` if nobody listens, or if other connections wait there already.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket),
        Err(Errno::AGAIN) => Err(ErrorKind::ConnectionRefused.into()),
        Err(error) => Err(error.into()),
    }
}

/// Ways in which a host waits for its guest.
#[derive(Debug)]
pub enum Waiting {
    /// Guest and host both connect to a third party between them.
    Between(Place),
    /// The guest connects to its host.
    Listening(OwnedFd, u32),
}

impl Waiting {
    /// Prepares to wait for the guest at `place`.
    ///
    /// # Errors
    /// A system call failed.
    pub fn at(place: &Place) -> io::Result<Waiting> {
        Ok(match place {
            Place::Vsock { cid, port } => Waiting::Listening(vsock::listen(*port)?, *cid),
            other => Waiting::Between(other.clone()),
        })
    }

    /// Returns the channel if the guest has connected; `None` otherwise. Over vsock, only the guest with the given
    /// number is accepted.
    ///
    /// # Errors
    /// A system call failed.
    pub fn opened(&self) -> io::Result<Option<Wire>> {
        match self {
            Waiting::Between(place) => match Wire::open(place) {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::ConnectionRefused
                    ) =>
                {
                    Ok(None)
                }
                opened => opened.map(Some),
            },
            Waiting::Listening(socket, guest) => match vsock::accept(socket)? {
                Some((peer, cid)) if cid == *guest => Wire::of(peer).map(Some),
                // Another machine's is closed.
                _ => Ok(None),
            },
        }
    }

    /// Returns a channel to the process that listens at the place now, if its socket is another than that of `wire`: a
    /// hypervisor that takes over a machine creates its own socket. Only unix sockets show this.
    #[must_use]
    pub fn newer(&self, wire: &Wire) -> Option<Wire> {
        let Waiting::Between(Place::Path(path)) = self else { return None };
        let (there, before) = (Socket::at(path)?, wire.socket?);
        // Another user's is not even connected to.
        if there == before || there.owner != before.owner {
            return None;
        }
        let socket = Some(there);
        Some(Wire { socket, ..Wire::of(connect(path).ok()?).ok()? })
    }
}

/// Identity of a unix socket in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    device: u64,
    inode: u64,
    owner: u32,
    /// Time at which the socket was created \[s, ns\], since its inode number may be that of an earlier file.
    made: (i64, i64),
}

impl Socket {
    fn at(path: &Path) -> Option<Socket> {
        let about = std::fs::metadata(path).ok().filter(|about| about.file_type().is_socket())?;
        let made = (about.mtime(), about.mtime_nsec());
        Some(Socket { device: about.dev(), inode: about.ino(), owner: about.uid(), made })
    }
}

/// An open channel.
#[derive(Debug)]
pub struct Wire {
    fd: OwnedFd,
    is_device: bool,
    /// Identity of the unix socket that was connected to; `None` for other channels.
    socket: Option<Socket>,
}

impl Wire {
    /// Opens the device at `place`, or connects to the socket there.
    ///
    /// # Errors
    /// A system call failed. The device or socket may exist later.
    pub fn open(place: &Place) -> io::Result<Wire> {
        match place {
            Place::Tcp(address) => {
                let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
                for one in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&one, CONNECT) {
                        Ok(stream) => {
                            // What is written is a whole message: it is not to wait for more.
                            stream.set_nodelay(true)?;
                            return Wire::of(stream.into());
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Place::Vsock { cid, port } => Wire::of(vsock::connect(*cid, *port)?),
            Place::Path(path) => {
                let kind = std::fs::metadata(path)?.file_type();
                if kind.is_socket() {
                    // Before: one that takes its place meanwhile is found to be newer.
                    let socket = Socket::at(path);
                    return Ok(Wire { socket, ..Wire::of(connect(path)?)? });
                }
                if !kind.is_char_device() {
                    return Err(io::Error::other("it is neither a socket nor a device"));
                }
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
                match rustix::fs::open(path, flags, Mode::empty()) {
                    Ok(fd) => Ok(Wire { fd, is_device: true, socket: None }),
                    Err(Errno::BUSY) => Err(io::Error::other(
                        "another program has it open, such as another recorder: each needs a channel of its own",
                    )),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Makes a channel from a connected socket.
    ///
    /// # Errors
    /// A system call failed.
    pub fn of(fd: OwnedFd) -> io::Result<Wire> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Wire { fd, is_device: false, socket: None })
    }

    /// Reads available bytes, and waits for them for at most `within`. Returns `None` if no bytes arrived, and 0 if
    /// there is nobody at the other end. A device may get a peer later.
    ///
    /// # Errors
    /// A system call failed.
    pub fn read(&self, buffer: &mut [u8], within: Duration) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.fd, &mut *buffer) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if within.is_zero() || !self.wait(PollFlags::IN, within)? {
            return Ok(None);
        }
        match rustix::io::read(&self.fd, buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all bytes. `is_over` is called repeatedly while the other end accepts none, and ends the wait if it
    /// returns true.
    ///
    /// # Errors
    /// A system call failed; `TimedOut` if `is_over` has returned true, and a part may be written then.
    pub fn write_all(&self, mut bytes: &[u8], is_over: &mut dyn FnMut() -> bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.fd, bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if is_over() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    self.wait(PollFlags::OUT, Duration::from_millis(100))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns whether the channel is a device, which can be open while there is nobody at the other end.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Returns the id of the process at the other end of a unix socket, as it was when that process began to listen;
    /// `None` for other channels.
    #[must_use]
    pub fn peer(&self) -> Option<u32> {
        let found = sockopt::socket_peercred(&self.fd).ok()?;
        // Other sockets have nobody.
        u32::try_from(found.pid.as_raw_nonzero().get()).ok().filter(|pid| *pid > 0)
    }

    /// Returns the user id of the process at the other end of a unix socket, as it was when that process began to
    /// listen; `None` for other channels.
    #[must_use]
    pub fn peer_user(&self) -> Option<u32> {
        self.peer()?;
        Some(sockopt::socket_peercred(&self.fd).ok()?.uid.as_raw())
    }

    fn wait(&self, flags: PollFlags, within: Duration) -> io::Result<bool> {
        let within = Timespec::try_from(within).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.fd, flags)];
        match poll(&mut fds, Some(&within)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = fds[0].revents().intersects(flags);
        if !is_ready && self.is_device {
            // Nobody has it open at the other end: that is said at once, again and again.
            std::thread::sleep(Duration::from_millis(20)); // Time: between two looks.
        }
        Ok(is_ready || !self.is_device)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn place_is_a_path_or_an_address() {
        let vsock = Place::parse("vsock:2:9000").unwrap();
        assert_eq!(vsock, Place::Vsock { cid: 2, port: 9000 });
        assert_eq!(vsock.to_string(), "vsock:2:9000");
        for bad in [
            "vsock:",
            "vsock:2",
            "vsock:0:1",
            "vsock:2:0",
            "vsock:4294967295:1",
            "vsock:2:x",
            "vsock:-1:5",
        ] {
            assert!(Place::parse(bad).unwrap_err().to_string().contains("vsock:CID:PORT"), "{bad}");
        }
        assert_eq!(Place::parse("/tmp/x"), Ok(Place::Path("/tmp/x".into())));
        assert_eq!(Place::parse("tcp:::1:77"), Ok(Place::Tcp("::1:77".into())));
        for bad in ["", "tcp:", "tcp:host", "tcp::7", "tcp:host:0", "tcp:host:70000"] {
            assert!(Place::parse(bad).unwrap_err().to_string().contains("tcp:HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn socket_that_takes_the_place_of_another_one_is_found_and_the_same_is_not() {
        let folder = std::env::temp_dir().join(format!("strata-wire-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("port");
        let first = UnixListener::bind(&path).unwrap();
        let waiting = Waiting::at(&Place::Path(path.clone())).unwrap();
        let wire = waiting.opened().unwrap().unwrap();
        assert!(waiting.newer(&wire).is_none());
        assert_eq!(wire.peer(), Some(std::process::id()));
        assert_eq!(wire.peer_user(), Some(rustix::process::getuid().as_raw()));
        std::fs::remove_file(&path).unwrap();
        assert!(waiting.newer(&wire).is_none());
        // The first one is there all the while, so that its number is not given again.
        let second = UnixListener::bind(&path).unwrap();
        let newer = waiting.newer(&wire).unwrap();
        assert!(waiting.newer(&newer).is_none());
        let (mut told, _) = second.accept().unwrap();
        told.write_all(b"x").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(newer.read(&mut buffer, Duration::from_secs(60)).unwrap(), Some(1));
        assert_eq!(wire.read(&mut buffer, Duration::ZERO).unwrap(), None);
        // Who has gone, and what is no socket.
        drop((first, second));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"").unwrap();
        assert!(waiting.newer(&newer).is_none());
        // It was never at a path.
        let (pair, _other) = UnixStream::pair().unwrap();
        std::fs::remove_file(&path).unwrap();
        let _third = UnixListener::bind(&path).unwrap();
        assert!(waiting.newer(&Wire::of(pair.into()).unwrap()).is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn wire_carries_what_is_written_and_ends_to_wait() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (Wire::of(one.into()).unwrap(), Wire::of(other.into()).unwrap());
        let mut buffer = [0; 8];
        assert_eq!(other.read(&mut buffer, Duration::from_millis(1)).unwrap(), None);
        one.write_all(b"abc", &mut || true).unwrap();
        assert_eq!(other.read(&mut buffer, Duration::from_secs(60)).unwrap(), Some(3));
        // Nobody takes it.
        let mut asked = 0;
        let full = one.write_all(&vec![0; 64 << 20], &mut || {
            asked += 1;
            asked > 1
        });
        assert_eq!((full.unwrap_err().kind(), asked), (ErrorKind::TimedOut, 2));
        drop(one);
        while other.read(&mut [0; 65536], Duration::from_secs(60)).unwrap() != Some(0) {}
        assert_eq!(Wire::open(&Place::Path("/".into())).unwrap_err().kind(), ErrorKind::Other);
    }
}
