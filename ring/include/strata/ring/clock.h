/* SPDX-License-Identifier: MIT */
/*
 * clock.h - clocks for clients that have no better idea. A client may give any other.
 */
#ifndef STRATA_RING_CLOCK_H
#define STRATA_RING_CLOCK_H

#include <strata/ring/atomic.h>
#include <time.h>

/* CLOCK_MONOTONIC [ns]; on Linux without a system call where the vdso can. */
STRATA_CALLBACK uint64_t strata_clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/*
 * The CPU's counter [cycles of a constant rate, unknown here]; where user space cannot read one,
 * strata_clock_monotonic_ns(). Not ordered against memory accesses: enough where one CPU writes,
 * because an interrupt between the two starts the instruction again.
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

/*
 * The same, not before the loads in front of it: for SMP writers, where another CPU's record could
 * otherwise get between (Lockless §4.3.1 asks for it inside the CAS loop).
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

/* time = base_ns + ((cycles - base_cycles) * multiplier >> 32), in 128 bits; multiplier 0: there is none. */
struct strata_ring_conversion {
	uint64_t base_cycles;
	uint64_t multiplier; /* [ns << 32 per cycle] */
	uint64_t base_ns;
};

#endif /* STRATA_RING_CLOCK_H */
