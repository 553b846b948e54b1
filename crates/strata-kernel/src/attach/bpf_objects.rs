//! The programs of `probe/kernel`, compiled with this crate.

use serde::{Deserialize, Serialize};
use strata_abi::kernel::Event;
use strata_ring::LossMode;

/// A source file of `probe/kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Object {
    /// Finds the tasks whose events are recorded.
    Follow,
    /// Records events that have programs of their own.
    Hot,
    /// Converts task numbers of a PID namespace to the kernel's.
    Numbers,
    /// Samples what CPUs do, by a timer.
    Sample,
    /// Records system calls.
    Syscalls,
    /// Records any tracepoint.
    Tracepoint,
    /// Records user-space probes.
    Uprobe,
    /// [`Object::Hot`] for events with early tests.
    HotEarly,
    /// [`Object::Syscalls`] for calls with early tests.
    SyscallsEarly,
    /// [`Object::Syscalls`] for calls that waited, which are found by the scheduler's switches.
    SyscallsWaited,
    /// [`Object::Tracepoint`] for events with early tests.
    TracepointEarly,
    /// [`Object::Uprobe`] with sleepable programs, which can wait until a page of user memory that they read is
    /// paged in.
    UprobeSleepable,
    /// [`Object::Hot`], which counts events and records none.
    CountHot,
    /// [`Object::Syscalls`], which counts calls and records none.
    CountSyscalls,
    /// [`Object::Tracepoint`], which counts events and records none.
    CountTracepoint,
    /// [`Object::Uprobe`], which counts events and records none.
    CountUprobe,
    /// [`Object::CountUprobe`] with sleepable programs.
    CountUprobeSleepable,
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

/// Embeds an object that writes to no ring, so that one loss mode is enough.
macro_rules! embed_count {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".count.discard.bpf.o")).as_slice()
    };
}

impl Object {
    pub(crate) const ALL: [Object; 17] = [
        Object::Follow,
        Object::Hot,
        Object::Numbers,
        Object::Sample,
        Object::Syscalls,
        Object::Tracepoint,
        Object::Uprobe,
        Object::HotEarly,
        Object::SyscallsEarly,
        Object::SyscallsWaited,
        Object::TracepointEarly,
        Object::UprobeSleepable,
        Object::CountHot,
        Object::CountSyscalls,
        Object::CountTracepoint,
        Object::CountUprobe,
        Object::CountUprobeSleepable,
    ];

    /// Returns the object that counts the events which this one records; `None` if there is none.
    pub(crate) fn that_counts(self) -> Option<Object> {
        match self {
            Object::Hot => Some(Object::CountHot),
            Object::Syscalls => Some(Object::CountSyscalls),
            Object::Tracepoint => Some(Object::CountTracepoint),
            Object::Uprobe => Some(Object::CountUprobe),
            _ => None,
        }
    }

    /// Returns the variant of the object whose programs may wait for user memory; `None` if there is none.
    pub(crate) fn that_waits(self) -> Option<Object> {
        match self {
            Object::Uprobe => Some(Object::UprobeSleepable),
            Object::CountUprobe => Some(Object::CountUprobeSleepable),
            _ => None,
        }
    }

    /// Returns the variant of the object that suits the event's filters.
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

    /// Returns the object's ELF file; empty if this build does not have it.
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
            Object::SyscallsWaited => embed!(mode, "syscalls.waited"),
            Object::TracepointEarly => embed!(mode, "tracepoint.early"),
            Object::UprobeSleepable => embed!(mode, "uprobe.sleepable"),
            Object::CountHot => embed_count!("hot"),
            Object::CountSyscalls => embed_count!("syscalls"),
            Object::CountTracepoint => embed_count!("tracepoint"),
            Object::CountUprobe => embed_count!("uprobe"),
            Object::CountUprobeSleepable => embed_count!("uprobe.sleepable"),
        }
    }
}
