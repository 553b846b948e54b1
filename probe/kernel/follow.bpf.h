/* SPDX-License-Identifier: MIT */
/* follow.bpf.h - is the current task one whose events are recorded? */
#ifndef STRATA_KERNEL_FOLLOW_BPF_H
#define STRATA_KERNEL_FOLLOW_BPF_H

#include "maps.bpf.h"

struct task_struct;

STRATA_INLINE int strata_is_active(void)
{
	return STRATA_ONCE(uint32_t, control.active);
}

/* Of an event that is recorded of followed tasks only. */
STRATA_INLINE int strata_is_followed(uint64_t pid_tgid)
{
	uint32_t *value;

	if ((uint32_t)(pid_tgid >> 32) == STRATA_ONCE(uint32_t, control.tracer))
		return 0;
	if (!STRATA_ONCE(uint32_t, control.following))
		return 1;
	value = (uint32_t *)bpf_task_storage_get(&followed, bpf_get_current_task_btf(), NULL, 0);
	return value && *value == STRATA_ABI_KERNEL_FOLLOW_ALL;
}

#endif /* STRATA_KERNEL_FOLLOW_BPF_H */
