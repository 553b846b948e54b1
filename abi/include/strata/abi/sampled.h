/* SPDX-License-Identifier: MIT */
/* sampled.h - what programs of the kernel count that record samples of events; a part of kernel.h. */
#ifndef STRATA_ABI_SAMPLED_H
#define STRATA_ABI_SAMPLED_H

#include <strata/abi/ring.h>

/*
 * Sampling, of programs with `every` or `at_most`: what passes all tests may be left out, and is counted. Their objects have
 * two maps of their own, with one value for each event, at 0, or for each system call, at its place in `syscalls`:
 *   sampled          per-CPU array of the structure below; programs add to it by atomic operations
 *   sampled_seconds  array of u64: the second of CLOCK_MONOTONIC in the upper half, how many were recorded in it in the lower
 */
struct strata_abi_kernel_sampled {
	uint64_t seen;	   /* of events with `every`: those that have passed all tests */
	uint64_t left_out; /* those of them that were not recorded */
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_kernel_sampled) == 16, "kernel sampled size");

/* A value of `slower`: a system call is recorded when it returns, however long it took. */
#define STRATA_ABI_KERNEL_SLOWER_NONE UINT32_MAX

#endif /* STRATA_ABI_SAMPLED_H */
