/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the benchmarks share: options, CPUs, rounds, medians, the table, the verdicts.
 *
 * A benchmark is a list of cases. Every round times each of them once, in turn, so that a disturbance
 * of the machine falls on all; the first two are always an empty loop and a bare clock read, with the
 * loop's own work (bench_next()) and nothing else. A case's ratio is the median over the rounds of
 * its time divided by the bare clock read's in the same round: cost of a clock read differs between
 * machines, and from hour to hour on a virtual one.
 *
 * Each timing has a control beside it (control.h): the table has the figures of all rounds and, beside them, of
 * those that had the core alone.
 */
#ifndef STRATA_BENCH_H
#define STRATA_BENCH_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <strata/ring/clock.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "machine.h"
#include "raw.h"

#define BENCH_SEED     UINT64_C(88172645463325252)
#define BENCH_NOINLINE static __attribute__((noinline, unused))
#define BENCH_EMPTY    0 /* index of the first two cases */
#define BENCH_CLOCK    1

struct bench {
	int once;	 /* quick: shows that it works, judges nothing */
	int strict;	 /* exit 1 if a target is not reached */
	unsigned rounds; /* timed; some more to warm up */
	int cpu[2];	 /* [number of the CPU]; the first two that we may use */
	int nr_cpus;	 /* of cpu: 1 or 2 */
	int above;	 /* targets not reached */
	int wrong;	 /* results that are not what they must be */
};

struct bench_case {
	const char *name;
	void (*loop)(struct bench_case *c, uint64_t n); /* timed */
	uint64_t n;					/* iterations in a round */
	void (*before)(struct bench_case *c);		/* not timed; may be NULL */
	void *data;					/* the benchmark's own */
	double *ns;					/* [rounds] for each iteration */
	double *control;		     /* [rounds] the slower of the two controls, likewise */
	double median, p10, p90, min, ratio; /* of all rounds */
	double alone_median, alone_ratio;    /* of those that had the core alone */
	unsigned alone;			     /* so many */
};

/* The loop's own work: xorshift64 (Marsaglia 2003), so that each payload differs. */
STRATA_INLINE uint64_t bench_next(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

/* The compiler must have @x in a register here, and knows nothing about it afterwards. */
STRATA_INLINE void bench_keep(uint64_t x)
{
	__asm__ volatile("" : : "r"(x));
}

BENCH_NOINLINE void bench_loop_empty(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
	}
}

BENCH_NOINLINE void bench_loop_clock(struct bench_case *c, uint64_t n)
{
	uint64_t x = BENCH_SEED;

	(void)c;
	for (; n; n--) {
		x = bench_next(x);
		bench_keep(x);
		bench_keep(strata_clock_cycles());
	}
}

/* ---- options ---- */

BENCH_FUNC void bench_usage(const char *program, int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [--once] [--strict] [--rounds=N]\n"
		"  --once      quick; shows that it works, judges no target\n"
		"  --strict    exit 1 if a target is not reached\n"
		"  --rounds=N  timed rounds, 3 to 100000\n",
		program);
	exit(status);
}

/* Options and CPUs; @rounds is the default. The caller runs on b->cpu[0] from here on. */
BENCH_FUNC void bench_begin(struct bench *b, int argc, char **argv, unsigned rounds,
			    const char *question)
{
	cpu_set_t set;
	int i;

	memset(b, 0, sizeof(*b));
	b->rounds = rounds;
	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--once"))
			b->once = 1;
		else if (!strcmp(argv[i], "--strict"))
			b->strict = 1;
		else if (!strncmp(argv[i], "--rounds=", 9))
			b->rounds = (unsigned)strtoul(argv[i] + 9, NULL, 10);
		else
			bench_usage(argv[0], strcmp(argv[i], "--help") ? 2 : 0);
	}
	if (b->rounds < 3 || b->rounds > 100000)
		bench_usage(argv[0], 2);
	if (b->once)
		b->rounds = 3;
	if (sched_getaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "bench: which CPUs may we use: %s\n", strerror(errno));
		exit(2);
	}
	for (i = 0; i < CPU_SETSIZE && b->nr_cpus < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			b->cpu[b->nr_cpus++] = i;
	setvbuf(stdout, NULL, _IOLBF, 0);
	bench_describe(b->cpu, b->nr_cpus, question);
	bench_pin(b->cpu[0]);
}

/* ---- rounds ---- */

BENCH_FUNC void *bench_allocate(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		fprintf(stderr, "bench: no memory for %zu times %zu bytes\n", n, size);
		exit(2);
	}
	return p;
}

BENCH_FUNC void bench_series(struct bench_case *cases, unsigned nr, unsigned rounds)
{
	unsigned i;

	for (i = 0; i < nr; i++) {
		cases[i].ns = (double *)bench_allocate(rounds, sizeof(double));
		cases[i].control = (double *)bench_allocate(rounds, sizeof(double));
	}
}

/* Time @c once by @clock: nanoseconds for each iteration. */
BENCH_FUNC double bench_time_by(clockid_t clock, struct bench_case *c)
{
	uint64_t begin;

	if (c->before)
		c->before(c);
	begin = bench_now(clock);
	c->loop(c, c->n);
	return (double)(bench_now(clock) - begin) / (double)c->n;
}

/* By the time that passes: short batches, of which the median shows no preemption. */
BENCH_FUNC double bench_time(struct bench_case *c)
{
	return bench_time_by(CLOCK_MONOTONIC, c);
}

/* bench_time() with its controls, which are right beside the loop. */
BENCH_FUNC double bench_time_controlled(struct bench_case *c, double *control)
{
	double before, after, ns;
	uint64_t begin;

	if (c->before)
		c->before(c);
	/* After a pause the first one finds nothing in the caches. */
	bench_loop_control(BENCH_CONTROLS);
	before = bench_control();
	begin = bench_now(CLOCK_MONOTONIC);
	c->loop(c, c->n);
	ns = (double)(bench_now(CLOCK_MONOTONIC) - begin) / (double)c->n;
	after = bench_control();
	*control = before > after ? before : after;
	return ns;
}

/* By the thread's CPU time: for batches so long that others may run meanwhile. */
BENCH_FUNC double bench_cpu_time(struct bench_case *c)
{
	return bench_time_by(CLOCK_THREAD_CPUTIME_ID, c);
}

/* Every round all cases, beginning with another one each time. */
BENCH_FUNC void bench_run(const struct bench *b, struct bench_case *cases, unsigned nr)
{
	unsigned round, i, at;

	bench_series(cases, nr, b->rounds);
	for (i = 0; i < nr; i++)
		bench_time(&cases[i]);
	for (round = 0; round < b->rounds; round++)
		for (i = 0; i < nr; i++) {
			at = (round + i) % nr;
			cases[at].ns[round] =
				bench_time_controlled(&cases[at], &cases[at].control[round]);
		}
}

BENCH_FUNC int bench_compare(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* Value below which @percent of the @n samples lie; sorts a copy. */
BENCH_FUNC double bench_percentile(const double *samples, unsigned n, unsigned percent)
{
	double *sorted = (double *)bench_allocate(n, sizeof(double)), value;

	memcpy(sorted, samples, n * sizeof(double));
	qsort(sorted, n, sizeof(double), bench_compare);
	value = sorted[(n - 1) * percent / 100];
	free(sorted);
	return value;
}

/* Median over the rounds of @c / @base. */
BENCH_FUNC double bench_ratio(const struct bench_case *c, const struct bench_case *base, unsigned n)
{
	double *ratios = (double *)bench_allocate(n, sizeof(double)), value;
	unsigned i;

	for (i = 0; i < n; i++)
		ratios[i] = c->ns[i] / base->ns[i];
	value = bench_percentile(ratios, n, 50);
	free(ratios);
	return value;
}

/* Fill in the results of @c; @clock is its baseline. */
BENCH_FUNC void bench_summarize(struct bench_case *c, const struct bench_case *clock, unsigned n)
{
	c->median = bench_percentile(c->ns, n, 50);
	c->p10 = bench_percentile(c->ns, n, 10);
	c->p90 = bench_percentile(c->ns, n, 90);
	c->min = bench_percentile(c->ns, n, 0);
	c->ratio = bench_ratio(c, clock, n);
}

/* Of @c the rounds that had the core alone, of which the quickest control took @quickest. */
BENCH_FUNC void bench_summarize_alone(struct bench_case *c, const struct bench_case *clock,
				      unsigned n, double quickest)
{
	double *ns = (double *)bench_allocate(n, sizeof(double));
	unsigned i;

	c->alone = 0;
	for (i = 0; i < n; i++)
		if (c->control[i] <= quickest * BENCH_ALONE)
			ns[c->alone++] = c->ns[i];
	c->alone_median = c->alone ? bench_percentile(ns, c->alone, 50) : 0;
	c->alone_ratio =
		clock->alone && clock->alone_median > 0 ? c->alone_median / clock->alone_median : 0;
	free(ns);
}

/* The quickest control of all cases; 0: there are none, as of a bench that times by itself. */
BENCH_FUNC double bench_quickest(const struct bench_case *cases, unsigned nr, unsigned rounds)
{
	double quickest = 0;
	unsigned i, round;

	for (i = 0; i < nr; i++)
		for (round = 0; cases[i].control && round < rounds; round++)
			if (cases[i].control[round] > 0 &&
			    (!(quickest > 0) || cases[i].control[round] < quickest))
				quickest = cases[i].control[round];
	return quickest;
}

BENCH_FUNC void bench_heading(const char *what)
{
	printf("\n%-46s %8s %8s %8s %8s %8s\n", what, "median", "p10", "p90", "min", "x clock");
}

/* The same, for rows that also have the rounds with the core alone. */
BENCH_FUNC void bench_heading_alone(const char *what)
{
	printf("\n%-46s %8s %8s %8s %8s %8s | %6s %8s %8s\n", what, "median", "p10", "p90", "min",
	       "x clock", "alone", "median", "x clock");
}

BENCH_FUNC void bench_row(const struct bench_case *c)
{
	printf("%-46s %8.2f %8.2f %8.2f %8.2f %8.2f\n", c->name, c->median, c->p10, c->p90, c->min,
	       c->ratio);
}

BENCH_FUNC void bench_table(const struct bench *b, struct bench_case *cases, unsigned nr,
			    const char *what)
{
	double quickest = bench_quickest(cases, nr, b->rounds);
	struct bench_case *clock = &cases[BENCH_CLOCK];
	unsigned i;

	for (i = 0; i < nr; i++)
		bench_raw(what, cases[i].name, cases[i].ns, cases[i].control, b->rounds);
	if (!(quickest > 0)) {
		bench_heading(what);
		for (i = 0; i < nr; i++) {
			bench_summarize(&cases[i], clock, b->rounds);
			bench_row(&cases[i]);
		}
		return;
	}
	bench_heading_alone(what);
	bench_summarize_alone(clock, clock, b->rounds, quickest);
	for (i = 0; i < nr; i++) {
		bench_summarize(&cases[i], clock, b->rounds);
		bench_summarize_alone(&cases[i], clock, b->rounds, quickest);
		printf("%-46s %8.2f %8.2f %8.2f %8.2f %8.2f | %6u", cases[i].name, cases[i].median,
		       cases[i].p10, cases[i].p90, cases[i].min, cases[i].ratio, cases[i].alone);
		if (cases[i].alone)
			printf(" %8.2f %8.2f", cases[i].alone_median, cases[i].alone_ratio);
		printf("\n");
	}
}

/* ---- verdicts ---- */

/* @at_most: 1 if @value must not be above @limit, 0 if not below. */
BENCH_FUNC void bench_target(struct bench *b, const char *what, double value, double limit,
			     int at_most)
{
	int reached = at_most ? value <= limit : value >= limit;

	if (b->once)
		return;
	b->above += !reached;
	/* word-ok: a target that is not reached, not a record */
	printf("target: %s: %.2f %s\n", what, value, reached ? "ok" : "MISSED");
}

/* What must be exactly so. */
BENCH_FUNC void bench_must_equal(struct bench *b, const char *what, uint64_t found,
				 uint64_t expected)
{
	if (found == expected)
		return;
	b->wrong++;
	fprintf(stderr, "bench: %s: %llu, must be %llu\n", what, (unsigned long long)found,
		(unsigned long long)expected);
}

/* Exit status: 0; 1 with --strict if a target was not reached; 2 if a result is wrong. */
BENCH_FUNC int bench_end(const struct bench *b)
{
	if (b->wrong)
		return 2;
	printf("all counters exact\n");
	return b->strict && b->above ? 1 : 0;
}

#endif /* STRATA_BENCH_H */
