//! The programs of `probe/kernel`, compiled with this crate.

use serde::{Deserialize, Serialize};
use strata_abi::kernel::Event;
use strata_ring::LossMode;

/// One source file of `probe/kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Object {
    /// Which tasks are followed.
    Follow,
    /// Events with programs of their own.
    Hot,
    /// What the kernel calls the tasks of a PID namespace.
    Numbers,
    /// What CPUs do, asked by a timer.
    Sample,
    /// System calls.
    Syscalls,
    /// Any tracepoint.
    Tracepoint,
    /// User-space probes.
    Uprobe,
    /// [`Object::Hot`] for events with early tests.
    HotEarly,
    /// [`Object::Syscalls`] for calls with early tests.
    SyscallsEarly,
    /// [`Object::Tracepoint`] for events with early tests.
    TracepointEarly,
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
    pub(crate) const ALL: [Object; 10] = [
        Object::Follow,
        Object::Hot,
        Object::Numbers,
        Object::Sample,
        Object::Syscalls,
        Object::Tracepoint,
        Object::Uprobe,
        Object::HotEarly,
        Object::SyscallsEarly,
        Object::TracepointEarly,
    ];

    /// The object for such an event.
    pub(crate) fn of(self, event: &Event) -> Object {
        if event.filter.iter().all(|filter| filter.nr_early == 0) {
            return self;
        }
        match self {
            Object::Hot => Object::HotEarly,
            Object::Syscalls => Object::SyscallsEarly,
            Object::Tracepoint => Object::TracepointEarly,
            other => other,
        }
    }

    /// An ELF file; empty where this build has none.
    pub(crate) fn bytes(self, mode: LossMode) -> &'static [u8] {
        match self {
            Object::Follow => embed!(mode, "follow"),
            Object::Hot => embed!(mode, "hot"),
            Object::Numbers => embed!(mode, "numbers"),
            Object::Sample => embed!(mode, "sample"),
            Object::Syscalls => embed!(mode, "syscalls"),
            Object::Tracepoint => embed!(mode, "tracepoint"),
            Object::Uprobe => embed!(mode, "uprobe"),
            Object::HotEarly => embed!(mode, "hot.early"),
            Object::SyscallsEarly => embed!(mode, "syscalls.early"),
            Object::TracepointEarly => embed!(mode, "tracepoint.early"),
        }
    }
}
