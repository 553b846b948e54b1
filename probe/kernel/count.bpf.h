/* SPDX-License-Identifier: MIT */
/*
 * count.bpf.h - counts events in the kernel instead of recording them, by the keys of strata/abi/count.h.
 *
 * The objects for it are those of the same sources with STRATA_KERNEL_COUNT: which events there are, and which of them
 * pass the filter, is decided as for records. Then strata_count() adds the event to this CPU's element of `counts`, and
 * nothing is written to a ring.
 *
 * A program may be run inside another one on the same CPU. So each word of an element is changed by one atomic
 * operation, and a total is exact once no program runs any more.
 */
#ifndef STRATA_KERNEL_COUNT_BPF_H
#define STRATA_KERNEL_COUNT_BPF_H

#include "filter.bpf.h"
#include "maps.bpf.h"
#include "filter_values.bpf.h"

#include <strata/abi/count.h>

#ifdef STRATA_KERNEL_COUNT
#define STRATA_COUNTS 1

/* Constant from loading on, as `event` is. */
const volatile struct strata_abi_count count SEC(".rodata.count");

/* An element when it is new. */
const volatile struct strata_abi_count_value count_zero SEC(".rodata.zero");

/* The loader sets the number of elements, and the sizes of those parts that are used. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct strata_abi_count_key));
	__uint(value_size, sizeof(struct strata_abi_count_value));
} counts SEC(".maps");

/* The event that is counted: its fields, and facts about its thread and CPU that no field has. */
struct strata_counted {
	struct strata_source source;
	struct strata_source exit;
	uint64_t name;
	uint64_t elapsed;
};

STRATA_INLINE const struct strata_source *
strata_count_source(const volatile struct strata_abi_count_part *part,
		    const struct strata_counted *counted)
{
	return part->at_exit ? &counted->exit : &counted->source;
}

STRATA_INLINE uint64_t strata_count_number(const volatile struct strata_abi_count_part *part,
					   const struct strata_counted *counted, uint64_t *memory)
{
	uint64_t operand = part->what.operand;

	if (operand == STRATA_ABI_KERNEL_FIELD)
		return strata_filter_field(&part->what, strata_count_source(part, counted), memory);
	if (operand == STRATA_ABI_COUNT_NAME)
		return counted->name;
	if (operand == STRATA_ABI_COUNT_DURATION)
		return counted->elapsed;
	if (operand == STRATA_ABI_KERNEL_PID)
		return bpf_get_current_pid_tgid() >> 32;
	if (operand == STRATA_ABI_KERNEL_TID)
		return (uint32_t)bpf_get_current_pid_tgid();
	if (operand == STRATA_ABI_KERNEL_CPU)
		return bpf_get_smp_processor_id();
	if (operand == STRATA_ABI_KERNEL_CGROUP)
		return bpf_get_current_cgroup_id();
	if (operand == STRATA_ABI_COUNT_UID)
		return (uint32_t)bpf_get_current_uid_gid();
	return bpf_get_current_uid_gid() >> 32;
}

STRATA_INLINE void strata_count_key_part(struct strata_abi_count_key *key, uint64_t i,
					 const struct strata_counted *counted)
{
	const volatile struct strata_abi_count_part *part = &count.key[i];
	uint64_t memory[2] = { 0, 0 };

	STRATA_FILTER_OPAQUE(part);
	if (part->what.operand == STRATA_ABI_COUNT_ABSENT) {
		key->absent |= 1ull << i;
	} else if (part->what.operand == STRATA_ABI_KERNEL_COMM) {
		bpf_get_current_comm(key->part[i], STRATA_ABI_COUNT_PART_BYTES);
	} else if (part->what.operand == STRATA_ABI_KERNEL_CHARS) {
		strata_filter_chars(&part->what, strata_count_source(part, counted), memory);
		key->part[i][0] = memory[0];
		key->part[i][1] = memory[1];
	} else {
		key->part[i][0] = strata_count_number(part, counted, memory);
	}
}

/* The number of tries to store a new extreme: another program inside this one may store its own. */
#define STRATA_COUNT_TRIES 8

/* Raises *@at to @value, unless it is higher. */
STRATA_INLINE void strata_count_raise(uint64_t *at, uint64_t value)
{
	uint64_t found = STRATA_ONCE(uint64_t, *at), before;
	uint32_t i;

#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_COUNT_TRIES; i++) {
		if (found >= value)
			return;
		before = __sync_val_compare_and_swap(at, found, value);
		if (before == found)
			return;
		found = before;
	}
}

/* Returns the number of the bucket of a value. */
STRATA_INLINE uint64_t strata_count_bucket(uint64_t value)
{
	uint64_t bits = 0;

	if (count.flags & STRATA_ABI_COUNT_SIGNED && (int64_t)value < 0)
		return 0;
	if (!value)
		return 1;
	if (value >> 32)
		bits += 32, value >>= 32;
	if (value >> 16)
		bits += 16, value >>= 16;
	if (value >> 8)
		bits += 8, value >>= 8;
	if (value >> 4)
		bits += 4, value >>= 4;
	if (value >> 2)
		bits += 2, value >>= 2;
	if (value >> 1)
		bits += 1;
	return bits + 2;
}

STRATA_INLINE void strata_count_value(struct strata_abi_count_value *element, uint64_t value)
{
	const uint64_t sign = count.flags & STRATA_ABI_COUNT_SIGNED ? 1ull << 63 : 0;
	uint64_t bucket;

	__sync_fetch_and_add(&element->sum, value);
	strata_count_raise(&element->least, ~(value ^ sign));
	strata_count_raise(&element->most, value ^ sign);
	if (!(count.flags & STRATA_ABI_COUNT_SPREAD))
		return;
	bucket = strata_count_bucket(value);
	STRATA_FILTER_OPAQUE(bucket);
	if (bucket < STRATA_ABI_COUNT_BUCKETS)
		__sync_fetch_and_add(&element->bucket[bucket], 1);
}

/* Finds this CPU's element for the key, or makes one. Returns NULL if the map has no room, which is counted. */
STRATA_INLINE struct strata_abi_count_value *
strata_count_element(const struct strata_abi_count_key *key)
{
	struct strata_abi_count_value *element =
		(struct strata_abi_count_value *)bpf_map_lookup_elem(&counts, key);
	long error;

	if (element)
		return element;
	error = bpf_map_update_elem(&counts, key, (const void *)&count_zero, BPF_NOEXIST);
	element = (struct strata_abi_count_value *)bpf_map_lookup_elem(&counts, key);
	if (element)
		return element;
	/* E2BIG: the map is full. */
	if (error == -7)
		__sync_fetch_and_add(&control.full, 1);
	else
		__sync_fetch_and_add(&control.busy, 1);
	return NULL;
}

/*
 * Counts an event that has passed its filter. @base and @kind: where its fields are, see filter_values.bpf.h; of a system call
 * that returns, the six arguments that it began with. @name: the number of its class. @ret and @elapsed are those of a
 * system call that returns. Returns 0.
 */
static __attribute__((noinline)) int strata_count(const void *base, uint64_t kind, uint64_t name,
						  int64_t ret, uint64_t elapsed)
{
	struct strata_abi_count_value *element;
	struct strata_abi_count_key key = { 0 };
	uint64_t memory = 0, i;
	struct strata_counted counted = {
		{ base, kind, 0, 0 }, { &ret, STRATA_SOURCE_DIRECT, 0, 0 }, name, elapsed
	};

#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_COUNT_KEYS_MAX; i++) {
		if (i < count.nr_keys)
			strata_count_key_part(&key, i, &counted);
	}
	element = strata_count_element(&key);
	if (!element)
		return 0;
	__sync_fetch_and_add(&element->count, 1);
	if (count.flags & STRATA_ABI_COUNT_VALUE)
		strata_count_value(element, strata_count_number(&count.value, &counted, &memory));
	return 0;
}

/* Counts an event that another program of this CPU has kept from being counted. */
STRATA_INLINE void strata_count_busy(void)
{
	__sync_fetch_and_add(&control.busy, 1);
}

#define STRATA_COUNT_IS_PAIRED (count.flags & STRATA_ABI_COUNT_PAIRED)

#else

#define STRATA_COUNTS	       0
#define STRATA_COUNT_IS_PAIRED 0

STRATA_INLINE int strata_count(const void *base, uint64_t kind, uint64_t name, int64_t ret,
			       uint64_t elapsed)
{
	return 0;
}

STRATA_INLINE void strata_count_busy(void)
{
}

#endif /* STRATA_KERNEL_COUNT */
#endif /* STRATA_KERNEL_COUNT_BPF_H */
