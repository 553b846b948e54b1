/* SPDX-License-Identifier: MIT */
/*
 * replacing.bpf.h - decide which of two programs records an event while one replaces the other.
 *
 * Both are attached, and run one behind the other for the same event. A switch for each would be two stores, and an event
 * between them be recorded twice, or not at all; so would one store that both look at, since an event may be between the
 * two programs. So the one that runs first decides, and tells the other one. Only programs in such a change come here.
 */
#ifndef STRATA_KERNEL_REPLACING_BPF_H
#define STRATA_KERNEL_REPLACING_BPF_H

#include "maps.bpf.h"

/*
 * Returns 1 if a program of this switch records the present event. A task has one event at a time,
 * except in interrupts.
 */
static __attribute__((noinline)) int strata_has_turn(uint32_t on)
{
	uint64_t at = (uint32_t)bpf_get_current_pid_tgid();
	uint32_t key = 0, *words, bit;
	int has = !STRATA_ONCE(uint16_t, control.turn);

	if (!at)
		at = STRATA_ABI_KERNEL_FOLLOW_TASKS + bpf_get_smp_processor_id();
	bit = 1u << (at & 31);
	at >>= 5;
	/* Makes the compiler test the register that is used. */
	__asm__ volatile("" : "+r"(at));
	words = (uint32_t *)bpf_map_lookup_elem(&told, &key);
	if (!words || at >= STRATA_ABI_KERNEL_TOLD_WORDS)
		return has;
	/* Another CPU may set the neighbouring bits of the word at the same time. */
	if (!(on & STRATA_ABI_KERNEL_ON_TELLS)) {
		has = !(STRATA_ONCE(uint32_t, words[at]) & bit);
		/*
		 * The mark was for this event. For the next one there may be no program any more
		 * that tells.
		 */
		if (!has)
			__sync_fetch_and_and(&words[at], ~bit);
		return has;
	}
	if (has)
		__sync_fetch_and_or(&words[at], bit);
	else
		__sync_fetch_and_and(&words[at], ~bit);
	return has;
}

#endif /* STRATA_KERNEL_REPLACING_BPF_H */
