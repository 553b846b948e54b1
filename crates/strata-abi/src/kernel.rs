//! `strata/abi/kernel.h`: what the tracer and its BPF programs share.
//!
//! Plain memory, written by the tracer before the programs run, but for the counters of [`Control`].

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8};

/// Behind each stream in a value of the map `rings` \[byte\].
pub const SLACK: u32 = 4096;
/// Largest payload of a record \[byte\].
pub const PAYLOAD_MAX: u32 = 3072;
/// Longest text of one field \[byte\].
pub const TEXT_MAX: u32 = 1024;
/// Parts of a record's payload.
pub const PARTS_MAX: usize = 24;
/// Tests of a filter.
pub const TESTS_MAX: usize = 24;
/// Of these, tests that are made before anything else.
pub const EARLY_MAX: usize = 4;
/// Places of system calls.
pub const SYSCALLS: u32 = 1024;
/// Where i386's system calls begin.
pub const COMPAT: u32 = 512;
/// The place of i386's system calls that have none of their own.
pub const COMPAT_UNKNOWN: u32 = 1022;
/// The place of all others that have none of their own.
pub const UNKNOWN: u32 = 1023;

/// Numbers that a task can have: each has two bits of `followed`.
pub const FOLLOW_TASKS: u32 = 4_194_304;
/// Value of the map `followed`: not recorded.
pub const FOLLOW_NONE: u32 = 0;
/// Value of the map `followed`: recorded from its next execve on.
pub const FOLLOW_AT_EXEC: u32 = 1;
/// Value of the map `followed`: recorded, and all that it makes.
pub const FOLLOW_ALL: u32 = 2;

/// Programs that are switched on and off one by one.
pub const SWITCHES: usize = 8128;

/// In [`Control::on`]: records.
pub const ON: u8 = 1;
/// In [`Control::on`], with [`ON`]: of processes that are tracked only.
pub const ON_TRACKED: u8 = 2;
/// It runs first of two, and says whether it has recorded the event.
pub const ON_TELLS: u8 = 4;
/// It records what the other one has not.
pub const ON_ASKS: u8 = 8;
/// Words of the map `told`.
pub const TOLD_WORDS: usize = (4_194_304 + 8192) / 32;
/// Kind of [`Track`], and its bit in [`Control::tracked`]: the process.
pub const TRACK_PID: u16 = 0;
/// The real user.
pub const TRACK_UID: u16 = 1;
/// The real group.
pub const TRACK_GID: u16 = 2;
/// The name of the process' first thread.
pub const TRACK_NAME: u16 = 3;
/// A control group, and what is in it.
pub const TRACK_CGROUP: u16 = 4;
/// In [`Control::tracked`]: the bits of the lengths of beginnings of names.
pub const TRACK_PREFIXES: u32 = 8;
/// In [`Control::tracked`]: the bit of the generation.
pub const TRACK_GENERATION: u32 = 31;
/// Keys of one generation.
pub const TRACK_MAX: usize = 1024;
/// Depth of control groups.
pub const TRACK_LEVELS: u32 = 16;

/// `struct strata_abi_kernel_track`: a key of the map `tracked`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Track {
    /// One of the kinds.
    pub kind: u16,
    /// 0 or 1.
    pub generation: u8,
    /// Of a name's beginning; 0: all of it \[byte\].
    pub bytes: u8,
    /// Zero.
    pub reserved: u32,
    /// What is tracked.
    pub value: [u64; 2],
}

/// `struct strata_abi_kernel_control`.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Which processes are tracked, a number of the bits below.
    pub tracked: AtomicU32,
    /// 1: events that are followed only of tasks with [`FOLLOW_ALL`].
    pub following: AtomicU32,
    /// The tracer's process id.
    pub tracer: AtomicU32,
    /// 1: there are programs with [`ON_TELLS`].
    pub changing: AtomicU16,
    /// 1: those with [`ON_ASKS`] record, and those with [`ON_TELLS`] do not.
    pub turn: AtomicU16,
    /// Fields in user memory that could not be read.
    pub unreadable: AtomicU64,
    /// Texts longer than [`TEXT_MAX`].
    pub cut: AtomicU64,
    /// Fields that could not be read, of calls that have not returned yet.
    pub unread: AtomicU64,
    /// Counters that could not be read.
    pub uncounted: AtomicU64,
    /// Zero.
    pub reserved: [u64; 2],
    /// Whether who has this switch records: 0, [`ON`], or both of it and [`ON_TRACKED`].
    pub on: [AtomicU8; SWITCHES],
}

impl Default for Control {
    fn default() -> Control {
        Control {
            tracked: AtomicU32::new(0),
            following: AtomicU32::new(0),
            tracer: AtomicU32::new(0),
            changing: AtomicU16::new(0),
            turn: AtomicU16::new(0),
            unreadable: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            reserved: [0; 2],
            on: [const { AtomicU8::new(0) }; SWITCHES],
        }
    }
}

/// [`Part::kind`]: bytes of the source as they are.
pub const COPY: u8 = 0;
/// [`Part::kind`]: text of a `__data_loc` word.
pub const TEXT: u8 = 1;
/// [`Part::kind`]: text of a `__rel_loc` word.
pub const TEXT_REL: u8 = 2;
/// [`Part::kind`]: bytes of a `__data_loc` word.
pub const BYTES: u8 = 3;
/// [`Part::kind`]: bytes of a `__rel_loc` word.
pub const BYTES_REL: u8 = 4;
/// [`Part::kind`]: a register.
pub const REGISTER: u8 = 5;
/// [`Part::kind`]: user memory at a register plus an addend, plus a scaled index.
pub const MEMORY: u8 = 6;
/// [`Part::kind`]: the addend.
pub const CONSTANT: u8 = 7;
/// [`Part::kind`]: the string that a register points to.
pub const STRING: u8 = 8;
/// [`Part::kind`]: the string that user memory points to.
pub const STRING_AT: u8 = 9;
/// [`Part::offset`] of memory whose address has no register but the index.
pub const NO_REGISTER: u16 = u16::MAX;

/// `struct strata_abi_kernel_part`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// One of the kinds.
    pub kind: u8,
    /// 1, 2, 4 or 8: how often the index counts; 0: there is none.
    pub scale: u8,
    /// Where in the source \[byte\].
    pub offset: u16,
    /// How many \[byte\].
    pub bytes: u16,
    /// Where in the source the index is \[byte\].
    pub index: u16,
    /// Added to a register's value, or the value itself.
    pub addend: i64,
}

/// Contexts, by their bits in [`Event::contexts`]: the process.
pub const CONTEXT_PID: u32 = 0;
/// Its parent.
pub const CONTEXT_PPID: u32 = 1;
/// The thread's name.
pub const CONTEXT_PROCNAME: u32 = 2;
/// The real user.
pub const CONTEXT_UID: u32 = 3;
/// The real group.
pub const CONTEXT_GID: u32 = 4;
/// The priority.
pub const CONTEXT_PRIO: u32 = 5;
/// The control group.
pub const CONTEXT_CGROUP: u32 = 6;
/// The process, in its own PID namespace.
pub const CONTEXT_VPID: u32 = 7;
/// The thread, likewise.
pub const CONTEXT_VTID: u32 = 8;
/// The parent, in the thread's PID namespace.
pub const CONTEXT_VPPID: u32 = 9;
/// The number of the control group namespace.
pub const CONTEXT_CGROUP_NS: u32 = 10;
/// Of the IPC namespace.
pub const CONTEXT_IPC_NS: u32 = 11;
/// Of the mount namespace.
pub const CONTEXT_MNT_NS: u32 = 12;
/// Of the network namespace.
pub const CONTEXT_NET_NS: u32 = 13;
/// Of the PID namespace.
pub const CONTEXT_PID_NS: u32 = 14;
/// Of the time namespace.
pub const CONTEXT_TIME_NS: u32 = 15;
/// Of the user namespace.
pub const CONTEXT_USER_NS: u32 = 16;
/// Of the UTS namespace.
pub const CONTEXT_UTS_NS: u32 = 17;
/// The first of [`COUNTERS`].
pub const CONTEXT_COUNTER: u32 = 18;
/// Call stack in the kernel.
pub const CONTEXT_STACK: u32 = 26;
/// Call stack of the program.
pub const CONTEXT_USER_STACK: u32 = 27;
/// Counters of one session; number i of a CPU is at CPU * COUNTERS + i of the map `counters`.
pub const COUNTERS: u32 = 8;
/// Of an event's contexts, the first bit of those of its records alone.
pub const CONTEXT_OWN: u32 = 32;
/// Addresses of a stack.
pub const STACK_FRAMES: u32 = 64;
/// All contexts of a record \[byte\].
pub const CONTEXT_MAX: u32 = 1184;

/// [`Test::operand`]: a field.
pub const FIELD: u8 = 0;
/// [`Test::operand`]: the process' id.
pub const PID: u8 = 1;
/// [`Test::operand`]: the thread's id.
pub const TID: u8 = 2;
/// [`Test::operand`]: the CPU.
pub const CPU: u8 = 3;
/// [`Test::operand`]: the task's control group.
pub const CGROUP: u8 = 4;
/// [`Test::operand`]: the task's name.
pub const COMM: u8 = 5;
/// [`Test::operand`]: a char array of 16.
pub const CHARS: u8 = 6;

/// [`Test::comparison`].
pub const EQUAL: u8 = 0;
/// [`Test::comparison`].
pub const LESS: u8 = 1;
/// [`Test::comparison`].
pub const LESS_OR_EQUAL: u8 = 2;
/// [`Test::comparison`].
pub const LESS_SIGNED: u8 = 3;
/// [`Test::comparison`].
pub const LESS_EQ_SIGNED: u8 = 4;

/// [`Test::yes`], [`Test::no`]: recorded.
pub const PASS: u8 = 254;
/// [`Test::yes`], [`Test::no`]: not recorded.
pub const REJECT: u8 = 255;

/// `struct strata_abi_kernel_test`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// What is tested.
    pub operand: u8,
    /// How it is compared: one of the constants above.
    pub comparison: u8,
    /// Size of a field \[byte\].
    pub bytes: u8,
    /// 1: the field is sign-extended.
    pub is_signed: u8,
    /// Where the field is in the source \[byte\].
    pub offset: u16,
    /// The next test if it holds.
    pub yes: u8,
    /// The next test if not.
    pub no: u8,
    /// Bits of the operand that count; of text, of its first 8 bytes.
    pub mask: u64,
    /// What it is compared with.
    pub value: u64,
    /// Of text: bits of the second 8 bytes.
    pub mask_high: u64,
    /// Of text: the second 8 bytes.
    pub value_high: u64,
}

/// `struct strata_abi_kernel_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// How many tests there are; 0: everything passes.
    pub nr_tests: u32,
    /// The first ones, which are a filter of their own; what passes them is for the others to decide.
    pub nr_early: u32,
    /// The tests.
    pub test: [Test; TESTS_MAX],
}

/// `struct strata_abi_kernel_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Event record class; of system calls the first of three.
    pub id: u32,
    /// 1: only of tasks being followed, if any are.
    pub followed: u8,
    /// How many parts there are.
    pub nr_parts: u8,
    /// Of system calls, 1: one of them has [`CALL_MEMORY`].
    pub reads_again: u8,
    /// Zero.
    pub reserved: u8,
    /// What records have between the thread and the payload: a bit for each context of all, and behind [`CONTEXT_OWN`]
    /// for each of these alone.
    pub contexts: u64,
    /// In [`Control::on`].
    pub switch_at: u32,
    /// Zero.
    pub reserved_word: u32,
    /// The payload.
    pub part: [Part; PARTS_MAX],
    /// What is recorded; the second one is the exit's of a system call.
    pub filter: [Filter; 2],
}

/// [`Syscall::kind`]: no argument.
pub const ARG_NONE: u8 = 0;
/// [`Syscall::kind`]: 4 bytes.
pub const ARG_U32: u8 = 1;
/// [`Syscall::kind`]: 8 bytes.
pub const ARG_U64: u8 = 2;
/// [`Syscall::kind`]: the user's string, with its NUL.
pub const ARG_PATH: u8 = 3;
/// [`Syscall::kind`]: a socket's address.
pub const ARG_SOCKADDR: u8 = 4;
/// [`Syscall::kind`]: the socket's address that a `struct msghdr` has.
pub const ARG_MESSAGE: u8 = 5;
/// [`Syscall::kind`]: several strings.
pub const ARG_STRINGS: u8 = 6;
/// [`Syscall::kind`]: a short string, with its NUL.
pub const ARG_NAME: u8 = 7;
/// [`Syscall::kind`]: a number, and the time that it may point to: 16 bytes.
pub const ARG_TIMEOUT: u8 = 8;
/// [`Syscall::kind`]: the same, with 8 bytes.
pub const ARG_TIMEOUT_NARROW: u8 = 9;
/// Of either end: a socket's option.
pub const ARG_OPTION: u8 = 10;
/// Of either end: of `struct pollfd` some.
pub const ARG_POLL: u8 = 11;
/// Of either end: the descriptors in an `fd_set`.
pub const ARG_SET: u8 = 12;
/// [`Syscall::exit_kind`]: of `struct epoll_event` some.
pub const ARG_EVENTS: u8 = 13;
/// [`Syscall::exit_kind`]: a socket's address and a length, that the first `struct mmsghdr` has.
pub const ARG_MESSAGES: u8 = 14;
/// [`Syscall::exit_kind`]: with the number of a [`Layout`], what that says.
pub const ARG_LAYOUT: u8 = 64;
/// [`Syscall::kind`]: with a number of bytes, that many of user memory.
pub const ARG_MEMORY: u8 = 128;
/// Most bytes of an [`ARG_MEMORY`].
pub const MEMORY_MAX: u8 = 64;
/// Most bytes of an [`ARG_NAME`], with its NUL.
pub const NAME_MAX: u8 = 64;
/// Most elements of a list.
pub const ELEMENTS_MAX: u8 = 16;
/// Most of an array of `struct pollfd` that are looked at.
pub const POLL_MAX: u32 = 64;
/// Most bytes of an [`ARG_OPTION`].
pub const OPTION_MAX: u8 = 16;
/// How many [`Layout`] there are.
pub const LAYOUTS: u32 = 16;
/// Most pieces of a [`Layout`].
pub const PIECES_MAX: usize = 5;
/// Most bytes of a [`Piece`].
pub const PIECE_MAX: u16 = 72;
/// [`Syscall::flags`]: all calls that have no number of their own.
pub const CALL_UNKNOWN: u32 = 1;
/// [`Syscall::flags`]: its entry is recorded, and has what is read from memory.
pub const CALL_MEMORY: u32 = 2;
/// [`Syscall::flags`]: what it gives back is there only if it was interrupted.
pub const CALL_INTERRUPTED: u32 = 4;
/// [`Syscall::flags`]: what it gives back is there only if it does not return 0.
pub const CALL_NOT_ZERO: u32 = 8;
/// [`Syscall::flags`]: its entry is recorded.
pub const CALL_ENTRY: u32 = 16;
/// [`Syscall::flags`]: its exit is recorded.
pub const CALL_EXIT: u32 = 32;
/// Another pair of programs takes it over, or has had it.
pub const CALL_MOVES: u32 = 64;
/// [`Syscall::entry_id`], [`Syscall::exit_id`]: none.
pub const NO_ID: u32 = u32::MAX;

/// `struct strata_abi_kernel_syscall`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// Event record class of the entry.
    pub entry_id: u32,
    /// Event record class of the exit.
    pub exit_id: u32,
    /// How each argument is recorded at entry.
    pub kind: [u8; 6],
    /// How each argument is recorded at exit.
    pub exit_kind: [u8; 6],
    /// Bytes of all arguments at entry, if none depends on user memory; else 0.
    pub fixed_bytes: u8,
    /// How many arguments there are.
    pub nr_args: u8,
    /// Where each one begins, if `fixed_bytes` is not 0.
    pub offset: [u8; 6],
    /// Of [`CALL_UNKNOWN`], [`CALL_MEMORY`], [`CALL_INTERRUPTED`] and [`CALL_NOT_ZERO`].
    pub flags: u32,
}

/// `struct strata_abi_kernel_piece`: of a structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where in it \[byte\].
    pub offset: u16,
    /// How many \[byte\].
    pub bytes: u16,
}

/// `struct strata_abi_kernel_layout`: what is recorded of a structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// How many pieces there are.
    pub nr_pieces: u16,
    /// From the structure's begin to the end of all pieces.
    pub bytes: u16,
    /// The pieces.
    pub piece: [Piece; PIECES_MAX],
}
