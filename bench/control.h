/* SPDX-License-Identifier: MIT */
/*
 * control.h - had a timing the core alone?
 *
 * A virtual CPU is often one of two hardware threads of a core, and a stranger has the other one. A loop of
 * dependent clock reads hardly notices that; code that keeps the core busy takes up to 1.7 times as long. So a control
 * loop, which has nothing of what is measured, is timed right before and right after each case: a round in
 * which both took at most BENCH_ALONE times the quickest control had the core alone, as far as can be seen. The
 * table has the figures of all rounds and, beside them, of those rounds.
 */
#ifndef STRATA_BENCH_CONTROL_H
#define STRATA_BENCH_CONTROL_H

#include <stdint.h>
#include <time.h>

#define BENCH_ALONE    1.1
#define BENCH_CONTROLS 4000u /* iterations of the control loop each time, some microseconds */

/* The control: four chains that do not wait for each other, with loads and stores that stay in the cache. */
static __attribute__((noinline, unused)) void bench_loop_control(uint64_t n)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, m[64] = { 0 };

	for (; n; n--) {
		a = a * 3 + 1;
		b ^= b << 3;
		c += d;
		d += 7;
		m[n & 63] = a;
		b += m[(n + 7) & 63];
		c ^= m[(n + 13) & 63];
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : : "memory");
	}
}

static __attribute__((unused)) uint64_t bench_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* How quick is the core now? Nanoseconds for each iteration. */
static __attribute__((unused)) double bench_control(void)
{
	uint64_t begin = bench_now(CLOCK_MONOTONIC);

	bench_loop_control(BENCH_CONTROLS);
	return (double)(bench_now(CLOCK_MONOTONIC) - begin) / BENCH_CONTROLS;
}

#endif /* STRATA_BENCH_CONTROL_H */
