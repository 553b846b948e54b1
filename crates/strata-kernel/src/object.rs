//! The programs of `probe/kernel`, compiled with this crate.

use strata_ring::LossMode;

/// One source file of `probe/kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    /// Which tasks are followed.
    Follow,
    /// Events with programs of their own.
    Hot,
    /// System calls.
    Syscalls,
    /// Any tracepoint.
    Tracepoint,
    /// User-space probes.
    Uprobe,
}

macro_rules! embed {
    ($mode:expr, $name:literal) => {
        match $mode {
            LossMode::Discard => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".discard.bpf.o")).as_slice()
            }
            LossMode::Overwrite => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".overwrite.bpf.o")).as_slice()
            }
        }
    };
}

impl Object {
    /// An ELF file; empty where this build has none.
    pub(crate) fn bytes(self, mode: LossMode) -> &'static [u8] {
        match self {
            Object::Follow => embed!(mode, "follow"),
            Object::Hot => embed!(mode, "hot"),
            Object::Syscalls => embed!(mode, "syscalls"),
            Object::Tracepoint => embed!(mode, "tracepoint"),
            Object::Uprobe => embed!(mode, "uprobe"),
        }
    }
}
