/* SPDX-License-Identifier: MIT */
/* follow.bpf.h - decide whether the events of the current task are recorded. */
#ifndef STRATA_KERNEL_FOLLOW_BPF_H
#define STRATA_KERNEL_FOLLOW_BPF_H

#include "maps.bpf.h"

/* Returns the word of the map that has the two bits of task @tid; the result is never NULL. */
STRATA_INLINE uint32_t *strata_follow_word(uint64_t tid)
{
	uint32_t key = 0, *words = (uint32_t *)bpf_map_lookup_elem(&followed, &key);

	return words ? words + (tid >> 4 & (STRATA_FOLLOW_WORDS - 1)) : NULL;
}

/* Returns the mark of a task: one of STRATA_ABI_KERNEL_FOLLOW_*. */
STRATA_INLINE uint32_t strata_follow_of(uint64_t tid)
{
	uint32_t *word = strata_follow_word(tid);

	return word ? STRATA_ONCE(uint32_t, *word) >> (tid & 15) * 2 & 3 :
		      STRATA_ABI_KERNEL_FOLLOW_NONE;
}

/* Returns 1 if an event that is recorded of followed tasks only is recorded of this one. */
STRATA_INLINE int strata_is_followed(uint64_t pid_tgid)
{
	if ((uint32_t)(pid_tgid >> 32) == STRATA_ONCE(uint32_t, control.tracer))
		return 0;
	if (!STRATA_ONCE(uint32_t, control.following))
		return 1;
	return strata_follow_of(pid_tgid) == STRATA_ABI_KERNEL_FOLLOW_ALL;
}

#endif /* STRATA_KERNEL_FOLLOW_BPF_H */
