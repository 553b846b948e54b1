/* SPDX-License-Identifier: MIT */
/*
 * count.h - aggregates in the kernel: what `strata count` and its BPF programs (probe/kernel/count.bpf.h) share.
 *
 * A program that counts has the constants of one that records (kernel.h), and `count` (.rodata.count). Instead of a
 * record it updates an element of the per-CPU hash map `counts`, which all programs of a session share. Both come from
 * one build, and the map lives no longer than the session: there is no version.
 */
#ifndef STRATA_ABI_COUNT_H
#define STRATA_ABI_COUNT_H

#include <strata/abi/kernel.h>

/* Number of parts that a key has at most. */
#define STRATA_ABI_COUNT_KEYS_MAX 4u
/* Size of the text of one part; a longer one is cut [byte]. */
#define STRATA_ABI_COUNT_PART_BYTES 16u

/*
 * What a part of the key is, or the value: an operand of a filter's test (kernel.h: FIELD, PID, TID, CPU, CGROUP, COMM,
 * CHARS), or one of these:
 *   NAME      the number of the event's class
 *   DURATION  of a system call, from its entry to its exit [ns]
 *   UID, GID  real ids
 *   ABSENT    the event has nothing of this name
 */
#define STRATA_ABI_COUNT_NAME	  64u
#define STRATA_ABI_COUNT_DURATION 65u
#define STRATA_ABI_COUNT_UID	  66u
#define STRATA_ABI_COUNT_GID	  67u
#define STRATA_ABI_COUNT_ABSENT	  255u

/*
 * PAIRED: a system call is counted when it returns, with what its entry has noted. Without this bit, it is counted at
 * its entry.
 */
#define STRATA_ABI_COUNT_PAIRED 1u
/* VALUE: the event has a value. SPREAD: values are counted by powers of two. SIGNED: values may be negative. */
#define STRATA_ABI_COUNT_VALUE	2u
#define STRATA_ABI_COUNT_SPREAD 4u
#define STRATA_ABI_COUNT_SIGNED 8u

/* Buckets of values: [0] those less than 0, [1] 0, and [2 + n] those from 2^n up to 2^(n+1) - 1. */
#define STRATA_ABI_COUNT_BUCKETS 66u

/*
 * One part of a key, or the value: `what` is a test without its comparison. `at_exit`: 1 for a
 * field of a system call's exit.
 */
struct strata_abi_count_part {
	struct strata_abi_kernel_test what;
	uint64_t at_exit;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_count_part) == 48, "count part size");

/* The constant `count` of a program. Those of system calls are shared by all calls of the program. */
struct strata_abi_count {
	uint32_t nr_keys;
	uint32_t flags; /* STRATA_ABI_COUNT_* */
	struct strata_abi_count_part key[STRATA_ABI_COUNT_KEYS_MAX];
	struct strata_abi_count_part value;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_count) == 248, "count size");

/* A key of `counts`, of which the map's keys have `absent` and the first `nr_keys` parts. Unused bytes are 0. */
struct strata_abi_count_key {
	uint64_t absent; /* bit i: the event has no part i, which is 0 */
	uint64_t part[STRATA_ABI_COUNT_KEYS_MAX][2];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_count_key) == 72, "count key size");

/*
 * A value of `counts`: one CPU's. A map without VALUE has `count` only, one without SPREAD no buckets. All 0 at first:
 * so `least` has the complement of the least value, and of SIGNED values both ends have their highest bit changed.
 */
struct strata_abi_count_value {
	uint64_t count;
	uint64_t sum; /* of 64 bits, modulo 2^64 */
	uint64_t least;
	uint64_t most;
	uint64_t bucket[STRATA_ABI_COUNT_BUCKETS];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_count_value) == 560, "count value size");

#endif /* STRATA_ABI_COUNT_H */
