//! Closes descriptors that strangers have sent, in threads that nobody waits for. Closing may take for ever: a user's
//! own file system (FUSE) is asked for its consent, and a socket may linger for as long as its user has chosen.
//!
//! Nothing that was sent is left to the kernel for the same reason: descriptors that do not fit a message's control
//! part, or that are still in a socket that is closed, are closed by the kernel in the calling thread.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::ioctl_fionread;
use rustix::net::{shutdown, Shutdown};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{getrlimit, Resource};

use crate::attach::shared_memory::{is_in_kernel_memory, mount_of};
use crate::users::persons::person;

/// The most descriptors of one user that may wait to be closed; a user with more is no longer listened to. Lower if
/// this program may not have many files open.
const OF_USER_MAX: usize = 256;
/// The most descriptors of all users that may wait to be closed.
const OF_ALL_MAX: usize = 1024;

/// The most threads that close descriptors. A descriptor whose closing blocks delays only others of the same user.
const THREADS_MAX: usize = 64;

/// Descriptors of one user that wait to be closed.
#[derive(Debug, Default)]
struct PendingClosing {
    waiting: VecDeque<OwnedFd>,
    /// Number of descriptors, including the one that is being closed.
    number: usize,
    /// True if a thread is closing one of them.
    is_served: bool,
}

#[derive(Debug)]
struct ClosingQueue {
    persons: BTreeMap<u32, PendingClosing>,
    threads: usize,
}

static QUEUE: Mutex<ClosingQueue> =
    Mutex::new(ClosingQueue { persons: BTreeMap::new(), threads: 0 });

fn queue() -> std::sync::MutexGuard<'static, ClosingQueue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes the descriptors, which a process of user `uid` has sent, in another thread. Harmless ones are closed at once.
pub(crate) fn close_elsewhere(fds: impl IntoIterator<Item = OwnedFd>, uid: u32) {
    let mut fds = fds.into_iter().filter(|fd| !is_harmless(fd.as_fd())).peekable();
    if fds.peek().is_none() {
        return;
    }
    let mut queue = queue();
    let pending = queue.persons.entry(person(uid)).or_default();
    for fd in fds {
        pending.waiting.push_back(fd);
        pending.number += 1;
    }
    if !pending.is_served && queue.threads < THREADS_MAX {
        let thread = std::thread::Builder::new().name("strata-close".to_owned());
        // Without a thread, the descriptors wait for the next one.
        if thread.stack_size(64 << 10).spawn(work).is_ok() {
            queue.threads += 1;
        }
    }
}

/// Closes waiting descriptors, user by user, until no user is left without a closing thread.
fn work() {
    let mut queue = self::queue();
    loop {
        let next = queue.persons.iter_mut().find(|(_, of)| !of.is_served && !of.waiting.is_empty());
        let Some((&person, of)) = next else {
            queue.threads -= 1;
            return;
        };
        of.is_served = true;
        while let Some(fd) = queue.persons.get_mut(&person).and_then(|of| of.waiting.pop_front()) {
            drop(queue);
            drop(fd);
            queue = self::queue();
            if let Some(of) = queue.persons.get_mut(&person) {
                of.number -= 1;
            }
        }
        queue.persons.remove(&person);
    }
}

/// Returns true if the descriptor is memory or a pipe, which never block on close. Does not touch the file.
fn is_harmless(fd: BorrowedFd<'_>) -> bool {
    static PIPES: OnceLock<Option<u64>> = OnceLock::new();
    let pipes = PIPES.get_or_init(|| {
        let (one, _other) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        mount_of(one.as_fd()).ok()
    });
    is_in_kernel_memory(fd).unwrap_or(false)
        || pipes.is_some_and(|pipes| mount_of(fd).is_ok_and(|mount| mount == pipes))
}

/// Returns the limit on this program's open files divided by `part`; at most `most` and at least 1.
fn share(most: usize, part: u64) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / part).unwrap_or(usize::MAX).clamp(1, most)
}

/// Returns whether too many descriptors of this user wait to be closed, so that no more are accepted. While all users
/// together have too many, a single one is too many.
pub(crate) fn has_too_many(uid: u32) -> bool {
    let pending = queue().persons.get(&person(uid)).map_or(0, |of| of.number);
    pending >= share(OF_USER_MAX, 16) || (pending > 0 && is_full())
}

/// Returns true if so many descriptors of all users wait to be closed that more are accepted only from users who
/// have none waiting.
pub(crate) fn is_full() -> bool {
    queue().persons.values().map(|of| of.number).sum::<usize>() >= share(OF_ALL_MAX, 4)
}

/// Closes a socket of ours to which processes of user `uid` have written. Returns true if the socket had unread data.
pub(crate) fn let_go(socket: OwnedFd, uid: u32) -> bool {
    // From here on nobody can send more.
    let _ = shutdown(&socket, Shutdown::Both);
    let is_empty = ioctl_fionread(&socket).is_ok_and(|bytes| bytes == 0);
    if !is_empty {
        close_elsewhere([socket], uid);
    }
    !is_empty
}

/// Closes a socket that others may still write to, or that has connections nobody has accepted.
pub(crate) fn let_go_shared(socket: &OwnedFd) {
    if let Ok(copy) = socket.try_clone() {
        close_elsewhere([copy], rustix::process::geteuid().as_raw());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    /// A user id that no other test uses.
    const UID: u32 = 61_003;

    /// Makes a socket that takes ten minutes to close, since the data in its buffers cannot be sent.
    pub(crate) fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (to, _) = listener.accept().unwrap();
        from.set_nonblocking(true).unwrap();
        while from.write(&[0; 65536]).is_ok() {}
        let linger = libc::linger { l_onoff: 1, l_linger: 600 };
        let bytes = size_of::<libc::linger>() as libc::socklen_t;
        // SAFETY: reads the structure, which is there until the call returns.
        let code = unsafe {
            libc::setsockopt(
                from.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                bytes,
            )
        };
        assert_eq!(code, 0);
        (from.into(), to)
    }

    #[test]
    #[ignore = "run by malicious_descriptors_that_hang_are_counted_by_user_and_nobody_waits"]
    fn alone_descriptors_that_hang() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (hangs, other_end) = lingering();
        let begun = Instant::now();
        close_elsewhere([hangs], UID);
        let many = share(OF_USER_MAX, 16);
        close_elsewhere((0..many).map(|_| file.as_fd().try_clone_to_owned().unwrap()), UID);
        assert!(begun.elapsed() < Duration::from_secs(300));
        assert!(has_too_many(UID) && !has_too_many(UID + 1));
        // Descriptors of other users are not delayed.
        close_elsewhere((0..many).map(|_| file.as_fd().try_clone_to_owned().unwrap()), UID + 1);
        while has_too_many(UID + 1) {
            assert!(begun.elapsed() < Duration::from_secs(300));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(has_too_many(UID));
        // The peer takes the data: then the first close ends, and so do the following ones.
        drop(other_end);
        while has_too_many(UID) {
            assert!(begun.elapsed() < Duration::from_secs(300));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn malicious_descriptors_that_hang_are_counted_by_user_and_nobody_waits() {
        let test = "discover::descriptor_closer::tests::alone_descriptors_that_hang";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    fn memory_and_pipes_are_closed_at_once() {
        let (one, other) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let memfd =
            rustix::fs::memfd_create("strata-look", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(is_harmless(one.as_fd()) && is_harmless(other.as_fd()));
        assert!(is_harmless(memfd.as_fd()) && !is_harmless(file.as_fd()));
    }
}
