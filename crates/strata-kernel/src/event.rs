//! One recordable event: its fields, and how it is recorded.

use crate::elf::Binary;
use strata_abi::kernel::{Part, Syscall};
use strata_model::{Field, Label};

/// One recordable event, or both ends of a system call.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEvent {
    /// The recorded name. Of a system call its own (openat): recorded are `syscall_entry_openat` and
    /// `syscall_exit_openat`.
    pub name: String,
    /// "sched", "syscalls", "uprobes".
    pub system: String,
    /// "sched_switch", "openat".
    pub kernel_name: String,
    /// The payload; of a system call, the entry's.
    pub fields: Vec<Field>,
    /// Of a system call, the exit's, `ret` first; else empty.
    pub exit_fields: Vec<Field>,
    /// How it is recorded.
    pub probe: Probe,
    /// Recorded only of the processes being followed, if any are.
    pub is_followed: bool,
    /// What filters can look at.
    pub sources: Vec<FieldSource>,
    /// The same, at the exit of a system call.
    pub exit_sources: Vec<FieldSource>,
}

/// How an event is recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// The program for any tracepoint, with the event's description as constants.
    Tracepoint {
        /// As `PERF_TYPE_TRACEPOINT` wants it.
        id: u32,
        /// The payload; offsets are those of the kernel's `format` file.
        parts: Vec<Part>,
    },
    /// A program written for this event, of `hot.bpf.c`.
    Hot {
        /// Its name.
        program: &'static str,
        /// The event as the program for any tracepoint records it, with its own fields: where the kernel
        /// refuses this one.
        fallback: Option<Box<KernelEvent>>,
    },
    /// A timer of each CPU.
    Sample {
        /// How often it comes \[Hz\].
        rate: u32,
    },
    /// A system call: the programs for the entry and the exit of all of them.
    Syscall {
        /// Its place in the programs' table.
        place: u32,
        /// Both its ids are [`strata_abi::kernel::NO_ID`]: they are chosen when it is loaded.
        entry: Syscall,
    },
    /// An instruction of a program or library.
    Uprobe {
        /// The file.
        binary: Binary,
        /// Where in the file \[byte\].
        offset: u64,
        /// At the return of the function that begins there.
        is_return: bool,
        /// Where in the file its reference count lies \[byte\].
        semaphore: Option<u64>,
        /// The payload.
        parts: Vec<Part>,
    },
}

/// Where a field's value lies for a filter, see `strata/abi/kernel.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSource {
    /// The field's name.
    pub field: String,
    /// Where in the source \[byte\].
    pub offset: u16,
    /// 1, 2, 4, 8; 16: a char array.
    pub bytes: u8,
    /// Whether it is sign-extended.
    pub is_signed: bool,
    /// Names of its values.
    pub labels: Vec<Label>,
}
