//! Detaches the kernel's programs in a process of its own, for which nobody waits.
//!
//! The kernel detaches programs from tracepoints one by one, however many threads do it, and takes 40 to 70 ms for
//! each: a grace period of RCU under one lock. Nothing is recorded during that time. So a child process inherits the
//! descriptors, this process closes its own, which takes no time, and the programs are detached when the child closes
//! its descriptors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::Pid;
use strata_kernel::session::KernelSession;

use crate::session::detach_later::Detaching;

/// The least number of programs for which the user is told about detaching. Fewer are detached within moments.
const PROGRAMS_TOLD: usize = 50;
/// The estimated time of detaching one program \[s\]. Measured: 40 ms (245 tracepoints), and 67 ms on a busy machine.
const SECONDS_EACH: f64 = 0.07;

/// Detaches the session's programs, in a child process if possible. Returns the handle of that process.
pub(crate) fn detach(mut session: KernelSession) -> Detaching {
    // Everything that the child must not keep is closed first.
    session.stop();
    session.end_counting();
    let programs = session.programs();
    match hand_over() {
        Ok((child, until)) => {
            drop(session);
            // Closing this end makes the child's read() return.
            drop(until);
            Detaching::by(child, remark(programs, child))
        }
        // Without a child, detaching is done here and takes its time.
        Err(_) => {
            session.teardown();
            Detaching::default()
        }
    }
}

/// Returns a remark if detaching takes long: which process detaches, and how much the programs cost until then.
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

/// Starts a child that holds this process' kernel objects until the returned descriptor is closed.
fn hand_over() -> io::Result<(Pid, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // The child keeps only these: no pipe whose reader waits for its end, no lock, no file of the trace, and nothing
    // that another thread opens between this look and the fork.
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

/// Reads from a pipe the descriptors that keep the kernel's programs. Returns them in order, and the pipe's reader.
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

/// Closes the descriptors from `first` to `last`. Uses the number of the system call, since older libraries have no
/// such function.
fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: nothing in this process uses the descriptors any more, since the process ends here.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // A container may refuse the system call.
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

/// Closes the descriptors of the programs, which detaches them. Runs in the child process, which must not allocate
/// memory or take a lock.
fn let_go(kept: &[RawFd], reader: OwnedFd) -> ! {
    // SAFETY: the name is a constant string with its NUL.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, c"strata-detach".as_ptr()) };
    // Ctrl-C on the terminal must not reach this process.
    let _ = rustix::process::setsid();
    let mut first = 0;
    for &fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
    // Blocks until the other end is closed, by the parent or by its end.
    let _ = rustix::io::read(&reader, &mut [0]);
    // One by one, so that /proc shows how many remain.
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
    fn detaching_of_many_programs_is_reported_and_of_few_is_not() {
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
