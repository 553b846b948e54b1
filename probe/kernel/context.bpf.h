/* SPDX-License-Identifier: MIT */
/*
 * context.bpf.h - what records have between their thread and their payload, where contexts are asked for.
 *
 * They are put together before the record is reserved, since only then their size is known; in a place that no other
 * program has until it is given back: one may be run inside another.
 */
#ifndef STRATA_KERNEL_CONTEXT_BPF_H
#define STRATA_KERNEL_CONTEXT_BPF_H

#include "maps.bpf.h"
#include "core.bpf.h"

#define STRATA_CONTEXT_PLACES 8u  /* a power of two */
#define STRATA_CONTEXT_FIXED  44u /* all but the stacks [byte] */
#define STRATA_CONTEXT_STACK  (STRATA_ABI_KERNEL_STACK_FRAMES * 8u)
STRATA_ABI_ASSERT(STRATA_CONTEXT_FIXED + 2 * (4 + STRATA_CONTEXT_STACK) <=
			  STRATA_ABI_KERNEL_CONTEXT_MAX,
		  "all contexts fit");

/* How a stack is read; a program that has other registers than the current ones has its own way. */
#ifndef STRATA_CONTEXT_WALK
#define STRATA_CONTEXT_WALK(to, flags) \
	bpf_get_task_stack((void *)bpf_get_current_task_btf(), to, STRATA_CONTEXT_STACK, flags)
#endif

struct strata_context_place {
	uint32_t is_taken;
	uint32_t reserved;
	unsigned char bytes[STRATA_ABI_KERNEL_CONTEXT_MAX];
};

struct strata_context_places {
	struct strata_context_place place[STRATA_CONTEXT_PLACES];
};

/* Each CPU's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct strata_context_places);
} contexts SEC(".maps");

#define STRATA_HAS_CONTEXT(what, name) ((what) >> STRATA_ABI_KERNEL_CONTEXT_##name & 1)

STRATA_INLINE struct strata_context_place *strata_context_place(uint64_t i)
{
	uint32_t key = 0;
	struct strata_context_places *all =
		(struct strata_context_places *)bpf_map_lookup_elem(&contexts, &key);

	if (!all)
		return NULL;
	/* Has the compiler bound the register that is used. */
	__asm__ volatile("" : "+r"(i));
	return &all->place[i & (STRATA_CONTEXT_PLACES - 1)];
}

STRATA_INLINE uint32_t strata_context_word(unsigned char *to, uint32_t at, uint32_t value)
{
	*(volatile uint32_t *)(void *)(to + at) = value;
	return at + 4;
}

/* Returns where the next begins. What cannot be walked has no addresses. */
STRATA_INLINE uint32_t strata_context_stack(unsigned char *to, uint32_t at, uint64_t flags)
{
	long n;

	if (at > STRATA_CONTEXT_FIXED + 4 + STRATA_CONTEXT_STACK)
		return at;
	n = STRATA_CONTEXT_WALK(to + at + 4, flags);
	n = n < 0 ? 0 : n;
	strata_context_word(to, at, (uint32_t)n / 8);
	return at + 4 + (uint32_t)n;
}

/*
 * Puts them together. Returns the number of the place in bits 16 and up, and their size below; negative: there are
 * more programs inside each other than places.
 */
__attribute__((noinline)) int strata_context_take(uint32_t what)
{
	const struct task_struct *task = strata_current();
	struct strata_context_place *place = NULL;
	uint64_t uid_gid = bpf_get_current_uid_gid();
	uint32_t i, at = 0;
	unsigned char *to;

	for (i = 0; i < STRATA_CONTEXT_PLACES; i++) {
		place = strata_context_place(i);
		if (place && !__sync_lock_test_and_set(&place->is_taken, 1))
			break;
	}
	if (!place || i >= STRATA_CONTEXT_PLACES)
		return -1;
	to = place->bytes;
	if (STRATA_HAS_CONTEXT(what, PID))
		at = strata_context_word(to, at, (uint32_t)task->tgid);
	if (STRATA_HAS_CONTEXT(what, PPID))
		at = strata_context_word(to, at, (uint32_t)task->real_parent->tgid);
	if (STRATA_HAS_CONTEXT(what, PROCNAME)) {
		bpf_get_current_comm(to + at, 16);
		at += 16;
	}
	if (STRATA_HAS_CONTEXT(what, UID))
		at = strata_context_word(to, at, (uint32_t)uid_gid);
	if (STRATA_HAS_CONTEXT(what, GID))
		at = strata_context_word(to, at, (uint32_t)(uid_gid >> 32));
	if (STRATA_HAS_CONTEXT(what, PRIO))
		at = strata_context_word(to, at, (uint32_t)(task->prio - 100));
	if (STRATA_HAS_CONTEXT(what, CGROUP)) {
		*(volatile uint64_t *)(void *)(to + at) = bpf_get_current_cgroup_id();
		at += 8;
	}
	if (STRATA_HAS_CONTEXT(what, STACK))
		at = strata_context_stack(to, at, 0);
	if (STRATA_HAS_CONTEXT(what, USER_STACK))
		at = strata_context_stack(to, at, BPF_F_USER_STACK);
	return (int)(i << 16 | at);
}

/* Copies them, unless @to is NULL, and gives the place back. Returns their size. */
STRATA_INLINE uint32_t strata_context_give(int taken, unsigned char *to)
{
	struct strata_context_place *place = strata_context_place((uint32_t)taken >> 16);
	uint32_t bytes = (uint32_t)taken & 0xffff;

	if (!place || bytes > STRATA_ABI_KERNEL_CONTEXT_MAX)
		return 0;
	if (to)
		bpf_probe_read_kernel(to, bytes, place->bytes);
	*(volatile uint32_t *)&place->is_taken = 0;
	return bytes;
}

#endif /* STRATA_KERNEL_CONTEXT_BPF_H */
