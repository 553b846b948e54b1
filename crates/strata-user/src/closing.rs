//! Closes what strangers have sent, where nobody waits for it. Closing may take for ever: a file system of
//! a user's own (FUSE) is asked whether it minds, and a socket may linger for as long as its user has said.
//!
//! For that reason nothing that was sent is left to the kernel either: what finds no room in a message's
//! control part, or is still in a socket that is closed, the kernel closes in the thread that asked.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use rustix::io::ioctl_fionread;
use rustix::net::{shutdown, Shutdown};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{getrlimit, Resource};

use crate::memory::{is_in_kernel_memory, mount_of};

/// Descriptors of one user that wait to be closed; who has more is no longer listened to. Fewer where this
/// program may not have many open.
const OF_USER_MAX: usize = 256;
/// Descriptors of all.
const OF_ALL_MAX: usize = 1024;

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<(OwnedFd, u32)>,
    /// By user; with the one that is being closed.
    pending: BTreeMap<u32, usize>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { waiting: VecDeque::new(), pending: BTreeMap::new(), has_thread: false });
static CAME: Condvar = Condvar::new();

fn queue() -> std::sync::MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes these, which a process of this user has sent.
pub(crate) fn close_elsewhere(fds: impl IntoIterator<Item = OwnedFd>, uid: u32) {
    let mut fds = fds.into_iter().filter(|fd| !is_harmless(fd.as_fd())).peekable();
    if fds.peek().is_none() {
        return;
    }
    let mut queue = queue();
    for fd in fds {
        queue.waiting.push_back((fd, uid));
        *queue.pending.entry(uid).or_default() += 1;
    }
    if !queue.has_thread {
        let thread = std::thread::Builder::new().name("strata-close".to_owned());
        // Without one they wait until there is one.
        queue.has_thread = thread.stack_size(64 << 10).spawn(work).is_ok();
    }
    CAME.notify_one();
}

fn work() {
    loop {
        let mut queue = queue();
        let (fd, uid) = loop {
            match queue.waiting.pop_front() {
                Some(one) => break one,
                None => queue = CAME.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(queue);
        drop(fd);
        let mut queue = self::queue();
        if let Some(pending) = queue.pending.get_mut(&uid) {
            *pending -= 1;
            if *pending == 0 {
                queue.pending.remove(&uid);
            }
        }
    }
}

/// Is it of a kind that is closed at once: memory, or a pipe? Asks the kernel without touching the file.
fn is_harmless(fd: BorrowedFd<'_>) -> bool {
    static PIPES: OnceLock<Option<u64>> = OnceLock::new();
    let pipes = PIPES.get_or_init(|| {
        let (one, _other) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        mount_of(one.as_fd()).ok()
    });
    is_in_kernel_memory(fd).unwrap_or(false)
        || pipes.is_some_and(|pipes| mount_of(fd).is_ok_and(|mount| mount == pipes))
}

/// A part of the files that this program may have open, at most `most`.
fn share(most: usize, part: u64) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / part).unwrap_or(usize::MAX).clamp(1, most)
}

/// Do so many descriptors of this user wait to be closed that no more are taken?
pub(crate) fn has_too_many(uid: u32) -> bool {
    let pending = queue().pending.get(&uid).copied().unwrap_or(0);
    pending >= share(OF_USER_MAX, 16)
}

/// Do so many descriptors of all users wait to be closed that no more are taken?
pub(crate) fn is_full() -> bool {
    queue().pending.values().sum::<usize>() >= share(OF_ALL_MAX, 4)
}

/// Closes a socket of ours to which this user's processes have written. True: there was something in it.
pub(crate) fn let_go(socket: OwnedFd, uid: u32) -> bool {
    // From here on nothing more can be sent.
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
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    /// A user whom no other test of this process has.
    const UID: u32 = 61_003;

    /// Closing it takes a minute: what is in its buffers cannot be sent.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (to, _) = listener.accept().unwrap();
        from.set_nonblocking(true).unwrap();
        while from.write(&[0; 65536]).is_ok() {}
        let linger = libc::linger { l_onoff: 1, l_linger: 60 };
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
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(has_too_many(UID) && !has_too_many(UID + 1));
        // Its peer takes what is there: then it ends, and so do those behind it.
        drop(other_end);
        while has_too_many(UID) {
            assert!(begun.elapsed() < Duration::from_secs(50));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn malicious_descriptors_that_hang_are_counted_by_user_and_nobody_waits() {
        let test = "closing::tests::alone_descriptors_that_hang";
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
