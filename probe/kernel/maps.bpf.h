/* SPDX-License-Identifier: MIT */
/* maps.bpf.h - the maps that all programs of a session share, and the constants of each program. */
#ifndef STRATA_KERNEL_MAPS_BPF_H
#define STRATA_KERNEL_MAPS_BPF_H

#include <stddef.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* libbpf's is no constant to clang 14, and ours need no relocation. */
#undef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)

#include <strata/abi/kernel.h>
#include <strata/ring/atomic.h>

#ifndef NULL
#define NULL ((void *)0)
#endif

/*
 * Sizes of the stream, which the verifier knows and which are the same for all programs; see
 * crates/strata-kernel/src/attach/loader.rs.
 */
struct strata_sizes {
	uint64_t buffer_bytes;
	uint64_t subbuf_bytes;
	uint64_t frames_offset; /* in a value of `rings` [byte] */
	uint64_t data_offset;
	uint64_t subbuf_shift;
	uint64_t argv_bytes; /* longest arguments of a program, with a NUL: TEXT_MAX to ARGV_MAX [byte] */
};
const volatile struct strata_sizes constant_sizes SEC(".rodata.sizes");

/*
 * Returns the channel's sizes. The pointer is not volatile, so that sizes which are not used are
 * not read; but the compiler does not know their values.
 */
STRATA_INLINE const struct strata_sizes *strata_sizes(void)
{
	const struct strata_sizes *sizes = (const struct strata_sizes *)&constant_sizes;

	__asm__ volatile("" : "+r"(sizes));
	return sizes;
}

/* The streams, one for each CPU. The loader sets the largest entry and the size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, 4096);
} rings SEC(".maps");

/* The switches and counters are in a section of their own, that is, in a map that programs reach without a lookup. */
struct strata_abi_kernel_control control SEC(".data.control");

/* Keys of tracked processes, in two generations. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * STRATA_ABI_KERNEL_TRACK_MAX);
	__type(key, struct strata_abi_kernel_track);
	__type(value, uint32_t);
} tracked SEC(".maps");

/*
 * Marks of followed tasks, by the tasks' numbers. A map and no section, since an object would have
 * all bytes of a section.
 */
#define STRATA_FOLLOW_WORDS (STRATA_ABI_KERNEL_FOLLOW_TASKS / 16)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, STRATA_FOLLOW_WORDS * sizeof(uint32_t));
} followed SEC(".maps");

/*
 * One bit for each task: another program has noted that it recorded the task's present event. Used while programs are
 * replaced.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, STRATA_ABI_KERNEL_TOLD_WORDS * sizeof(uint32_t));
} told SEC(".maps");

#define STRATA_ONCE(type, x) (*(const volatile type *)&(x))

#endif /* STRATA_KERNEL_MAPS_BPF_H */
