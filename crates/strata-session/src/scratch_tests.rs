//! What tests of several modules need: a folder, and a channel of records as a process or the kernel has one.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};

/// A folder for one test, removed with what the test put there.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("strata-session-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A channel of so many streams in which nothing is, and its memory.
pub(crate) fn channel(nr_cpus: u32) -> (Channel, OwnedFd) {
    let attr = Attr {
        loss_mode: LossMode::Discard,
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
