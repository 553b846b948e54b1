/* SPDX-License-Identifier: MIT */
/*
 * clock.h - clocks for clients that have no better idea. A client may give any other.
 */
#ifndef STRATA_RING_CLOCK_H
#define STRATA_RING_CLOCK_H

#include <strata/ring/atomic.h>
#include <time.h>

/**
 * strata_clock_monotonic_ns() - CLOCK_MONOTONIC; on Linux without a system call where the vdso can.
 *
 * Returns nanoseconds.
 * Context: any, a signal handler, too.
 * Ordering: none promised against memory accesses.
 * Checked: test: stress; stress.
 */
STRATA_CALLBACK uint64_t strata_clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/**
 * strata_clock_cycles() - the CPU's counter, of a constant rate that is unknown here.
 *
 * Returns cycles; where user space cannot read a counter, strata_clock_monotonic_ns().
 * Context: any, a signal handler, too.
 * Ordering: none against memory accesses: enough where one CPU writes, because an interrupt between
 *           the two starts the instruction again.
 * Checked: test: stress one_section; step: abort.
 */
STRATA_CALLBACK uint64_t strata_clock_cycles(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t cycles;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(cycles));
	return cycles;
#else
	return strata_clock_monotonic_ns();
#endif
}

/**
 * strata_clock_cycles_ordered() - strata_clock_cycles(), ordered: for SMP writers, where another
 * CPU's record could otherwise get between (Lockless §4.3.1 asks for it inside the CAS loop).
 *
 * Returns cycles, as strata_clock_cycles().
 * Context: any, a signal handler, too.
 * Ordering: not read before the loads in front of it.
 * Checked: test: stress.
 */
STRATA_CALLBACK uint64_t strata_clock_cycles_ordered(void)
{
#if defined(__x86_64__)
	__asm__ volatile("lfence" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("isb" : : : "memory");
#endif
	return strata_clock_cycles();
}

/*
 * Conversion of the counter to time: base_ns + ((cycles - base_cycles) * multiplier >> 32), in 128
 * bits. It holds while the index that its writer keeps elsewhere is @index, which is loaded before
 * the other three, and that index after them. Who writes stores @index last (release), and the
 * index behind it; no entry is written again before the index has moved on several times.
 */
struct strata_ring_conversion {
	uint64_t base_cycles;
	uint64_t multiplier; /* [ns << 32 per cycle] */
	uint64_t base_ns;
	uint64_t index;
};

#endif /* STRATA_RING_CLOCK_H */
