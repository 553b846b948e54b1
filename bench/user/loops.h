/* SPDX-License-Identifier: MIT */
/*
 * loops.h - what does an event cost the thread that it happens in? The loops, for one tracer.
 *
 * The including program defines TRACE_U64(x), TRACE_STRING(s) and TRACE_TEN(x). Each batch is followed by
 * a pause in which the tracer's consumer empties the buffers: this measures events, not a disk. The first
 * events go through all of the buffers, so that no page is new in what is timed.
 *
 *   PROGRAM [--once] [--rounds=N] [--label=TEXT]
 */
#ifndef BENCH_USER_LOOPS_H
#define BENCH_USER_LOOPS_H

#include "../bench.h"

#define BATCH	 20000u
#define WARM_UP	 2000000u
#define PAUSE_NS 4000000

static const char text_32[] = "thirty-one characters and a NUL"; /* 32 bytes */

BENCH_NOINLINE void loop_u64(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
		TRACE_U64(x);
	}
}

BENCH_NOINLINE void loop_string(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;
	const char *text = text_32;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
		__asm__ volatile("" : "+r"(text)); /* its length is not known to the compiler */
		TRACE_STRING(text);
	}
}

BENCH_NOINLINE void loop_ten(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
		TRACE_TEN(x);
	}
}

static void pause_for_consumer(struct bench_case *c)
{
	const struct timespec t = { 0, PAUSE_NS };

	(void)c;
	nanosleep(&t, NULL);
}

/* One thread on @cpu; @lines gets the table, in text. */
static void run_thread(struct bench *b, int cpu, struct bench_case *cases, unsigned nr)
{
	unsigned i;

	bench_pin(cpu);
	for (i = 0; i < WARM_UP / BATCH; i++) {
		loop_u64(NULL, BATCH);
		pause_for_consumer(NULL);
	}
	bench_run(b, cases, nr);
}

struct second {
	struct bench b;
	struct bench_case *cases;
	unsigned nr;
};

static void *run_second(void *data)
{
	struct second *second = (struct second *)data;

	run_thread(&second->b, second->b.cpu[1], second->cases, second->nr);
	return NULL;
}

#define CASES                                                                                \
	{                                                                                    \
		{ .name = "empty loop", .loop = bench_loop_empty, .n = BATCH },              \
			{ .name = "bare clock read", .loop = bench_loop_clock, .n = BATCH }, \
			{ .name = "event, u64",                                              \
			  .loop = loop_u64,                                                  \
			  .n = BATCH,                                                        \
			  .before = pause_for_consumer },                                    \
			{ .name = "event, string of 32 bytes",                               \
			  .loop = loop_string,                                               \
			  .n = BATCH,                                                        \
			  .before = pause_for_consumer },                                    \
			{ .name = "event, ten fields",                                       \
			  .loop = loop_ten,                                                  \
			  .n = BATCH,                                                        \
			  .before = pause_for_consumer },                                    \
	}
#define NR_CASES 5

/* Tables for people, and "RESULT label case median_ns ratio" for bench/user/run. */
static int run_loops(int argc, char **argv, const char *question)
{
	static struct bench_case one[NR_CASES] = CASES, first[NR_CASES] = CASES,
				 other[NR_CASES] = CASES;
	const char *label = argv[0];
	struct second second;
	struct bench b;
	pthread_t thread;
	unsigned i;

	if (argc > 1 && !strncmp(argv[argc - 1], "--label=", 8))
		label = argv[--argc] + 8;
	bench_begin(&b, argc, argv, 101, question);
	run_thread(&b, b.cpu[0], one, NR_CASES);
	bench_table(&b, one, NR_CASES, label);
	for (i = 0; i < NR_CASES; i++)
		printf("RESULT %s/%s %.3f %.3f\n", label, one[i].name, one[i].median, one[i].ratio);
	if (b.nr_cpus < 2)
		return 0;
	second.b = b;
	second.cases = other;
	second.nr = NR_CASES;
	if (pthread_create(&thread, NULL, run_second, &second))
		return 2;
	run_thread(&b, b.cpu[0], first, NR_CASES);
	pthread_join(thread, NULL);
	bench_table(&b, first, NR_CASES, "two threads at once, the first");
	bench_table(&b, other, NR_CASES, "two threads at once, the second");
	for (i = 0; i < NR_CASES; i++) {
		printf("RESULT %s/two/%s %.3f %.3f\n", label, first[i].name, first[i].median,
		       first[i].ratio);
		printf("RESULT %s/two/%s %.3f %.3f\n", label, other[i].name, other[i].median,
		       other[i].ratio);
	}
	return 0;
}

#endif /* BENCH_USER_LOOPS_H */
