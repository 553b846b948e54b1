//! Detaching the kernel's programs, by a process of its own that nobody waits for.
//!
//! The kernel detaches programs from tracepoints one by one, however many threads ask, and takes some 40 to
//! 70 ms for each: a grace period of RCU under one lock. Nothing is recorded meanwhile. So a child inherits the
//! descriptors, this process lets go of its own, which takes no time, and the child's end is what
//! detaches.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::Pid;
use strata_kernel::session::KernelSession;

use crate::session::detaching::Detaching;

/// Fewer programs than this are detached before anybody looks.
const PROGRAMS_TOLD: usize = 50;
/// What one program takes: measured are 40 ms (245 tracepoints) and, on a busy machine, 67 \[s\].
const SECONDS_EACH: f64 = 0.07;

/// Lets go of the session's programs.
pub(crate) fn detach(mut session: KernelSession) -> Detaching {
    // Nothing that the child would keep.
    session.stop();
    session.end_counting();
    let programs = session.programs();
    match hand_over() {
        Ok((child, until)) => {
            drop(session);
            // The child's read() ends.
            drop(until);
            Detaching::by(child, remark(programs, child))
        }
        // Without a child it is done here, and takes its time.
        Err(_) => {
            session.teardown();
            Detaching::default()
        }
    }
}

/// What to know of it, where it takes long: who does it, and what it costs meanwhile.
fn remark(programs: usize, child: Pid) -> Option<String> {
    let (pid, seconds) = (child.as_raw_nonzero(), (programs as f64 * SECONDS_EACH).ceil());
    (programs >= PROGRAMS_TOLD).then(|| {
        format!(
            "{programs} programs are still being detached from the kernel, by process {pid} \
             (strata-detach): some {seconds} s, in which each of their events takes some 15 ns more. \
             Nothing is recorded any more, and it ends by itself"
        )
    })
}

/// A child that holds what this process has in the kernel until what is returned with it is closed.
fn hand_over() -> io::Result<(Pid, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only these: no pipe whose reader waits for its end, no lock, no file of the trace. Nor what another thread opens
    // between the look and the fork.
    let kept = kept_descriptors(&reader)?;
    // SAFETY: the child makes system calls only, as a signal handler may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let_go(&kept, reader);
    }
    match Pid::from_raw(child) {
        Some(child) if !child.is_init() => Ok((child, writer)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The reader and the descriptors of the kernel's programs, in their order.
fn kept_descriptors(reader: &OwnedFd) -> io::Result<Vec<RawFd>> {
    let mut kept = vec![reader.as_raw_fd()];
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if is_of_programs(&target) {
            kept.extend(entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
    }
    kept.sort_unstable();
    Ok(kept)
}

/// From the first up to the last. By its number: older libraries have no function of that name.
fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: nothing of this process uses them any more: it ends here.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // A container may refuse it.
    for fd in first..=last.min(first.saturating_add(65_535)) {
        // SAFETY: as above.
        let _ = unsafe { libc::close(fd) };
    }
}

fn is_of_programs(target: &Path) -> bool {
    let target = target.to_string_lossy();
    let name = target.trim_start_matches("anon_inode:").trim_matches(['[', ']']);
    target.starts_with("anon_inode:") && (name.starts_with("bpf") || name == "perf_event")
}

/// In the child: nothing is allocated, and no lock taken.
fn let_go(kept: &[RawFd], reader: OwnedFd) -> ! {
    // SAFETY: the name is a constant string with its NUL.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, c"strata-detach".as_ptr()) };
    // Ctrl-C of the terminal is not for it.
    let _ = rustix::process::setsid();
    let mut first = 0;
    for &fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
    // Until the other end is closed, by the parent's work or its end.
    let _ = rustix::io::read(&reader, &mut [0]);
    // One by one, so that /proc shows how many are left.
    for &fd in kept {
        close_range(fd, fd);
    }
    // SAFETY: it ends this process without running anything of it.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_programs_are_those_that_the_child_keeps() {
        for (target, is_kept) in [
            ("anon_inode:bpf-prog", true),
            ("anon_inode:bpf-map", true),
            ("anon_inode:bpf_link", true),
            ("anon_inode:[perf_event]", true),
            ("anon_inode:[eventfd]", false),
            ("anon_inode:[pidfd]", false),
            ("pipe:[17]", false),
            ("/tmp/bpf-prog", false),
        ] {
            assert_eq!(is_of_programs(Path::new(target)), is_kept, "{target}");
        }
    }

    #[test]
    fn detaching_of_many_programs_is_told_and_of_few_is_not() {
        let pid = Pid::from_raw(77).unwrap();
        let text = remark(1246, pid).unwrap();
        assert!(text.starts_with("1246 programs are still being detached"), "{text}");
        assert!(text.contains("process 77 (strata-detach): some 88 s"), "{text}");
        assert_eq!(remark(PROGRAMS_TOLD - 1, pid), None);
        assert_eq!(Detaching::by(pid, Some(text.clone())).remark(), Some(text.as_str()));
        assert_eq!(Detaching::default().remark(), None);
    }

    #[test]
    fn child_holds_until_it_is_let_go_and_no_pipe_of_others() {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (child, until) = hand_over().unwrap();
        drop(ours);
        // The child has no copy of it.
        assert_eq!(rustix::io::read(&theirs, &mut [0]).unwrap(), 0);
        let mut detaching = Detaching::by(child, None);
        assert!(detaching.is_going_on());
        drop(until);
        detaching.wait();
    }
}
