/* SPDX-License-Identifier: MIT */
/* filter_values.bpf.h - the values that a filter reads, see FIELD in strata/abi/kernel.h. */
#ifndef STRATA_KERNEL_FILTER_VALUES_BPF_H
#define STRATA_KERNEL_FILTER_VALUES_BPF_H

#include <stdint.h>

/* The verifier refuses a load from a context at an offset that is not part of the instruction. */
#define STRATA_SOURCE_CONTEXT 0u /* of type tp, or registers: bpf_probe_read_kernel() only */
#define STRATA_SOURCE_DIRECT  1u /* the program's stack: loads, aligned */

struct strata_source {
	const void *base;
	uint64_t kind;
	uint64_t pid_tgid; /* bpf_get_current_pid_tgid() */
	uint32_t cpu;
};

#endif /* STRATA_KERNEL_FILTER_VALUES_BPF_H */
