//! Helpers of several modules' tests: a folder, and a channel of records like that of a process or the kernel.

use std::fs;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{
    fcntl_add_seals, flock, ftruncate, memfd_create, FlockOperation, MemfdFlags, SealFlags,
};
use strata_abi::user;
use strata_collect::{Error, Keep, Output, Sink};
use strata_ctf::metadata::Version;
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};
use strata_user::Application;

use crate::output::describe::Machine;
use crate::session::layer::Context;
use crate::session::shared_state::Shared;

/// A folder for one test. It is removed at the end, with the files that the test put there.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        // Tests of several modules may call theirs the same.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("strata-session-test-{name}-{pid}-{number}"));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until nobody locks a folder that was released. Processes that other tests start hold its descriptor, and with
/// it the lock, until they execute a program.
pub(crate) fn wait_until_unlocked(path: &Path) {
    let folder = fs::File::open(path).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        assert!(Instant::now() < until, "{path:?}: somebody has it still");
        std::thread::yield_now();
    }
    // Unlocked explicitly, since other processes may have inherited this descriptor as well.
    flock(&folder, FlockOperation::Unlock).unwrap();
}

/// Creates an empty channel of `nr_cpus` streams. Returns it with its memory.
pub(crate) fn channel(nr_cpus: u32) -> (Channel, OwnedFd) {
    made(nr_cpus, LossMode::Discard)
}

/// Creates a channel with this loss mode and `nr_cpus` streams.
pub(crate) fn channel_of(nr_cpus: u32, loss_mode: LossMode) -> Channel {
    made(nr_cpus, loss_mode).0
}

fn made(nr_cpus: u32, loss_mode: LossMode) -> (Channel, OwnedFd) {
    let attr = Attr {
        loss_mode,
        publish: Publish::ByCommit,
        subbuf_bytes: 4096,
        nr_subbufs: 2,
        nr_cpus,
        start_position: 0,
    };
    let bytes = channel_bytes(&attr).unwrap();
    let memory = memfd_create("strata-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, bytes).unwrap();
    let mapping = Mapping::new(memory.as_fd(), 0, bytes).unwrap();
    (Channel::format(mapping, &attr).unwrap(), memory)
}

/// Creates an application that stands for this process, without tracepoints and hidden from tracers. Returns it with
/// its memory.
pub(crate) fn program() -> (Application, OwnedFd) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("strata-test", flags).unwrap();
    ftruncate(&memory, user::CHANNELS_OFFSET.into()).unwrap();
    fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    let put = |offset: usize, bytes: &[u8]| {
        assert_eq!(rustix::io::pwrite(&memory, bytes, offset as u64), Ok(bytes.len()));
    };
    let pid = std::process::id();
    put(offset_of!(user::Control, version), &user::VERSION.to_ne_bytes());
    put(offset_of!(user::Control, pid), &pid.to_ne_bytes());
    put(offset_of!(user::Control, nr_cpus), &1u32.to_ne_bytes());
    let started = strata_user::Clock::monotonic_ns();
    put(offset_of!(user::Control, started_ns), &started.to_ne_bytes());
    put(offset_of!(user::Control, magic), &user::MAGIC.to_ne_bytes());
    (Application::open(memory.try_clone().unwrap(), pid).unwrap(), memory)
}

/// Creates the context of layers with this output.
pub(crate) fn context(output: impl Output + 'static) -> Arc<Context> {
    context_of(output, Keep::Write { flush: Duration::ZERO })
}

/// Creates the context of layers with this output and this handling of packets.
pub(crate) fn context_of(output: impl Output + 'static, keep: Keep) -> Arc<Context> {
    Arc::new(Context {
        slots: None,
        kept: None,
        is_again: false,
        before: Vec::new(),
        shared: Shared::new().unwrap(),
        machine: Machine::new(LossMode::Discard, Version::One),
        created: String::new(),
        output: Arc::new(Mutex::new(output)),
        keep,
    })
}

/// An output on a full disk.
pub(crate) struct Nowhere;

impl Output for Nowhere {
    fn trace(&mut self, _: &str, _: Option<(&[u8], u32)>) -> Result<Box<dyn Sink>, Error> {
        let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
        Err(Error::NoSpace { path: "nowhere".into(), source })
    }

    fn remove(&mut self, _: &str, _: Box<dyn Sink>) {}
}
