/* SPDX-License-Identifier: MIT */
/*
 * sampled.bpf.h - which of the events that pass all tests are left out, as `every` and `at_most` of the event say.
 *
 * What is left out is counted, by CPU and event. The maps exist only for programs that take samples: in the others the
 * verifier finds that nothing of this is reached, and the loader makes no map.
 */
#ifndef STRATA_KERNEL_SAMPLED_BPF_H
#define STRATA_KERNEL_SAMPLED_BPF_H

#include "maps.bpf.h"

/* The loader sets the number of elements: 1, or one for each system call. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct strata_abi_kernel_sampled);
} sampled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint64_t);
} sampled_seconds SEC(".maps");

#define STRATA_IS_SAMPLED (event.every > 1 || event.at_most)

/* System calls take their samples themselves, of whole calls. */
#ifndef STRATA_SAMPLES_CALLS
#define STRATA_SAMPLES_CALLS 0
#endif

/*
 * Returns 1 if fewer than `at_most` events were recorded in the present second, and counts this one. All CPUs share the
 * count; they write to it no more than `at_most` times a second, and once each on top of that.
 */
STRATA_INLINE int strata_has_room(uint32_t place)
{
	uint64_t second = bpf_ktime_get_ns() / 1000000000u << 32, seen;
	uint64_t *now = (uint64_t *)bpf_map_lookup_elem(&sampled_seconds, &place);

	if (!now)
		return 1;
	seen = STRATA_ONCE(uint64_t, *now);
	/* An interrupted program may have an older second, which does not begin again. */
	if (second > seen) {
		if (__sync_val_compare_and_swap(now, seen, second | 1) == seen)
			return 1;
		/* Another CPU has begun the second. */
		seen = STRATA_ONCE(uint64_t, *now);
	}
	if ((uint32_t)seen >= event.at_most)
		return 0;
	return (uint32_t)__sync_fetch_and_add(now, 1) < event.at_most;
}

/*
 * Returns 1 if this event, or this call at @place of `syscalls`, is left out. A program may be preempted here, and another
 * task run it on this CPU: so each sum is an atomic operation.
 */
static __attribute__((noinline)) int strata_is_left_out(uint32_t place)
{
	struct strata_abi_kernel_sampled *here =
		(struct strata_abi_kernel_sampled *)bpf_map_lookup_elem(&sampled, &place);

	if (!here)
		return 0;
	if ((event.every < 2 || __sync_fetch_and_add(&here->seen, 1) % event.every == 0) &&
	    (!event.at_most || strata_has_room(place)))
		return 0;
	__sync_fetch_and_add(&here->left_out, 1);
	return 1;
}

#endif /* STRATA_KERNEL_SAMPLED_BPF_H */
