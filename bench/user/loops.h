/* SPDX-License-Identifier: MIT */
/*
 * loops.h - what does an event cost the thread that it happens in? The loops, for one tracer.
 *
 * The including program defines TRACE_U64(x), TRACE_STRING(s), TRACE_TEN(x), TRACE_PAIR(i, s), TRACE_ENUMS(x) and
 * TRACE_TWELVE(x, array, text). Each batch is followed by
 * a pause in which the tracer's consumer empties the buffers: this measures events, not a disk. The first
 * events go through all of the buffers, so that no page is new in what is timed.
 *
 *   PROGRAM [--once] [--rounds=N] [--one|--other] [--cases=N] [--label=TEXT]
 *
 * --one: the loops of one thread only; --other: of one that is not the first. --cases: the first N of them.
 */
#ifndef BENCH_USER_LOOPS_H
#define BENCH_USER_LOOPS_H

#include "../bench.h"

#define BATCH	 20000u
#define WARM_UP	 2000000u
#define PAUSE_NS 4000000

static const char text_32[] = "thirty-one characters and a NUL"; /* 32 bytes */

static uint32_t numbers[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* @what, an event of x, text (whose length the compiler does not know) and numbers. */
#define LOOP(name, what)                                           \
	BENCH_NOINLINE void name(struct bench_case *c, uint64_t n) \
	{                                                          \
		uint64_t x = BENCH_SEED;                           \
		const char *text = text_32;                        \
                                                                   \
		(void)c;                                           \
		for (; n; n--) {                                   \
			x = bench_next(x);                         \
			bench_keep(x);                             \
			__asm__ volatile("" : "+r"(text));         \
			what;                                      \
		}                                                  \
	}

LOOP(loop_u64, TRACE_U64(x))
LOOP(loop_string, TRACE_STRING(text))
LOOP(loop_ten, TRACE_TEN(x))
LOOP(loop_pair, TRACE_PAIR((int)x, text))
LOOP(loop_enums, TRACE_ENUMS(x))
LOOP(loop_twelve, TRACE_TWELVE(x, numbers, text))

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
	for (i = 0; i < (b->once ? 1 : WARM_UP / BATCH); i++) {
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

	run_thread(&second->b, second->b.cpu[second->b.nr_cpus - 1], second->cases, second->nr);
	return NULL;
}

#define EVENT(what, function)                                                                      \
	{                                                                                          \
		.name = "event, " what, .loop = function, .n = BATCH, .before = pause_for_consumer \
	}
#define CASES                                                                                \
	{                                                                                    \
		{ .name = "empty loop", .loop = bench_loop_empty, .n = BATCH },              \
			{ .name = "bare clock read", .loop = bench_loop_clock, .n = BATCH }, \
			EVENT("u64", loop_u64), EVENT("string of 32 bytes", loop_string),    \
			EVENT("ten fields", loop_ten), EVENT("int and string", loop_pair),   \
			EVENT("seven enumerations", loop_enums),                             \
			EVENT("twelve fields", loop_twelve),                                 \
	}
#define NR_CASES 8

/* For bench/user/run and asked. */
static void print_result(const char *label, const struct bench_case *c)
{
	printf("RESULT %s/%s %.3f %.3f %u %.3f %.3f\n", label, c->name, c->median, c->ratio,
	       c->alone, c->alone_median, c->alone_ratio);
	printf("LOWEST %s/%s %.3f\n", label, c->name, c->min);
}

/* Takes a flag from the end of the command line, where it may be. Returns its value, or NULL. */
static const char *take_flag(int *argc, char **argv, const char *flag)
{
	if (*argc > 1 && !strncmp(argv[*argc - 1], flag, strlen(flag)))
		return argv[--*argc] + strlen(flag);
	return NULL;
}

/* Tables for people, "RESULT label/case median ratio alone median ratio" and "LOWEST label/case lowest". */
static int run_loops(int argc, char **argv, const char *question)
{
	static struct bench_case one[NR_CASES] = CASES, first[NR_CASES] = CASES,
				 other[NR_CASES] = CASES;
	const char *label = take_flag(&argc, argv, "--label=");
	const char *wanted = take_flag(&argc, argv, "--cases=");
	unsigned nr = wanted ? (unsigned)strtoul(wanted, NULL, 10) : NR_CASES, i;
	const int is_other = !!take_flag(&argc, argv, "--other");
	const int is_one = is_other || take_flag(&argc, argv, "--one");
	char two[64];
	struct second second;
	struct bench b;
	pthread_t thread;

	label = label ? label : argv[0];
	if (nr < 2 || nr > NR_CASES)
		bench_usage(argv[0], 2);
	snprintf(two, sizeof(two), "%s/two", label);
	bench_begin(&b, argc, argv, 101, question);
	second.b = b;
	second.cases = one;
	second.nr = nr;
	if (!is_other)
		run_thread(&b, b.cpu[0], one, nr);
	else if (pthread_create(&thread, NULL, run_second, &second) || pthread_join(thread, NULL))
		return 2;
	bench_table(&b, one, nr, label);
	for (i = 0; i < nr; i++)
		print_result(label, &one[i]);
	if (is_one || b.nr_cpus < 2)
		return 0;
	second.cases = other;
	if (pthread_create(&thread, NULL, run_second, &second))
		return 2;
	run_thread(&b, b.cpu[0], first, nr);
	pthread_join(thread, NULL);
	bench_table(&b, first, nr, "two threads at once, the first");
	bench_table(&b, other, nr, "two threads at once, the second");
	for (i = 0; i < nr; i++) {
		print_result(two, &first[i]);
		print_result(two, &other[i]);
	}
	return 0;
}

#endif /* BENCH_USER_LOOPS_H */
