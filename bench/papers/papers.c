/* SPDX-License-Identifier: MIT */
/*
 * papers.c - the ring buffer table of "Generic Ring Buffer Library (v2)" (Desnoyers, 2010), on this machine.
 *
 * As there: 1 MiB per CPU, 4 bytes of payload, one writer; overwrite mode without and with a reader
 * that comes every 100 ms, at three sub-buffer sizes; discard mode with a reader. Beyond that: a reader that
 * never sleeps. Otherwise than there: no clock, writers and readers in user space on two CPUs, and the
 * reader copies whole packets. A cost is all the time of the writer, packet switches included, for
 * each record.
 */
#include <strata/ring/client/benchmark.h>

#include "../channels.h"

enum {
	BUFFER_BYTES = 1 << 20,
	BATCH = 1024, /* records between two looks at the time */
	NO_READER = -1,
	ALWAYS = 0, /* the reader never sleeps */
	LOCAL = 0,
	RSEQ = 1,
	NR_WRITERS = 2,
};

/* What one run counts. */
struct result {
	uint64_t calls, discarded, read;
	double seconds;
	double ns;	     /* for each call */
	double ns_written;   /* for each call of the batches without a discarded record */
	double ns_discarded; /* for each call of the batches with nothing else */
};

struct row {
	const char *name;
	int overwrite;
	uint64_t subbuf_bytes;
	int period_ms;	   /* of the reader */
	const char *paper; /* what was measured there */
	struct result *results[NR_WRITERS];
};

static struct row rows[] = {
	{ "overwrite, 512 KiB, no reader", 1, 512 << 10, NO_READER, "83 ns", { NULL } },
	{ "overwrite, 128 KiB, no reader", 1, 128 << 10, NO_READER, "84 ns", { NULL } },
	{ "overwrite,   4 KiB, no reader", 1, 4 << 10, NO_READER, "86 ns", { NULL } },
	{ "overwrite, 512 KiB, reader each 100 ms", 1, 512 << 10, 100, "89 ns, 0.3 M/s", { NULL } },
	{ "overwrite, 128 KiB, reader each 100 ms", 1, 128 << 10, 100, "111 ns, 1.9 M/s", { NULL } },
	{ "overwrite,   4 KiB, reader each 100 ms", 1, 4 << 10, 100, "199 ns, 4.8 M/s", { NULL } },
	{ "overwrite, 512 KiB, reader always", 1, 512 << 10, ALWAYS, "", { NULL } },
	{ "overwrite, 128 KiB, reader always", 1, 128 << 10, ALWAYS, "", { NULL } },
	{ "overwrite,   4 KiB, reader always", 1, 4 << 10, ALWAYS, "", { NULL } },
	{ "discard,   128 KiB, reader each 100 ms", 0, 128 << 10, 100, "2.8 M/s", { NULL } },
	{ "discard,   128 KiB, reader always", 0, 128 << 10, ALWAYS, "", { NULL } },
};

#define NR_ROWS ((unsigned)(sizeof(rows) / sizeof(rows[0])))

static struct bench b;
static const char *const writer_names[NR_WRITERS] = { "local", "rseq" };
static const struct strata_ring_config *const configs[NR_WRITERS][2] = {
	{ &strata_ring_benchmark_local_discard_config,
	  &strata_ring_benchmark_local_overwrite_config },
	{ &strata_ring_benchmark_discard_config, &strata_ring_benchmark_overwrite_config },
};

/* ---- the reader ---- */

struct reading {
	struct strata_ring_reader reader;
	unsigned char copy[BUFFER_BYTES]; /* one packet at a time */
	uint64_t read;
	uint64_t stop; /* atomic: 1 when the writer has finished */
	int period_ms;
};

static void read_all(struct reading *reading)
{
	struct strata_ring_packet packet;

	while (!strata_ring_get_next(&reading->reader, &packet)) {
		memcpy(reading->copy, packet.data, packet.content_bytes);
		reading->read += packet.records;
		strata_ring_put_next(&reading->reader);
	}
}

static void *read_until_stopped(void *argument)
{
	struct reading *reading = (struct reading *)argument;
	struct timespec period = { reading->period_ms / 1000,
				   reading->period_ms % 1000 * 1000000L };

	bench_pin(b.cpu[1]);
	while (!strata_load_acquire(&reading->stop)) {
		read_all(reading);
		if (reading->period_ms)
			nanosleep(&period, NULL);
	}
	return NULL;
}

/* ---- the writer ---- */

/* @n records; returns how many were discarded. */
STRATA_INLINE uint64_t write_records(const struct strata_ring_config *config,
				     const struct strata_ring_channel *channel, uint64_t n)
{
	uint64_t x = BENCH_SEED, discarded = 0;
	uint32_t payload;

	for (; n; n--) {
		x = bench_next(x);
		payload = (uint32_t)x;
		discarded += strata_ring_record(config, channel, 0, &payload, sizeof(payload)) != 0;
	}
	return discarded;
}

#define WRITE(name, config)                                                                 \
	BENCH_NOINLINE uint64_t name(const struct strata_ring_channel *channel, uint64_t n) \
	{                                                                                   \
		return write_records(&config, channel, n);                                  \
	}
WRITE(write_local_discard, strata_ring_benchmark_local_discard_config)
WRITE(write_local_overwrite, strata_ring_benchmark_local_overwrite_config)
WRITE(write_rseq_discard, strata_ring_benchmark_discard_config)
WRITE(write_rseq_overwrite, strata_ring_benchmark_overwrite_config)

static uint64_t (*const writes[NR_WRITERS][2])(const struct strata_ring_channel *, uint64_t) = {
	{ write_local_discard, write_local_overwrite },
	{ write_rseq_discard, write_rseq_overwrite },
};

/* Write for @seconds; batches that are all written, or all discarded, say what one of those costs. */
static void write_for(uint64_t (*write)(const struct strata_ring_channel *, uint64_t),
		      const struct strata_ring_channel *channel, double seconds, struct result *r)
{
	uint64_t begin_ns = bench_now(CLOCK_MONOTONIC), cpu_ns = bench_now(CLOCK_THREAD_CPUTIME_ID);
	uint64_t end_ns = begin_ns + (uint64_t)(seconds * 1e9), begin, now, discarded;
	uint64_t written_ns = 0, discarded_ns = 0, written_calls = 0, discarded_calls = 0;

	memset(r, 0, sizeof(*r));
	for (now = begin = begin_ns; now < end_ns; begin = now) {
		discarded = write(channel, BATCH);
		now = bench_now(CLOCK_MONOTONIC);
		r->calls += BATCH;
		r->discarded += discarded;
		if (!discarded) {
			written_ns += now - begin;
			written_calls += BATCH;
		} else if (discarded == BATCH) {
			discarded_ns += now - begin;
			discarded_calls += BATCH;
		}
	}
	r->seconds = (double)(now - begin_ns) / 1e9;
	r->ns = (double)(bench_now(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / (double)r->calls;
	r->ns_written = written_calls ? (double)written_ns / (double)written_calls : 0;
	r->ns_discarded = discarded_calls ? (double)discarded_ns / (double)discarded_calls : 0;
}

/* Every record written is read or overwritten, none twice; every call wrote its record or counted it. */
static void check(const struct row *row, const struct strata_ring_stream *s, const struct result *r,
		  uint64_t warm, uint64_t read)
{
	struct strata_ring_counters counters;

	strata_ring_read_counters(s, &counters);
	bench_must_equal(&b, row->name, counters.written + counters.discarded_full,
			 r->calls + warm);
	bench_must_equal(&b, row->name, counters.written - counters.overwritten_records, read);
	if (row->overwrite)
		bench_must_equal(&b, row->name, r->discarded, 0);
}

static void run(const struct row *row, int writer, double seconds, struct result *r)
{
	struct reading *reading = (struct reading *)bench_allocate(1, sizeof(*reading));
	const struct strata_ring_config *config = configs[writer][row->overwrite];
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	pthread_t thread;
	uint64_t warm = 0, rest;

	bench_channel(&channel, config, row->subbuf_bytes, BUFFER_BYTES / row->subbuf_bytes, 0);
	s = bench_stream(&channel, b.cpu[0]);
	reading->period_ms = b.once && row->period_ms > 5 ? 5 : row->period_ms;
	if (strata_ring_reader_init(&reading->reader, s))
		exit(2);
	if (row->overwrite) {
		warm = BUFFER_BYTES / 2;
		writes[writer][1](&channel, warm);
	}
	if (row->period_ms != NO_READER &&
	    pthread_create(&thread, NULL, read_until_stopped, reading))
		exit(2);
	write_for(writes[writer][row->overwrite], &channel, seconds, r);
	strata_store_release(&reading->stop, 1);
	if (row->period_ms != NO_READER)
		pthread_join(thread, NULL);
	r->read = reading->read;
	strata_ring_flush_current(config, &channel);
	rest = bench_drain(&reading->reader);
	check(row, s, r, warm, r->read + rest);
	strata_ring_channel_close(&channel);
	free(reading);
}

/* ---- results ---- */

/* Median over the rounds of the double at @offset of struct result. */
static double median(const struct result *results, size_t offset, const double *divisors,
		     unsigned percent)
{
	double values[1000];
	unsigned i, n = b.rounds < 1000 ? b.rounds : 1000;

	for (i = 0; i < n; i++) {
		memcpy(&values[i], (const char *)&results[i] + offset, sizeof(double));
		if (divisors)
			values[i] /= divisors[i];
	}
	return bench_percentile(values, n, percent);
}

static void print_row(const struct row *row, int writer, const double *clock)
{
	const struct result *r = row->results[writer], *last = &r[b.rounds - 1];
	size_t ns = offsetof(struct result, ns);
	char name[80];

	snprintf(name, sizeof(name), "%-5s %s", writer_names[writer], row->name);
	printf("%-46s %7.2f %7.2f %7.2f %7.2f %8.2f  %s\n", name, median(r, ns, NULL, 50),
	       median(r, ns, NULL, 10), median(r, ns, NULL, 90), median(r, ns, clock, 50),
	       (double)last->read / last->seconds / 1e6, row->paper);
}

/* All rounds, for bench/report: the cost [ns], the rate of the reader [million records/s], and the share that is discarded [%]. */
static void save_rounds(const struct row *row, int writer)
{
	const struct result *r = row->results[writer];
	double ns[1000], read[1000], discarded[1000];
	unsigned i, n = b.rounds < 1000 ? b.rounds : 1000;
	char name[80];

	for (i = 0; i < n; i++) {
		ns[i] = r[i].ns;
		read[i] = (double)r[i].read / r[i].seconds / 1e6;
		discarded[i] = 100.0 * (double)r[i].discarded / (double)r[i].calls;
	}
	snprintf(name, sizeof(name), "%s: %s", writer_names[writer], row->name);
	bench_raw("cost", name, ns, NULL, n);
	bench_raw("read", name, read, NULL, n);
	bench_raw("discarded", name, discarded, NULL, n);
}

static void print_discard(const struct row *row, int writer)
{
	const struct result *r = row->results[writer], *last = &r[b.rounds - 1];

	printf("%-5s %s: %llu written, %llu discarded, %llu read in %.1f s; %.2f ns written, %.2f ns "
	       "discarded\n",
	       writer_names[writer], row->name, (unsigned long long)(last->calls - last->discarded),
	       (unsigned long long)last->discarded, (unsigned long long)last->read, last->seconds,
	       median(r, offsetof(struct result, ns_written), NULL, 50),
	       median(r, offsetof(struct result, ns_discarded), NULL, 50));
}

static void judge(const struct row *row, int writer)
{
	const struct result *r = row->results[writer];
	double ratio[1000];
	char what[80];
	unsigned i, n = 0;

	for (i = 0; i < b.rounds && n < 1000; i++)
		if (r[i].ns_written > 0 && r[i].ns_discarded > 0)
			ratio[n++] = r[i].ns_discarded / r[i].ns_written;
	snprintf(what, sizeof(what), "%s, discarded record <= 1 x a written one",
		 writer_names[writer]);
	if (n)
		bench_target(&b, what, bench_percentile(ratio, n, 50), 1, 1);
}

static int has_reader_cpu(const struct row *row)
{
	return row->period_ms == NO_READER || b.nr_cpus > 1;
}

int main(int argc, char **argv)
{
	struct bench_case base[2] = {
		{ .name = "empty loop", .loop = bench_loop_empty, .n = 100000 },
		{ .name = "bare clock read", .loop = bench_loop_clock, .n = 100000 }
	};
	unsigned round, i;
	double seconds;
	int writer;

	bench_begin(
		&b, argc, argv, 5,
		"papers: the ring buffer table of the papers: 1 MiB per CPU, 4-byte payload, no clock "
		"[ns]");
	bench_series(base, 2, b.rounds);
	for (i = 0; i < NR_ROWS; i++)
		for (writer = 0; writer < NR_WRITERS; writer++)
			rows[i].results[writer] =
				(struct result *)bench_allocate(b.rounds, sizeof(struct result));
	for (round = 0; round < b.rounds; round++) {
		for (i = 0; i < 2; i++)
			base[i].ns[round] = bench_cpu_time(&base[i]);
		for (i = 0; i < NR_ROWS; i++) {
			seconds = b.once ? 0.02 : rows[i].period_ms == NO_READER ? 0.1 : 0.5;
			for (writer = 0; writer < NR_WRITERS && has_reader_cpu(&rows[i]); writer++)
				run(&rows[i], writer, seconds, &rows[i].results[writer][round]);
		}
	}
	bench_table(&b, base, 2, "baseline");
	printf("\n%-46s %7s %7s %7s %7s %8s  %s\n", "writer, loss mode, sub-buffers, reader",
	       "median", "p10", "p90", "x clock", "read M/s", "paper (Xeon E5405, 2010)");
	for (i = 0; i < NR_ROWS; i++)
		for (writer = 0; writer < NR_WRITERS && has_reader_cpu(&rows[i]); writer++) {
			print_row(&rows[i], writer, base[BENCH_CLOCK].ns);
			save_rounds(&rows[i], writer);
		}
	printf("\n");
	for (i = 0; i < NR_ROWS; i++)
		for (writer = 0; writer < NR_WRITERS && has_reader_cpu(&rows[i]); writer++)
			if (!rows[i].overwrite)
				print_discard(&rows[i], writer);
	printf("paper (another machine, 2010, its clock included): 28020143 written, 28995757 discarded, "
	       "28017426 read in 10 s; 257 ns written, 96 ns discarded\n\n");
	for (writer = 0; writer < NR_WRITERS && b.nr_cpus > 1; writer++)
		judge(&rows[9], writer);
	return bench_end(&b);
}
