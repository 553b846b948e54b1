/* SPDX-License-Identifier: MIT */
/*
 * reader.c - how fast does a reader move packets, compared with memcpy?
 *
 * A buffer is filled, then emptied: each packet got, its content copied out, put back. memcpy copies the
 * same bytes from a buffer that was filled by the same writer a moment ago, so the data are in the same
 * caches: either in one call for each packet, or in one call for the whole buffer.
 */
#include <strata/ring/client/tracer.h>

#include "../channels.h"

enum {
	ID = 7,
	RECORD_BYTES = 16,
	READER = 0, /* the three ways to move the same bytes */
	PIECES = 1,
	WHOLE = 2,
	NR_WAYS = 3,
};

struct source {
	const char *name;
	const struct strata_ring_config *config;
	uint64_t subbuf_bytes;
	uint64_t nr_subbufs;
	int other_cpu; /* 1: filled by the other CPU */
	int cpu;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
	uint64_t records; /* in a packet */
	uint64_t read;
	struct bench_case way[NR_WAYS];
	double share[2]; /* of the speed of memcpy: pieces, whole */
	uint64_t calls;	 /* to strata_ring_record() */
};

static unsigned char *copy; /* as large as the largest buffer */

static struct source sources[] = {
	{ .name = "discard,   8 x 128 KiB",
	  .config = &strata_ring_tracer_discard_config,
	  .subbuf_bytes = 128 << 10,
	  .nr_subbufs = 8 },
	{ .name = "overwrite, 2 x 512 KiB",
	  .config = &strata_ring_tracer_overwrite_config,
	  .subbuf_bytes = 512 << 10,
	  .nr_subbufs = 2 },
	{ .name = "overwrite, 8 x 128 KiB",
	  .config = &strata_ring_tracer_overwrite_config,
	  .subbuf_bytes = 128 << 10,
	  .nr_subbufs = 8 },
	{ .name = "overwrite, 256 x 4 KiB",
	  .config = &strata_ring_tracer_overwrite_config,
	  .subbuf_bytes = 4 << 10,
	  .nr_subbufs = 256 },
	{ .name = "discard,   32 x 1 MiB",
	  .config = &strata_ring_tracer_discard_config,
	  .subbuf_bytes = 1 << 20,
	  .nr_subbufs = 32 },
	{ .name = "discard,   8 x 128 KiB, other CPU's",
	  .config = &strata_ring_tracer_discard_config,
	  .subbuf_bytes = 128 << 10,
	  .nr_subbufs = 8,
	  .other_cpu = 1 },
	{ .name = "overwrite, 256 x 4 KiB, other CPU's",
	  .config = &strata_ring_tracer_overwrite_config,
	  .subbuf_bytes = 4 << 10,
	  .nr_subbufs = 256,
	  .other_cpu = 1 },
};

#define NR_SOURCES ((unsigned)(sizeof(sources) / sizeof(sources[0])))

STRATA_INLINE void write_records(const struct strata_ring_config *config,
				 const struct strata_ring_channel *channel, uint64_t n)
{
	unsigned char payload[RECORD_BYTES - 4];
	uint64_t x = BENCH_SEED;

	memset(payload, 0, sizeof(payload));
	for (; n; n--) {
		x = bench_next(x);
		memcpy(payload, &x, sizeof(x));
		strata_ring_record(config, channel, ID, payload, sizeof(payload));
	}
	strata_ring_flush_current(config, channel);
}

/* Fill every sub-buffer, from the source's CPU. */
static void fill(struct source *source)
{
	uint64_t n = source->records * source->nr_subbufs;
	int back = sched_getcpu();

	source->calls += n;
	if (source->other_cpu)
		bench_pin(source->cpu);
	if (source->config->loss_mode == STRATA_RING_DISCARD)
		write_records(&strata_ring_tracer_discard_config, &source->channel, n);
	else
		write_records(&strata_ring_tracer_overwrite_config, &source->channel, n);
	if (source->other_cpu)
		bench_pin(back);
}

static void before(struct bench_case *c)
{
	struct source *source = (struct source *)c->data;

	source->read += bench_drain(&source->reader);
	fill(source);
}

/* @n is bytes, so that the result is nanoseconds for each byte. */
BENCH_NOINLINE void move_packets(struct bench_case *c, uint64_t n)
{
	struct source *source = (struct source *)c->data;
	struct strata_ring_packet packet;
	uint64_t at = 0;

	(void)n;
	while (!strata_ring_get_next(&source->reader, &packet)) {
		memcpy(copy + at, packet.data, packet.content_bytes);
		at += packet.content_bytes;
		source->read += packet.records;
		strata_ring_put_next(&source->reader);
	}
}

BENCH_NOINLINE void copy_pieces(struct bench_case *c, uint64_t n)
{
	struct source *source = (struct source *)c->data;
	uint64_t i, bytes = n / source->nr_subbufs;

	for (i = 0; i < source->nr_subbufs; i++)
		memcpy(copy + i * bytes, source->s->data + i * source->subbuf_bytes, bytes);
}

BENCH_NOINLINE void copy_whole(struct bench_case *c, uint64_t n)
{
	struct source *source = (struct source *)c->data;

	memcpy(copy, source->s->data, n);
}

static void begin_source(const struct bench *b, struct source *source, uint64_t *largest)
{
	static void (*const ways[NR_WAYS])(struct bench_case *,
					   uint64_t) = { move_packets, copy_pieces, copy_whole };
	uint64_t bytes = source->subbuf_bytes * source->nr_subbufs;
	unsigned i;

	source->cpu = b->cpu[source->other_cpu];
	bench_channel(&source->channel, source->config, source->subbuf_bytes, source->nr_subbufs,
		      0);
	source->s = bench_stream(&source->channel, source->cpu);
	if (strata_ring_reader_init(&source->reader, source->s))
		exit(2);
	source->records = strata_ring_slot_max(source->s) / RECORD_BYTES;
	for (i = 0; i < NR_WAYS; i++) {
		source->way[i].data = source;
		source->way[i].before = before;
		source->way[i].loop = ways[i];
		source->way[i].n = source->records * source->nr_subbufs * RECORD_BYTES;
	}
	bench_series(source->way, NR_WAYS, b->rounds);
	if (bytes > *largest)
		*largest = bytes;
}

/* Everything that was written was read or given back. */
static void check_source(struct bench *b, struct source *source)
{
	struct strata_ring_counters counters;

	source->read += bench_drain(&source->reader);
	strata_ring_read_counters(source->s, &counters);
	bench_must_equal(b, source->name, counters.written - counters.overwritten_records,
			 source->read);
	/* A pause while filling costs a whole timestamp, and with it room for a record or two. */
	bench_must_equal(b, source->name, counters.written + strata_ring_discarded(source->s),
			 source->calls);
	strata_ring_channel_close(&source->channel);
}

static void print_source(const struct bench *b, struct source *source)
{
	double speed[NR_WAYS];
	unsigned i;

	for (i = 0; i < NR_WAYS; i++)
		speed[i] = 1 / bench_percentile(source->way[i].ns, b->rounds, 50);
	for (i = 0; i < 2; i++)
		source->share[i] =
			bench_ratio(&source->way[i + 1], &source->way[READER], b->rounds);
	printf("%-36s %8.2f %8.2f %8.2f %9.0f%% %9.0f%%\n", source->name, speed[READER],
	       speed[PIECES], speed[WHOLE], 100 * source->share[0], 100 * source->share[1]);
}

/* Against copying packet by packet: the reader cannot know that packets lie behind each other. */
static void judge_source(struct bench *b, const struct source *source)
{
	char what[96];

	snprintf(what, sizeof(what), "%s: reader >= 0.80 x memcpy of the same pieces",
		 source->name);
	bench_target(b, what, source->share[0], 0.80, 0);
}

int main(int argc, char **argv)
{
	struct bench_case base[2] = {
		{ .name = "empty loop", .loop = bench_loop_empty, .n = 10000 },
		{ .name = "bare clock read", .loop = bench_loop_clock, .n = 10000 }
	};
	unsigned round, i, way, nr = NR_SOURCES;
	uint64_t largest = 0;
	struct bench b;

	bench_begin(&b, argc, argv, 40,
		    "reader: how fast does a reader move packets, compared with memcpy?");
	if (!strata_rseq_available())
		printf("no restartable sequences here: published by commit\n");
	if (b.nr_cpus < 2)
		nr -= 2;
	for (i = 0; i < nr; i++)
		begin_source(&b, &sources[i], &largest);
	copy = (unsigned char *)bench_allocate(1, largest);
	memset(copy, 1, largest);
	bench_series(base, 2, b.rounds);
	for (round = 0; round < b.rounds + 1; round++) {
		for (i = 0; i < 2; i++)
			base[i].ns[round ? round - 1 : 0] = bench_time(&base[i]);
		/* The first warms up and is written over. */
		for (i = 0; i < nr; i++)
			for (way = 0; way < NR_WAYS; way++) {
				struct bench_case *c = &sources[i].way[(way + round) % NR_WAYS];

				c->ns[round ? round - 1 : 0] = bench_time(c);
			}
	}
	bench_table(&b, base, 2, "baseline [ns]");
	printf("\n%-36s %8s %8s %8s %10s %10s\n", "buffer [GB/s]", "reader", "pieces", "whole",
	       "of pieces", "of whole");
	for (i = 0; i < nr; i++)
		print_source(&b, &sources[i]);
	printf("\n");
	for (i = 0; i < nr; i++)
		judge_source(&b, &sources[i]);
	for (i = 0; i < nr; i++)
		check_source(&b, &sources[i]);
	return bench_end(&b);
}
