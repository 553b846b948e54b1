//! An event that can be recorded: its fields, and how it is recorded.

use crate::decide::jump_guard::Guard;
use crate::discover::elf::Binary;
use strata_abi::kernel::{Part, Syscall};
use strata_model::{Field, Label};

/// A kernel event that can be recorded. A system call, with its entry and exit, is one event.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEvent {
    /// The recorded name. For a system call it is the name of the call (openat): its records are `syscall_entry_openat`
    /// and `syscall_exit_openat`.
    pub name: String,
    /// The subsystem, such as "sched", "syscalls", "uprobes".
    pub system: String,
    /// The kernel's name, such as "sched_switch", "openat".
    pub kernel_name: String,
    /// Fields of the payload; for a system call, those of its entry.
    pub fields: Vec<Field>,
    /// Fields of a system call's exit, `ret` first; else empty.
    pub exit_fields: Vec<Field>,
    /// The way in which the event is recorded.
    pub probe: Probe,
    /// True if a recording of selected processes has the event only for these processes.
    pub is_followed: bool,
    /// The places of those fields that filters can test.
    pub sources: Vec<FieldSource>,
    /// The places of those fields that filters can test at a system call's exit.
    pub exit_sources: Vec<FieldSource>,
}

/// The way in which an event is recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// By the program for any tracepoint, whose constants describe the event.
    Tracepoint {
        /// The event's number for `PERF_TYPE_TRACEPOINT`.
        id: u32,
        /// Parts of the payload; offsets are those of the kernel's `format` file.
        parts: Vec<Part>,
    },
    /// By a program of `hot.bpf.c` that was written for this event.
    Hot {
        /// The name of the program.
        program: &'static str,
        /// The event for the program that records any tracepoint, with other fields; used if the kernel refuses this
        /// program.
        fallback: Option<Box<KernelEvent>>,
    },
    /// By a timer on each CPU.
    Sample {
        /// Rate of the timer \[Hz\].
        rate: u32,
    },
    /// By the pair of programs that records the entries and exits of all system calls.
    Syscall {
        /// Index in the programs' table.
        place: u32,
        /// Constants of the call. Both ids are [`strata_abi::kernel::NO_ID`], until they are assigned when the programs
        /// are loaded.
        entry: Syscall,
    },
    /// By a uprobe at instructions in a program or library.
    Uprobe {
        binary: Binary,
        /// Offsets of the instructions in the file, at least one \[byte\].
        offsets: Vec<u64>,
        /// The condition under which reaching an instruction is a hit; `None` if it always is.
        guard: Option<Guard>,
        /// Offset in the file of the probe's reference count \[byte\].
        semaphore: Option<u64>,
        /// Parts of the payload.
        parts: Vec<Part>,
    },
}

/// The place where a filter finds a field's value; see `strata/abi/kernel.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSource {
    pub field: String,
    /// Offset in the source \[byte\].
    pub offset: u16,
    /// Size of the value: 1, 2, 4, 8, or 16 for a char array \[byte\].
    pub bytes: u8,
    /// True if the value is sign-extended.
    pub is_signed: bool,
    /// Names of the field's values.
    pub labels: Vec<Label>,
}
