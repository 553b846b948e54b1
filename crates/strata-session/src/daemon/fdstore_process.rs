//! The process of the fdstore: a child of the session that keeps nothing but its two descriptors, and outlives the
//! session.

use std::io;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};

use rustix::process::{getrlimit, setrlimit, Pid, Resource, Rlimit};
use strata_control::{Claim, FdStoreServer};

use crate::daemon::fdstore::FdStore;
use crate::session::privileges::give_up_rights;

/// Opens the fdstore that a killed session of this name has left, or starts a new one. Call this while the process has
/// no other threads.
///
/// # Errors
/// Why there is no fdstore; the session can go on without one.
pub fn open_fdstore(claim: &Claim) -> io::Result<FdStore> {
    if let Some((fdstore, held)) = claim.connect_fdstore()? {
        return Ok(FdStore::new(fdstore, held, None));
    }
    let child = begin(claim.new_fdstore()?)?;
    match claim.connect_fdstore()? {
        Some((fdstore, held)) => Ok(FdStore::new(fdstore, held, Some(child))),
        None => Err(io::Error::other("its process has ended at once")),
    }
}

fn begin(fdstore: FdStoreServer) -> io::Result<Pid> {
    // A child process has one thread, and locks held by other threads would stay locked there for ever.
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has other threads already"));
    }
    // SAFETY: there is no other thread, so the child may do all that this process may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The child never returns to the caller's code.
        let _ = catch_unwind(AssertUnwindSafe(|| serve(&fdstore)));
        // SAFETY: this ends the process without running any of its other code.
        unsafe { libc::_exit(0) }
    }
    match Pid::from_raw(child) {
        Some(child) if !child.is_init() => Ok(child),
        _ => Err(io::Error::last_os_error()),
    }
}

fn serve(fdstore: &FdStoreServer) {
    // SAFETY: the name is a constant string with its NUL.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, c"strata-fdstore".as_ptr()) };
    // Signals for the session or its terminal must not reach this process.
    let _ = rustix::process::setsid();
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: no code of this process runs on a signal then. The session's handlers would write to its descriptors.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    give_up_rights();
    if close_others(&fdstore.fds()).is_err() {
        return;
    }
    // This process must not keep a file system from being unmounted.
    let _ = std::env::set_current_dir("/");
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    fdstore.serve();
}

/// Closes all descriptors except `kept`: the session's locks, files and sockets must end with the session.
fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let numbers = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others: Vec<RawFd> = numbers.filter(|number| !kept.contains(number)).collect();
    for number in others {
        // SAFETY: nothing in this process uses the descriptor any more, since its owner's code does not run here.
        let _ = unsafe { libc::close(number) };
    }
    // The lowest numbers are those of the standard streams; output to them is thrown away.
    for _ in 0..3 {
        let _ = std::fs::File::options().read(true).write(true).open("/dev/null")?.into_raw_fd();
    }
    Ok(())
}
