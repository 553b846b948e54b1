/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - what the tracer and its BPF programs (probe/kernel) share: maps, and the constants of each program.
 *
 * Both come from one build, and the maps live no longer than the session: there is no version.
 *
 * Maps, shared by all programs of a session:
 *   rings     mmapable array, key: CPU; value: one stream (abi/ring.h) and STRATA_ABI_KERNEL_SLACK
 *   control   the section .data.control: one struct strata_abi_kernel_control, mapped by the tracer
 *   tracked   hash, key: struct strata_abi_kernel_track, value: u32; which processes are tracked
 *   told      array of one value, see STRATA_ABI_KERNEL_ON_TELLS
 *   followed  task storage: u32, one of STRATA_ABI_KERNEL_FOLLOW_*; not there: none
 *
 * The constant `event` of a program (.rodata.event, frozen before the program is loaded) defines what the program
 * records: the verifier knows its values and removes code that is not needed. Programs of system calls also have the
 * table `syscalls` (.data.syscalls), a struct strata_abi_kernel_syscall for each call; the tracer has it mapped.
 */
#ifndef STRATA_ABI_KERNEL_H
#define STRATA_ABI_KERNEL_H

#include <strata/abi/ring.h>
#include <strata/abi/sampled.h>
#include <strata/abi/stack_copy.h>

/* Room after each stream in a value of `rings`, since the verifier assumes that a record may end there [byte]. */
#define STRATA_ABI_KERNEL_SLACK 8192u

/* Largest payload of a record [byte]. A longer text is cut, which its length shows. */
#define STRATA_ABI_KERNEL_PAYLOAD_MAX 3072u

/* Longest text of one field, and longest arguments of a program if longer ones are requested [byte]. */
#define STRATA_ABI_KERNEL_TEXT_MAX  1024u
#define STRATA_ABI_KERNEL_ARGV_MAX  8192u
#define STRATA_ABI_KERNEL_PARTS_MAX 24u
#define STRATA_ABI_KERNEL_TESTS_MAX 24u
#define STRATA_ABI_KERNEL_EARLY_MAX 4u
#define STRATA_ABI_KERNEL_SYSCALLS  1024u

/* Indices of `syscalls`: numbers of 64-bit programs, from COMPAT on of 32-bit ones, then calls without an entry of their own. */
#define STRATA_ABI_KERNEL_COMPAT	 512u
#define STRATA_ABI_KERNEL_COMPAT_UNKNOWN 1022u
#define STRATA_ABI_KERNEL_UNKNOWN	 1023u

/*
 * The map `followed` has two bits for each number that a task can have, 16 tasks in a word, the lowest first. Values:
 */
#define STRATA_ABI_KERNEL_FOLLOW_TASKS	 4194304u
#define STRATA_ABI_KERNEL_FOLLOW_NONE	 0u
#define STRATA_ABI_KERNEL_FOLLOW_AT_EXEC 1u /* recorded from its next execve on */
#define STRATA_ABI_KERNEL_FOLLOW_ALL	 2u /* recorded, with all tasks that it creates */

/* Number of switches, which turn programs on and off one by one. Programs beyond that number share the switch 0. */
#define STRATA_ABI_KERNEL_SWITCHES   8128u
#define STRATA_ABI_KERNEL_ON	     1u
#define STRATA_ABI_KERNEL_ON_TRACKED 2u /* with ON: only tracked processes are recorded */
/*
 * Roles of two programs of one event while one replaces the other. The one that TELLS runs first, records while `turn` of
 * the control is 0, and notes in the map `told` that it has. The one that ASKS clears that note, and records the event if
 * there was none. So exactly one of them records each event. Of system calls, this concerns those with CALL_MOVES.
 */
#define STRATA_ABI_KERNEL_ON_TELLS 4u
#define STRATA_ABI_KERNEL_ON_ASKS  8u
/* The map `told` has a bit for each number that a task can have, the lowest first, and for each CPU's idle task. */
#define STRATA_ABI_KERNEL_TOLD_WORDS ((STRATA_ABI_KERNEL_FOLLOW_TASKS + 8192u) / 32)

/*
 * Restriction to tracked processes. `tracked` of the control has a bit for each restricted kind: for each of these,
 * one key of the process must be in the map `tracked`. From bit TRACK_PREFIXES on, it has a bit for each length (1 to
 * 15 bytes) of beginnings of names in the map; the bit TRACK_GENERATION is the generation of the valid keys. With
 * the bit TRACK_FOLLOWED, events without `followed` are of the whole machine, whoever runs.
 */
#define STRATA_ABI_KERNEL_TRACK_PID	   0u
#define STRATA_ABI_KERNEL_TRACK_UID	   1u /* real */
#define STRATA_ABI_KERNEL_TRACK_GID	   2u /* real */
#define STRATA_ABI_KERNEL_TRACK_NAME	   3u /* of a thread, or of the program's file; NULs after it */
#define STRATA_ABI_KERNEL_TRACK_CGROUP	   4u /* one that has the process in it or below it */
#define STRATA_ABI_KERNEL_TRACK_NAMED	   5u /* with TRACK_NAME: found by the tracer */
#define STRATA_ABI_KERNEL_TRACK_PREFIXES   8u
#define STRATA_ABI_KERNEL_TRACK_FOLLOWED   30u
#define STRATA_ABI_KERNEL_TRACK_GENERATION 31u
#define STRATA_ABI_KERNEL_TRACK_MAX	   1024u /* keys of one generation */
#define STRATA_ABI_KERNEL_TRACK_LEVELS	   16u

struct strata_abi_kernel_track {
	uint16_t kind;
	uint8_t generation;
	uint8_t bytes; /* of a name's beginning; 0: whole names, and other kinds */
	uint32_t reserved;
	uint64_t value[2];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_track) == 24, "kernel track size");

/*
 * offset  size  field        unit     written by
 *      0     4  tracked               tracer, one store: STRATA_ABI_KERNEL_TRACK_*
 *      4     4  following             tracer; 1: events with `followed` only of tasks with FOLLOW_ALL
 *      8     4  tracer                tracer, and the walk over all tasks; the tracer's tgid: events with
 *                                          `followed` are not recorded of it
 *     12     2  changing              tracer; 1: there are programs that tell, those that reject early, too
 *     14     2  turn                  tracer, one store; 1: those that ask record, and who tells does not
 *     16     8  unreadable   field    programs, atomic; user memory that could not be read, at exit either
 *     24     8  cut          field    programs, atomic; text longer than STRATA_ABI_KERNEL_TEXT_MAX
 *     32     8  unread       field    programs, atomic; could not be read, of calls that have not returned yet:
 *                                          of those that never do, unreadable
 *     40     8  uncounted    field    programs, atomic; counters that could not be read
 *     48    16  full, busy   event    programs, atomic; not counted: no room for its key, or in use (count.h)
 *     64  8128  on                    tracer; at `switch_at` of a program STRATA_ABI_KERNEL_ON_*. Looked at
 *                                          first, but for early tests
 */
struct strata_abi_kernel_control {
	uint32_t tracked;
	uint32_t following;
	uint32_t tracer;
	uint16_t changing;
	uint16_t turn;
	uint64_t unreadable;
	uint64_t cut;
	uint64_t unread;
	uint64_t uncounted;
	uint64_t full, busy;
	uint8_t on[STRATA_ABI_KERNEL_SWITCHES];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_control) == 8192, "kernel control size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_kernel_control, unreadable) == 16, "unreadable");

/*
 * A record is a header of the ring's "large" format, u32 tid (context of every record), further contexts if any are
 * requested, then the payload, byte-packed. The payload consists of parts, in order:
 *
 *   COPY      `bytes` bytes at `offset` of the source
 *   TEXT      of a __data_loc word at `offset`: u16 length, that many bytes
 *   TEXT_REL  of a __rel_loc word at `offset`, likewise; counted from behind the word
 *   BYTES     as TEXT, for a dynamic array that is no text: u16 length in bytes, the bytes
 *   BYTES_REL as BYTES, __rel_loc
 * and of uprobes and USDT probes, where the source is the registers (struct pt_regs):
 *   REGISTER  `bytes` bytes of the register at `offset`
 *   MEMORY    `bytes` bytes of user memory at the register's value (0 of NO_REGISTER) plus `addend` plus,
 *             if `scale` is not 0, `scale` times the value of the register at `index`
 *   CONSTANT  `bytes` bytes of `addend`
 *   STRING    the user's string at the address that REGISTER would give: u16 length, bytes without NUL
 *   STRING_AT the user's string at the address that the 8 bytes have which MEMORY would give
 *   UNREAD    u32, bit i: part i of kind MEMORY could not be read; the last part of an event that has such
 * A string ends at its NUL, or where `bytes` says: LENGTH_NUMBER | a number of bytes; or 1 + the number of the part
 * of this event that has the length, | LENGTH_SIGNED if that may be negative, which is no length. At most TEXT_MAX - 1
 * bytes are recorded. A string that cannot be read is its address as text ("0x55d0"), a number 0.
 *
 * The source of a tracepoint of type tp is the context, with the offsets of the kernel's `format` file; of
 * a tp_btf program, the payload that the program makes itself: its parts are one COPY.
 */
#define STRATA_ABI_KERNEL_COPY	    0u
#define STRATA_ABI_KERNEL_TEXT	    1u
#define STRATA_ABI_KERNEL_TEXT_REL  2u
#define STRATA_ABI_KERNEL_BYTES	    3u
#define STRATA_ABI_KERNEL_BYTES_REL 4u
#define STRATA_ABI_KERNEL_REGISTER  5u
#define STRATA_ABI_KERNEL_MEMORY    6u
#define STRATA_ABI_KERNEL_CONSTANT  7u
#define STRATA_ABI_KERNEL_STRING    8u
#define STRATA_ABI_KERNEL_STRING_AT 9u
#define STRATA_ABI_KERNEL_UNREAD    10u

/* Bits in `bytes` of a string part, which tell how its length is given. */
#define STRATA_ABI_KERNEL_LENGTH_NUMBER 0x8000u
#define STRATA_ABI_KERNEL_LENGTH_SIGNED 0x4000u
#define STRATA_ABI_KERNEL_LENGTH_PART	0x3fffu
#define STRATA_ABI_KERNEL_NO_REGISTER	UINT16_MAX

struct strata_abi_kernel_part {
	uint8_t kind;
	uint8_t scale;	 /* 1, 2, 4 or 8; 0: there is no index */
	uint16_t offset; /* [byte] */
	uint16_t bytes;
	uint16_t index; /* [byte] */
	int64_t addend;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_part) == 16, "kernel part size");

/*
 * Contexts of the current thread that records may have after tid, in this order, byte-packed:
 *   PID, PPID, UID, GID, PRIO  4 bytes (real ids; PRIO 100 less than the kernel's, as LTTng has it)
 *   VPID, VTID, VPPID          4 bytes: numbers in the thread's own PID namespace; VPPID 0: it is outside of it
 *   CGROUP_NS to UTS_NS        4 bytes: numbers of its namespaces; 0: it has left them, at its end
 *   PROCNAME                   16 bytes, NULs behind it
 *   CGROUP                     8 bytes: number of its group of version 2
 *   COUNTER to COUNTER + 7     8 bytes: what the CPU's perf event has counted; 0: it could not be read
 *   STACK, USER_STACK          u32 n, n times u64 address, the innermost first; then STACK_COPY, see stack_copy.h
 */
#define STRATA_ABI_KERNEL_CONTEXT_PID	     0u
#define STRATA_ABI_KERNEL_CONTEXT_PPID	     1u
#define STRATA_ABI_KERNEL_CONTEXT_PROCNAME   2u
#define STRATA_ABI_KERNEL_CONTEXT_UID	     3u
#define STRATA_ABI_KERNEL_CONTEXT_GID	     4u
#define STRATA_ABI_KERNEL_CONTEXT_PRIO	     5u
#define STRATA_ABI_KERNEL_CONTEXT_CGROUP     6u
#define STRATA_ABI_KERNEL_CONTEXT_VPID	     7u
#define STRATA_ABI_KERNEL_CONTEXT_VTID	     8u
#define STRATA_ABI_KERNEL_CONTEXT_VPPID	     9u
#define STRATA_ABI_KERNEL_CONTEXT_CGROUP_NS  10u
#define STRATA_ABI_KERNEL_CONTEXT_IPC_NS     11u
#define STRATA_ABI_KERNEL_CONTEXT_MNT_NS     12u
#define STRATA_ABI_KERNEL_CONTEXT_NET_NS     13u
#define STRATA_ABI_KERNEL_CONTEXT_PID_NS     14u
#define STRATA_ABI_KERNEL_CONTEXT_TIME_NS    15u
#define STRATA_ABI_KERNEL_CONTEXT_USER_NS    16u
#define STRATA_ABI_KERNEL_CONTEXT_UTS_NS     17u
#define STRATA_ABI_KERNEL_CONTEXT_COUNTER    18u /* the first of COUNTERS */
#define STRATA_ABI_KERNEL_CONTEXT_STACK	     26u
#define STRATA_ABI_KERNEL_CONTEXT_USER_STACK 27u

/* Number of counters of a session; counter i of a CPU is entry CPU * COUNTERS + i of the map `counters`. */
#define STRATA_ABI_KERNEL_COUNTERS 8u

/* First bit of an event's `contexts` for a context that only this event's records have, in the same order. */
#define STRATA_ABI_KERNEL_CONTEXT_OWN  32u
#define STRATA_ABI_KERNEL_STACK_FRAMES 64u
/* The most bytes of all contexts of a record together; behind SLACK where there are any [byte]. */
#define STRATA_ABI_KERNEL_CONTEXT_MAX 1184u

/*
 * A test of a filter. `yes` and `no` are the number of the test that is made next, greater than this one's, or PASS
 * or REJECT.
 *
 * What is tested: `operand`
 *   FIELD    `bytes` (1, 2, 4, 8) at `offset` of the source, sign-extended if `is_signed`; of sys_enter
 *            and sys_exit the source is the six arguments, or the return value, 8 bytes each; of uprobes
 *            the registers
 *   PID, TID, CPU, CGROUP
 *   COMM     the 16 bytes of the task's name
 *   CHARS    16 bytes at `offset` of the source, a char array
 * Numbers: (operand & mask) `comparison` value. Text: both words equal `value` and `value_high` under
 * `mask` and `mask_high`.
 */
#define STRATA_ABI_KERNEL_FIELD		 0u
#define STRATA_ABI_KERNEL_PID		 1u
#define STRATA_ABI_KERNEL_TID		 2u
#define STRATA_ABI_KERNEL_CPU		 3u
#define STRATA_ABI_KERNEL_CGROUP	 4u
#define STRATA_ABI_KERNEL_COMM		 5u
#define STRATA_ABI_KERNEL_CHARS		 6u
#define STRATA_ABI_KERNEL_EQUAL		 0u
#define STRATA_ABI_KERNEL_LESS		 1u
#define STRATA_ABI_KERNEL_LESS_OR_EQUAL	 2u
#define STRATA_ABI_KERNEL_LESS_SIGNED	 3u
#define STRATA_ABI_KERNEL_LESS_EQ_SIGNED 4u
#define STRATA_ABI_KERNEL_PASS		 254u
#define STRATA_ABI_KERNEL_REJECT	 255u

struct strata_abi_kernel_test {
	uint8_t operand;
	uint8_t comparison;
	uint8_t bytes;
	uint8_t is_signed;
	uint16_t offset;
	uint8_t yes;
	uint8_t no;
	uint64_t mask;
	uint64_t value;
	uint64_t mask_high;
	uint64_t value_high;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_test) == 40, "kernel test size");

/*
 * The first `nr_early` tests are a filter of their own, which is made before anything else is read. They test PID,
 * TID, CPU, CGROUP or COMM, for system calls also FIELD, a whole argument, and lead to each other, PASS or REJECT.
 * Events that they pass are decided by the other tests, if there are any.
 */
struct strata_abi_kernel_filter {
	uint32_t nr_tests; /* 0: everything passes */
	uint32_t nr_early; /* EARLY_MAX at most */
	struct strata_abi_kernel_test test[STRATA_ABI_KERNEL_TESTS_MAX];
};

/* Constant `event` of a program, in .rodata. In programs of system calls, filter[1] is the exit's. */
struct strata_abi_kernel_event {
	uint32_t id;	  /* event record class; system calls: the first of three, see below */
	uint8_t followed; /* 1: only of followed tasks, if any are */
	uint8_t nr_parts;
	uint8_t reads_again; /* of system calls: one of them has CALL_MEMORY */
	uint8_t reserved;
	uint64_t contexts;  /* between tid and payload: bits CONTEXT_*, twice */
	uint32_t switch_at; /* index in `on` of the control, less than SWITCHES */
	uint32_t slower; /* system calls: least recorded duration [us]; 0: all. See disk_faults.bpf.h, too */
	uint32_t every; /* one of so many events is recorded; 0 and 1: all. See strata_abi_kernel_sampled */
	uint32_t at_most; /* so many are recorded in a second; 0: all */
	struct strata_abi_kernel_part part[STRATA_ABI_KERNEL_PARTS_MAX];
	struct strata_abi_kernel_filter filter[2];
};

/*
 * Description of a system call. Arguments are recorded in order, each as its kind says:
 *   NONE      not recorded (there is no such argument)
 *   U32, U64  4 or 8 bytes of the register (signed ones too)
 *   PATH      the user's string at it: bytes and a NUL
 *   NAME      the same, of at most NAME_MAX bytes with the NUL
 *   STRINGS   as argv: u16 length, that many bytes: the strings, quoted as a shell does; " ..." where there is more
 *   SOCKADDR  u16 family, u16 port (network order), u8 length, that many bytes of the address; how long
 *             the whole may be is in the next argument
 *   MESSAGE   as SOCKADDR, the name of the struct msghdr at it
 *   MEMORY|n  n bytes at it (4 to MEMORY_MAX, whole words of 4), as they are; zeroes if there are none
 *   TIMEOUT   8 bytes of the register, then the 16 bytes at it if futex's command (argument 1) has it wait, else
 *             zeroes
 *   TIMEOUT_NARROW  the same with 8 bytes at it
 *   OPTION    u8 n, n words of 4 bytes: a socket's option of the level in argument 1; how many bytes it has is
 *             in the next argument. n is 0 if they are no whole words, more than OPTION_MAX, or, of other levels
 *             than SOL_SOCKET, more than 4
 *   POLL      u8 n, n times i32 fd, u8 n, n times u16 events: the first of an array of struct pollfd, whose number
 *             is in the next argument
 *   SET       u8 n, n times u16: the lowest descriptors in an fd_set, whose size in bits is in argument 0
 * Of lists n is at most ELEMENTS_MAX. A text that cannot be read is its address as text ("0x55d0"), anything else is empty or zeroes. What can be
 * read then is in a record in front of the exit: u32 place in `syscalls`, u8 argument, and
 *   id      syscall_text     bytes and a NUL
 *   id + 1  syscall_address  as SOCKADDR
 *   id + 2  syscall_memory   u8 number of words, that many words of 4 bytes
 * At exit first the return value (i64), then those arguments whose exit kind is not NONE, as they are
 * in memory then: MEMORY, MESSAGE, SOCKADDR and OPTION (the length is *next), PATH (no longer than what is
 * returned), SET, and
 *   POLL      of the first POLL_MAX, those with revents, and these instead of events
 *   EVENTS    u8 n, n times u32 events, u8 n, n times u64 data: of an array of struct epoll_event, as many as are
 *             returned
 *   MESSAGES  as MESSAGE, of the first struct mmsghdr at it, then u32, its msg_len
 *   LAYOUT|n  the pieces of `layouts` number n, one behind the other; zeroes if there are none
 */
#define STRATA_ABI_KERNEL_ARG_NONE	     0u
#define STRATA_ABI_KERNEL_ARG_U32	     1u
#define STRATA_ABI_KERNEL_ARG_U64	     2u
#define STRATA_ABI_KERNEL_ARG_PATH	     3u
#define STRATA_ABI_KERNEL_ARG_SOCKADDR	     4u
#define STRATA_ABI_KERNEL_ARG_MESSAGE	     5u
#define STRATA_ABI_KERNEL_ARG_STRINGS	     6u
#define STRATA_ABI_KERNEL_ARG_NAME	     7u
#define STRATA_ABI_KERNEL_ARG_TIMEOUT	     8u
#define STRATA_ABI_KERNEL_ARG_TIMEOUT_NARROW 9u
#define STRATA_ABI_KERNEL_ARG_OPTION	     10u
#define STRATA_ABI_KERNEL_ARG_POLL	     11u
#define STRATA_ABI_KERNEL_ARG_SET	     12u
#define STRATA_ABI_KERNEL_ARG_EVENTS	     13u
#define STRATA_ABI_KERNEL_ARG_MESSAGES	     14u
#define STRATA_ABI_KERNEL_ARG_LAYOUT	     64u
#define STRATA_ABI_KERNEL_ARG_MEMORY	     128u

#define STRATA_ABI_KERNEL_MEMORY_MAX   64u /* [byte] */
#define STRATA_ABI_KERNEL_NAME_MAX     64u /* [byte] */
#define STRATA_ABI_KERNEL_ELEMENTS_MAX 16u
#define STRATA_ABI_KERNEL_POLL_MAX     64u
#define STRATA_ABI_KERNEL_OPTION_MAX   16u /* [byte] */
#define STRATA_ABI_KERNEL_LAYOUTS      16u
#define STRATA_ABI_KERNEL_PIECES_MAX   5u
#define STRATA_ABI_KERNEL_PIECE_MAX    72u /* [byte] */
/*
 * UNKNOWN: it has no number of its own; u32 number and u32 kind of call precede the arguments. MEMORY: its entry is recorded,
 * with what is read from memory. Results exist only if it was INTERRUPTED (the time that was left), or is NOT_ZERO.
 */
#define STRATA_ABI_KERNEL_CALL_UNKNOWN	   1u
#define STRATA_ABI_KERNEL_CALL_MEMORY	   2u
#define STRATA_ABI_KERNEL_CALL_INTERRUPTED 4u
#define STRATA_ABI_KERNEL_CALL_NOT_ZERO	   8u
/* What is recorded. Both are set and cleared while programs run; the rest stays as it was when one was first set. */
#define STRATA_ABI_KERNEL_CALL_ENTRY 16u
#define STRATA_ABI_KERNEL_CALL_EXIT  32u
#define STRATA_ABI_KERNEL_CALL_MOVES 64u /* another pair of programs takes it over: ON_TELLS */
/* Its entry has numbers and one SOCKADDR, TIMEOUT or MEMORY|n, n to READS_MAX. */
#define STRATA_ABI_KERNEL_CALL_READS 128u
/* Its exit has one SOCKADDR or EVENTS, of argument flags / GIVES_AT & 7. */
#define STRATA_ABI_KERNEL_CALL_GIVES	256u
#define STRATA_ABI_KERNEL_CALL_GIVES_AT 4096u
#define STRATA_ABI_KERNEL_READS_MAX	16u	   /* [byte] */
#define STRATA_ABI_KERNEL_NO_ID		UINT32_MAX /* no record class: the event is not recorded */

struct strata_abi_kernel_syscall {
	uint32_t entry_id;
	uint32_t exit_id;
	uint8_t kind[6];
	uint8_t exit_kind[6];
	/*
	 * Size of all arguments, and the offset of each, if all kinds are NONE, U32 or U64, or the call has CALL_READS
	 * (an address counts as empty); else 0. Also 0 for i386's calls, whose arguments are in other registers.
	 */
	uint8_t fixed_bytes;
	uint8_t nr_args;
	uint8_t offset[6];
	uint32_t flags; /* STRATA_ABI_KERNEL_CALL_* */
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_syscall) == 32, "kernel syscall size");

/* A piece of a structure that is recorded: part of an entry of `layouts`, which all system calls share. */
struct strata_abi_kernel_piece {
	uint16_t offset; /* [byte] */
	uint16_t bytes;	 /* at most PIECE_MAX */
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_piece) == 4, "kernel piece size");

struct strata_abi_kernel_layout {
	uint16_t nr_pieces;
	uint16_t bytes; /* from the structure's begin to the end of all pieces */
	struct strata_abi_kernel_piece piece[STRATA_ABI_KERNEL_PIECES_MAX];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_layout) == 24, "kernel layout size");

#endif /* STRATA_ABI_KERNEL_H */
