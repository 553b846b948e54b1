//! New processes announce themselves: one message with their memory, and the kernel's word on who sent
//! it (`strata/abi/user.h`, "The announcement").

use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};
use std::sync::OnceLock;

use strata_abi::user::{self, Announcement};

use crate::error::Error;
use crate::memory::{is_in_kernel_memory, u32_in, u64_in};
use crate::process::failed;

/// What a socket has for us.
#[derive(Debug)]
pub enum Received {
    /// A process.
    Process {
        /// Its memory; see [`Application::open`](crate::Application::open).
        fd: OwnedFd,
        /// The process, in our namespace, by the kernel's word.
        pid: u32,
        /// Its user, by the kernel's word.
        uid: u32,
        /// What it says itself.
        announcement: Announcement,
    },
    /// Nothing now.
    Nothing,
    /// Nothing any more: all who had the other end have ended, or closed it.
    End,
}

/// Messages that were no announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncementCounters {
    /// Processes that announced themselves.
    pub received: u64,
    /// Of another size, or with another magic number.
    pub malformed: u64,
    /// Of another version of the layout.
    pub other_version: u64,
    /// With no file descriptor, with more than one, or with one that is no memory.
    pub bad_descriptor: u64,
    /// From a process that is not in our PID namespace.
    pub unseen_process: u64,
}

/// What one call found.
pub(crate) enum Message {
    Process { fd: OwnedFd, pid: u32, uid: u32, announcement: Announcement },
    Ignored,
    Nothing,
    End,
}

/// Space for credentials and more descriptors than there should be; the kernel closes what does not fit.
const CONTROL_WORDS: usize = 16;

/// `struct cmsghdr`: `usize` length with this header, `c_int` level, `c_int` type.
const PART_HEADER: usize = size_of::<usize>() + 2 * size_of::<c_int>();

/// What the control part of a message holds.
#[derive(Debug, Default)]
struct Control {
    fds: Vec<OwnedFd>,
    /// pid, uid
    sender: Option<(u32, u32)>,
}

impl Control {
    /// Reads what the kernel has written; owns all descriptors in it.
    fn parse(bytes: &[u8]) -> Control {
        let mut control = Control::default();
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
                    let pid = u32_in(data, offset_of!(libc::ucred, pid));
                    control.sender = Some((pid, u32_in(data, offset_of!(libc::ucred, uid))));
                }
                _ => (),
            }
            at += length.next_multiple_of(size_of::<usize>()).max(PART_HEADER);
        }
        control
    }
}

/// Takes one message off the socket, without waiting.
///
/// # Errors
/// [`Error::Socket`]; [`Error::Descriptors`]: a process announced itself, and we can have no more.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    counters: &mut AnnouncementCounters,
) -> Result<Message, Error> {
    let mut text = [0u8; size_of::<Announcement>() + 1];
    let mut words = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    // SAFETY: all zeros is a valid value of this plain C structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = words.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&words) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: text and words are there until the call returns, as long as the header says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) };
    if got < 0 {
        let source = io::Error::last_os_error();
        return match source.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(Message::Nothing),
            Some(libc::ECONNRESET) => Ok(Message::End),
            _ => Err(Error::Socket { what: "receiving a message", source }),
        };
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let filled = (header.msg_controllen as usize).min(bytes.len());
    let control = Control::parse(&bytes[..filled]);
    // A packet socket has no message of 0 bytes: that is the end.
    if got == 0 {
        close_elsewhere(control.fds);
        return Ok(Message::End);
    }
    let whole =
        got as usize == size_of::<Announcement>() && header.msg_flags & libc::MSG_TRUNC == 0;
    let truncated = header.msg_flags & libc::MSG_CTRUNC != 0;
    if let (true, true, Some((pid, _))) = (truncated, control.fds.is_empty(), control.sender) {
        // What was sent found no room among our descriptors.
        let source = io::Error::from_raw_os_error(libc::EMFILE);
        return Err(failed(pid, "receiving its shared memory", source));
    }
    Ok(judge(&text, whole, truncated, control, counters))
}

fn judge(
    text: &[u8],
    whole: bool,
    truncated: bool,
    mut control: Control,
    counters: &mut AnnouncementCounters,
) -> Message {
    let announcement = Announcement {
        magic: u64_in(text, offset_of!(Announcement, magic)),
        version: u32_in(text, offset_of!(Announcement, version)),
        pid: u32_in(text, offset_of!(Announcement, pid)),
    };
    let one = control.fds.len() == 1 && !truncated;
    // What cannot be looked at now is refused when it is opened, with the reason.
    let good = one && control.fds.iter().all(|fd| is_in_kernel_memory(fd.as_fd()).unwrap_or(true));
    let counter = match control.sender {
        _ if !whole || announcement.magic != user::MAGIC => &mut counters.malformed,
        _ if announcement.version != user::VERSION => &mut counters.other_version,
        _ if !good => &mut counters.bad_descriptor,
        None | Some((0, _)) => &mut counters.unseen_process,
        Some((pid, uid)) => match control.fds.pop() {
            Some(fd) => {
                counters.received += 1;
                return Message::Process { fd, pid, uid, announcement };
            }
            None => &mut counters.bad_descriptor,
        },
    };
    *counter += 1;
    close_elsewhere(control.fds);
    Message::Ignored
}

/// Closes what a stranger has sent, in a thread of its own: a file system may let `close()` hang. If it
/// does, and many more come, these stay open.
fn close_elsewhere(fds: Vec<OwnedFd>) {
    static CLOSER: OnceLock<Option<SyncSender<OwnedFd>>> = OnceLock::new();
    for fd in fds {
        if is_in_kernel_memory(fd.as_fd()).unwrap_or(false) {
            continue;
        }
        let closer = CLOSER.get_or_init(|| {
            let (sender, fds) = sync_channel::<OwnedFd>(256);
            let thread = std::thread::Builder::new().name("strata-close".to_owned());
            thread.stack_size(64 << 10).spawn(move || fds.into_iter().for_each(drop)).ok()?;
            Some(sender)
        });
        match closer.as_ref().map(|closer| closer.try_send(fd)) {
            Some(Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd))) => {
                std::mem::forget(fd);
            }
            None | Some(Ok(())) => (),
        }
    }
}

/// Sets an integer option of a socket.
pub(crate) fn set_option(socket: BorrowedFd<'_>, name: c_int, value: c_int) -> io::Result<()> {
    let (address, bytes) = (&raw const value, size_of::<c_int>() as libc::socklen_t);
    let number = socket.as_raw_fd();
    // SAFETY: reads the integer, which is there until the call returns.
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
    use crate::launch::Launch;
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

    #[test]
    fn receive_of_an_announcement_gives_memory_and_the_kernels_word() {
        let (launch, fake) = (Launch::new().unwrap(), Fake::new());
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut ours = launch.started();
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        send(theirs.as_fd(), &good(), &[fake.fd.as_fd()]);
        let Received::Process { fd, pid, uid, announcement } = ours.receive().unwrap() else {
            panic!("no process");
        };
        assert_eq!((pid, announcement.pid), (std::process::id(), std::process::id()));
        assert_eq!(uid, rustix::process::geteuid().as_raw());
        assert_eq!(crate::Application::open(fd, pid).unwrap().inode(), fake.open().inode());
        drop(theirs);
        assert!(matches!(ours.receive().unwrap(), Received::End));
        assert_eq!(ours.counters().received, 1);
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
            (&message(user::MAGIC, 2), vec![fd]),
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
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while count() != before {
            assert!(std::time::Instant::now() < end, "{} are open, before {before}", count());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
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
        let test = "announce::tests::alone_receive_when_no_descriptor_is_left";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    fn malicious_control_bytes_of_any_kind_are_read_without_a_panic() {
        let mut random = crate::testing::Random::new();
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
                let _ = Control::parse(&bytes);
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
        let wanted = |mode| {
            format!(
                "1:socket={number}.{inode};generation=7;subbuf=4096;subbufs=2;mode={mode};\
                 clock=0.0;rules=app:*@6,!x:*"
            )
        };
        assert_eq!(launch.environment(7, &spec, &clock), wanted("discard"));
        spec.loss_mode = crate::LossMode::Overwrite;
        assert_eq!(launch.environment(7, &spec, &clock), wanted("overwrite"));
        let clock = Clock::new();
        if let Some(multiplier) = clock.multiplier() {
            assert!(launch
                .environment(7, &spec, &clock)
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
