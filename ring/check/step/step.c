/* SPDX-License-Identifier: MIT */
/*
 * step.c - interrupt the by-commit way of the production build after every machine instruction.
 *
 * The code under test (LOCAL writers: one CPU and its interrupts) runs a short script of records,
 * cancels and flushes on a stack of its own, the last part of it with the trap flag set. The trap's
 * handler is the *controller*, on the alternate stack. At each instruction boundary it
 *
 *   1. looks at the committed prefix of the packet being filled, as a live reader elsewhere would;
 *   2. takes a snapshot: registers, the script's stack, the ring buffer, the test's own state;
 *   3. interrupts: a nested writer ('w': registers pushed, a record written to its end), or the
 *      reader ('r': takes the next packet, or checks and puts back the one that it holds);
 *   4. goes on from there, and interrupts again at each of the following boundaries, inside of the
 *      nested writer and behind it, until 1, 2 or 3 were made; the rest runs unstepped;
 *   5. verifies everything at the script's end, goes back to the last snapshot, and on from there.
 *
 * So each position, each pair and each triple is tried, at the price of one pass over each rest.
 * Where that is more than the budget allows, the last position is each one, and those before it are every
 * n-th; the n are printed.
 *
 * Verified: each record written is read exactly once, whole, where it was reserved, in order;
 * written + discarded == tried, by reason; written - overwritten == read; time never goes back, and
 * a header's timestamp is found again; a packet that the reader holds does not change; committed
 * says no more than is there, and everything in the end.
 *
 *   step [--budget RUNS] [--only NAME] [--part I/N] [--uprobe 1]
 *   exit: 0 all hold; 1 one does not; 77 not this machine
 *
 * --uprobe: as when somebody records a function of a library that is also here.
 */
#include <stdio.h>

#if defined(__x86_64__) && defined(__linux__)

#include "records.h"
#include <linux/perf_event.h>
#include <signal.h>
#include <ucontext.h>

enum {
	FIRST_NESTED = 16, /* ids of nested records */
	LEVELS = 3,
	STACK_BYTES = 32768,
	RED_ZONE = 128,	 /* below the stack pointer, in use by leaf functions */
	FPU_BYTES = 576, /* fxsave area and xsave header: no wider registers are used here */
	SUBBUFS = 2,
	SUBBUF_BYTES_MAX = 64,
	/* Positions, counters, tables of sub-buffers and frames of one stream. */
	CONTROL_BYTES = sizeof(struct strata_abi_ring_stream) +
			SUBBUFS * sizeof(struct strata_abi_ring_subbuf) +
			(SUBBUFS + 1) * sizeof(struct strata_abi_ring_frame),
	STEPS_MAX = 50000,
	HANG_SECONDS = 400,
	TRAP_FLAG = 0x100,
	DIRECTION_FLAG = 0x400,
};

enum outcome {
	NOT_TRIED = 0,
	PENDING,    /* reserved */
	WRITTEN,    /* committed */
	TAKEN_BACK, /* cancelled, slot free again */
	PADDING,    /* cancelled, slot skipped */
	FULL,
	NESTED,
	TOO_BIG,
};

struct record {
	uint64_t begin;
	uint64_t timestamp;
	enum outcome outcome;
};

struct registers {
	gregset_t general;
	unsigned char fpu[FPU_BYTES];
};

/*
 * The memory that a snapshot holds besides stack and ring: private to the script and to the reader.
 */
struct state {
	uint64_t now; /* of the clock */
	struct record record[RECORDS];
	int stepping;	 /* 1: behind the script's | */
	uint32_t nested; /* interrupting writers so far */
	uint32_t depth;	 /* of which not ended */
	struct registers interrupted[LEVELS];
	struct strata_ring_reader reader;
	struct strata_ring_packet packet; /* that the reader holds */
	uint64_t checksum;		  /* of it */
	uint64_t next_position;		  /* not before this one comes the next record */
	uint64_t time_read;		  /* of the packet or record read last */
	uint64_t discarded_read;
	uint32_t records_read;
	uint32_t packets_read;
	uint8_t was_read[RECORDS];
	uint32_t steps;
};

struct snapshot {
	struct state state;
	struct registers registers;
	unsigned char stack[STACK_BYTES];
	size_t stack_bytes;
	unsigned char control[CONTROL_BYTES];
	unsigned char data[(SUBBUFS + 1) * SUBBUF_BYTES_MAX];
	uint32_t kind; /* of interruption that was made, index in client->kinds */
};

struct client {
	const char *name;
	const struct strata_ring_config *config;
	void (*operate)(uint32_t id, char operation);
	uint32_t subbuf_bytes;
	uint32_t header_bytes;
	uint64_t clock_step; /* passes at each reading of the clock */
	int at_wrap;	     /* positions begin just below 2^64 */
	const char *script;  /* see run_script() */
	const char *kinds;   /* of interruption: w, r */
};

static struct state state;
static const struct client *client;
static struct strata_ring_channel channel;
static struct strata_ring_stream *stream;
static _Alignas(16) unsigned char stack[STACK_BYTES];
static struct snapshot snapshots[LEVELS];
static struct registers main_registers;
static uint32_t level, levels, stride[LEVELS];
static uint64_t boundaries[LEVELS], runs;
static int running;

extern const char __executable_start[];

/* One instruction, so that a nested reading is later than all that it interrupted. */
static inline uint64_t test_clock(void)
{
	uint64_t step = client->clock_step;

	__asm__ volatile("xaddq %0, %1" : "+r"(step), "+m"(state.now) : : "memory", "cc");
	return step;
}

/* ---- the code under test ---- */

STRATA_INLINE int keep(struct record *r, int error, const struct strata_ring_slot *slot)
{
	if (error) {
		r->outcome = error == -ENOBUFS ? FULL : error == -EBUSY ? NESTED : TOO_BIG;
		return 0;
	}
	r->begin = slot->begin;
	r->timestamp = slot->timestamp;
	r->outcome = PENDING;
	return 1;
}

STRATA_INLINE void finish(const struct strata_ring_config *config, uint32_t id,
			  uint32_t payload_bytes, struct strata_ring_slot *slot)
{
	uint64_t payload = id * UINT64_C(0x0101010101010101);

	strata_ring_write(slot, &payload, payload_bytes);
	strata_ring_commit(config, slot);
	state.record[id].outcome = WRITTEN;
}

STRATA_INLINE void operate(const struct strata_ring_config *config, uint32_t payload_bytes,
			   uint32_t id, char operation)
{
	const struct strata_ring_event event = { id, payload_bytes, 0 };
	const struct strata_ring_event next = { id + 1, payload_bytes, 0 };
	const struct strata_ring_event too_big = { id, 1u << 20, 0 };
	struct record *r = &state.record[id];
	struct strata_ring_slot slot, second;
	int result;

	if (operation == 'f') {
		strata_ring_flush(config, stream);
		return;
	}
	if (operation == 'b') {
		keep(r, strata_ring_reserve(config, stream, &too_big, &slot), &slot);
		return;
	}
	if (!keep(r, strata_ring_reserve(config, stream, &event, &slot), &slot)) {
		if (r->outcome == NESTED && id < FIRST_NESTED)
			wrong("record %u was refused as nested, and nothing was interrupted", id);
		return;
	}
	if (operation == 'c') {
		result = strata_ring_cancel(config, &slot);
		if (result != -EBUSY) {
			r->outcome = result ? PADDING : TAKEN_BACK;
			return;
		}
	}
	if (operation == '2' &&
	    keep(r + 1, strata_ring_reserve(config, stream, &next, &second), &second))
		finish(config, id + 1, payload_bytes, &second);
	finish(config, id, payload_bytes, &slot);
}

#define CLIENT(name, mode, align, time, payload, ...)                                     \
	static const struct strata_ring_config name = {                                   \
		.loss_mode = STRATA_RING_##mode,                                          \
		.writers = STRATA_RING_WRITERS_LOCAL,                                     \
		.buffers = STRATA_RING_PER_CPU,                                           \
		.wakeup = STRATA_RING_WAKE_NONE,                                          \
		.record_align = align,                                                    \
		.clock = time,                                                            \
		.header = __VA_ARGS__,                                                    \
	};                                                                                \
	static __attribute__((noinline)) void operate_##name(uint32_t id, char operation) \
	{                                                                                 \
		operate(&name, payload, id, operation);                                   \
	}

CLIENT(driver_discard, DISCARD, 4, NULL, 4, NO_HEADER(4))
CLIENT(plain_discard, DISCARD, 8, NULL, 8, NO_HEADER(8))
CLIENT(plain_overwrite, OVERWRITE, 8, NULL, 8, NO_HEADER(8))
CLIENT(compact_discard, DISCARD, 1, test_clock, 4, STRATA_RING_HEADER_COMPACT)
CLIENT(compact_overwrite, OVERWRITE, 1, test_clock, 4, STRATA_RING_HEADER_COMPACT)
CLIENT(sized_discard, DISCARD, 8, test_clock, 8, STRATA_RING_HEADER_SIZED)
CLIENT(sized_overwrite, OVERWRITE, 8, test_clock, 8, STRATA_RING_HEADER_SIZED)

/* name, config, operate, subbuf, header, clock step, at wrap, script, kinds */
static const struct client clients[] = {
	{ "no header 4 B, discard", &driver_discard, operate_driver_discard, 32, 8, 0, 0, "www|wf",
	  "w" },
	{ "no header 4 B, discard, full", &driver_discard, operate_driver_discard, 32, 8, 0, 0,
	  "wwwwfwww|ww", "wr" },
	{ "no header, discard", &plain_discard, operate_plain_discard, 32, 0, 0, 0, "www|wc", "w" },
	{ "no header, discard, wrap", &plain_discard, operate_plain_discard, 64, 0, 0, 1,
	  "bwwfw|2f", "w" },
	{ "no header, overwrite", &plain_overwrite, operate_plain_overwrite, 32, 8, 0, 0, "wwww|w",
	  "w" },
	{ "no header, overwrite, reader", &plain_overwrite, operate_plain_overwrite, 32, 8, 0, 0,
	  "wwww|w", "wr" },
	{ "no header, overwrite, wrap", &plain_overwrite, operate_plain_overwrite, 32, 8, 0, 1,
	  "w2f|2f", "w" },
	{ "compact, discard", &compact_discard, operate_compact_discard, 64, 0, QUARTER_WRAP, 0,
	  "ww|www", "w" },
	{ "compact, overwrite", &compact_overwrite, operate_compact_overwrite, 64, 0, MOST_OF_WRAP,
	  0, "wwwwww|w", "w" },
	{ "compact, slow clock, overwrite", &compact_overwrite, operate_compact_overwrite, 32, 8, 1,
	  1, "wwww|w", "wr" },
	{ "sized, cancel, discard", &sized_discard, operate_sized_discard, 64, 0, 1, 0, "w|cw",
	  "w" },
	{ "sized, cancel, overwrite", &sized_overwrite, operate_sized_overwrite, 64, 8, 1, 0,
	  "ww|c2", "w" },
	{ "sized, cancel, overwrite, reader", &sized_overwrite, operate_sized_overwrite, 64, 8, 1,
	  0, "wwww|c", "wr" },
	{ "sized, 1 a packet, overwrite", &sized_overwrite, operate_sized_overwrite, 32, 0, 1, 0,
	  "ww|w", "w" },
	{ "sized, 1 a packet, 2 at once", &sized_overwrite, operate_sized_overwrite, 32, 0, 1, 0,
	  "ww|2", "w" },
	{ "sized, 1 a packet, reader", &sized_overwrite, operate_sized_overwrite, 32, 0, 1, 0,
	  "ww|w", "wr" },
};

/*
 * w record, c cancelled record, 2 records reserved at once (two ids), b one too big, f flush;
 * | from here on, instructions are stepped over one by one.
 */
static void run_script(void)
{
	const char *operation;
	uint32_t id = 1;

	for (operation = client->script; *operation; operation++, id++) {
		if (*operation == '|') {
			__asm__ volatile("int3" : : : "memory");
			operation++;
		}
		client->operate(id, *operation);
		id += *operation == '2';
	}
}

/*
 * To the controller, in one instruction: end_stepped where the next trap is its own, else end_unstepped. A trap costs
 * some microseconds, most of what this program does, and each run would have two more.
 */
static void (*end_at)(void);
void end_stepped(void);
void end_unstepped(void);
unsigned char controller_stack[65536] __attribute__((aligned(16)));
__asm__(".text\n"
	"end_stepped:\n\tint3\n"
	"end_unstepped:\n\tleaq controller_stack+65536(%rip), %rsp\n"
	"\tcall ended\n\tud2\n");

static void script_main(void)
{
	run_script();
	__asm__ volatile("jmp *%0" : : "m"(end_at) : "memory");
	__builtin_unreachable();
}

static void nested_main(uint32_t id)
{
	client->operate(id, 'w');
	__asm__ volatile("jmp *%0" : : "m"(end_at) : "memory");
	__builtin_unreachable();
}

/* ---- what must hold ---- */

/* Walk over a packet. Returns how many records there are, or -1 if something is wrong. */
static int walk(const struct strata_ring_packet *packet, int mark_read)
{
	uint64_t offset = packet->header_bytes, bytes;
	struct strata_ring_parsed parsed;
	struct record *r;
	int count = 0;

	parsed.timestamp = packet->timestamp_begin;
	for (; offset < packet->content_bytes; offset += bytes) {
		bytes = record_at(client->config, packet, offset, &parsed);
		if (!bytes)
			return -1;
		if (parsed.padding)
			continue;
		r = &state.record[parsed.id];
		if (r->outcome != PENDING && r->outcome != WRITTEN)
			return wrong("record %u was read, its outcome is %d", parsed.id,
				     (int)r->outcome);
		if (r->begin != packet->position + offset)
			return wrong("record %u is not where it was reserved", parsed.id);
		if (client->config->clock && parsed.timestamp != r->timestamp)
			return wrong("record %u has time %llx, not %llx", parsed.id,
				     (unsigned long long)parsed.timestamp,
				     (unsigned long long)r->timestamp);
		count++;
		if (!mark_read)
			continue;
		if (state.was_read[parsed.id]++)
			return wrong("record %u was read twice", parsed.id);
		if (r->timestamp < state.time_read)
			return wrong("record %u: time goes back", parsed.id);
		state.time_read = r->timestamp;
	}
	return count;
}

static uint64_t checksum(const struct strata_ring_packet *packet)
{
	uint64_t sum = packet->position, i;

	for (i = packet->header_bytes; i < packet->content_bytes; i++)
		sum = sum * 31 + packet->data[i];
	return sum;
}

/*
 * Checks at any instruction what a live reader on another CPU sees; full or read packets have no
 * prefix.
 */
static void check_available(void)
{
	uint64_t end =
		strata_ring_begin(stream, stream->shared->write_count) + stream->subbuf_bytes;
	uint64_t position = end - 2 * stream->buffer_bytes;
	struct strata_ring_packet packet;
	unsigned char copy[SUBBUF_BYTES_MAX];

	for (; position != end; position += stream->subbuf_bytes)
		if (!strata_ring_copy_available(&state.reader, position, copy, sizeof(copy),
						&packet))
			walk(&packet, 0);
}

/* Take the next packet; returns 0 if there is none. */
static int reader_get(void)
{
	struct strata_ring_packet *p = &state.packet;
	int error = strata_ring_get_next(&state.reader, p), count;

	if (error == -EAGAIN)
		return 0;
	if (error)
		return wrong("packet cannot be read: %d", error);
	if ((int64_t)(p->position - state.next_position) < 0)
		return wrong("packet read twice or out of order");
	state.next_position = p->position + stream->subbuf_bytes;
	if (p->timestamp_begin < state.time_read || p->timestamp_end < p->timestamp_begin)
		return wrong("packet: time goes back");
	if (p->discarded < state.discarded_read)
		return wrong("packet: discarded count goes back");
	state.discarded_read = p->discarded;
	state.time_read = p->timestamp_begin;
	state.checksum = checksum(p);
	count = walk(p, 1);
	if (count < 0)
		return 0;
	if ((uint64_t)count != p->records)
		return wrong("packet of %d records says that it has %d", count, (int)p->records);
	if (state.time_read > p->timestamp_end)
		return wrong("packet ends before its last record");
	state.time_read = p->timestamp_end;
	state.records_read += (uint32_t)count;
	state.packets_read++;
	return 1;
}

static void reader_put(void)
{
	if (checksum(&state.packet) != state.checksum)
		wrong("packet changed while the reader held it");
	strata_ring_put_next(&state.reader);
}

static uint32_t outcomes(enum outcome outcome)
{
	uint32_t count = 0, i;

	for (i = 0; i < RECORDS; i++)
		count += state.record[i].outcome == outcome;
	return count;
}

static void verify(void)
{
	uint64_t write = stream->shared->write_count, delivered;
	struct strata_ring_counters c;

	runs++;
	strata_ring_read_counters(stream, &c);
	if (c.written != outcomes(WRITTEN) || c.discarded_full != outcomes(FULL) ||
	    c.discarded_nested != outcomes(NESTED) || c.discarded_too_big != outcomes(TOO_BIG) ||
	    c.cancelled != outcomes(PADDING) || outcomes(PENDING))
		wrong("counters: written %d of %u, full %d of %u, nested %d of %u, too big %d of %u,"
		      " cancelled %d of %u",
		      (int)c.written, outcomes(WRITTEN), (int)c.discarded_full, outcomes(FULL),
		      (int)c.discarded_nested, outcomes(NESTED), (int)c.discarded_too_big,
		      outcomes(TOO_BIG), (int)c.cancelled, outcomes(PADDING));
	if (strata_ring_offset(stream, write) &&
	    strata_ring_subbuf(stream, write)->committed != write)
		wrong("committed is %d bytes from write_count, and all is committed",
		      (int)(strata_ring_subbuf(stream, write)->committed - write));
	if (state.reader.holding)
		reader_put();
	strata_ring_flush(client->config, stream);
	while (!failed && reader_get())
		reader_put();
	strata_ring_read_counters(stream, &c);
	if (!failed && c.written - c.overwritten_records != state.records_read)
		wrong("%d records written, %d overwritten, %u read", (int)c.written,
		      (int)c.overwritten_records, state.records_read);
	if (!failed && strata_ring_read_position(&state.reader) !=
			       strata_ring_begin(stream, stream->shared->write_count))
		wrong("a packet was not delivered");
	delivered = stream->shared->write_count - channel.header.start_position;
	if (!failed &&
	    (c.overwritten_packets + state.packets_read) * stream->subbuf_bytes != delivered)
		wrong("%d bytes of packets delivered, %d packets overwritten, %u read",
		      (int)delivered, (int)c.overwritten_packets, state.packets_read);
	if (!failed && client->config->loss_mode == STRATA_RING_DISCARD && c.overwritten_packets)
		wrong("overwritten in discard mode");
}

/* ---- controller ---- */

static void registers_save(struct registers *to, const ucontext_t *from)
{
	memcpy(to->general, from->uc_mcontext.gregs, sizeof(to->general));
	memcpy(to->fpu, from->uc_mcontext.fpregs, sizeof(to->fpu));
}

static void registers_load(ucontext_t *to, const struct registers *from)
{
	memcpy(to->uc_mcontext.gregs, from->general, sizeof(from->general));
	memcpy(to->uc_mcontext.fpregs, from->fpu, sizeof(from->fpu));
}

static void call(ucontext_t *uc, uintptr_t function, uint32_t argument, const unsigned char *top)
{
	/*
	 * The stack is aligned as after a call instruction: to 16 bytes, less the return address.
	 */
	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)(((uintptr_t)top & ~UINT64_C(15)) - 8);
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)function;
	uc->uc_mcontext.gregs[REG_RDI] = (greg_t)argument;
	uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)DIRECTION_FLAG;
}

static unsigned char *stack_pointer(const ucontext_t *uc)
{
	return (unsigned char *)uc->uc_mcontext.gregs[REG_RSP] - RED_ZONE;
}

static void snapshot_take(struct snapshot *to, const ucontext_t *uc)
{
	const unsigned char *low = stack_pointer(uc);

	to->stack_bytes = (size_t)(stack + STACK_BYTES - low);
	memcpy(to->stack, low, to->stack_bytes);
	memcpy(to->control, stream->shared, sizeof(to->control));
	memcpy(to->data, stream->data, (SUBBUFS + 1) * stream->subbuf_bytes);
	registers_save(&to->registers, uc);
	to->state = state;
}

static void snapshot_restore(const struct snapshot *from, ucontext_t *uc)
{
	memcpy(stack + STACK_BYTES - from->stack_bytes, from->stack, from->stack_bytes);
	memcpy(stream->shared, from->control, sizeof(from->control));
	memcpy(stream->data, from->data, (SUBBUFS + 1) * stream->subbuf_bytes);
	registers_load(uc, &from->registers);
	state = from->state;
}

static void interrupt(ucontext_t *uc, char kind)
{
	if (kind == 'r') {
		if (state.reader.holding)
			reader_put();
		else
			reader_get();
		return;
	}
	registers_save(&state.interrupted[state.depth++], uc);
	call(uc, (uintptr_t)nested_main, FIRST_NESTED + state.nested++, stack_pointer(uc));
}

/* Between two instructions of the code under test. */
static void boundary(ucontext_t *uc)
{
	struct snapshot *s = &snapshots[level];

	check_available();
	if (state.steps > STEPS_MAX)
		wrong("does not come to an end");
	if (level == levels || boundaries[level]++ % stride[level])
		return;
	snapshot_take(s, uc);
	s->kind = 0;
	level++;
	interrupt(uc, client->kinds[0]);
}

static void report(void)
{
	uint32_t i;

	printf("  %s\n", failure);
	for (i = 0; i < level; i++)
		printf("  interrupted by %c after instruction %u, before %#llx\n",
		       client->kinds[snapshots[i].kind], snapshots[i].state.steps,
		       (unsigned long long)snapshots[i].registers.general[REG_RIP] -
			       (unsigned long long)(uintptr_t)__executable_start);
}

/* The script is at its end: verify, and go back to where the last interruption was made. */
static void script_end(ucontext_t *uc)
{
	struct snapshot *s;

	verify();
	if (failed || !level) {
		running = 0;
		registers_load(uc, &main_registers);
		return;
	}
	s = &snapshots[level - 1];
	snapshot_restore(s, uc);
	if (client->kinds[++s->kind])
		interrupt(uc, client->kinds[s->kind]);
	else
		level--;
}

/* Goes on at @uc: what the system call does with which a signal's handler ends, in a tenth of the time. */
static __attribute__((noreturn)) void resume(const ucontext_t *uc)
{
	__asm__ volatile(
		"fxrstor64 (%1)\n\t"
		/* RSP, RIP and flags at once, by iretq: nothing is written to the stack gone to. */
		"mov %%ss, %%eax\n\tpushq %%rax\n\tpushq 120(%0)\n\tpushq 136(%0)\n\t"
		"mov %%cs, %%eax\n\tpushq %%rax\n\tpushq 128(%0)\n\t"
		"movq (%0), %%r8\n\tmovq 8(%0), %%r9\n\tmovq 16(%0), %%r10\n\t"
		"movq 24(%0), %%r11\n\tmovq 32(%0), %%r12\n\tmovq 40(%0), %%r13\n\t"
		"movq 48(%0), %%r14\n\tmovq 56(%0), %%r15\n\tmovq 72(%0), %%rsi\n\t"
		"movq 80(%0), %%rbp\n\tmovq 88(%0), %%rbx\n\tmovq 96(%0), %%rdx\n\t"
		"movq 104(%0), %%rax\n\tmovq 112(%0), %%rcx\n\tmovq 64(%0), %%rdi\n\t"
		"iretq"
		:
		: "D"(uc->uc_mcontext.gregs), "S"(uc->uc_mcontext.fpregs)
		: "memory");
	__builtin_unreachable();
}
_Static_assert(REG_R8 == 0 && REG_R15 == 7 && REG_RDI == 8 && REG_RSI == 9 && REG_RBP == 10 &&
		       REG_RBX == 11 && REG_RDX == 12 && REG_RAX == 13 && REG_RCX == 14 &&
		       REG_RSP == 15 && REG_RIP == 16 && REG_EFL == 17,
	       "offsets in resume()");

static __attribute__((noreturn)) void go_on(ucontext_t *uc)
{
	greg_t *flags = &uc->uc_mcontext.gregs[REG_EFL];

	if (failed && running) {
		running = 0;
		registers_load(uc, &main_registers);
	}
	if (running && state.stepping && level < levels) {
		*flags |= TRAP_FLAG;
		end_at = end_stepped;
	} else {
		*flags &= ~(greg_t)TRAP_FLAG;
		end_at = end_unstepped;
	}
	resume(uc);
}

/* The nested writer, or the script, is at its end. */
static void end_reached(ucontext_t *uc)
{
	if (!state.depth) {
		script_end(uc);
		return;
	}
	registers_load(uc, &state.interrupted[--state.depth]);
	if (level < levels)
		boundary(uc);
}

/* Called from end_unstepped, on the controller's stack. */
__attribute__((used)) void ended(void)
{
	static _Alignas(16) struct _libc_fpstate fpu[2];
	static ucontext_t uc;

	uc.uc_mcontext.fpregs = fpu;
	state.steps++;
	end_reached(&uc);
	go_on(&uc);
}

static void trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = (ucontext_t *)context;

	(void)sig;
	state.steps++;
	if (!running) {
		registers_save(&main_registers, uc);
		running = 1;
		call(uc, (uintptr_t)script_main, 0, stack + STACK_BYTES);
	} else if (info->si_code != TRAP_TRACE) {
		/*
		 * REG_TRAPNO does not tell: in a process with a uprobe anywhere, no int3 sets it.
		 */
		state.stepping = 1;
	} else if (uc->uc_mcontext.gregs[REG_RIP] == (greg_t)(uintptr_t)end_stepped) {
		end_reached(uc);
	} else {
		boundary(uc);
	}
	go_on(uc);
}

/*
 * All runs with @nr_levels interruptions; the last one at each position, those before it at every
 * @every-th. Returns how many runs were verified.
 */
static uint64_t explore(uint32_t nr_levels, uint32_t every)
{
	struct strata_ring_attr attr;
	struct strata_ring_error error;
	uint32_t i;

	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = client->subbuf_bytes;
	attr.nr_subbufs = SUBBUFS;
	attr.header_bytes = client->header_bytes;
	attr.nr_cpus = 1;
	if (client->at_wrap)
		attr.start_position = 0 - (uint64_t)SUBBUFS * client->subbuf_bytes;
	if (strata_ring_channel_create(client->config, &attr, &channel, &error)) {
		fprintf(stderr, "step: %s\n", error.text);
		exit(2);
	}
	stream = &channel.streams.stream[0];
	memset(&state, 0, sizeof(state));
	state.now = UINT64_C(1) << 40; /* needs more bits than a compact header has */
	state.next_position = attr.start_position;
	if (strata_ring_reader_init(&state.reader, stream))
		exit(2);
	levels = nr_levels;
	level = 0;
	runs = 0;
	for (i = 0; i < LEVELS; i++) {
		stride[i] = i + 1 < nr_levels ? every : 1;
		boundaries[i] = 0;
	}
	alarm(HANG_SECONDS);
	__asm__ volatile("int3" : : : "memory");
	alarm(0);
	strata_ring_channel_close(&channel);
	return runs;
}

/* Returns 1 if something did not hold. @budget: runs with two interruptions, and with three. */
static int check(const struct client *c, double budget)
{
	double since = seconds();
	uint64_t singles, pairs = 0, triples = 0;
	uint32_t pair_stride = 1, triple_stride = 1;
	double each;

	client = c;
	failed = 0;
	singles = explore(1, 1);
	if (!failed && budget > 0) {
		/* A few first positions tell how many pairs there are with each. */
		pair_stride = (uint32_t)(singles / 9) | 1;
		pairs = explore(2, pair_stride);
		pair_stride = stride_for((double)pairs * pair_stride, budget);
	}
	if (!failed && budget > 0)
		pairs = explore(2, pair_stride);
	if (!failed && budget > 0) {
		/* About half as many third interruptions are tried as second ones. */
		each = (double)pairs * pair_stride / (double)singles;
		while ((double)singles * each * each / 2 > budget * triple_stride * triple_stride)
			triple_stride += 2;
		triples = explore(3, triple_stride);
	}
	printf("%-31s %7llu %8llu %5u %8llu %5u %6.2f  %s\n", c->name, (unsigned long long)singles,
	       (unsigned long long)pairs, pair_stride, (unsigned long long)triples, triple_stride,
	       seconds() - since, failed ? "FAILED" : "ok");
	if (failed)
		report();
	fflush(stdout);
	return failed;
}

static __attribute__((noinline)) void never_called(void)
{
	__asm__ volatile("nop");
}

/*
 * Adds a uprobe, since the kernel delivers the signal of an int3 by another path in a process that
 * has one.
 */
static int uprobe_add(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");

	if (!file || fscanf(file, "%u", &attr.type) != 1)
		return -1;
	fclose(file);
	attr.config1 = (uintptr_t) "/proc/self/exe";
	attr.config2 = (uintptr_t)never_called - (uintptr_t)__executable_start;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv)
{
	static unsigned char signal_stack[65536];
	const stack_t alternate = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction action;
	struct options options = { 50000, "", 0, 1, 0 };
	uint32_t i;
	int status = 0;

	options_read(&options, argc, argv);
	if (options.uprobe && uprobe_add() < 0) {
		puts("not tried: uprobes cannot be made here");
		return 77;
	}
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = trap;
	/* The handler does not return: see resume(). */
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	if (sigaltstack(&alternate, NULL) || sigaction(SIGTRAP, &action, NULL))
		return 2;
	signal(SIGALRM, hang);
	printf("%-31s %7s %8s %5s %8s %5s %6s  %s\n", "interrupted after", "each", "pairs", "every",
	       "triples", "every", "s", "result");
	for (i = options.part; i < sizeof(clients) / sizeof(clients[0]) && !status;
	     i += options.parts)
		if (strstr(clients[i].name, options.only))
			status = check(&clients[i], options.budget);
	return status;
}

#else

int main(void)
{
	puts("skip: single steps of x86-64 machine code on Linux only");
	return 77;
}

#endif
