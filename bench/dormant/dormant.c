/* SPDX-License-Identifier: MIT */
/*
 * dormant.c - what does a tracepoint cost that is off?
 *
 * The ways of Tables 1 and 2 of "Tracing across execution layers": a branch whose opcode is patched, a
 * flag in memory, and the call of a function that finds out that there is nothing to do. In the uncached
 * rows each iteration has flushed the flag's cache line before: as for an event that is rare in a program
 * that uses its memory. The flush itself is in the baseline of these rows, too.
 */
#include <strata/tracepoint.h>

#include "../bench.h"

/* A line of its own; volatile, as a tracer would write it. */
static struct {
	_Alignas(64) volatile uint32_t on;
} flag;

/* What the function would trace, if it were on. */
BENCH_NOINLINE void trace_by_call(uint64_t x)
{
	if (__builtin_expect(flag.on != 0, 0))
		bench_keep(x);
	__asm__ volatile("" : : : "memory");
}

#define LOOP(name, ...)                                            \
	BENCH_NOINLINE void name(struct bench_case *c, uint64_t n) \
	{                                                          \
		uint64_t x = BENCH_SEED;                           \
                                                                   \
		(void)c;                                           \
		for (; n; n--) {                                   \
			x = bench_next(x);                         \
			bench_keep(x);                             \
			__VA_ARGS__;                               \
		}                                                  \
	}

static inline void forget_flag(void)
{
#ifdef __x86_64__
	__asm__ volatile("clflush %0\n\tmfence" : : "m"(flag.on) : "memory");
#endif
}

LOOP(loop_patched, STRATA_TRACE(bench, patched, INFO, strata_int(x, x)))
LOOP(loop_flag, if (__builtin_expect(flag.on != 0, 0)) bench_keep(x + 1))
LOOP(loop_call, trace_by_call(x))
LOOP(loop_cold, forget_flag())
LOOP(loop_cold_patched, forget_flag(); STRATA_TRACE(bench, patched_cold, INFO, strata_int(x, x)))
LOOP(loop_cold_flag, forget_flag(); if (__builtin_expect(flag.on != 0, 0)) bench_keep(x + 1))
LOOP(loop_cold_call, forget_flag(); trace_by_call(x))

#define N      200000
#define N_COLD 5000

/* In pairs with their baselines: medians of differences, not differences of medians. */
static void show(const struct bench *b, const struct bench_case *c, const struct bench_case *base)
{
	double *difference = (double *)bench_allocate(b->rounds, sizeof(double));
	unsigned i;

	for (i = 0; i < b->rounds; i++)
		difference[i] = c->ns[i] - base->ns[i];
	printf("%-46s %8.2f %8.2f %8.2f\n", c->name, bench_percentile(difference, b->rounds, 50),
	       bench_percentile(difference, b->rounds, 10),
	       bench_percentile(difference, b->rounds, 90));
	free(difference);
}

static double added(const struct bench *b, const struct bench_case *c,
		    const struct bench_case *base)
{
	return bench_percentile(c->ns, b->rounds, 50) - bench_percentile(base->ns, b->rounds, 50);
}

int main(int argc, char **argv)
{
	struct bench_case cases[] = {
		{ .name = "empty loop", .loop = bench_loop_empty, .n = N },
		{ .name = "bare clock read", .loop = bench_loop_clock, .n = N },
		{ .name = "patched branch", .loop = loop_patched, .n = N },
		{ .name = "flag in memory", .loop = loop_flag, .n = N },
		{ .name = "function call", .loop = loop_call, .n = N },
		{ .name = "uncached: nothing but the flush", .loop = loop_cold, .n = N_COLD },
		{ .name = "uncached: patched branch", .loop = loop_cold_patched, .n = N_COLD },
		{ .name = "uncached: flag in memory", .loop = loop_cold_flag, .n = N_COLD },
		{ .name = "uncached: function call", .loop = loop_cold_call, .n = N_COLD },
	};
	const unsigned nr = sizeof(cases) / sizeof(cases[0]);
	struct bench b;
	unsigned i;

	bench_begin(&b, argc, argv, 101, "dormant: what does a tracepoint cost that is off?");
	bench_run(&b, cases, nr);
	bench_table(&b, cases, nr, "dormant");
	printf("\n%-46s %8s %8s %8s\n", "added to the loop without it [ns]", "median", "p10",
	       "p90");
	for (i = 2; i < 5; i++)
		show(&b, &cases[i], &cases[BENCH_EMPTY]);
	for (i = 6; i < nr; i++)
		show(&b, &cases[i], &cases[5]);
	printf("\n");
	bench_target(&b, "patched branch, added [ns], at most 0.1",
		     added(&b, &cases[2], &cases[BENCH_EMPTY]), 0.1, 1);
	bench_target(&b, "uncached: patched branch, added [ns], at most 1 % of the flush",
		     added(&b, &cases[6], &cases[5]),
		     bench_percentile(cases[5].ns, b.rounds, 50) / 100, 1);
	return bench_end(&b);
}
