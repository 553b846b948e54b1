/* SPDX-License-Identifier: MIT */
/*
 * threads.c - do two writers cost each other anything?
 *
 * Two virtual CPUs may share a core, and then each is slower when the other works, whatever it does.
 * So a batch of records is compared with a batch of bare clock reads run on the same CPUs at the same
 * time: that ratio must not rise with the second writer. One buffer for each CPU, overwrite mode, 16-byte
 * records. Measured is CPU time, as in the papers. The global buffer, where writers do share a cache
 * line, is shown and has no target: there a writer that is preempted between reserve and commit stops
 * the others after one lap, and their records are discarded.
 */
#include <strata/ring/client/tracer.h>

#include "../channels.h"

enum {
	ID = 7,
	SUBBUF_BYTES = 128 << 10,
	NR_SUBBUFS = 8,
	RSEQ = 2, /* of the loads */
	SMP = 3,
	GLOBAL = 4,
	NR_LOADS = 5,
};

/* The same ratio with 2 writers, within: */
#define RISE 1.10

static const struct strata_ring_config smp_per_cpu = { STRATA_RING_OVERWRITE,
						       STRATA_RING_WRITERS_SMP,
						       STRATA_RING_PER_CPU,
						       STRATA_RING_WAKE_NONE,
						       1,
						       strata_clock_cycles_ordered,
						       STRATA_RING_HEADER_COMPACT,
						       NULL };
static const struct strata_ring_config smp_global = { STRATA_RING_OVERWRITE,
						      STRATA_RING_WRITERS_SMP,
						      STRATA_RING_GLOBAL,
						      STRATA_RING_WAKE_NONE,
						      1,
						      strata_clock_cycles_ordered,
						      STRATA_RING_HEADER_COMPACT,
						      NULL };

struct __attribute__((packed)) payload {
	uint64_t a;
	uint32_t b;
};

STRATA_INLINE void write_records(const struct strata_ring_config *config, struct bench_case *c,
				 uint64_t n)
{
	const struct strata_ring_channel *channel = (const struct strata_ring_channel *)c->data;
	uint64_t x = BENCH_SEED;
	struct payload payload;

	for (; n; n--) {
		x = bench_next(x);
		payload.a = x;
		payload.b = (uint32_t)x;
		strata_ring_record(config, channel, ID, &payload, sizeof(payload));
	}
}

BENCH_NOINLINE void loop_rseq(struct bench_case *c, uint64_t n)
{
	write_records(&strata_ring_tracer_overwrite_config, c, n);
}

BENCH_NOINLINE void loop_smp(struct bench_case *c, uint64_t n)
{
	write_records(&smp_per_cpu, c, n);
}

BENCH_NOINLINE void loop_global(struct bench_case *c, uint64_t n)
{
	write_records(&smp_global, c, n);
}

static struct strata_ring_channel channels[NR_LOADS]; /* of the loads that write */
static const struct bench_case loads[NR_LOADS] = {
	{ .name = "empty loop", .loop = bench_loop_empty },
	{ .name = "bare clock read", .loop = bench_loop_clock },
	{ .name = "rseq, buffer per CPU", .loop = loop_rseq, .data = &channels[RSEQ] },
	{ .name = "smp, buffer per CPU", .loop = loop_smp, .data = &channels[SMP] },
	{ .name = "smp, one global buffer", .loop = loop_global, .data = &channels[GLOBAL] },
};
static const struct strata_ring_config *const configs[NR_LOADS] = {
	NULL, NULL, &strata_ring_tracer_overwrite_config, &smp_per_cpu, &smp_global,
};

static struct bench b;
static struct bench_case alone[2][NR_LOADS], both[2][NR_LOADS]; /* [writer] */
static pthread_barrier_t turn;
static uint64_t arrived; /* writers that are ready to begin; never reset */

/* Sleeping threads wake one after the other: meet once more without sleep, then begin together. */
static void meet(uint64_t *met)
{
	*met += 2;
	strata_add_acq_rel(&arrived, 1);
	while (strata_load_acquire(&arrived) < *met)
		;
}

/* Writer @me: every round each load, with the other writer idle and then together with it. */
static void write_rounds(int me)
{
	uint64_t met = 0;
	unsigned round, i;
	double ns;
	int who;

	bench_pin(b.cpu[me]);
	for (round = 0; round < b.rounds + 1; round++) {
		for (i = 0; i < NR_LOADS; i++) {
			for (who = 0; who < b.nr_cpus; who++) {
				pthread_barrier_wait(&turn);
				if (who != me)
					continue;
				ns = bench_cpu_time(&alone[me][i]);
				if (round) /* the first warms up */
					alone[me][i].ns[round - 1] = ns;
			}
			pthread_barrier_wait(&turn);
			if (b.nr_cpus < 2)
				continue;
			meet(&met);
			ns = bench_cpu_time(&both[me][i]);
			if (round)
				both[me][i].ns[round - 1] = ns;
		}
	}
}

static void *second_writer(void *argument)
{
	(void)argument;
	write_rounds(1);
	return NULL;
}

/* Table of one set; returns nothing: ratios are left in the cases. */
static void print_set(struct bench_case set[2][NR_LOADS], const char *what, int nr_writers)
{
	char name[64];
	unsigned i;
	int me;

	bench_heading(what);
	for (i = 0; i < NR_LOADS; i++)
		for (me = 0; me < nr_writers; me++) {
			struct bench_case *c = &set[me][i];

			bench_summarize(c, &set[me][BENCH_CLOCK], b.rounds);
			snprintf(name, sizeof(name), "%s, CPU %d", loads[i].name, b.cpu[me]);
			c->name = name;
			bench_row(c);
			bench_raw(what, name, c->ns, NULL, b.rounds);
		}
}

static void judge(unsigned load, const char *what)
{
	double one = (alone[0][load].ratio + alone[1][load].ratio) / 2;
	double two = (both[0][load].ratio + both[1][load].ratio) / 2;

	printf("%s: %.2f x clock with 1 writer, %.2f x with 2\n", loads[load].name, one, two);
	bench_target(&b, what, two / one, RISE, 1);
}

/* All records of all streams are counted, whoever wrote them. */
static void check(unsigned load)
{
	uint64_t written = 0, discarded = 0, nested = 0,
		 runs = (uint64_t)(b.rounds + 1) * (b.nr_cpus > 1 ? 4 : 1);
	struct strata_ring_counters counters;
	uint32_t i;

	for (i = 0; i < channels[load].streams.nr; i++) {
		strata_ring_read_counters(&channels[load].streams.stream[i], &counters);
		written += counters.written;
		nested += counters.discarded_nested;
		discarded += strata_ring_discarded(&channels[load].streams.stream[i]);
	}
	bench_must_equal(&b, loads[load].name, written + discarded, runs * alone[0][load].n);
	bench_must_equal(&b, loads[load].name, discarded, nested);
	if (load != GLOBAL)
		bench_must_equal(&b, loads[load].name, discarded, 0);
	else if (discarded)
		printf("\n%s: %llu of %llu records discarded behind a preempted writer\n",
		       loads[load].name, (unsigned long long)discarded,
		       (unsigned long long)(written + discarded));
	strata_ring_channel_close(&channels[load]);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	unsigned i;
	int me;

	bench_begin(&b, argc, argv, 60, "threads: do two writers cost each other anything? [ns]");
	for (i = 0; i < NR_LOADS; i++) {
		if (configs[i])
			bench_channel(&channels[i], configs[i], SUBBUF_BYTES, NR_SUBBUFS, 0);
		for (me = 0; me < 2; me++) {
			alone[me][i] = loads[i];
			alone[me][i].n = b.once ? 10000 : 200000;
			both[me][i] = alone[me][i];
		}
	}
	for (me = 0; me < 2; me++) {
		bench_series(alone[me], NR_LOADS, b.rounds);
		bench_series(both[me], NR_LOADS, b.rounds);
	}
	if (pthread_barrier_init(&turn, NULL, (unsigned)b.nr_cpus) ||
	    (b.nr_cpus > 1 && pthread_create(&thread, NULL, second_writer, NULL)))
		return 2;
	write_rounds(0);
	if (b.nr_cpus > 1)
		pthread_join(thread, NULL);
	print_set(alone, "one writer", b.nr_cpus);
	if (b.nr_cpus > 1)
		print_set(both, "two writers at once", 2);
	for (i = 0; i < NR_LOADS; i++)
		if (configs[i])
			check(i);
	printf("\npapers, Xeon E5405 (another machine, 2010), no clock: 1 writer 83 ns, 2 writers "
	       "116 ns for each record\n");
	if (b.nr_cpus > 1) {
		judge(RSEQ, "rseq: ratio with 2 writers <= 1.10 x that with 1");
		judge(SMP, "smp: ratio with 2 writers <= 1.10 x that with 1");
	} else {
		printf("2 writers: not measured, there is one CPU\n");
	}
	return bench_end(&b);
}
