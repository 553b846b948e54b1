/* SPDX-License-Identifier: MIT */
/*
 * record.c - what does one event record cost the thread that writes it?
 *
 * One thread on one CPU. The sizes are of whole records: 4 bytes are the papers' client (no header, no
 * clock); the others have the compact header of 4 bytes and a clock read. Payloads of 4 and 12 bytes
 * come from registers, longer ones from memory, another place each time.
 *
 * Before a batch is timed, two others go through the whole buffer: it is in the second-level cache,
 * as it would be if nothing but this case ran. In discard mode the reader empties it before each.
 */
#include <strata/ring/client/benchmark.h>
#include <strata/ring/client/tracer.h>

#include "../channels.h"

#define CONFIG(name, loss_mode, writers, buffers, align, clock, ...)                        \
	static const struct strata_ring_config name = { loss_mode,   writers,               \
							buffers,     STRATA_RING_WAKE_NONE, \
							align,	     clock,                 \
							__VA_ARGS__, NULL }
#define FIXED_4                                                        \
	{                                                              \
		0, NULL, NULL, NULL, strata_ring_benchmark_parse, 0, 0 \
	}

/* SMP writers need a clock that is not read before write_count is: see clock.h. */
CONFIG(smp_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL, 1,
       strata_clock_cycles_ordered, STRATA_RING_HEADER_COMPACT);
CONFIG(smp_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL, 1,
       strata_clock_cycles_ordered, STRATA_RING_HEADER_COMPACT);
CONFIG(smp_discard_4, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL, 4, NULL,
       FIXED_4);
CONFIG(smp_overwrite_4, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL, 4, NULL,
       FIXED_4);
CONFIG(local_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU, 1,
       strata_clock_cycles, STRATA_RING_HEADER_COMPACT);
CONFIG(local_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU, 1,
       strata_clock_cycles, STRATA_RING_HEADER_COMPACT);
#define rseq_discard	  strata_ring_tracer_discard_config
#define rseq_overwrite	  strata_ring_tracer_overwrite_config
#define rseq_discard_4	  strata_ring_benchmark_discard_config
#define rseq_overwrite_4  strata_ring_benchmark_overwrite_config
#define local_discard_4	  strata_ring_benchmark_local_discard_config
#define local_overwrite_4 strata_ring_benchmark_local_overwrite_config

enum {
	ID = 7,
	SUBBUF_BYTES = 128 << 10,
	NR_SUBBUFS = 4,
	BATCH_BYTES = 256 << 10, /* half a buffer: a batch never fills it */
};

struct target {
	const struct strata_ring_config *config;
	uint32_t bytes; /* whole record */
	int by_commit;	/* 1: as where no restartable sequences are registered */
	int full;	/* 1: the buffer is full, each record is discarded */
	struct strata_ring_channel channel;
	struct strata_ring_reader reader;
	uint64_t calls;
};

struct __attribute__((packed)) payload_12 {
	uint64_t a;
	uint32_t b;
};

static uint64_t text[64];

STRATA_INLINE void write_records(const struct strata_ring_config *config, struct bench_case *c,
				 uint64_t n, uint32_t bytes)
{
	struct target *target = (struct target *)c->data;
	const struct strata_ring_channel *channel = &target->channel;
	uint64_t x = BENCH_SEED;
	struct payload_12 pair;
	uint32_t word;

	target->calls += n;
	for (; n; n--) {
		x = bench_next(x);
		if (bytes == 4) {
			word = (uint32_t)x;
			strata_ring_record(config, channel, ID, &word, 4);
		} else if (bytes == 16) {
			pair.a = x;
			pair.b = (uint32_t)x;
			strata_ring_record(config, channel, ID, &pair, 12);
		} else {
			strata_ring_record(config, channel, ID, &text[x & 15], bytes - 4);
		}
	}
}

/* As a tracepoint does: the payload is assembled where strata_ring_publish() takes it from. */
STRATA_INLINE void publish_records(const struct strata_ring_config *config, struct bench_case *c,
				   uint64_t n)
{
	const struct strata_ring_event event = { ID, 12, 0 };
	struct target *target = (struct target *)c->data;
	uint64_t memory[(STRATA_RING_HEADER_MAX + 12 + 8 + 7) / 8], x = BENCH_SEED;
	unsigned char *staging = (unsigned char *)memory + STRATA_RING_HEADER_MAX;
	struct payload_12 pair;

	if (target->channel.header.publish != STRATA_ABI_RING_BY_POSITION) {
		write_records(config, c, n, 16); /* no restartable sequences here */
		return;
	}
	target->calls += n;
	for (; n; n--) {
		x = bench_next(x);
		pair.a = x;
		pair.b = (uint32_t)x;
		__builtin_memcpy(staging, &pair, sizeof(pair));
		strata_ring_publish(config, &target->channel.streams, &event, staging);
	}
}

#define LOOP(name, config, bytes)                                  \
	BENCH_NOINLINE void name(struct bench_case *c, uint64_t n) \
	{                                                          \
		write_records(&(config), c, n, bytes);             \
	}
#define LOOPS(writers, mode)                                     \
	LOOP(writers##_##mode##_loop_4, writers##_##mode##_4, 4) \
	LOOP(writers##_##mode##_loop_16, writers##_##mode, 16)   \
	LOOP(writers##_##mode##_loop_64, writers##_##mode, 64)   \
	LOOP(writers##_##mode##_loop_256, writers##_##mode, 256)

LOOPS(rseq, discard)
LOOPS(rseq, overwrite)
LOOPS(smp, discard)
LOOPS(smp, overwrite)
LOOPS(local, discard)
LOOPS(local, overwrite)

BENCH_NOINLINE void staged_discard(struct bench_case *c, uint64_t n)
{
	publish_records(&rseq_discard, c, n);
}

BENCH_NOINLINE void staged_overwrite(struct bench_case *c, uint64_t n)
{
	publish_records(&rseq_overwrite, c, n);
}

static void loop_ordered_clock(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
		bench_keep(strata_clock_cycles_ordered());
	}
}

static void prepare(struct bench_case *c)
{
	struct target *target = (struct target *)c->data;
	int i;

	for (i = 0; i < 2; i++) {
		if (target->config->loss_mode == STRATA_RING_DISCARD && !target->full)
			bench_drain(&target->reader);
		c->loop(c, c->n);
	}
	if (target->config->loss_mode == STRATA_RING_DISCARD && !target->full)
		bench_drain(&target->reader);
}

#define RATE(writers, mode, size, what)                                                        \
	{                                                                                      \
		.name = what, .loop = writers##_##mode##_loop_##size, .data = &(struct target) \
		{                                                                              \
			.config = size == 4 ? &writers##_##mode##_4 : &writers##_##mode,       \
			.bytes = size                                                          \
		}                                                                              \
	}
#define RATES(writers, mode)                                             \
	RATE(writers, mode, 4, #writers ", " #mode ",   4 B, no clock"), \
		RATE(writers, mode, 16, #writers ", " #mode ",  16 B"),  \
		RATE(writers, mode, 64, #writers ", " #mode ",  64 B"),  \
		RATE(writers, mode, 256, #writers ", " #mode ", 256 B")
#define OTHER(what, function, ...)                                       \
	{                                                                \
		.name = what, .loop = function, .data = &(struct target) \
		{                                                        \
			__VA_ARGS__                                      \
		}                                                        \
	}

/* Of the cases that the targets are about. */
enum {
	FIRST_WRITER = 3,
	RSEQ_16 = FIRST_WRITER + 1,
	RSEQ_OVERWRITE_16 = FIRST_WRITER + 5,
	SMP_16 = FIRST_WRITER + 9,
	SMP_OVERWRITE_16 = FIRST_WRITER + 13,
	RSEQ_STAGED = FIRST_WRITER + 24,
	FIRST_FULL = RSEQ_STAGED + 3,
};

static struct bench_case cases[] = {
	{ .name = "empty loop", .loop = bench_loop_empty },
	{ .name = "bare clock read", .loop = bench_loop_clock },
	{ .name = "bare clock read, ordered (for smp)", .loop = loop_ordered_clock },
	RATES(rseq, discard),
	RATES(rseq, overwrite),
	RATES(smp, discard),
	RATES(smp, overwrite),
	RATES(local, discard),
	RATES(local, overwrite),
	OTHER("rseq, discard,  16 B, staged in place", staged_discard, .config = &rseq_discard,
	      .bytes = 16),
	OTHER("rseq, overwrite, 16 B, staged in place", staged_overwrite, .config = &rseq_overwrite,
	      .bytes = 16),
	OTHER("rseq's fallback (smp ops, per CPU), 16 B", rseq_discard_loop_16,
	      .config = &rseq_discard, .bytes = 16, .by_commit = 1),
	OTHER("rseq, 16 B, full: discarded", rseq_discard_loop_16, .config = &rseq_discard,
	      .bytes = 16, .full = 1),
	OTHER("smp, 16 B, full: discarded", smp_discard_loop_16, .config = &smp_discard,
	      .bytes = 16, .full = 1),
	OTHER("local, 16 B, full: discarded", local_discard_loop_16, .config = &local_discard,
	      .bytes = 16, .full = 1),
};

#define NR_CASES ((unsigned)(sizeof(cases) / sizeof(cases[0])))

static void begin_case(const struct bench *b, struct bench_case *c)
{
	struct target *target = (struct target *)c->data;

	c->n = BATCH_BYTES / 16;
	if (target) {
		bench_channel(&target->channel, target->config, SUBBUF_BYTES, NR_SUBBUFS,
			      target->by_commit);
		if (strata_ring_reader_init(&target->reader,
					    bench_stream(&target->channel, b->cpu[0])))
			exit(2);
		c->before = prepare;
		if (target->bytes > 16)
			c->n = BATCH_BYTES / target->bytes;
		if (target->full)
			c->loop(c, SUBBUF_BYTES * NR_SUBBUFS / target->bytes);
	}
	if (b->once)
		c->n /= 8;
}

/* Each call either wrote its record or counted it as discarded. */
static void check_case(struct bench *b, struct bench_case *c)
{
	struct target *target = (struct target *)c->data;
	struct strata_ring_counters counters;

	if (!target)
		return;
	strata_ring_read_counters(bench_stream(&target->channel, b->cpu[0]), &counters);
	bench_must_equal(b, c->name, counters.written + counters.discarded_full, target->calls);
	if (!target->full)
		bench_must_equal(b, c->name, counters.discarded_full, 0);
	strata_ring_channel_close(&target->channel);
}

int main(int argc, char **argv)
{
	struct bench b;
	char what[80];
	unsigned i;

	bench_begin(&b, argc, argv, 200,
		    "record: what does one event record cost the thread that writes it? [ns]");
	for (i = 0; i < NR_CASES; i++)
		begin_case(&b, &cases[i]);
	bench_run(&b, cases, NR_CASES);
	bench_table(&b, cases, NR_CASES, "writers, loss mode, whole record");
	for (i = 0; i < NR_CASES; i++)
		check_case(&b, &cases[i]);
	printf("\n");
	if (strata_rseq_available()) {
		bench_target(&b, "rseq, discard, 16 B <= 1.5 x clock", cases[RSEQ_16].ratio, 1.5,
			     1);
		bench_target(&b, "rseq, overwrite, 16 B <= 1.5 x clock",
			     cases[RSEQ_OVERWRITE_16].ratio, 1.5, 1);
		bench_target(&b, "rseq, staged in place, 16 B <= 1.5 x clock",
			     cases[RSEQ_STAGED].ratio, 1.5, 1);
	} else {
		printf("rseq: no target, restartable sequences are not registered here\n");
	}
	bench_target(&b, "smp, discard, 16 B <= 4 x clock", cases[SMP_16].ratio, 4, 1);
	bench_target(&b, "smp, overwrite, 16 B <= 4 x clock", cases[SMP_OVERWRITE_16].ratio, 4, 1);
	for (i = 0; i < 3; i++) {
		snprintf(what, sizeof(what), "%s <= 1 x written", cases[FIRST_FULL + i].name);
		bench_target(&b, what,
			     bench_ratio(&cases[FIRST_FULL + i], &cases[FIRST_WRITER + 8 * i + 1],
					 b.rounds),
			     1, 1);
	}
	return bench_end(&b);
}
