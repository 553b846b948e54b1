//! The process of a trustee: a child of the session that has nothing but its two descriptors, and outlives it.

use std::io;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};

use rustix::process::{getrlimit, setrlimit, Pid, Resource, Rlimit};
use strata_control::{Claim, Trustee};

use crate::session::privileges::give_up_rights;
use crate::standing::trust::Trusted;

/// The trustee that the session of this name has left that was killed; else a new one. While this process has no other
/// threads.
///
/// # Errors
/// There is none, for this reason; the session can go on without.
pub fn trustee(claim: &Claim) -> io::Result<Trusted> {
    if let Some((trust, held)) = claim.trustee()? {
        return Ok(Trusted::new(trust, held, None));
    }
    let child = begin(claim.new_trustee()?)?;
    match claim.trustee()? {
        Some((trust, held)) => Ok(Trusted::new(trust, held, Some(child))),
        None => Err(io::Error::other("its process has ended at once")),
    }
}

fn begin(trustee: Trustee) -> io::Result<Pid> {
    // A child has one thread, and locks that others held are locked there for good.
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has other threads already"));
    }
    // SAFETY: there is no other thread: the child may do all that this process may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Nothing of what called this is run there.
        let _ = catch_unwind(AssertUnwindSafe(|| serve(&trustee)));
        // SAFETY: it ends this process without running anything of it.
        unsafe { libc::_exit(0) }
    }
    match Pid::from_raw(child) {
        Some(child) if !child.is_init() => Ok(child),
        _ => Err(io::Error::last_os_error()),
    }
}

fn serve(trustee: &Trustee) {
    // SAFETY: the name is a constant string with its NUL.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, c"strata-trustee".as_ptr()) };
    // What is sent to the session, or its terminal, is not for it.
    let _ = rustix::process::setsid();
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: nothing of this process is run then. What is handled in the session writes to its descriptors.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    give_up_rights();
    if close_others(&trustee.fds()).is_err() {
        return;
    }
    // It keeps no file system from being unmounted.
    let _ = std::env::set_current_dir("/");
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    trustee.serve();
}

/// The session's locks, files and sockets: what ends with it shall do so.
fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let numbers = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others: Vec<RawFd> = numbers.filter(|number| !kept.contains(number)).collect();
    for number in others {
        // SAFETY: nothing of this process uses it any more: what owns it is not run here.
        let _ = unsafe { libc::close(number) };
    }
    // The lowest numbers are those of output: what is said there goes nowhere.
    for _ in 0..3 {
        let _ = std::fs::File::options().read(true).write(true).open("/dev/null")?.into_raw_fd();
    }
    Ok(())
}
