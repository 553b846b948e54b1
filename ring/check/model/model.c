/* SPDX-License-Identifier: MIT */
/*
 * model.c - the ring buffer's own headers under the model checker: scenarios and what must hold.
 *
 * Compiled with -DSTRATA_RING_MODEL, each access of the library to shared memory is a call into
 * ring/check/engine. A scenario says who writes, how often handlers nest, and what the reader does;
 * the engine then goes through every execution. Sub-buffers are of 32 bytes and records of 12, so that
 * two records fill one and the third switches; of 64 where records carry time.
 *
 *   model NAME     one scenario        model --list    their names
 */
#include "../engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <strata/ring/one_section.h>
#include <strata/ring/counters.h>
#include <strata/ring/live.h>
#include <strata/ring/publish.h>
#include <strata/ring/scan.h>
#include <string.h>

enum {
	SUBBUF_MAX = 64,
	NR_SUBBUFS = 2,
	MAX_RECORDS = 32,
	STREAM_BYTES = 3 * 4096,
	MAX_CPUS = 2,
};

#define ORACLE(condition) ((condition) ? (void)0 : mc_fail("does not hold: " #condition))

/* ---- the scenario that runs ---- */

enum reads {
	READ_NEXT,
	READ_LIVE,
	READ_COPY,
	READ_SCAN,
	READ_SCAN_COPY
};

struct scenario {
	const char *name;
	const char *what;
	enum strata_ring_loss_mode loss_mode;
	enum strata_ring_writers writers;
	int publish;	    /* STRATA_ABI_RING_BY_* */
	int one_section;    /* by position, in one section where it can be; 2: words */
	int clocked;	    /* records carry time, in 4 bits: whole timestamps happen */
	unsigned cancels;   /* the first producer's record of this number, from 1, is cancelled */
	unsigned producers; /* threads */
	unsigned records;   /* of each producer */
	unsigned prefill;   /* records written before the threads begin */
	unsigned flushed;   /* 1: and their packet closed */
	unsigned header;    /* bytes reserved at the start of a sub-buffer */
	unsigned step;	    /* of the clock, 3 when 0 */
	unsigned records_2; /* of the second one, where it has fewer */
	unsigned flushes;   /* 1: each producer flushes at its end; 2: only the second one */
	unsigned handlers, depth, aborts, migrations, cpus;
	enum reads reads;
	unsigned tries;	 /* of the concurrent reader */
	unsigned subbuf; /* its size, 32 when 0 [byte] */
	uint64_t start;	 /* position, in buffers below 2^64 when it is not 0 */
};

static const struct scenario *now;
static struct strata_ring_config config;

/* ---- what the oracles know: private to the harness ---- */

static unsigned char memory[MAX_CPUS][STREAM_BYTES] __attribute__((aligned(4096)));
static struct strata_ring_stream stream[MAX_CPUS];
static struct strata_ring_streams streams;
static struct strata_ring_reader reader[MAX_CPUS];
static uint64_t clock_id, epoch_id, plain_clock;
static uint64_t subbuf_bytes, clock_step;

static struct {
	uint64_t timestamp[256]; /* by tag: of the header made last */
	unsigned char written[256];
	unsigned char read[256];
	unsigned tried, ok, cancelled, seen, handlers;
	unsigned char newest;
	uint64_t newest_begin;
} known;

static uint64_t model_clock(void)
{
	/* Shared between threads, the order of clock reads is part of the execution. */
	if (now->producers > 1 || now->one_section)
		return mc_add(clock_id, clock_step, __ATOMIC_RELAXED) + clock_step;
	return plain_clock += clock_step;
}

/*
 * Writes a header: u8 tag, u8 payload bytes, u8 1 if whole, u8 low 4 bits; if whole, a u64
 * timestamp follows.
 */
static uint32_t model_bytes(uint32_t id, int full)
{
	(void)id;
	return full ? 12 : 4;
}

static struct strata_ring_header_bytes model_make(uint32_t id, uint32_t payload_bytes,
						  uint64_t timestamp, int full)
{
	unsigned char bytes[16] = { (unsigned char)id, (unsigned char)payload_bytes,
				    (unsigned char)full, (unsigned char)(timestamp & 15) };
	struct strata_ring_header_bytes h;

	known.timestamp[id] = timestamp;
	memcpy(bytes + 4, &timestamp, 8);
	memcpy(&h, bytes, sizeof(h));
	return h;
}

static struct strata_ring_header_bytes model_pad(uint32_t slot_bytes, uint64_t timestamp)
{
	return model_make(0, slot_bytes - 4, timestamp, 0);
}

/* ---- producers ---- */

static void record(unsigned char tag, int cancel)
{
	unsigned char staging[32 + STRATA_RING_HEADER_MAX],
		*payload = staging + STRATA_RING_HEADER_MAX;
	const struct strata_ring_event event = { tag, 8, 0 };
	struct strata_ring_slot slot;

	memset(payload, tag, 16);
	known.tried++;
	if (now->one_section == 2) {
		const uint32_t context = tag * UINT32_C(0x01010101);
		const struct strata_ring_conversion conversion = { 0, 0, 0, clock_step };
		struct strata_ring_once once;

		strata_ring_once_init(&once, &config, &streams, 4, &epoch_id, 7, &clock_id);
		if (strata_ring_publish_word_in_one_section(&once, tag, context, &conversion,
							    tag * UINT64_C(0x0101010101010101)) &&
		    strata_ring_publish_long(&config, &once, &streams, &event, context, payload))
			return;
	} else if (now->one_section) {
		const struct strata_ring_event short_event = { tag, 4, 0 };
		const uint32_t context = tag * UINT32_C(0x01010101);
		const struct strata_ring_conversion conversion = { 0, 0, 0, clock_step };
		struct strata_ring_once once;

		strata_ring_once_init(&once, &config, &streams, 4, &epoch_id, 7, &clock_id);
		if (strata_ring_publish_in_one_section(&config, &once, tag, context, &conversion,
						       payload + 4, 4) &&
		    strata_ring_publish_long(&config, &once, &streams, &short_event, context,
					     payload + 4))
			return;
	} else if (now->publish == STRATA_ABI_RING_BY_POSITION) {
		if (strata_ring_publish(&config, &streams, &event, payload))
			return;
	} else {
		if (strata_ring_reserve(&config, &stream[0], &event, &slot))
			return;
		strata_ring_write(&slot, payload, 4);
		if (cancel) {
			ORACLE(strata_ring_cancel(&config, &slot) >= 0);
			known.cancelled++;
			return;
		}
		strata_ring_write(&slot, payload + 4, 4);
		strata_ring_commit(&config, &slot);
	}
	known.written[tag]++;
	known.ok++;
	/*
	 * The newest record is the one of the highest position, not the last to return: an
	 * interrupted record is older than its handler's.
	 */
	if (now->publish == STRATA_ABI_RING_BY_COMMIT &&
	    (!known.newest || (int64_t)(slot.begin - known.newest_begin) > 0)) {
		known.newest = tag;
		known.newest_begin = slot.begin;
	}
}

static void flush(void)
{
	if (now->publish == STRATA_ABI_RING_BY_POSITION)
		strata_ring_flush_on_cpu(&config, &streams);
	else
		strata_ring_flush(&config, &stream[0]);
}

static void produce(unsigned char first, unsigned records)
{
	unsigned i;

	for (i = 0; i < records; i++)
		record((unsigned char)(first + i), first == 1 && now->cancels == i + 1);
	if (now->flushes == 1 || (now->flushes == 2 && first != 1))
		flush();
}

static void producer_1(void)
{
	produce(1, now->records);
}

static void producer_2(void)
{
	produce(0x21, now->records_2 ? now->records_2 : now->records);
}

static void handler(void)
{
	record((unsigned char)(0x81 + known.handlers++), 0);
}

/* ---- what a reader checks ---- */

/* The records in @content, which was copied or is the reader's; @fetch copies from shared memory. */
static void check_records(const unsigned char *content, uint64_t offset, uint64_t end,
			  uint64_t time, void (*fetch)(void *, const void *, size_t), int count)
{
	/* The reader takes context and payload for one. */
	const uint64_t payload_bytes = now->one_section == 2 ? 12 : 8;
	unsigned char head[16], payload[12], last[3] = { 0, 0, 0 };
	uint64_t whole, i, group;

	while (offset < end) {
		ORACLE(offset + 12 <= end);
		fetch(head, content + offset, 4);
		ORACLE((head[1] == payload_bytes || !head[0]) && head[2] <= 1);
		offset += 4;
		if (head[2]) {
			fetch(&whole, content + offset, 8);
			offset += 8;
			time = whole;
		} else {
			/* At most one wrap since the record before: what strata_ring_needs_full() is for. */
			time += (head[3] - time) & 15;
		}
		ORACLE(!now->clocked || time == known.timestamp[head[0]] || !head[0]);
		if (head[0]) {
			fetch(payload, content + offset, payload_bytes);
			for (i = 0; i < payload_bytes; i++)
				ORACLE(payload[i] == head[0]);
			/* In order for each producer; handlers nest, so for them the order of time holds. */
			group = head[0] >> 5 == 4 ? 2 : head[0] >> 5;
			ORACLE(group == 2 || head[0] > last[group]);
			last[group] = head[0];
			if (count) {
				ORACLE(!known.read[head[0]]);
				known.read[head[0]] = 1;
				known.seen++;
			}
		}
		offset += head[1];
	}
	ORACLE(offset == end);
}

static void copy_private(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

static int read_next(unsigned cpu)
{
	struct strata_ring_packet packet;
	unsigned before = known.seen;
	int error = strata_ring_get_next(&reader[cpu], &packet);

	ORACLE(error != -EPROTO);
	if (error)
		return error;
	ORACLE(packet.content_bytes <= subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES);
	ORACLE(packet.timestamp_begin <= packet.timestamp_end);
	check_records(packet.data, packet.header_bytes, packet.content_bytes,
		      packet.timestamp_begin, mc_plain_read, 1);
	ORACLE(packet.records == known.seen - before);
	strata_ring_put_next(&reader[cpu]);
	return 0;
}

/*
 * One producer without handlers: records are numbered in their order, so what is in front of a packet is known.
 */
static void scan_copy(void)
{
	unsigned char copy[SUBBUF_MAX], tag;
	struct strata_ring_packet packet;
	struct strata_ring_scan scan;
	uint64_t before, last = 0;
	int error;

	strata_ring_scan_begin(&scan, &reader[0], STRATA_RING_OLDEST_FIRST);
	while ((error = strata_ring_scan_copy(&scan, copy, sizeof(copy), &packet)) != -ENODATA) {
		ORACLE(error == 0 || error == -EAGAIN || error == -EBUSY);
		if (error)
			continue;
		check_records(copy, packet.header_bytes, packet.content_bytes,
			      packet.timestamp_begin, copy_private, 0);
		tag = copy[packet.header_bytes];
		before = tag > 0x40 ? tag - 0x41u : now->prefill + tag - 1;
		ORACLE(!last || before > last);
		last = before;
		ORACLE(scan.overwritten_records <= before);
		ORACLE(scan.overwritten_packets * subbuf_bytes != packet.position ||
		       scan.overwritten_records == before);
		if (now->publish == STRATA_ABI_RING_BY_POSITION)
			ORACLE(packet.records_before == before);
		if (scan.whole)
			ORACLE(packet.records == (packet.content_bytes - packet.header_bytes) / 12);
	}
}

static void read_concurrently(void)
{
	unsigned char copy[SUBBUF_MAX];
	struct strata_ring_scan scan;
	struct strata_ring_packet packet;
	unsigned i, again;
	int error;

	for (i = 0; i < now->tries; i++) {
		switch (now->reads) {
		case READ_NEXT:
			read_next(i % now->cpus);
			break;
		case READ_LIVE:
			if (!strata_ring_get_available(&reader[0], &packet))
				check_records(packet.data, packet.header_bytes,
					      packet.content_bytes, packet.timestamp_begin,
					      mc_plain_read, 0);
			read_next(0);
			break;
		case READ_COPY:
			if (strata_ring_copy_available(
				    &reader[0],
				    strata_ring_begin(
					    &stream[0],
					    strata_load_relaxed(&stream[0].shared->write_count)),
				    copy, sizeof(copy), &packet))
				break;
			check_records(copy, packet.header_bytes, packet.content_bytes,
				      packet.timestamp_begin, copy_private, 0);
			ORACLE(!packet.timestamp_end ||
			       packet.timestamp_end >= packet.timestamp_begin);
			break;
		case READ_SCAN:
			strata_ring_scan_begin(&scan, &reader[0], STRATA_RING_NEWEST_FIRST);
			for (again = 0; again < 2; again++) {
				while ((error = strata_ring_scan_get(&scan, &packet)) != -ENODATA) {
					ORACLE(error != -EPROTO);
					if (error)
						continue;
					check_records(packet.data, packet.header_bytes,
						      packet.content_bytes, packet.timestamp_begin,
						      mc_plain_read, 0);
					strata_ring_put_subbuf(&reader[0]);
				}
				strata_ring_scan_rewind(&scan);
			}
			break;
		case READ_SCAN_COPY:
			scan_copy();
			break;
		}
	}
}

/* ---- set-up and the end ---- */

static int barrier(void *of, uint32_t cpu)
{
	(void)of;
	mc_ipi(cpu);
	return 0;
}

static void setup(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_parts parts = strata_ring_layout(subbuf_bytes, NR_SUBBUFS);
	unsigned cpu, tag;

	memset(&known, 0, sizeof(known));
	memset(&header, 0, sizeof(header));
	plain_clock = 100;
	clock_id = mc_new(100, "clock");
	epoch_id = mc_new(7, "epoch");
	header.subbuf_bytes = subbuf_bytes;
	header.nr_subbufs = NR_SUBBUFS;
	header.header_bytes = now->header;
	header.loss_mode = now->loss_mode;
	header.publish = (uint32_t)now->publish;
	for (cpu = 0; cpu < now->cpus; cpu++) {
		memset(memory[cpu], 0, parts.stride);
		strata_ring_stream_attach(&stream[cpu], memory[cpu], &header, cpu);
		strata_ring_stream_init(&stream[cpu], -now->start * stream[cpu].buffer_bytes);
		mc_region(stream[cpu].frames,
			  (NR_SUBBUFS + 1) * sizeof(struct strata_abi_ring_frame), "frames");
		mc_region(stream[cpu].data, (NR_SUBBUFS + 1) * subbuf_bytes, "data");
		ORACLE(!strata_ring_reader_init(&reader[cpu], &stream[cpu]));
		if (now->writers == STRATA_RING_WRITERS_UNORDERED)
			strata_ring_reader_set_barrier(&reader[cpu], barrier, NULL);
	}
	streams.stream = stream;
	streams.nr = now->cpus;
	streams.first = memory[0];
	streams.stride = STREAM_BYTES;
	for (tag = 0x41; tag < 0x41 + now->prefill; tag++)
		record((unsigned char)tag, 0);
	if (now->flushed)
		flush();
}

/* Checks the end, when all have returned: delivers the rest, reads everything, and compares. */
static void final(void)
{
	struct strata_ring_counters c;
	uint64_t discarded = 0, overwritten = 0, written = 0;
	unsigned cpu, tag;

	for (cpu = 0; cpu < now->cpus; cpu++) {
		struct strata_ring_stream *s = &stream[cpu];
		uint64_t write = strata_load_relaxed(&s->shared->write_count);

		strata_ring_read_counters(s, &c);
		/* I5: with nothing in flight on one CPU, the whole open packet is available. */
		if (strata_ring_is_local(&config) && strata_ring_offset(s, write) && !now->cancels)
			ORACLE(strata_ring_available(s, strata_ring_begin(s, write)) ==
			       strata_ring_offset(s, write));
		if (now->publish == STRATA_ABI_RING_BY_COMMIT)
			strata_ring_flush(&config, s);
		else if (strata_ring_offset(s, write))
			strata_ring_close_on_cpu(&config, s, 0, write, plain_clock + 10000, 0);
		while (!read_next(cpu))
			;
		strata_ring_read_counters(s, &c);
		written += c.written;
		discarded += strata_ring_discarded(s);
		overwritten += c.overwritten_records;
		ORACLE(strata_load_relaxed(&s->shared->read_count) ==
		       strata_load_relaxed(&s->shared->write_count));
	}
	ORACLE(written == known.ok);
	ORACLE(known.ok + known.cancelled + discarded == known.tried);
	ORACLE(known.seen + overwritten == known.ok);
	for (tag = 0; tag < 256; tag++)
		ORACLE(known.read[tag] <= known.written[tag]);
	if (now->loss_mode == STRATA_RING_DISCARD)
		ORACLE(known.seen == known.ok);
	else if (known.newest)
		ORACLE(known.read[known.newest]);
}

/* ---- the scenarios ---- */

#define COMMIT	  STRATA_ABI_RING_BY_COMMIT
#define POSITION  STRATA_ABI_RING_BY_POSITION
#define LOCAL	  STRATA_RING_WRITERS_LOCAL
#define SMP	  STRATA_RING_WRITERS_SMP
#define RSEQ	  STRATA_RING_WRITERS_RSEQ
#define UNORDERED STRATA_RING_WRITERS_UNORDERED
#define DISCARD	  STRATA_RING_DISCARD
#define OVERWRITE STRATA_RING_OVERWRITE

static const struct scenario scenarios[] = {
#include "scenarios.inc"
};

static int run(const struct scenario *s, bool trace)
{
	struct mc_config mc = { 0 };
	struct mc_result result;
	unsigned i;

	now = s;
	subbuf_bytes = s->subbuf ? s->subbuf : 32;
	clock_step = s->step ? s->step : 3;
	memset(&config, 0, sizeof(config));
	config.loss_mode = s->loss_mode;
	config.writers = s->writers;
	config.buffers = STRATA_RING_PER_CPU;
	config.record_align = 4;
	config.clock = s->clocked ? model_clock : NULL;
	config.header.timestamp_bits = s->clocked ? 4 : 0;
	config.header.bytes = model_bytes;
	config.header.make = model_make;
	config.header.pad = model_pad;
	config.header.short_bytes = 4;
	config.header.short_ids = 256;

	mc.name = s->name;
	mc.setup = setup;
	mc.final = final;
	mc.handlers = s->handlers;
	mc.depth = s->depth;
	mc.aborts = s->aborts;
	mc.migrations = s->migrations;
	mc.nr_cpus = MAX_CPUS + 1;
	mc.reduce = true;
	mc.ipi = s->writers == STRATA_RING_WRITERS_UNORDERED;
	mc.state[0] = (struct mc_memory){ &known, sizeof(known) };
	mc.state[1] = (struct mc_memory){ reader, sizeof(reader) };
	mc.state[2] = (struct mc_memory){ &plain_clock, sizeof(plain_clock) };
	mc.print_trace = trace;
	for (i = 0; i < s->producers; i++) {
		mc.threads[i].run = i ? producer_2 : producer_1;
		mc.threads[i].handler = s->handlers && !i ? handler : NULL;
		mc.threads[i].cpu = s->migrations ? i % s->cpus : 0;
	}
	if (s->tries) {
		mc.threads[i].run = read_concurrently;
		mc.threads[i].cpu = MAX_CPUS; /* never a producer's */
	}
	result = mc_run(&mc);
	mc_print_result(&mc, &result);
	return result.passed && !result.limit_hit ? 0 : 1;
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (argc > 1 && !strcmp(argv[1], "--list"))
			printf("%s\t%s\n", scenarios[i].name, scenarios[i].what);
		else if (argc > 1 && !strcmp(argv[1], scenarios[i].name))
			return run(&scenarios[i], argc > 2 && !strcmp(argv[2], "--trace"));
	}
	if (argc > 1 && !strcmp(argv[1], "--list"))
		return 0;
	fprintf(stderr, "model: there is no scenario '%s'. See model --list.\n",
		argc > 1 ? argv[1] : "");
	return 2;
}
