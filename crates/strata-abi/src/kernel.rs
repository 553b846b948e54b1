//! `strata/abi/kernel.h`: what the tracer and its BPF programs share.
//!
//! Plain memory, written by the tracer before the programs run, but for the counters of [`Control`].

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8};

/// Unused space after each stream in a value of the map `rings`, so that the verifier admits writing the largest
/// record \[byte\].
pub const SLACK: u32 = 8192;
/// Largest payload of a record \[byte\].
pub const PAYLOAD_MAX: u32 = 3072;
/// Longest text of one field \[byte\].
pub const TEXT_MAX: u32 = 1024;
/// Longest arguments of a program, where more than [`TEXT_MAX`] are asked for \[byte\].
pub const ARGV_MAX: u32 = 8192;
/// The most parts of a record's payload.
pub const PARTS_MAX: usize = 24;
/// The most tests of a filter.
pub const TESTS_MAX: usize = 24;
/// Most tests of the first filter, which runs before any other work for the event.
pub const EARLY_MAX: usize = 4;
/// Number of entries in the table `syscalls`.
pub const SYSCALLS: u32 = 1024;
/// Index in `syscalls` at which system calls of 32-bit programs begin.
pub const COMPAT: u32 = 512;
/// Index in `syscalls` for all system calls of 32-bit programs that have no entry of their own.
pub const COMPAT_UNKNOWN: u32 = 1022;
/// Index in `syscalls` for all system calls of 64-bit programs that have no entry of their own.
pub const UNKNOWN: u32 = 1023;

/// Number of ids that tasks can have. Each id has two bits in the map `followed`.
pub const FOLLOW_TASKS: u32 = 4_194_304;
/// Value of the map `followed`: not recorded.
pub const FOLLOW_NONE: u32 = 0;
/// Value of the map `followed`: recorded from its next execve on.
pub const FOLLOW_AT_EXEC: u32 = 1;
/// Value of the map `followed`: recorded, with all tasks that it creates.
pub const FOLLOW_ALL: u32 = 2;

/// Number of programs that can be switched on and off one by one.
pub const SWITCHES: usize = 8128;

/// [`Control::on`]: the program records.
pub const ON: u8 = 1;
/// In [`Control::on`], with [`ON`]: the program records tracked processes only.
pub const ON_TRACKED: u8 = 2;
/// [`Control::on`]: the old program of a pair, which runs first and marks the events that it has recorded.
pub const ON_TELLS: u8 = 4;
/// [`Control::on`]: the new program of a pair, which records what the old one has not marked as recorded.
pub const ON_ASKS: u8 = 8;
/// Number of words of the map `told`.
pub const TOLD_WORDS: usize = (4_194_304 + 8192) / 32;
/// Kind of [`Track`], and its bit in [`Control::tracked`]: the process.
pub const TRACK_PID: u16 = 0;
/// Tracks processes by their real user id.
pub const TRACK_UID: u16 = 1;
/// Tracks processes by their real group id.
pub const TRACK_GID: u16 = 2;
/// Tracks processes by the name of their first thread.
pub const TRACK_NAME: u16 = 3;
/// Tracks a control group and its descendants.
pub const TRACK_CGROUP: u16 = 4;
/// Marks, with [`TRACK_NAME`], a process that the tracer found by its name.
pub const TRACK_NAMED: u16 = 5;
/// The lowest bit of [`Control::tracked`] that stands for a length of name prefixes.
pub const TRACK_PREFIXES: u32 = 8;
/// The bit of [`Control::tracked`] that holds the generation in use.
pub const TRACK_GENERATION: u32 = 31;
/// Bit of [`Control::tracked`]: events without [`Event::followed`] are of the whole machine, whoever runs.
pub const TRACK_FOLLOWED: u32 = 30;
/// The most conditions on tracked processes at one time. The map has room for twice as many, since a change writes the
/// new conditions beside the old ones.
pub const TRACK_MAX: usize = 1024;
/// The greatest depth of tracked control groups.
pub const TRACK_LEVELS: u32 = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Track {
    /// Kind of the key: [`TRACK_PID`] to [`TRACK_NAMED`].
    pub kind: u16,
    /// The generation that the key belongs to, 0 or 1.
    pub generation: u8,
    /// Length of a name prefix; 0 if the whole name is the key \[byte\].
    pub bytes: u8,
    pub reserved: u32,
    pub value: [u64; 2],
}

#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Bit set of the tracked kinds, name prefix lengths and the generation.
    pub tracked: AtomicU32,
    /// If 1, followed events are recorded for tasks with [`FOLLOW_ALL`] only.
    pub following: AtomicU32,
    /// The tracer's process id.
    pub tracer: AtomicU32,
    /// If 1, programs with [`ON_TELLS`] are attached.
    pub changing: AtomicU16,
    /// If 1, programs with [`ON_ASKS`] record, and those with [`ON_TELLS`] do not.
    pub turn: AtomicU16,
    /// Fields in user memory that could not be read.
    pub unreadable: AtomicU64,
    /// Texts longer than [`TEXT_MAX`].
    pub cut: AtomicU64,
    /// Number of fields that could not be read at the entry of calls that have not returned yet.
    pub unread: AtomicU64,
    /// Counters that could not be read.
    pub uncounted: AtomicU64,
    /// Events that were not counted, because the map of counts had no room for their key.
    pub full: AtomicU64,
    /// Events that were not counted, because another program was changing the same place of the map.
    pub busy: AtomicU64,
    /// Switch of each program: 0, [`ON`], or [`ON`] with [`ON_TRACKED`].
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
            full: AtomicU64::new(0),
            busy: AtomicU64::new(0),
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
/// [`Part::kind`]: a bit for each part of kind [`MEMORY`] that could not be read.
pub const UNREAD: u8 = 10;
/// [`Part::bytes`] of a string: the other bits are its length \[byte\].
pub const LENGTH_NUMBER: u16 = 0x8000;
/// [`Part::bytes`] of a string: the part that holds its length is a signed number.
pub const LENGTH_SIGNED: u16 = 0x4000;
/// [`Part::bytes`] of a string: the length, or 1 + the number of the part that has it.
pub const LENGTH_PART: u16 = 0x3fff;
/// [`Part::offset`] of memory whose address has no register but the index.
pub const NO_REGISTER: u16 = u16::MAX;

/// `struct strata_abi_kernel_part`: one piece of a record's payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The kind of the part, one of the constants.
    pub kind: u8,
    /// Factor of the index: 1, 2, 4 or 8; 0 if there is no index.
    pub scale: u8,
    /// Offset in the source \[byte\].
    pub offset: u16,
    pub bytes: u16,
    /// Offset of the index in the source \[byte\].
    pub index: u16,
    /// Added to a register's value, or the value itself.
    pub addend: i64,
}

/// Contexts, by their bits in [`Event::contexts`]: the process.
pub const CONTEXT_PID: u32 = 0;
/// Process id of the parent.
pub const CONTEXT_PPID: u32 = 1;
/// Name of the thread.
pub const CONTEXT_PROCNAME: u32 = 2;
/// Real user id of the thread.
pub const CONTEXT_UID: u32 = 3;
/// Real group id of the thread.
pub const CONTEXT_GID: u32 = 4;
pub const CONTEXT_PRIO: u32 = 5;
/// Id of the control group, in the default hierarchy.
pub const CONTEXT_CGROUP: u32 = 6;
/// Process id in the process' own PID namespace.
pub const CONTEXT_VPID: u32 = 7;
/// Thread id in the thread's own PID namespace.
pub const CONTEXT_VTID: u32 = 8;
/// Process id of the parent, in the thread's PID namespace.
pub const CONTEXT_VPPID: u32 = 9;
/// The number of the control group namespace.
pub const CONTEXT_CGROUP_NS: u32 = 10;
pub const CONTEXT_IPC_NS: u32 = 11;
pub const CONTEXT_MNT_NS: u32 = 12;
pub const CONTEXT_NET_NS: u32 = 13;
pub const CONTEXT_PID_NS: u32 = 14;
pub const CONTEXT_TIME_NS: u32 = 15;
pub const CONTEXT_USER_NS: u32 = 16;
pub const CONTEXT_UTS_NS: u32 = 17;
/// The first of [`COUNTERS`].
pub const CONTEXT_COUNTER: u32 = 18;
/// Call stack in the kernel.
pub const CONTEXT_STACK: u32 = 26;
/// Call stack of the program.
pub const CONTEXT_USER_STACK: u32 = 27;
/// Counters of one session; number i of a CPU is at CPU * COUNTERS + i of the map `counters`.
pub const COUNTERS: u32 = 8;
/// First bit of [`Event::contexts`] that adds a context to this event's records alone.
pub const CONTEXT_OWN: u32 = 32;
/// The most addresses of a call stack.
pub const STACK_FRAMES: u32 = 64;
/// The greatest size of all contexts of a record \[byte\].
pub const CONTEXT_MAX: u32 = 1184;
/// First of three bits with the size of a copy of the program's stack: 0 for none, else `COPY_UNIT << n` bytes.
pub const CONTEXT_STACK_COPY: u32 = 28;
/// Half of the smallest copy of a stack \[byte\].
pub const COPY_UNIT: u32 = 512;
/// The largest copy of a stack \[byte\].
pub const COPY_MAX: u32 = 65536;
/// Number of registers that precede a copy of the stack in a record.
pub const COPY_REGISTERS: u32 = 21;
/// Room for registers and copy after each stream in a value of `rings`, besides [`SLACK`] \[byte\].
pub const COPY_SLACK: u32 = 69632;

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

/// `struct strata_abi_kernel_test`: one comparison of a filter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// Kind of the tested value.
    pub operand: u8,
    pub comparison: u8,
    /// Size of a field \[byte\].
    pub bytes: u8,
    /// If 1, the field is sign-extended.
    pub is_signed: u8,
    /// Offset of the field in the source \[byte\].
    pub offset: u16,
    /// Index of the next test if this one holds.
    pub yes: u8,
    /// Index of the next test if this one does not hold.
    pub no: u8,
    /// Bits of the operand that count; of text, of its first 8 bytes.
    pub mask: u64,
    /// The constant to compare with.
    pub value: u64,
    /// Mask of the second 8 bytes of a text.
    pub mask_high: u64,
    /// The second 8 bytes of a text.
    pub value_high: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Number of tests in use; with 0 every record passes.
    pub nr_tests: u32,
    /// Number of leading tests that form a filter of their own: an event must pass them before the other tests are
    /// made.
    pub nr_early: u32,
    pub test: [Test; TESTS_MAX],
}

/// `struct strata_abi_kernel_event`: how a program records one event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Id of the event record class; system calls use this id and the two after it.
    pub id: u32,
    /// If 1, the event is recorded only for followed tasks, provided that any are followed.
    pub followed: u8,
    pub nr_parts: u8,
    /// If 1, one of the system calls has [`CALL_MEMORY`].
    pub reads_again: u8,
    pub reserved: u8,
    /// Bit set of the contexts between thread id and payload. Bits from [`CONTEXT_OWN`] on are contexts of this event
    /// alone.
    pub contexts: u64,
    /// Index of the event's switch in [`Control::on`].
    pub switch_at: u32,
    /// Shortest duration of a system call that is recorded \[us\]; 0 records all. Entry and exit are both written at
    /// return.
    pub slower: u32,
    /// Of this number of events, one is recorded; 0 and 1 record all. See [`Sampled`].
    pub every: u32,
    /// The most events that are recorded in a second; 0 records all.
    pub at_most: u32,
    pub part: [Part; PARTS_MAX],
    /// Filter of the event, and filter of a system call's exit.
    pub filter: [Filter; 2],
}

/// `struct strata_abi_kernel_sampled`: how many events one CPU has seen and left out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Number of events that have passed all tests; counted only if [`Event::every`] is set.
    pub seen: u64,
    /// Events that have passed all tests and were not recorded.
    pub left_out: u64,
}

/// A value of [`Event::slower`]: a system call is recorded when it returns, however long it took.
pub const SLOWER_NONE: u32 = u32::MAX;

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
/// [`Syscall::kind`]: a number, and the time of 8 bytes that it may point to.
pub const ARG_TIMEOUT_NARROW: u8 = 9;
/// Records a socket option, at entry or exit.
pub const ARG_OPTION: u8 = 10;
/// Records some entries of a `struct pollfd` array, at entry or exit.
pub const ARG_POLL: u8 = 11;
/// Records the descriptors in an `fd_set`, at entry or exit.
pub const ARG_SET: u8 = 12;
/// [`Syscall::exit_kind`]: some entries of an array of `struct epoll_event`.
pub const ARG_EVENTS: u8 = 13;
/// [`Syscall::exit_kind`]: the socket's address and the length in the first `struct mmsghdr`.
pub const ARG_MESSAGES: u8 = 14;
/// [`Syscall::exit_kind`]: the pieces of a structure; the number of their [`Layout`] is added to this value.
pub const ARG_LAYOUT: u8 = 64;
/// [`Syscall::kind`]: bytes of user memory; their number is added to this value.
pub const ARG_MEMORY: u8 = 128;
/// Most bytes of an [`ARG_MEMORY`].
pub const MEMORY_MAX: u8 = 64;
/// Most bytes of an [`ARG_NAME`], with its NUL.
pub const NAME_MAX: u8 = 64;
/// Most elements of a list.
pub const ELEMENTS_MAX: u8 = 16;
/// The most entries of an array of `struct pollfd` that are examined.
pub const POLL_MAX: u32 = 64;
/// Most bytes of an [`ARG_OPTION`].
pub const OPTION_MAX: u8 = 16;
pub const LAYOUTS: u32 = 16;
/// Most pieces of a [`Layout`].
pub const PIECES_MAX: usize = 5;
/// Most bytes of a [`Piece`].
pub const PIECE_MAX: u16 = 72;
/// [`Syscall::flags`]: all calls that have no number of their own.
pub const CALL_UNKNOWN: u32 = 1;
/// [`Syscall::flags`]: the call's entry is recorded, and has arguments in memory.
pub const CALL_MEMORY: u32 = 2;
/// [`Syscall::flags`]: the memory that the call fills is valid only if the call was interrupted.
pub const CALL_INTERRUPTED: u32 = 4;
/// [`Syscall::flags`]: the memory that the call fills is valid only if the call does not return 0.
pub const CALL_NOT_ZERO: u32 = 8;
/// [`Syscall::flags`]: its entry is recorded.
pub const CALL_ENTRY: u32 = 16;
/// [`Syscall::flags`]: its exit is recorded.
pub const CALL_EXIT: u32 = 32;
/// [`Syscall::flags`]: the call is being moved to or from another pair of programs.
pub const CALL_MOVES: u32 = 64;
/// [`Syscall::flags`]: the call's entry has one argument in memory, which has a known size or is a socket's address.
/// All others are numbers.
pub const CALL_READS: u32 = 128;
/// [`Syscall::flags`]: the call's exit has one argument in memory, a socket's address or the events of epoll.
pub const CALL_GIVES: u32 = 256;
/// [`Syscall::flags`]: lowest of three bits with the number of the argument of [`CALL_GIVES`].
pub const CALL_GIVES_AT: u32 = 4096;
/// Most bytes of the argument of [`CALL_READS`].
pub const READS_MAX: u8 = 16;
/// [`Syscall::entry_id`], [`Syscall::exit_id`]: none.
pub const NO_ID: u32 = u32::MAX;

/// `struct strata_abi_kernel_syscall`: how one system call is recorded.
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
    /// Bytes of all arguments at entry, if none depends on user memory, or of [`CALL_READS`] without an address; else 0.
    pub fixed_bytes: u8,
    pub nr_args: u8,
    /// Offset of each argument in the payload, if `fixed_bytes` is not 0 \[byte\].
    pub offset: [u8; 6],
    /// Bit set of [`CALL_UNKNOWN`], [`CALL_MEMORY`], [`CALL_INTERRUPTED`] and [`CALL_NOT_ZERO`].
    pub flags: u32,
}

/// `struct strata_abi_kernel_piece`: a byte range to copy from a structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub offset: u16,
    pub bytes: u16,
}

/// `struct strata_abi_kernel_layout`: the pieces of a structure that are recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub nr_pieces: u16,
    /// Distance from the start of the structure to the end of the last piece \[byte\].
    pub bytes: u16,
    pub piece: [Piece; PIECES_MAX],
}
