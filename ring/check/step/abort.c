/* SPDX-License-Identifier: MIT */
/*
 * abort.c - interrupt the by-position way (rseq) of the production build at every instruction; inside
 * of a critical section this aborts it.
 *
 * Which instructions an operation runs is found once (machine.h), with the thread's rseq registration taken
 * away: a registered thread would never come to a section's end that way. Then, for each of them, a
 * breakpoint (int3, brk) is planted there, and the operation run in earnest. The signal
 * aborts the section; the handler takes the breakpoint away and writes a record to the same stream.
 * In the singles that is all; in the pairs the handler plants a second breakpoint, which the nested
 * record hits, or the interrupted one when it tries again.
 *
 * So what is tried is
 *   from start to before post-commit (start + length)  the kernel goes to the abort address
 *   at post-commit                                      not aborted: the record counts already
 *   anywhere else, between sections                      a nested record, no abort (on x86-64)
 * and what must hold, after each run:
 *   each record written is read exactly once, whole, and where it came in the order of publication;
 *   the counters, and shared->records, are exact; time does not go back, and a record's time lies
 *   within its call; what is below write_count is there, at each interruption.
 *
 *   abort [--budget PAIRS] [--only NAME]   exit: 0 all hold; 1 one does not; 77 not this machine
 */
#include <stdio.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__)

/* Sections end as in libstrata.so; ring/test/one_section.c tests the other end. */
#define STRATA_RSEQ_STAYS
#include "records.h"
#include "machine.h"

enum {
	FIRST_NESTED = 20, /* ids of nested records */
	SUBBUFS = 2,
	SUBBUF_BYTES_MAX = 256,
	ADDRESSES_MAX = 8192,
	SECTIONS_MAX = 512,
	SECTION_BYTES_MAX = 512,
	OPERATIONS_MAX = 16,
	RSEQ_UNREGISTER = 1,
	HANG_SECONDS = 240,
	/* Positions, counters, tables of sub-buffers and frames of one stream. */
	CONTROL_BYTES = sizeof(struct strata_abi_ring_stream) +
			SUBBUFS * sizeof(struct strata_abi_ring_subbuf) +
			(SUBBUFS + 1) * sizeof(struct strata_abi_ring_frame),
};

struct client {
	const char *name;
	const struct strata_ring_config *config;
	int (*write)(uint32_t id, uint32_t payload_bytes, int in_handler);
	uint32_t subbuf_bytes;
	uint32_t header_bytes;
	uint64_t clock_step; /* passes at each reading of the clock */
	const char *script;  /* see operate() */
};

/* One bit for each byte of a section. */
struct offsets {
	uint64_t bits[SECTION_BYTES_MAX / 64];
};

struct section {
	const char *kind; /* what its last store is; NULL: it was never seen to change anything */
	struct offsets traced;	/* where its instructions begin, as far as they were run */
	struct offsets aborted; /* of those, where it was aborted */
	uint64_t aborts;
	uint64_t after_commit; /* interruptions at post-commit */
};

/* The observations of one run. */
static struct {
	uint64_t now; /* of the clock */
	uint64_t discarded_full;
	uint64_t discarded_too_big;
	uint32_t sequence[RECORDS]; /* ids in the order of publication; 0: who, is not known yet */
	uint32_t written;
	uint64_t not_before[RECORDS], not_after[RECORDS];
	uint32_t nested;
	uint32_t records_read;
	uint32_t packets_read;
	uint32_t next_index; /* in sequence, of the next record to be read, at least */
	uint64_t time_read;
	struct strata_ring_reader reader;
} run;

static const struct client *client;
static struct strata_ring_channel channel;
static struct strata_ring_stream *stream;
static uint32_t cpu;

/* The breakpoint that is planted, and what is behind it; 0: none. */
static uint64_t planted;
static code_t under_breakpoint;
static uint64_t second; /* to be planted when the first one is hit */
static int hits;

/* Collects the addresses that an operation runs, in the order of their first time. */
static int tracing;
static volatile int in_library; /* and not in this file's own accounts */
static uint64_t *traced;
static uint32_t nr_traced;
static unsigned char control_before[CONTROL_BYTES];

static struct section sections[SECTIONS_MAX];
static uint32_t nr_sections;

/* ---- the code under test ---- */

static inline uint64_t test_clock(void)
{
	return machine_add(&run.now, client->clock_step);
}

/*
 * @size is that of the payload: constant, or payload_bytes, which the compiler then does not know.
 */
#define CLIENT(name, mode, wake, align, time, size, ...)                                       \
	static const struct strata_ring_config name = {                                        \
		.loss_mode = STRATA_RING_##mode,                                               \
		.writers = STRATA_RING_WRITERS_RSEQ,                                           \
		.buffers = STRATA_RING_PER_CPU,                                                \
		.wakeup = STRATA_RING_WAKE_##wake,                                             \
		.record_align = align,                                                         \
		.clock = time,                                                                 \
		.header = __VA_ARGS__,                                                         \
	};                                                                                     \
	static __attribute__((noinline)) int write_##name(uint32_t id, uint32_t payload_bytes, \
							  int in_handler)                      \
	{                                                                                      \
		unsigned char staging[STRATA_RING_HEADER_MAX + SUBBUF_BYTES_MAX + 8];          \
		const struct strata_ring_event event = { id, size, in_handler };               \
                                                                                               \
		__builtin_memset(staging + STRATA_RING_HEADER_MAX, (int)id, SUBBUF_BYTES_MAX); \
		(void)payload_bytes;                                                           \
		return strata_ring_publish(&name, &channel.streams, &event,                    \
					   staging + STRATA_RING_HEADER_MAX);                  \
	}

CLIENT(plain_discard, DISCARD, NONE, 8, NULL, 8, NO_HEADER(8))
CLIENT(plain_overwrite, OVERWRITE, NONE, 8, NULL, 8, NO_HEADER(8))
CLIENT(compact_discard, DISCARD, NONE, 1, test_clock, 4, STRATA_RING_HEADER_COMPACT)
CLIENT(compact_overwrite, OVERWRITE, NONE, 1, test_clock, 4, STRATA_RING_HEADER_COMPACT)
CLIENT(sized_discard, DISCARD, BY_WRITER, 8, test_clock, payload_bytes, STRATA_RING_HEADER_SIZED)
CLIENT(sized_overwrite, OVERWRITE, BY_WRITER, 8, test_clock, 8, STRATA_RING_HEADER_SIZED)
CLIENT(loop_overwrite, OVERWRITE, NONE, 8, test_clock, payload_bytes, STRATA_RING_HEADER_SIZED)

/* ---- the same for one_section.h: the clock is the CPU's counter, slowed down to what run.now says ---- */

static struct strata_ring_conversion conversion;
static const uint64_t conversion_index, epoch;

static uint64_t once_clock(void)
{
	return conversion.base_ns +
	       (uint64_t)(((unsigned __int128)(strata_clock_cycles() - conversion.base_cycles) *
			   conversion.multiplier) >>
			  32);
}

/* Sizes of the payload after the context, one for each way of copying. */
static uint32_t once_bytes(uint32_t id)
{
	static const uint32_t bytes[] = { 8, 0, 3, 12, 16, 24, 40, 70 };

	return id >= FIRST_NESTED ? 8 : bytes[id % 8];
}

static int parse_once(const unsigned char *src, uint64_t left, struct strata_ring_parsed *out)
{
	int error = parse_compact(src, left, out);

	out->payload_bytes = 4 + once_bytes(out->id);
	return error;
}

static int parse_once_large(const unsigned char *src, uint64_t left, struct strata_ring_parsed *out)
{
	uint64_t word = 0;

	out->padding = 0;
	if (left < 6)
		return -EPROTO;
	memcpy(&word, src, 6);
	out->id = word & 0xffff;
	out->header_bytes = 6;
	if (out->id == STRATA_RING_LARGE_EXTENDED) {
		if (left < 14)
			return -EPROTO;
		memcpy(&out->id, src + 2, 4);
		memcpy(&out->timestamp, src + 6, 8);
		out->header_bytes = 14;
	} else {
		out->timestamp += (uint32_t)(word >> 16) - (uint32_t)out->timestamp;
	}
	out->payload_bytes = 4 + once_bytes(out->id);
	return 0;
}

#define ONCE(name, mode, wake, format, bits, parse, short_bytes, short_ids)                        \
	static const struct strata_ring_config name = {                                            \
		.loss_mode = STRATA_RING_##mode,                                                   \
		.writers = STRATA_RING_WRITERS_RSEQ,                                               \
		.buffers = STRATA_RING_PER_CPU,                                                    \
		.wakeup = STRATA_RING_WAKE_##wake,                                                 \
		.record_align = 1,                                                                 \
		.clock = once_clock,                                                               \
		.header = { bits, strata_ring_##format##_bytes, strata_ring_##format##_make, NULL, \
			    parse, short_bytes, short_ids },                                       \
	};                                                                                         \
	static __attribute__((noinline)) int write_##name(uint32_t id, uint32_t payload_bytes,     \
							  int in_handler)                          \
	{                                                                                          \
		unsigned char memory[STRATA_RING_HEADER_MAX + 4 + SUBBUF_BYTES_MAX + 8];           \
		const struct strata_ring_event event = { id, once_bytes(id), in_handler };         \
		struct strata_ring_once once;                                                      \
		uint64_t word;                                                                     \
                                                                                                   \
		(void)payload_bytes;                                                               \
		__builtin_memset(memory, (int)id, sizeof(memory));                                 \
		strata_ring_once_init(&once, &name, &channel.streams, 4, &epoch, 0,                \
				      &conversion_index);                                          \
		__builtin_memcpy(&word, memory + STRATA_RING_HEADER_MAX + 4, sizeof(word));        \
		if (event.payload_bytes == 8 &&                                                    \
		    !strata_ring_publish_word_in_one_section(&once, id, id * UINT32_C(0x01010101), \
							     &conversion, word))                   \
			return 0;                                                                  \
		if (!strata_ring_publish_in_one_section(                                           \
			    &name, &once, id, id * UINT32_C(0x01010101), &conversion,              \
			    memory + STRATA_RING_HEADER_MAX + 4, event.payload_bytes))             \
			return 0;                                                                  \
		return strata_ring_publish_long(&name, &once, &channel.streams, &event,            \
						id * UINT32_C(0x01010101),                         \
						memory + STRATA_RING_HEADER_MAX + 4);              \
	}

ONCE(once_discard, DISCARD, BY_WRITER, compact, 27, parse_once, 4, STRATA_RING_COMPACT_EXTENDED)
ONCE(once_overwrite, OVERWRITE, NONE, compact, 27, parse_once, 4, STRATA_RING_COMPACT_EXTENDED)
ONCE(once_large, OVERWRITE, NONE, large, 32, parse_once_large, 6, STRATA_RING_LARGE_EXTENDED)

/* name, config, write, subbuf, header, clock step, script */
static const struct client clients[] = {
	{ "no header, discard", &plain_discard, write_plain_discard, 32, 0, 0, "wwwwbfwrww" },
	{ "no header, overwrite", &plain_overwrite, write_plain_overwrite, 32, 8, 0, "wwwfwwrwww" },
	{ "compact, discard", &compact_discard, write_compact_discard, 64, 8, QUARTER_WRAP,
	  "wwwwwwwww" },
	{ "compact, overwrite", &compact_overwrite, write_compact_overwrite, 64, 0, MOST_OF_WRAP,
	  "wwwwwwwwwww" },
	{ "compact, slow clock, overwrite", &compact_overwrite, write_compact_overwrite, 32, 0, 1,
	  "wwwwwfrwwwww" },
	{ "sized, discard", &sized_discard, write_sized_discard, 128, 0, 1, "wwwwfwrww" },
	{ "sized, overwrite", &sized_overwrite, write_sized_overwrite, 64, 0, 1, "wwwwbwwfw" },
	{ "sized, loop, overwrite", &loop_overwrite, write_loop_overwrite, 128, 8, 1, "wwwwwwwww" },
	{ "one section, discard", &once_discard, write_once_discard, 128, 8, 1, "wwwwwwwwfwrwww" },
	{ "one section, overwrite", &once_overwrite, write_once_overwrite, 128, 0, 1,
	  "wwwwwwfwwwwrwww" },
	{ "one section, whole timestamps", &once_overwrite, write_once_overwrite, 256, 8,
	  QUARTER_WRAP, "wwwwwwwwwwww" },
	{ "one section, far apart", &once_discard, write_once_discard, 256, 8, 2 * MOST_OF_WRAP,
	  "wwwww" },
	{ "one section, large", &once_large, write_once_large, 256, 0, 1, "wwwwwwwwwwww" },
};

/* Writes a record, then finds its place in the sequence of publication. */
static void write_record(uint32_t id, uint32_t payload_bytes, int in_handler)
{
	uint64_t before = stream->shared->records, after, i;
	uint32_t found = 0;
	int error;

	/* The counter does not move by being read: time passes from record to record. */
	if (client->config->clock == once_clock)
		conversion.base_ns = run.now += client->clock_step;
	run.not_before[id] = run.now;
	in_library = 1;
	error = client->write(id, payload_bytes, in_handler);
	in_library = 0;
	run.not_after[id] = run.now;
	after = stream->shared->records;
	/* All that came in between is known by now; what was interrupted can only be before. */
	for (i = before; i < after && i < RECORDS; i++)
		if (!run.sequence[i]) {
			run.sequence[i] = id;
			found++;
		}
	if (after > RECORDS)
		wrong("%d records written, more than were tried", (int)after);
	else if (found != !error)
		wrong("record %u was published %u times, result %d", id, found, error);
	run.written += !error;
	run.discarded_full += error == -ENOBUFS;
	if (error && error != -ENOBUFS)
		wrong("record %u: result %d", id, error);
}

/* ---- what must hold ---- */

/*
 * Returns the index of record @id in the sequence. A record that was not returned yet has no index.
 */
static uint32_t index_of(uint32_t id)
{
	uint32_t i;

	for (i = 0; i < RECORDS && run.sequence[i] != id; i++)
		;
	return i;
}

/* Walk over a packet; returns the number of records. @final: each must be next in sequence. */
static int walk(const struct strata_ring_packet *packet, int final)
{
	uint64_t offset = packet->header_bytes, bytes;
	struct strata_ring_parsed parsed;
	uint32_t at;
	int count = 0;

	parsed.timestamp = packet->timestamp_begin;
	for (; offset < packet->content_bytes; offset += bytes) {
		bytes = record_at(client->config, packet, offset, &parsed);
		if (!bytes)
			return -1;
		if (client->config->clock && parsed.timestamp < run.not_before[parsed.id])
			return wrong("record %u has a time before its call", parsed.id);
		count++;
		if (!final)
			continue;
		if (client->config->clock && parsed.timestamp > run.not_after[parsed.id])
			return wrong("record %u has a time after its call", parsed.id);
		if (parsed.timestamp < run.time_read)
			return wrong("record %u: time goes back", parsed.id);
		run.time_read = parsed.timestamp;
		at = index_of(parsed.id);
		if (at < run.next_index || at == RECORDS)
			return wrong("record %u was read twice or out of order", parsed.id);
		if (at != run.next_index && client->config->loss_mode == STRATA_RING_DISCARD)
			return wrong("record %u was read, and not the one before it", parsed.id);
		run.next_index = at + 1;
	}
	return count;
}

/* Checks that all bytes below write_count are available at any time. */
static void check_available(void)
{
	uint64_t position = strata_ring_begin(stream, stream->shared->write_count);
	struct strata_ring_packet packet;
	unsigned char copy[SUBBUF_BYTES_MAX];

	if (!strata_ring_copy_available(&run.reader, position, copy, sizeof(copy), &packet))
		walk(&packet, 0);
}

static void read_all(void)
{
	struct strata_ring_packet packet;
	int error, count;

	while (!failed) {
		error = strata_ring_get_next(&run.reader, &packet);
		if (error == -EAGAIN)
			return;
		if (error) {
			wrong("packet cannot be read: %d", error);
			return;
		}
		if (packet.timestamp_begin < run.time_read ||
		    packet.timestamp_end < packet.timestamp_begin)
			wrong("packet: time goes back");
		run.time_read = packet.timestamp_begin;
		count = walk(&packet, 1);
		if (count >= 0 && (uint64_t)count != packet.records)
			wrong("packet of %d records says that it has %d", count,
			      (int)packet.records);
		if (run.time_read > packet.timestamp_end)
			wrong("packet ends before its last record");
		run.time_read = packet.timestamp_end;
		run.records_read += count > 0 ? (uint32_t)count : 0;
		run.packets_read++;
		strata_ring_put_next(&run.reader);
	}
}

static void verify(void)
{
	struct strata_ring_counters c;

	strata_ring_flush_on_cpu(client->config, &channel.streams);
	read_all();
	strata_ring_read_counters(stream, &c);
	if (c.written != run.written || c.discarded_full != run.discarded_full ||
	    c.discarded_too_big != run.discarded_too_big || c.discarded_nested)
		wrong("counters: written %d of %u, full %d of %d, too big %d of %d", (int)c.written,
		      run.written, (int)c.discarded_full, (int)run.discarded_full,
		      (int)c.discarded_too_big, (int)run.discarded_too_big);
	if (c.written - c.overwritten_records != run.records_read)
		wrong("%d records written, %d overwritten, %u read", (int)c.written,
		      (int)c.overwritten_records, run.records_read);
	if ((c.overwritten_packets + run.packets_read) * stream->subbuf_bytes !=
	    stream->shared->write_count)
		wrong("write_count %d, %d packets overwritten, %u read",
		      (int)stream->shared->write_count, (int)c.overwritten_packets,
		      run.packets_read);
	if (client->config->loss_mode == STRATA_RING_DISCARD && c.overwritten_packets)
		wrong("overwritten in discard mode");
}

/* ---- sections ---- */

static const struct descriptor *descriptor(uint32_t i)
{
	return &__start___rseq_cs[i];
}

/* Its index if @address is from its start to its post-commit, inclusive; else nr_sections. */
static uint32_t section_at(uint64_t address)
{
	uint32_t i;

	for (i = 0; i < nr_sections; i++)
		if (address - descriptor(i)->start <= descriptor(i)->length)
			break;
	return i;
}

static void offsets_add(struct offsets *o, uint64_t offset)
{
	o->bits[offset / 64] |= UINT64_C(1) << offset % 64;
}

static uint32_t offsets_count(const struct offsets *o)
{
	uint32_t count = 0, i;

	for (i = 0; i < SECTION_BYTES_MAX / 64; i++)
		count += (uint32_t)__builtin_popcountll(o->bits[i]);
	return count;
}

static const char *frame_field(uint64_t offset)
{
	static const char *const names[] = { "close: position",	     "open: timestamp_begin",
					     "close: timestamp_end", "close: content_bytes",
					     "close: records",	     "open: records_before",
					     "close: discarded" };

	return names[offset / 8];
}

/*
 * Names the kind of store that a section's last instruction made, from what it changed; NULL if it
 * changed nothing.
 */
static const char *kind_of(const struct descriptor *d)
{
	const unsigned char *now = (const unsigned char *)stream->shared;
	const uint64_t frames = (uint64_t)((const unsigned char *)stream->frames - now);
	const struct strata_abi_ring_stream *before = (const void *)control_before;
	uint64_t i;

	for (i = 0; i < CONTROL_BYTES && !memcmp(now + i, control_before + i, 8); i += 8)
		;
	if (i == CONTROL_BYTES)
		return NULL;
	if (i >= frames)
		return frame_field((i - frames) % sizeof(struct strata_abi_ring_frame));
	if (i >= sizeof(struct strata_abi_ring_stream))
		return "close: entry";
	if (i == offsetof(struct strata_abi_ring_stream, full_timestamp))
		return "full timestamp";
	if (i == offsetof(struct strata_abi_ring_stream, limit))
		return "open: limit";
	if (i == offsetof(struct strata_abi_ring_stream, frame))
		return "open: frame";
	/* last_timestamp is a store in front of the last one. */
	if (i != offsetof(struct strata_abi_ring_stream, write_count))
		return "count a discarded record";
	if (before->records == stream->shared->records)
		return "close: write_count";
	if (!strata_ring_offset(stream, before->write_count))
		return "publish, opens a packet";
	return publish_kind(d);
}

static void trace_step(uint64_t address)
{
	uint32_t i = section_at(address), j;

	if (i < nr_sections && address == descriptor(i)->start + descriptor(i)->length) {
		if (!sections[i].kind)
			sections[i].kind = kind_of(descriptor(i));
	} else if (i < nr_sections) {
		offsets_add(&sections[i].traced, address - descriptor(i)->start);
	}
	memcpy(control_before, stream->shared, sizeof(control_before));
	if (address < (uintptr_t)__executable_start || address >= (uintptr_t)etext || !in_library)
		return;
	for (j = 0; j < nr_traced; j++)
		if (traced[j] == address)
			return;
	if (nr_traced < ADDRESSES_MAX)
		traced[nr_traced++] = address;
}

/* ---- breakpoints ---- */

static void plant(uint64_t address)
{
	under_breakpoint = *(volatile const code_t *)(uintptr_t)address;
	planted = address;
	poke(address, BREAKPOINT);
}

static void take_away(void)
{
	if (planted)
		poke(planted, under_breakpoint);
	planted = 0;
}

/* Counts interruptions by whether they came where they should, and sets the address to go on at. */
static void account(uint64_t address, ucontext_t *uc)
{
	uint32_t i = section_at(address);
	const struct descriptor *d = descriptor(i);

	if (i == nr_sections || address == d->start + d->length) {
		if (machine_next(uc) != machine_behind(address))
			wrong("aborted outside of a section");
		if (i < nr_sections)
			sections[i].after_commit++;
		machine_go_on_at(uc, address);
		return;
	}
	if (machine_next(uc) != d->abort || rseq_descriptor())
		wrong("not aborted inside of a section");
	sections[i].aborts++;
	offsets_add(&sections[i].aborted, address - d->start);
}

static void trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = (ucontext_t *)context;
	uint64_t address = planted;

	(void)sig, (void)info;
	if (tracing) {
		trace_trap(uc);
		return;
	}
	if (!address) {
		wrong("a trap that nobody planted");
		return;
	}
	take_away();
	machine_abort(uc);
	account(address, uc);
	hits++;
	check_available();
	if (second) {
		plant(second);
		second = 0;
	}
	write_record(FIRST_NESTED + run.nested++, 8, 1);
}

/* ---- runs ---- */

/* w record, b one too big, f flush, r read what there is. */
static void operate(uint32_t id, char operation)
{
	const struct strata_ring_event too_big = { id, 1u << 20, 0 };
	int error;

	switch (operation) {
	case 'w':
		/* Unless the client has sizes of its own: up to 40 bytes: the loop's two step widths, none and one of each, and both. */
		write_record(id, 8 * (id * 5 % 6), 0);
		break;
	case 'b':
		run.discarded_too_big++;
		in_library = 1;
		error = strata_ring_publish(client->config, &channel.streams, &too_big, NULL);
		in_library = 0;
		if (error != -EMSGSIZE)
			wrong("a record that is too big: result %d", error);
		break;
	case 'f':
		in_library = 1;
		strata_ring_flush_on_cpu(client->config, &channel.streams);
		in_library = 0;
		break;
	case 'r':
		read_all();
		break;
	}
}

static void begin(void)
{
	memset(stream->shared, 0, CONTROL_BYTES);
	memset(stream->data, 0, (SUBBUFS + 1) * client->subbuf_bytes);
	memset(&run, 0, sizeof(run));
	strata_ring_stream_init(stream, 0);
	run.now = UINT64_C(1) << 40; /* needs more bits than a compact header has */
	/* A cycle takes no time at all, however many pass while the thread has no CPU. */
	conversion = (struct strata_ring_conversion){ strata_clock_cycles(), 0, run.now, 0 };
	if (strata_ring_reader_init(&run.reader, stream))
		wrong("no reader");
}

/* The script, with breakpoints in its @nth operation. Returns how many were hit. */
static int run_with(uint32_t nth, uint64_t first, uint64_t then)
{
	uint32_t i;

	begin();
	hits = 0;
	for (i = 0; client->script[i]; i++) {
		if (i == nth) {
			second = then;
			plant(first);
		}
		operate(i + 1, client->script[i]);
		take_away();
		second = 0;
	}
	verify();
	return hits;
}

/* Unregisters, or registers again with the same size, which only libc knows. */
static int rseq_register(int unregister)
{
	static uint32_t bytes;
	uint32_t try;

	if (fake_rseq)
		return 0;
	if (!unregister)
		return (int)syscall(SYS_rseq, rseq_area(), bytes, 0, RSEQ_SIGNATURE);
	for (try = 32; try <= 512; try += 4)
		if (!syscall(SYS_rseq, rseq_area(), try, RSEQ_UNREGISTER, RSEQ_SIGNATURE)) {
			bytes = try;
			memcpy((char *)rseq_area(), &cpu, sizeof(cpu));
			memcpy((char *)rseq_area() + STRATA_RSEQ_CPU_ID, &cpu, sizeof(cpu));
			return 0;
		}
	return -1;
}

/* Collects the addresses that each operation of the script runs. Returns 0. */
static int trace(uint64_t (*reached)[ADDRESSES_MAX], uint32_t *nr_reached)
{
	uint32_t i;

	if (rseq_register(1))
		return -1;
	begin();
	for (i = 0; client->script[i]; i++) {
		traced = reached[i];
		nr_traced = 0;
		if (client->script[i] == 'r') {
			operate(i + 1, 'r');
		} else {
			tracing = 1;
			trace_begin();
			operate(i + 1, client->script[i]);
			trace_end();
			tracing = 0;
		}
		nr_reached[i] = nr_traced;
	}
	verify();
	return rseq_register(0);
}

/* The place at which a run went wrong. */
struct where {
	uint32_t operation;
	uint64_t first;
	uint64_t second;
};

static void report(const struct where *where)
{
	const uint64_t addresses[2] = { where->first, where->second };
	uint32_t i, at;

	printf("  %s\n  operation %u (%c)", failure, where->operation + 1,
	       client->script[where->operation]);
	for (i = 0; i < 2 && addresses[i]; i++) {
		at = section_at(addresses[i]);
		printf(", interrupted before %#llx",
		       (unsigned long long)(addresses[i] - (uintptr_t)__executable_start));
		if (at < nr_sections)
			printf(" (%s, start + %llu of %llu)",
			       sections[at].kind ? sections[at].kind : "section",
			       (unsigned long long)(addresses[i] - descriptor(at)->start),
			       (unsigned long long)descriptor(at)->length);
	}
	printf("\n");
}

static uint64_t addresses[OPERATIONS_MAX][ADDRESSES_MAX];
static uint32_t counts[OPERATIONS_MAX];

static uint64_t check_singles(struct where *where)
{
	uint64_t singles = 0;
	uint32_t n, i, again;

	for (n = 0; client->script[n] && !failed; n++)
		for (i = 0; i < counts[n] && !failed; i++, singles++) {
			*where = (struct where){ n, addresses[n][i], 0 };
			/* Preemption aborts too, and then the way may not lead there: once more. */
			for (again = 0; again < 20 && !run_with(n, addresses[n][i], 0); again++)
				;
			if (hits != 1)
				wrong("an instruction was interrupted %d times", hits);
		}
	return singles;
}

static uint64_t check_pairs(struct where *where, uint64_t stride)
{
	uint64_t pairs = 0, index = 0;
	uint32_t n, i, j;

	for (n = 0; client->script[n] && !failed; n++)
		for (i = 0; i < counts[n] && !failed; i++)
			for (j = 0; j < counts[n] && !failed; j++) {
				if (index++ % stride)
					continue;
				pairs++;
				*where = (struct where){ n, addresses[n][i], addresses[n][j] };
				run_with(n, addresses[n][i], addresses[n][j]);
			}
	return pairs;
}

/* Returns 1 if something did not hold. @budget: pairs. */
static int check(const struct client *c, double budget)
{
	uint64_t singles, pairs = 0, stride;
	double since = seconds();
	struct strata_ring_attr attr;
	struct strata_ring_error error;
	struct where where;
	double all = 0;
	uint32_t n;

	client = c;
	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = c->subbuf_bytes;
	attr.nr_subbufs = SUBBUFS;
	attr.header_bytes = c->header_bytes;
	if (strata_ring_channel_create(c->config, &attr, &channel, &error)) {
		fprintf(stderr, "abort: %s\n", error.text);
		exit(2);
	}
	stream = &channel.streams.stream[cpu];
	alarm(HANG_SECONDS);
	/* The first run is not traced: the dynamic linker works at each first call. */
	run_with(UINT32_MAX, 0, 0);
	if (trace(addresses, counts)) {
		printf("skip: the thread's rseq registration cannot be taken away\n");
		exit(77);
	}
	where = (struct where){ 0, 0, 0 };
	for (n = 0; c->script[n]; n++)
		all += (double)counts[n] * counts[n];
	stride = stride_for(all, budget);
	singles = check_singles(&where);
	if (budget > 0)
		pairs = check_pairs(&where, stride);
	alarm(0);
	printf("%-31s %7llu %8llu %5llu %6.2f  %s\n", c->name, (unsigned long long)singles,
	       (unsigned long long)pairs, (unsigned long long)stride, seconds() - since,
	       failed ? "FAILED" : "ok");
	if (failed)
		report(&where);
	fflush(stdout);
	strata_ring_channel_close(&channel);
	return failed;
}

/* One line for each kind of section. Returns 1 if one has an instruction that was never aborted. */
static int print_sections(void)
{
	uint32_t i, j, number, instructions, aborted, unused = 0;
	uint64_t aborts, after;
	int status = 0;

	printf("\n%-31s %8s %12s %8s %9s %12s  %s\n", "section, by its last store", "sections",
	       "instructions", "aborted", "aborts", "post-commit", "result");
	for (i = 0; i < nr_sections; i++) {
		const char *kind = sections[i].kind;

		unused += !kind;
		for (j = 0; kind && j < i; j++)
			if (sections[j].kind && !strcmp(sections[j].kind, kind))
				kind = NULL;
		if (!kind)
			continue;
		number = instructions = aborted = 0;
		aborts = after = 0;
		for (j = i; j < nr_sections; j++) {
			if (!sections[j].kind || strcmp(sections[j].kind, kind))
				continue;
			number++;
			instructions += offsets_count(&sections[j].traced);
			aborted += offsets_count(&sections[j].aborted);
			aborts += sections[j].aborts;
			after += sections[j].after_commit;
		}
		status |= aborted != instructions || !after;
		printf("%-31s %8u %12u %8u %9llu %12llu  %s\n", kind, number, instructions, aborted,
		       (unsigned long long)aborts, (unsigned long long)after,
		       aborted == instructions && after ? "ok" : "INCOMPLETE");
	}
	printf("%u of %u sections never stored anything new: not in the table\n", unused,
	       nr_sections);
	return status;
}

int main(int argc, char **argv)
{
	struct sigaction action;
	struct options options = { 30000, "", 0, 1, 0 };
	cpu_set_t one;
	uint32_t i;
	int status = 0;

	options_read(&options, argc, argv);
	fake_rseq_begin();
	if (!strata_rseq_available()) {
		puts("skip: this libc registers no restartable sequences");
		return 77;
	}
	cpu = (uint32_t)sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (fake_rseq) {
		puts("no restartable sequences here: a section is aborted as a kernel would");
		fake_rseq_move(cpu);
	}
	if (machine_begin() || sched_setaffinity(0, sizeof(one), &one)) {
		perror("abort: the program's own code, or the CPU");
		return 2;
	}
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = trap;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGTRAP, &action, NULL);
	signal(SIGALRM, hang);
	nr_sections = (uint32_t)(__stop___rseq_cs - __start___rseq_cs);
	for (i = 0; i < nr_sections; i++)
		if (nr_sections > SECTIONS_MAX || descriptor(i)->length >= SECTION_BYTES_MAX) {
			fprintf(stderr, "abort: %u sections, one of %llu bytes: raise the limits\n",
				nr_sections, (unsigned long long)descriptor(i)->length);
			return 2;
		}
	printf("%-31s %7s %8s %5s %6s  %s\n", "interrupted before", "each", "pairs", "every", "s",
	       "result");
	for (i = 0; i < sizeof(clients) / sizeof(clients[0]) && !status; i++)
		if (strstr(clients[i].name, options.only))
			status = check(&clients[i], options.budget);
	if (!status && !*options.only)
		status = print_sections();
	return status;
}

#else

int main(void)
{
	puts("skip: restartable sequences of x86-64 and AArch64 Linux only");
	return 77;
}

#endif
