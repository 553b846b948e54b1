//! Messages by which new processes announce themselves: each passes the process' memory, and the kernel names its
//! sender (`strata/abi/user.h`, "The announcement").
//!
//! The message comes by a unix socket of type SEQPACKET: a few bytes of text, and one descriptor, the process' memfd. The
//! kernel adds the sender's credentials and, from Linux 6.5 on, a pidfd:
//!
//! ```text
//! recvmsg() ─ ControlPart::parse() ─ hold_sender() ─ judge() ─▶ Received::Process { fd, sender, … }
//!                                                            └▶ counted in AnnouncementCounters: wrong size, no memfd …
//! ```
//!
//! Anybody may send anything. So each descriptor in the control part is owned at once, and closed if it is not wanted; a
//! descriptor that could block on close is closed elsewhere (`descriptor_closer.rs`). The text is checked for its length and
//! version, and nothing in the memory is looked at here: that is done by [`Application::announced`], which also checks
//! that the memory is the sender's own. Without a pidfd, the sender is held by number and start time, and checked again.
//!
//! `listen.rs` has the socket that all processes find in a folder, `launch.rs` the one that a command inherits; both
//! receive through [`receive`].
//!
//! [`Application::announced`]: crate::Application::announced

use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use strata_abi::user::{self, Absence, Announcement};

use crate::attach::clock::Clock;
use crate::attach::shared_memory::{is_in_kernel_memory, u32_in, u64_in};
use crate::discover::descriptor_closer::close_elsewhere;
use crate::error::Error;
use crate::processes::identity::Identity;
use crate::processes::process::{failed, Process, Status};
use crate::users::persons::person;

/// The result of receiving from a socket for announcements.
#[derive(Debug)]
pub enum Received {
    /// A process announced itself.
    Process {
        /// Memory of the process; see [`Application::announced`](crate::Application::announced).
        fd: OwnedFd,
        /// Sender of the message.
        sender: Sender,
        /// Claims of the process about itself.
        announcement: Announcement,
    },
    /// A process with tracepoints announced that it has no memory to share.
    Absent {
        /// Sender of the message.
        sender: Sender,
        /// Claims of the process about itself.
        absence: Absence,
    },
    /// The socket has no message now.
    Nothing,
    /// The socket has no other end any more: all processes that held it have ended or closed it.
    End,
}

/// Sender of a message, as the kernel names it. The sender's identity cannot pass to another process unnoticed.
#[derive(Clone, Debug)]
pub struct Sender {
    process: Process,
    uid: u32,
    gid: u32,
    /// Time at which the sender was held by its process id, because the kernel passed no pidfd
    /// (`CLOCK_MONOTONIC`) \[ns\]. A process with this id that began later is another one.
    held_ns: Option<u64>,
}

impl Sender {
    /// Process id of the sender in our namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Real user of the sender, unless the sender was allowed to name another one.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Real group of the sender, unless the sender was allowed to name another one.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The person whose quota the sender's requests count towards: the sender's user, or the first user id of its
    /// container.
    #[must_use]
    pub fn person(&self) -> u32 {
        person(self.uid)
    }

    /// Creates a sender that has ended, so that another process may have its process id by now.
    #[cfg(test)]
    pub(crate) fn ended(pid: u32) -> Sender {
        Sender { process: Process::ended(pid), uid: 0, gid: 0, held_ns: None }
    }

    /// Returns whether the process id still belongs to the sender. If so, all that was read by process id since the
    /// message is about the sender.
    #[must_use]
    pub fn has_its_number(&self) -> bool {
        self.process.has_its_number()
    }

    /// Name of the sender's first thread, as the kernel reports it; `None` if the sender has ended.
    #[must_use]
    pub fn comm(&self) -> Option<String> {
        let status = Status::read(self.pid()).ok()??;
        Identity::of(&self.process, &status).comm
    }

    /// Returns the sending process. This reads files of /proc, which may block: see `blocking_queries.rs`.
    ///
    /// # Errors
    /// As [`Process::unless_younger`].
    pub(crate) fn process(&self) -> Result<Process, Error> {
        match self.held_ns {
            Some(held_ns) => self.process.clone().unless_younger(held_ns),
            None => Ok(self.process.clone()),
        }
    }
}

/// Counters of announcements, and of messages that were ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncementCounters {
    /// Processes that announced themselves.
    pub received: u64,
    /// Processes that had no memory to announce.
    pub absent: u64,
    /// Messages of another size, or with another magic number.
    pub malformed: u64,
    /// Messages of another version of the layout.
    pub other_version: u64,
    /// Messages with no file descriptor, with more than one, or with one that is no memory.
    pub bad_descriptor: u64,
    /// Messages from a process that is not in our PID namespace.
    pub unseen_process: u64,
}

/// Result of one call of [`receive`].
pub(crate) enum AnnounceMessage {
    Process {
        fd: OwnedFd,
        sender: Sender,
        announcement: Announcement,
    },
    Absent {
        sender: Sender,
        absence: Absence,
    },
    /// The message of this user is no announcement of our version. `bad` is false for an announcement of another
    /// version, which is not the sender's fault.
    Ignored {
        bad: bool,
        uid: u32,
    },
    Nothing,
    End,
}

/// Space for credentials, a pidfd, and as many descriptors as a message can have. One descriptor is kept; the others
/// are closed by [`close_elsewhere`]. Without the space, the kernel would close them in this thread.
const CONTROL_WORDS: usize = 4 + 3 + (PART_HEADER + FDS_MAX * size_of::<c_int>()).div_ceil(8);

/// The largest error number of the kernel (`MAX_ERRNO`).
const ERRNO_MAX: u32 = 4095;

/// The most descriptors in one message: `SCM_MAX_FD` of the kernel.
const FDS_MAX: usize = 253;

/// Socket option since Linux 6.5: messages name their sender by a pidfd as well.
pub(crate) const SO_PASSPIDFD: c_int = 76;
const SCM_PIDFD: c_int = 4;

/// Size of `struct cmsghdr`: `usize` length with this header, `c_int` level, `c_int` type.
const PART_HEADER: usize = size_of::<usize>() + 2 * size_of::<c_int>();

/// Contents of a message's control part.
#[derive(Debug, Default)]
struct ControlPart {
    fds: Vec<OwnedFd>,
    /// Credentials of the sender: pid, uid, gid.
    sender: Option<(u32, u32, u32)>,
    /// Pidfd of the sender, or the kernel's reason to pass none; `None` if the kernel is too old.
    pidfd: Option<Result<OwnedFd, io::Error>>,
}

impl ControlPart {
    /// Parses the control part that the kernel has written, and owns all descriptors in it.
    fn parse(bytes: &[u8]) -> ControlPart {
        let mut control = ControlPart::default();
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + PART_HEADER) {
            let length = match size_of::<usize>() {
                8 => u64_in(header, 0) as usize,
                _ => u32_in(header, 0) as usize,
            };
            let kind = |place| u32_in(header, size_of::<usize>() + place) as c_int;
            let Some(data) = bytes.get(at + PART_HEADER..at.saturating_add(length)) else { break };
            match (kind(0), kind(size_of::<c_int>())) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for number in data.chunks_exact(size_of::<c_int>()) {
                        // SAFETY: the kernel has just put this descriptor into our table for us.
                        let fd = unsafe { OwnedFd::from_raw_fd(u32_in(number, 0) as c_int) };
                        control.fds.push(fd);
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let at = |offset| u32_in(data, offset);
                    control.sender = Some((
                        at(offset_of!(libc::ucred, pid)),
                        at(offset_of!(libc::ucred, uid)),
                        at(offset_of!(libc::ucred, gid)),
                    ));
                }
                (libc::SOL_SOCKET, SCM_PIDFD) if data.len() >= size_of::<c_int>() => {
                    control.pidfd = Some(match u32_in(data, 0) as c_int {
                        code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                        // SAFETY: the kernel has just put this descriptor into our table for us.
                        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
                    });
                }
                _ => (),
            }
            at += length.next_multiple_of(size_of::<usize>()).max(PART_HEADER);
        }
        control
    }

    /// Returns the sender's user, or `u32::MAX` if it is unknown.
    fn uid(&self) -> u32 {
        self.sender.map_or(u32::MAX, |(_, uid, _)| uid)
    }

    /// Holds the sender's identity. Returns `None` if the sender is not in our PID namespace.
    fn hold_sender(&mut self) -> Result<Option<Sender>, Error> {
        let Some((pid, uid, gid)) = self.sender.filter(|(pid, ..)| *pid != 0) else {
            return Ok(None);
        };
        let mut held_ns = None;
        let process = match self.pidfd.take() {
            Some(Ok(pidfd)) => Process::named(pid, pidfd),
            Some(Err(source)) => match source.raw_os_error() {
                Some(libc::ESRCH | libc::EINVAL) => Process::ended(pid),
                _ => return Err(failed(pid, "holding on to it", source)),
            },
            None => {
                held_ns = Some(Clock::monotonic_ns());
                Process::hold(pid)?
            }
        };
        Ok(Some(Sender { process, uid, gid, held_ns }))
    }
}

/// Takes one message from the socket, without waiting.
///
/// # Errors
/// [`Error::Socket`]; [`Error::Descriptors`]: a process announced itself, and this program can open no more files.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    counters: &mut AnnouncementCounters,
) -> Result<AnnounceMessage, Error> {
    let mut text = [0u8; size_of::<Absence>() + 1];
    let mut words = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    // SAFETY: all zeros is a valid value of this plain C structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = words.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&words) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: text and words outlive the call, and the header has their sizes.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) };
    if got < 0 {
        let source = io::Error::last_os_error();
        return match source.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(AnnounceMessage::Nothing),
            Some(libc::ECONNRESET) => Ok(AnnounceMessage::End),
            _ => Err(Error::Socket { what: "receiving a message", source }),
        };
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let filled = (header.msg_controllen as usize).min(bytes.len());
    let control = ControlPart::parse(&bytes[..filled]);
    // The end has no sender; a message of 0 bytes has one like any other (see `ask_for_senders`).
    if got == 0 && control.sender.is_none() {
        let uid = control.uid();
        close_elsewhere(control.fds, uid);
        return Ok(AnnounceMessage::End);
    }
    let bytes = match u64_in(&text, offset_of!(Announcement, magic)) {
        user::ABSENCE_MAGIC => size_of::<Absence>(),
        _ => size_of::<Announcement>(),
    };
    let whole = got as usize == bytes && header.msg_flags & libc::MSG_TRUNC == 0;
    let truncated = header.msg_flags & libc::MSG_CTRUNC != 0;
    if let (true, true, Some((pid, ..))) = (truncated, control.fds.is_empty(), control.sender) {
        // The sent descriptor found no room in our table.
        let source = io::Error::from_raw_os_error(libc::EMFILE);
        return Err(failed(pid, "receiving its shared memory", source));
    }
    judge(&text, whole, truncated, control, counters)
}

fn judge(
    text: &[u8],
    whole: bool,
    truncated: bool,
    mut control: ControlPart,
    counters: &mut AnnouncementCounters,
) -> Result<AnnounceMessage, Error> {
    let announcement = Announcement {
        magic: u64_in(text, offset_of!(Announcement, magic)),
        version: u32_in(text, offset_of!(Announcement, version)),
        pid: u32_in(text, offset_of!(Announcement, pid)),
    };
    if whole && announcement.magic == user::ABSENCE_MAGIC {
        return absent(text, control, counters);
    }
    let one = control.fds.len() == 1 && !truncated;
    // A descriptor that cannot be checked now is refused, with the reason, when it is opened.
    let good = one && control.fds.iter().all(|fd| is_in_kernel_memory(fd.as_fd()).unwrap_or(true));
    let mut bad = true;
    let counter = if !whole || announcement.magic != user::MAGIC {
        &mut counters.malformed
    } else if announcement.version != user::VERSION {
        bad = false;
        &mut counters.other_version
    } else if !good {
        &mut counters.bad_descriptor
    } else {
        let (sender, uid) = (control.hold_sender(), control.uid());
        match (sender, control.fds.pop()) {
            (Ok(Some(sender)), Some(fd)) => {
                counters.received += 1;
                return Ok(AnnounceMessage::Process { fd, sender, announcement });
            }
            (Err(error), fd) => {
                close_elsewhere(fd, uid);
                return Err(error);
            }
            (Ok(_), fd) => {
                close_elsewhere(fd, uid);
                bad = false;
                &mut counters.unseen_process
            }
        }
    };
    *counter += 1;
    let uid = control.uid();
    close_elsewhere(control.fds, uid);
    Ok(AnnounceMessage::Ignored { bad, uid })
}

/// Examines the message of a process that announces that it has no memory.
fn absent(
    text: &[u8],
    mut control: ControlPart,
    counters: &mut AnnouncementCounters,
) -> Result<AnnounceMessage, Error> {
    let uid = control.uid();
    let is_of_version = u32_in(text, offset_of!(Absence, version)) == user::VERSION;
    let has_descriptors = !control.fds.is_empty();
    close_elsewhere(std::mem::take(&mut control.fds), uid);
    let is_errno = u32_in(text, offset_of!(Absence, error)) <= ERRNO_MAX;
    if !is_of_version || has_descriptors || !is_errno {
        let counter = match (is_of_version, has_descriptors) {
            (false, _) => &mut counters.other_version,
            (true, true) => &mut counters.bad_descriptor,
            (true, false) => &mut counters.malformed,
        };
        *counter += 1;
        return Ok(AnnounceMessage::Ignored { bad: is_of_version, uid });
    }
    let Some(sender) = control.hold_sender()? else {
        counters.unseen_process += 1;
        return Ok(AnnounceMessage::Ignored { bad: false, uid });
    };
    counters.absent += 1;
    let absence = Absence {
        magic: user::ABSENCE_MAGIC,
        version: user::VERSION,
        error: u32_in(text, offset_of!(Absence, error)),
        generation: u64_in(text, offset_of!(Absence, generation)),
    };
    Ok(AnnounceMessage::Absent { sender, absence })
}

/// Makes the kernel name the sender of each message on the socket.
///
/// # Errors
/// The socket option could not be set.
pub(crate) fn ask_for_senders(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_PASSCRED, 1)?;
    match set_option(socket, SO_PASSPIDFD, 1) {
        // The kernel is older than 6.5.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        done => done,
    }
}

/// Sets an integer option of a socket.
pub(crate) fn set_option(socket: BorrowedFd<'_>, name: c_int, value: c_int) -> io::Result<()> {
    let (address, bytes) = (&raw const value, size_of::<c_int>() as libc::socklen_t);
    let number = socket.as_raw_fd();
    // SAFETY: reads the integer, which outlives the call.
    let code = unsafe { libc::setsockopt(number, libc::SOL_SOCKET, name, address.cast(), bytes) };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::launch::Launch;
    use crate::testing::{spec, Fake};
    use crate::{Clock, Received, WhyNot};
    use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    use std::io::IoSlice;
    use std::mem::MaybeUninit;

    fn message(magic: u64, version: u32) -> Vec<u8> {
        let mut bytes = magic.to_ne_bytes().to_vec();
        bytes.extend(version.to_ne_bytes());
        bytes.extend(std::process::id().to_ne_bytes());
        bytes
    }

    fn good() -> Vec<u8> {
        message(user::MAGIC, user::VERSION)
    }

    fn send(socket: BorrowedFd<'_>, text: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent = sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::empty());
        assert_eq!(sent, Ok(text.len()));
    }

    /// Returns true if the other end is closed by all, and nothing else came. A process that another test begins holds
    /// all that is open, up to its execve.
    fn ends(ours: &mut crate::discover::launch::Announcements) -> bool {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match ours.receive().unwrap() {
                Received::End => return true,
                Received::Nothing if std::time::Instant::now() < limit => std::thread::yield_now(),
                _ => return false,
            }
        }
    }

    #[test]
    fn receive_of_an_announcement_gives_memory_and_the_kernels_word() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        let Received::Process { fd, sender, announcement } = ours.receive().unwrap() else {
            panic!("no process");
        };
        assert_eq!((sender.pid(), announcement.pid), (std::process::id(), std::process::id()));
        assert_eq!(sender.uid(), rustix::process::getuid().as_raw());
        assert_eq!(sender.gid(), rustix::process::getgid().as_raw());
        assert!(sender.has_its_number());
        let app = crate::Application::announced(fd, &sender).unwrap();
        assert_eq!(app.inode(), fake.open().inode());
        drop(theirs);
        assert!(ends(&mut ours));
        assert_eq!(ours.counters().received, 1);
    }

    #[test]
    fn receive_of_an_absence_gives_its_error_and_the_kernels_word() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        let absence = |version: u32, code: i32| {
            let mut bytes = user::ABSENCE_MAGIC.to_ne_bytes().to_vec();
            bytes.extend(version.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes.extend(77u64.to_ne_bytes());
            bytes
        };
        send(theirs.as_fd(), &absence(user::VERSION, libc::EMFILE), &[]);
        let Received::Absent { sender, absence: said } = ours.receive().unwrap() else {
            panic!("no absence");
        };
        assert_eq!(sender.pid(), std::process::id());
        assert_eq!((said.error, said.generation), (libc::EMFILE.unsigned_abs(), 77));
        // With a descriptor, of another version, too short, or with an error that is none.
        send(theirs.as_fd(), &absence(user::VERSION, 4096), &[]);
        send(theirs.as_fd(), &absence(user::VERSION, -1), &[]);
        send(theirs.as_fd(), &absence(user::VERSION, 0), &[fake.fd.as_fd()]);
        send(theirs.as_fd(), &absence(user::VERSION + 1, 0), &[]);
        send(theirs.as_fd(), &absence(user::VERSION, 0)[..23], &[]);
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        let counters = ours.counters();
        assert_eq!((counters.received, counters.absent), (0, 1));
        assert_eq!(
            (counters.bad_descriptor, counters.other_version, counters.malformed),
            (1, 1, 3)
        );
    }

    #[test]
    fn malicious_empty_messages_are_not_taken_for_the_end() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        send(theirs.as_fd(), b"", &[]);
        send(theirs.as_fd(), b"", &[fake.fd.as_fd()]);
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        send(theirs.as_fd(), b"", &[]);
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        assert!(matches!(ours.receive().unwrap(), Received::Process { .. }));
        send(theirs.as_fd(), b"", &[]);
        drop(theirs);
        assert!(ends(&mut ours));
        assert_eq!((ours.counters().malformed, ours.counters().received), (4, 1));
    }

    #[test]
    fn malicious_messages_without_end_hold_nobody_up() {
        let launch = Launch::new().unwrap();
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // Unlike others it is never waited for, and so the socket is never empty.
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        let text = IoSlice::new(b"nothing");
                        let mut none = SendAncillaryBuffer::default();
                        let _ = sendmsg(&theirs, &[text], &mut none, SendFlags::DONTWAIT);
                    }
                });
            }
            while ours.counters().malformed < 3000 {
                assert!(matches!(ours.receive().unwrap(), Received::Nothing));
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn malicious_messages_are_counted_by_reason_and_leave_no_descriptor() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (fd, file) = (fake.fd.as_fd(), file.as_fd());
        let mut long = good();
        long.push(0);
        let cases: [(&[u8], Vec<BorrowedFd<'_>>); 9] = [
            (b"x", vec![fd]),
            (&long, vec![fd]),
            (&message(1, user::VERSION), vec![fd]),
            (&message(user::MAGIC, user::VERSION + 1), vec![fd]),
            (&good(), vec![]),
            (&good(), vec![fd, fd]),
            (&good(), vec![fd; 8]),
            (&good(), vec![file]),
            (&good(), vec![file, fd]),
        ];
        // Elsewhere in this process other tests open and close: look at who refers to our memory.
        let count = || {
            let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let ours = |path: &std::path::Path| {
                use std::os::unix::fs::MetadataExt;
                std::fs::metadata(path).is_ok_and(|found| found.ino() == fake.open().inode())
            };
            entries.filter(|entry| ours(&entry.path())).count()
        };
        let before = count();
        for (text, fds) in &cases {
            send(theirs.as_fd(), text, fds);
        }
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        let wanted = AnnouncementCounters {
            malformed: 3,
            other_version: 1,
            bad_descriptor: 5,
            ..AnnouncementCounters::default()
        };
        assert_eq!(*ours.counters(), wanted);
        // The thread that closes may still be at it.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while count() != before {
            assert!(std::time::Instant::now() < end, "{} are open, before {before}", count());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Sent by a child that ends at once; both are waited for.
    fn from_a_child_that_has_ended(socket: BorrowedFd<'_>, fake: &Fake) -> u32 {
        use std::os::unix::process::CommandExt;
        let (socket, fd) = (socket.try_clone_to_owned().unwrap(), fake.fd.try_clone().unwrap());
        let mut command = std::process::Command::new("false");
        // SAFETY: no allocation that another thread may hold a lock of: the vector is small, and glibc's
        // allocator is safe after fork().
        unsafe {
            command.pre_exec(move || {
                send(socket.as_fd(), &good(), &[fd.as_fd()]);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn sender_that_has_ended_is_none_however_its_number_is_used() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        let pid = from_a_child_that_has_ended(theirs.as_fd(), &fake);
        // What it says of its start is no reason to believe that another process is it.
        let at = offset_of!(user::Control, started_ns);
        fake.put_u64(at, u64::MAX);
        let Received::Process { fd, sender, .. } = ours.receive().unwrap() else { panic!("none") };
        assert_eq!((sender.pid(), sender.has_its_number()), (pid, false));
        let app = crate::Application::announced(fd, &sender).unwrap();
        assert!(!app.is_alive());
        // By the descriptor that the kernel hands over, since Linux 6.15 at the earliest; before, nobody says.
        let outcome = app.outcome();
        assert!(outcome.is_none() || outcome == Some(crate::Outcome::Exited(1)), "{outcome:?}");
        assert_eq!((app.identity().uid, app.vpid()), (Some(sender.uid()), pid));
        assert_eq!((&app.identity().comm, &app.identity().exe), (&None, &None));
    }

    #[test]
    fn malicious_memory_of_another_process_is_not_the_senders() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::spawned_unseen());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        let Received::Process { fd, sender, .. } = ours.receive().unwrap() else { panic!("none") };
        let error = crate::Application::announced(fd, &sender).unwrap_err();
        let Error::NotItsOwn { said, inner, .. } = error else { panic!("{error}") };
        assert_eq!((said, inner), (fake.pid, std::process::id()));
    }

    #[test]
    #[ignore = "run by receive_when_no_descriptor_is_left_says_whose_memory_it_was"]
    fn alone_receive_when_no_descriptor_is_left() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        let current = Some(3);
        let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let limit = rustix::process::Rlimit { current, maximum: before.maximum };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let error = ours.receive().unwrap_err();
        let Error::Descriptors { pid, limit: 3, .. } = error else { panic!("{error:?}") };
        assert_eq!(pid, std::process::id());
        // The next one is as good as ever.
        rustix::process::setrlimit(rustix::process::Resource::Nofile, before).unwrap();
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        assert!(matches!(ours.receive().unwrap(), Received::Process { .. }));
    }

    #[test]
    fn receive_when_no_descriptor_is_left_says_whose_memory_it_was() {
        let test = "discover::announcement::tests::alone_receive_when_no_descriptor_is_left";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    fn malicious_control_bytes_of_any_kind_are_read_without_a_panic() {
        let mut random = strata_random::Random::new();
        for _ in 0..100_000 {
            let mut bytes = vec![0u8; 8 * random.below(8)];
            for byte in &mut bytes {
                *byte = random.next() as u8 & 0x1f;
            }
            // Never SCM_RIGHTS: those numbers would be closed.
            if let Some(kind) = bytes.get_mut(12) {
                *kind |= 2;
            }
            let rights = bytes.chunks_exact(4).any(|word| word == [1, 0, 0, 0]);
            if !rights {
                let _ = ControlPart::parse(&bytes);
            }
        }
    }

    #[test]
    fn environment_is_as_the_header_says() {
        let launch = Launch::new().unwrap();
        let (number, inode) = {
            let fd = launch.child_fd();
            (fd.as_raw_fd(), rustix::fs::fstat(fd).unwrap().st_ino)
        };
        let clock = Clock::without_counter(WhyNot::Architecture);
        let mut spec = spec(&["app:*@info", "!x"]);
        let wanted = |mode, vtid| {
            format!(
                "{}:socket={number}.{inode};generation=7;subbuf=4096;subbufs=2;mode={mode};\
                 vtid={vtid};clock=0.0;rules=app:*@6,!x:*",
                user::VERSION
            )
        };
        assert_eq!(launch.environment(7, &spec, &clock, None), wanted("discard", 1));
        (spec.loss_mode, spec.vtid) = (crate::LossMode::Overwrite, false);
        assert_eq!(launch.environment(7, &spec, &clock, None), wanted("overwrite", 0));
        spec.filter = Some(crate::Program::nothing());
        let hexadecimal = |byte: &u8| format!("{byte:02x}");
        let bytes: String = crate::Program::nothing().bytes().iter().map(hexadecimal).collect();
        assert_eq!(
            launch.environment(7, &spec, &clock, None),
            wanted("overwrite", 0).replace(";rules=", &format!(";filter={bytes};rules="))
        );
        (spec.filter, spec.contexts) = (None, crate::EventContexts::parse(&["ip,vpid"]).unwrap());
        assert_eq!(
            launch.environment(7, &spec, &clock, None),
            wanted("overwrite", 0).replace(";rules=", ";contexts=0c01;rules=")
        );
        let clock = Clock::new();
        if let Some(multiplier) = clock.multiplier() {
            assert!(launch
                .environment(7, &spec, &clock, None)
                .contains(&format!("clock=32.{multiplier};")));
        }
    }

    #[test]
    fn hundreds_of_announcements_wait_until_they_are_taken() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        for _ in 0..256 {
            send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        }
        for _ in 0..256 {
            assert!(matches!(ours.receive().unwrap(), Received::Process { .. }));
        }
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
    }
}
