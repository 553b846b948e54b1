/* SPDX-License-Identifier: MIT */
/*
 * user.h - what a traced process and its tracers share: one sealed memfd per process.
 *
 * The process makes it (name "strata", sealed with F_SEAL_SHRINK, so that it can grow and never shrink)
 * before main(), fills in its tracepoints, writes the magic number last, and from then on is passive.
 * A tracer finds the memfd through /proc/PID/fd or receives it in an announcement, and does everything
 * else from outside: claims a session slot, makes room for a channel, switches tracepoints on.
 *
 *   0                   struct strata_abi_user_control                  one page
 *   SESSIONS_OFFSET     struct strata_abi_user_session [NR_SESSIONS]    one page each
 *   STATES_OFFSET       struct strata_abi_user_state   [NR_STATES]      one for each tracepoint
 *   DESCRIPTIONS_OFFSET what the tracepoints are called, their fields and sites, and what is loaded; append-only
 *   FILTERS_OFFSET      filters (filter.h), one place of STRATA_ABI_FILTER_BYTES for each session
 *   RULES_OFFSET        the second place of each session's rules, one page each
 *   CHANNELS_OFFSET     channels (ring.h), each at a multiple of 4096; where, its session slot says
 *
 * Stability: one version number for the whole layout; a tracer refuses any other. Offsets are asserted here and kept
 * in abi/golden/user.txt. A new field in the place of .reserved, which is 0 where a process does not know it, needs
 * no new number. All values are in the byte order of the machine.
 *
 * Trust: for a tracer every byte is hostile, at any time. A process trusts its tracers: whoever may
 * write here may also write to /proc/PID/mem.
 */
#ifndef STRATA_ABI_USER_H
#define STRATA_ABI_USER_H

#include <strata/abi/announce.h>
#include <strata/abi/filter.h>
#include <strata/abi/ring.h>

#define STRATA_ABI_USER_MAGIC	UINT64_C(0x53545241544155ff) /* "STRATAU", 0xff */
#define STRATA_ABI_USER_VERSION 6u

#define STRATA_ABI_USER_NR_SESSIONS	    32u
#define STRATA_ABI_USER_NR_STATES	    16384u
#define STRATA_ABI_USER_SESSIONS_OFFSET	    4096u
#define STRATA_ABI_USER_STATES_OFFSET	    135168u
#define STRATA_ABI_USER_DESCRIPTIONS_OFFSET 2232320u
#define STRATA_ABI_USER_FILTERS_OFFSET	    5767168u
#define STRATA_ABI_USER_RULES_OFFSET	    6291456u
#define STRATA_ABI_USER_CHANNELS_OFFSET	    6422528u
#define STRATA_ABI_USER_DESCRIPTIONS_BYTES \
	(STRATA_ABI_USER_FILTERS_OFFSET - STRATA_ABI_USER_DESCRIPTIONS_OFFSET)
#define STRATA_ABI_USER_RULES_BYTES 3840u /* rule text of one session, see rule.h */
#define STRATA_ABI_USER_NAME_BYTES  64u

/* Name of the memfd. A process that cannot be traced leaves an empty memfd with the name "strata-refused:REASON". */
#define STRATA_ABI_USER_MEMFD	      "strata"
#define STRATA_ABI_USER_MEMFD_REFUSED "strata-refused:"

/*
 * Values of strata_abi_user_control.clock_kind, the source of timestamps: always CLOCK_MONOTONIC [ns] of the machine,
 * without the offset of a time namespace.
 */
#define STRATA_ABI_USER_CLOCK_VDSO 0u /* clock_gettime() */
#define STRATA_ABI_USER_CLOCK_TSC  1u /* the cycle counter and the slots below */

/*
 * Conversion of the cycle counter to CLOCK_MONOTONIC:
 *
 *   ns = base_ns + ((cycles - base_cycles) * multiplier >> 32)     in 128-bit arithmetic
 *
 * A tracer writes slot (clock_index + 1) % 8, then stores clock_index + 1 into the slot's index, and into clock_index
 * (release). Each slot continues at the time that the slot before had at its base_cycles: slewed, never stepped. A
 * process loads a slot's index (acquire), the slot and the counter, then clock_index, and takes another slot unless
 * the two are equal. Writer: the tracer of the lowest session slot that is alive; before the first one, the process
 * itself.
 *
 * offset  size  field        unit    written by
 *      0     8  base_cycles  cycle   tracer
 *      8     8  multiplier   ns << 32 per cycle; 0: unusable, clock_gettime() is
 *     16     8  base_ns      ns      tracer
 *     24     8  index        its clock_index, last (release); another number while it is unusable
 */
struct strata_abi_user_clock_slot {
	uint64_t base_cycles;
	uint64_t multiplier;
	uint64_t base_ns;
	uint64_t index;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_clock_slot) == 32, "clock slot size");

#define STRATA_ABI_USER_NR_CLOCK_SLOTS 8u

/*
 * offset  size  field               unit   written by
 *      0     8  magic                      process, last (release)
 *      8     4  version                    process
 *     12     4  pid                        process; in its own PID namespace
 *     16     4  publish                    process; STRATA_ABI_RING_BY_*: how its channels are written
 *     20     4  nr_cpus             CPU    process; streams that a channel of it needs
 *     24     4  nr_states                  process; atomic, release: states below it are described
 *     28     4  descriptions_bytes  byte   process; used so far
 *     32     8  generation                 process; atomic, release, last: changes with every (un)loaded object
 *     40     8  started_ns          ns     process; CLOCK_MONOTONIC
 *     48     4  refused                    process; tracepoints that found no room here
 *     52     4  patch_errno                process; why it could not patch its own sites; 0: it could
 *     56     4  clock_kind                 process or tracer; STRATA_ABI_USER_CLOCK_*
 *     60     4  parent_pid                 process; whose fork it is, in its namespace; 0: nobody's
 *     64    64  name                       process; short name, NUL-terminated
 *    128     8  clock_index                see above; atomic
 *    136     4  claimed_sessions           whoever claims or frees a slot; atomic, sequentially consistent. Bit s: slot
 *                                          s may be in use; the pages of the others need not even be looked at
 *    140     4  without_clock              process; atomic: threads that have told libstrata that they may not read the
 *                                          counter; ~0: all. One in strict mode beyond these would die of a record
 *    144     4  objects                    process; atomic, release: the last that it has noted, see loaded.h
 *    148     4  objects_refused            how many found no room
 *    152     4  objects_unseen             how often one came and went between two looks
 *    156     4  no_session                 process; STRATA_ABI_USER_NO_SESSION_*: why it has no session by its environment
 *    160     4  no_session_errno           process; of NO_SESSION_SOCKET: why it could not connect
 *    164    28  reserved
 *    192   256  clock                      see above
 */
struct strata_abi_user_control {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	uint32_t publish;
	uint32_t nr_cpus;
	uint32_t nr_states;
	uint32_t descriptions_bytes;
	uint64_t generation;
	uint64_t started_ns;
	uint32_t refused, patch_errno;
	uint32_t clock_kind;
	uint32_t parent_pid;
	char name[STRATA_ABI_USER_NAME_BYTES];
	uint64_t clock_index;
	uint32_t claimed_sessions;
	uint32_t without_clock;
	uint32_t objects, objects_refused, objects_unseen;
	uint32_t no_session, no_session_errno;
	uint32_t reserved[7];
	struct strata_abi_user_clock_slot clock[STRATA_ABI_USER_NR_CLOCK_SLOTS];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_control) == 448, "control size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_control, generation) == 32, "generation");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_control, clock_index) == 128, "clock_index");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_control, clock) == 192, "clock");

/*
 * Values of strata_abi_user_session.status. Tracers that claim or release a slot, or choose a channel's place, hold
 * flock(LOCK_EX) on a file description of their own of the memfd; the kernel releases the lock if they die.
 *
 *   FREE ──claim──▶ SETUP ──channel, rules, ids are there──▶ ACTIVE ──stop──▶ ENDING ──▶ FREE
 *
 * The slot's bit in control.claimed_sessions is set before SETUP and cleared before FREE.
 *
 * Rules change while the slot is ACTIVE: the tracer writes the text to the place that is not in use, stores
 * .rules_version, then looks at all tracepoints. A process that describes an object looks at .rules_version before
 * and after: so one of the two sees what the other did.
 *
 * A filter does not change. Another slot gets the new filter, and .replaces of that slot names the session that it
 * replaces. When the new slot is ACTIVE, each tracepoint's bits in .enabled change hands by one atomic operation, and
 * nothing new is switched on for the replaced session: so each event is recorded by exactly one of them.
 *
 * A slot whose heartbeat is older than STRATA_ABI_USER_DEAD_NS belongs to a dead tracer: any tracer may
 * free it, and the process stops writing to it when it next finds the channel full.
 */
#define STRATA_ABI_USER_SESSION_FREE   0u
#define STRATA_ABI_USER_SESSION_SETUP  1u
#define STRATA_ABI_USER_SESSION_ACTIVE 2u
#define STRATA_ABI_USER_SESSION_ENDING 3u

#define STRATA_ABI_USER_DEAD_NS UINT64_C(10000000000)

/* Values of strata_abi_user_session.flags */
#define STRATA_ABI_USER_SESSION_INHERIT	     1u /* children by fork() inherit it */
#define STRATA_ABI_USER_SESSION_LARGE_HEADER 2u /* headers are "large", else "compact" */
#define STRATA_ABI_USER_SESSION_OVERWRITE    4u /* the channel's loss mode */
#define STRATA_ABI_USER_SESSION_VTID \
	8u /* a record's payload has its thread's id in front of it, in the process' namespace: 4 bytes */
#define STRATA_ABI_USER_SESSION_SPANS \
	16u /* its filter asks for the duration: both ends of a span are recorded when it ends, or none */

/*
 * Contexts of a record, which describe the moment of the event; in a session with SESSION_SPANS those of both ends of a span
 * describe its end. They are between the thread's id and the payload, in
 * the session's order, each at most once. Numbers are in the byte order of the machine; names are text of 17 bytes,
 * padded with NULs. A value that a process cannot find out is 0 or empty.
 */
#define STRATA_ABI_USER_CONTEXTS_MAX   28u
#define STRATA_ABI_USER_CTX_VPID       1u /* i32 */
#define STRATA_ABI_USER_CTX_PROCNAME   2u /* name of the process, as the kernel has it */
#define STRATA_ABI_USER_CTX_THREADNAME 3u
#define STRATA_ABI_USER_CTX_PTHREAD_ID 4u /* u64 */
#define STRATA_ABI_USER_CTX_CPU_ID     5u /* i32 */
#define STRATA_ABI_USER_CTX_VUID       6u /* u32, then veuid, vsuid, vgid, vegid, vsgid */
#define STRATA_ABI_USER_CTX_VSGID      11u
#define STRATA_ABI_USER_CTX_IP	       12u /* u64: the site's address */
#define STRATA_ABI_USER_CTX_CALLSTACK  13u /* u32 frames, and as many u64, the site first */
#define STRATA_ABI_USER_CTX_CGROUP_NS  14u /* u64, inodes: cgroup ipc mnt net pid time user uts */
#define STRATA_ABI_USER_CTX_UTS_NS     21u
#define STRATA_ABI_USER_CTX_PAGE_FAULT 22u /* u64, of the thread so far, as the four after it: */
#define STRATA_ABI_USER_CTX_MINOR      23u /* page faults without, and with input */
#define STRATA_ABI_USER_CTX_MAJOR      24u
#define STRATA_ABI_USER_CTX_SWITCHES   25u /* context switches */
#define STRATA_ABI_USER_CTX_TASK_CLOCK 26u /* CPU time [ns] */
#define STRATA_ABI_USER_CTX_CGROUP     27u /* u64: number of the process' control group of version 2 */

#define STRATA_ABI_USER_CALLSTACK_MAX 16u
#define STRATA_ABI_USER_COMM_BYTES    17u

/*
 * offset  size  field               unit   written by
 *      0     4  status                     tracer (a process with its own request: ACTIVE); atomic, release
 *      4     4  flags                      tracer or process
 *      8     8  generation                 tracer; unlike that of any session before; what a process has
 *                                          mapped is valid only for the generation that it had then
 *     16     8  heartbeat_ns        ns     tracer, a few times a second; atomic. 0: no tracer yet
 *     24     8  channel_offset      byte   tracer or process; from the start of the memfd
 *     32     8  channel_bytes       byte   tracer or process
 *     40     8  subbuf_bytes        byte   tracer or process; for the channels of children
 *     48     4  nr_subbufs                 tracer or process
 *     52     4  next_id                    atomic; event record ids given so far
 *     56     8  discarded_unmapped  record process; atomic: the channel could not be mapped
 *     64     8  discarded_unstaged  record process; atomic: no memory to assemble the record in
 *     72     8  self_stopped               process; atomic: 1 after it left a dead tracer's session
 *     80     4  rules_bytes         byte   tracer or process
 *     84     4  create_errno               process; FREE with the generation that was asked for: why it
 *                                          could not make the channel
 *     88     8  discarded_no_clock  record process; atomic: the thread may not read the clock
 *     96     4  filter_bytes        byte   tracer or process; 0: all events are recorded
 *    100     4  rules_version              tracer; atomic. Even: .rules and .rules_bytes hold, odd: the second place
 *    104     4  other_rules_bytes   byte   tracer; of the second place
 *    108     4  nr_contexts                tracer or process
 *    112     8  replaces                   tracer, before ACTIVE; the generation of the session in whose place this
 *                                          one is; 0: of none
 *    120    28  contexts                   tracer or process; STRATA_ABI_USER_CTX_*
 *    148   100  reserved
 *    248     8  cgroup_id                  tracer, a few times a second; atomic. Of the context; 0: it does not say
 *    256  3840  rules                      tracer or process; see rule.h
 */
struct strata_abi_user_session {
	uint32_t status;
	uint32_t flags;
	uint64_t generation;
	uint64_t heartbeat_ns;
	uint64_t channel_offset;
	uint64_t channel_bytes;
	uint64_t subbuf_bytes;
	uint32_t nr_subbufs;
	uint32_t next_id;
	uint64_t discarded_unmapped;
	uint64_t discarded_unstaged;
	uint64_t self_stopped;
	uint32_t rules_bytes;
	uint32_t create_errno;
	uint64_t discarded_no_clock;
	uint32_t filter_bytes;
	uint32_t rules_version;
	uint32_t other_rules_bytes;
	uint32_t nr_contexts;
	uint64_t replaces;
	uint8_t contexts[STRATA_ABI_USER_CONTEXTS_MAX];
	uint32_t reserved[25];
	uint64_t cgroup_id;
	char rules[STRATA_ABI_USER_RULES_BYTES];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_session) == 4096, "session size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_session, replaces) == 112, "replaces");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_session, rules) == 256, "rules");
STRATA_ABI_ASSERT(STRATA_ABI_USER_SESSIONS_OFFSET + STRATA_ABI_USER_NR_SESSIONS * 4096u ==
			  STRATA_ABI_USER_STATES_OFFSET,
		  "states behind the sessions");

/* Values of strata_abi_user_state.flags */
#define STRATA_ABI_USER_STATE_PRESENT 1u /* described, and its object is loaded */
#define STRATA_ABI_USER_STATE_FLAG    2u /* its sites test .enabled; never write to its code */

#define STRATA_ABI_USER_NO_ID 0xffffu

/*
 * State of one tracepoint. The tracepoint is on for session s while bit s of enabled is set; its records then carry
 * ids[s]. To switch it on, write ids[s], enabled, and, unless STATE_FLAG is set, the sites' opcodes, in this order.
 * To switch it off, write enabled; if that is 0, the opcodes; and ids[s] = NO_ID when the session ends.
 *
 * offset  size  field              unit   written by
 *      0     4  enabled                   atomic; bits are set and cleared by whoever owns the session
 *      4     4  flags                     process; atomic, release
 *      8     4  description        byte   process; from DESCRIPTIONS_OFFSET
 *     12     4  description_bytes  byte   process
 *     16     4  sites              byte   process; from DESCRIPTIONS_OFFSET, multiple of 8
 *     20     4  nr_sites                  process
 *     24    40  reserved
 *     64    64  ids                       owner of the session; atomic; NO_ID: none
 */
struct strata_abi_user_state {
	uint32_t enabled;
	uint32_t flags;
	uint32_t description;
	uint32_t description_bytes;
	uint32_t sites;
	uint32_t nr_sites;
	uint32_t reserved[10];
	uint16_t ids[STRATA_ABI_USER_NR_SESSIONS];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_state) == 128, "state size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_user_state, ids) == 64, "ids");
STRATA_ABI_ASSERT(STRATA_ABI_USER_STATES_OFFSET + STRATA_ABI_USER_NR_STATES * 128u ==
			  STRATA_ABI_USER_DESCRIPTIONS_OFFSET,
		  "descriptions behind the states");
STRATA_ABI_ASSERT(STRATA_ABI_USER_FILTERS_OFFSET +
				  STRATA_ABI_USER_NR_SESSIONS * STRATA_ABI_FILTER_BYTES ==
			  STRATA_ABI_USER_RULES_OFFSET,
		  "rules behind the filters");
STRATA_ABI_ASSERT(STRATA_ABI_USER_RULES_OFFSET + STRATA_ABI_USER_NR_SESSIONS * 4096u ==
			  STRATA_ABI_USER_CHANNELS_OFFSET,
		  "channels behind the rules");

/*
 * Place of a tracepoint in the process' code. x86-64: five bytes, opcode and 32-bit displacement. A9 "test
 * $imm32,%eax" is dormant, E9 "jmp rel32" is on. A tracer writes the opcode only after it has read one of the two
 * opcodes and this displacement there.
 *
 * offset  size  field
 *      0     8  address        in the process
 *      8     4  displacement
 *     12     4  reserved
 */
struct strata_abi_user_site {
	uint64_t address;
	int32_t displacement;
	uint32_t reserved;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_site) == 16, "site size");

#define STRATA_ABI_USER_SITE_DORMANT 0xa9u
#define STRATA_ABI_USER_SITE_ON	     0xe9u

/*
 * A description, byte-packed, [state.description, + description_bytes):
 *
 *   u8 level, u8 span, u16 number of fields, u32 line, string provider, name, file, then the fields
 *
 * span: 1 begins, 2 ends a span whose ends are in one thread; 0: neither. In a session with SESSION_SPANS, a begin has in
 * front of its payload, behind the contexts, how long before its record the span began: u64 [ns]
 *
 * a string is u16 bytes and as many bytes, with no NUL; a field is
 *
 *   u8 type, u8 element, u8 bytes, u8 flags, u8 base, u8 length_bytes, u16 number of labels,
 *   u32 count, string name; with labels: string enumeration, then for each: i64 from, i64 to, string label
 *
 *   type      element         in the record
 *   INTEGER   -               .bytes bytes (1, 2, 4, 8); with labels an enumeration
 *   FLOAT     -               .bytes bytes (4, 8), IEEE 754
 *   STRING    -               bytes up to a NUL, and the NUL
 *   ARRAY     INTEGER, FLOAT, .count elements of .bytes bytes
 *             TEXT            .count bytes of text, padded with NULs
 *   SEQUENCE  as ARRAY        a length of .length_bytes bytes, unsigned, then that many elements
 */
#define STRATA_ABI_USER_INTEGER	 1u
#define STRATA_ABI_USER_FLOAT	 2u
#define STRATA_ABI_USER_STRING	 3u
#define STRATA_ABI_USER_ARRAY	 4u
#define STRATA_ABI_USER_SEQUENCE 5u
#define STRATA_ABI_USER_TEXT	 6u

#define STRATA_ABI_USER_FIELD_SIGNED  1u
#define STRATA_ABI_USER_FIELD_NETWORK 2u /* big-endian, whatever the machine is */
#define STRATA_ABI_USER_FIELD_BOOL    4u /* an integer that is 0 or 1 */

#define STRATA_ABI_USER_FIELDS_MAX 64u
#define STRATA_ABI_USER_NAME_MAX   255u /* bytes of "provider:name" */

/* Log levels, those of syslog(3) and finer ones for debugging; 0 is the most severe. */
#define STRATA_ABI_USER_LEVEL_MAX 14u

#endif /* STRATA_ABI_USER_H */
