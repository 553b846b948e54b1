//! The programs of `probe/kernel`, compiled with this crate.
//!
//! They are embedded deflated (9 MB of objects in 0.7), as `build.rs` packs them, and each is unpacked when it is first
//! needed. A recording needs four to eight of them, of which each may be opened for many units. What is unpacked stays:
//! a session that records may be changed at any time.

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use strata_abi::kernel::Event;
use strata_ring::LossMode;

/// A BPF object: a source file of `probe/kernel`, or a variant of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Object {
    /// Finds the tasks whose events are recorded.
    Follow,
    /// Records frequent events, each by a program of its own.
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
    /// A variant of [`Object::Hot`] for events whose filters are tested early.
    HotEarly,
    /// A variant of [`Object::Syscalls`] for calls whose filters are tested early.
    SyscallsEarly,
    /// A variant of [`Object::Syscalls`] that records only calls that waited, found by switches of the scheduler.
    SyscallsWaited,
    /// A variant of [`Object::Tracepoint`] for events whose filters are tested early.
    TracepointEarly,
    /// A variant of [`Object::Uprobe`] with sleepable programs, which can wait until a page of user memory that
    /// they read is paged in.
    UprobeSleepable,
    /// A variant of [`Object::Hot`] that counts events instead of recording them.
    CountHot,
    /// A variant of [`Object::Syscalls`] that counts calls instead of recording them.
    CountSyscalls,
    /// A variant of [`Object::Tracepoint`] that counts events instead of recording them.
    CountTracepoint,
    /// A variant of [`Object::Uprobe`] that counts events instead of recording them.
    CountUprobe,
    /// A variant of [`Object::CountUprobe`] with sleepable programs.
    CountUprobeSleepable,
}

macro_rules! embed {
    ($mode:expr, $name:literal) => {
        match $mode {
            LossMode::Discard => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".discard.bpf.packed"))
                    .as_slice()
            }
            LossMode::Overwrite => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".overwrite.bpf.packed"))
                    .as_slice()
            }
        }
    };
}

/// Embeds a BPF object that only counts. It writes to no ring, so that one build serves all loss modes.
macro_rules! embed_count {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".count.discard.bpf.packed")).as_slice()
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

    /// Returns the variant of the object that counts events instead of recording them; `None` if there is none.
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

    /// Returns the variant of the object for this event: that with early tests if the event's filter has some.
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
        static UNPACKED: [[OnceLock<Vec<u8>>; Object::ALL.len()]; 2] =
            [const { [const { OnceLock::new() }; Object::ALL.len()] }; 2];
        let mode_at = usize::from(mode == LossMode::Overwrite);
        UNPACKED[mode_at][self as usize]
            .get_or_init(|| unpack(self.packed(mode)).unwrap_or_default())
    }

    fn packed(self, mode: LossMode) -> &'static [u8] {
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

/// Unpacks an object from its packed form: its size, then its bytes, deflated. `None` if the build script has packed
/// no object.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (size, deflated) = packed.split_first_chunk::<8>()?;
    let mut bytes = vec![0; usize::try_from(u64::from_le_bytes(*size)).ok()?];
    let size = decompress_slice_iter_to_slice(&mut bytes, [deflated].into_iter(), false, true);
    (size == Ok(bytes.len())).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection};

    /// Returns the part of `.BTF.ext` whose place and size stand in its header at `at`.
    fn part(ext: &[u8], at: usize) -> &[u8] {
        let word = |at: usize| u32::from_le_bytes(ext[at..at + 4].try_into().unwrap()) as usize;
        &ext[word(4) + word(at)..][..word(at + 4)]
    }

    #[test]
    fn bytes_when_unpacked_are_an_object_with_functions_and_without_lines() {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return;
        }
        for mode in [LossMode::Discard, LossMode::Overwrite] {
            for object in Object::ALL {
                let file = object::File::parse(object.bytes(mode)).expect("an object");
                let section = |name| file.section_by_name(name).expect(name).data().unwrap();
                assert!(part(section(".BTF.ext"), 8).len() > 8, "{object:?}: functions");
                assert!(part(section(".BTF.ext"), 16).is_empty(), "{object:?}: lines");
                assert_eq!(section("license"), b"GPL\0", "{object:?}");
            }
        }
    }

    #[test]
    fn bytes_when_read_twice_are_unpacked_once() {
        let bytes = || Object::Numbers.bytes(LossMode::Discard);
        assert_eq!(bytes().as_ptr(), bytes().as_ptr());
    }

    #[test]
    fn unpack_when_bytes_are_cut_or_of_another_size_gives_nothing() {
        let packed = Object::Numbers.packed(LossMode::Discard);
        let size = unpack(packed).expect("an object").len() as u64;
        for end in 0..packed.len() {
            assert!(unpack(&packed[..end]).is_none(), "{end}");
        }
        for wrong in [0, size - 1, size + 1] {
            let packed = [&wrong.to_le_bytes(), &packed[8..]].concat();
            assert!(unpack(&packed).is_none(), "{wrong}");
        }
    }
}
