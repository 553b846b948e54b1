/* SPDX-License-Identifier: MIT */
/* stress.h - what the BPF program writes, and its reader expects. */
#ifndef STRATA_RING_CHECK_BPF_STRESS_H
#define STRATA_RING_CHECK_BPF_STRESS_H

#include <stdint.h>

#define STRESS_CPUS 1024 /* a power of two */
#define STRESS_SLACK \
	4096 /* behind each ring: room for the largest record, and whole pages [byte] */

/* Word @i of the payload of a record with this time and id. */
static inline __attribute__((always_inline)) uint64_t stress_word(uint64_t timestamp, uint32_t id,
								  uint32_t i)
{
	return timestamp * UINT64_C(0x9e3779b97f4a7c15) + id + i;
}

#endif /* STRATA_RING_CHECK_BPF_STRESS_H */
