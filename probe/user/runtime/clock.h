/* SPDX-License-Identifier: MIT */
/*
 * clock.h - CLOCK_MONOTONIC [ns] for event records: the cycle counter, converted by what the tracer
 * publishes in the control page (strata/abi/user.h), or clock_gettime() where there is none.
 */
#ifndef STRATA_RUNTIME_CLOCK_H
#define STRATA_RUNTIME_CLOCK_H

#include <time.h>

#include "runtime.h"

/*
 * The slot that was right last time, or an unusable one; a hint. Any thread may write it. A forked child's slot is in the
 * same place.
 */
extern const struct strata_abi_user_clock_slot *strata_clock_slot STRATA_HIDDEN;

#if defined(__x86_64__) || defined(__aarch64__)

/* User space can read the CPU's counter. */
#define STRATA_USER_COUNTER 1

/* Reads the clock where the fast path cannot: its slot was replaced, or no slot is usable. */
STRATA_SLOW uint64_t strata_user_clock_slow(uint64_t (*cycles)(void))
{
	const struct strata_abi_user_control *control = strata_runtime.control;
	uint64_t index, base, multiplier, ns, passed;
	const struct strata_abi_user_clock_slot *slot;

	do {
		/* ACQUIRE pairs with the tracer's RELEASE after it has written the slot. */
		index = strata_load_acquire(&control->clock_index);
		slot = &control->clock[index % STRATA_ABI_USER_NR_CLOCK_SLOTS];
		base = strata_load_relaxed(&slot->base_cycles);
		multiplier = strata_load_relaxed(&slot->multiplier);
		ns = strata_load_relaxed(&slot->base_ns);
		if (!multiplier)
			return strata_machine_ns();
		passed = cycles() - base;
		strata_fence_acquire();
	} while (strata_load_relaxed(&control->clock_index) != index);
	__atomic_store_n(&strata_clock_slot, slot, __ATOMIC_RELEASE);
	/* The slot may be newer than the counter. */
	if ((int64_t)passed < 0)
		passed = 0;
	return ns + (uint64_t)(((unsigned __int128)passed * multiplier) >> 32);
}

/*
 * Converts by the upper half of the product on x86-64, whose multiplier has 64 bits behind the
 * point: for counters faster than 1 GHz. AArch64's counters are slower (1 MHz to 1 GHz), and their
 * multipliers have up to 42 bits.
 */
#ifdef __x86_64__
#define STRATA_USER_MULTIPLIER_BITS 32
#define STRATA_USER_CONVERTED(passed, multiplier) \
	((uint64_t)(((unsigned __int128)(passed) * ((multiplier) << 32)) >> 64))
#else
#define STRATA_USER_MULTIPLIER_BITS 63
#define STRATA_USER_CONVERTED(passed, multiplier) \
	((uint64_t)(((unsigned __int128)(passed) * (multiplier)) >> 32))
#endif

/*
 * Reads the cycle counter, and converts its value to nanoseconds. The cost is what the counter's instruction waits for, and what
 * waits for it. So the slot is loaded before, by the hint, and afterwards its index is compared
 * with the one it had at first.
 */
STRATA_INLINE uint64_t strata_user_clock_converted(uint64_t (*cycles)(void))
{
	const struct strata_abi_user_control *control = strata_runtime.control;
	const struct strata_abi_user_clock_slot *slot =
		__atomic_load_n(&strata_clock_slot, __ATOMIC_ACQUIRE);
	/* ACQUIRE pairs with the tracer's RELEASE after it has written the rest. */
	uint64_t index = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE), passed;
	uint64_t base = strata_load_relaxed(&slot->base_cycles);
	uint64_t multiplier = strata_load_relaxed(&slot->multiplier);
	uint64_t ns = strata_load_relaxed(&slot->base_ns);

	passed = cycles() - base;
	strata_fence_acquire();
	if (strata_unlikely(strata_load_relaxed(&control->clock_index) != index ||
			    (int64_t)passed < 0 || !multiplier ||
			    multiplier >> STRATA_USER_MULTIPLIER_BITS))
		return strata_user_clock_slow(cycles);
	return ns + STRATA_USER_CONVERTED(passed, multiplier);
}

#else

STRATA_INLINE uint64_t strata_user_clock_converted(uint64_t (*cycles)(void))
{
	(void)cycles;
	return strata_machine_ns();
}

#endif

STRATA_CALLBACK uint64_t strata_user_clock(void)
{
	return strata_user_clock_converted(strata_clock_cycles);
}

STRATA_CALLBACK uint64_t strata_user_clock_ordered(void)
{
	return strata_user_clock_converted(strata_clock_cycles_ordered);
}

#endif /* STRATA_RUNTIME_CLOCK_H */
