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

#define STRATA_CONTEXT_PLACES 8u   /* a power of two */
#define STRATA_CONTEXT_FIXED  152u /* all but the stacks [byte] */
#define STRATA_CONTEXT_STACK  (STRATA_ABI_KERNEL_STACK_FRAMES * 8u)
STRATA_ABI_ASSERT(STRATA_CONTEXT_FIXED + 2 * (4 + STRATA_CONTEXT_STACK) <=
			  STRATA_ABI_KERNEL_CONTEXT_MAX,
		  "all contexts fit");

/*
 * Reads a stack of the current task: the kernel's, or with BPF_F_USER_STACK the program's. A
 * program that runs with other registers than the task's defines its own.
 */
#ifndef STRATA_CONTEXT_WALK
#define STRATA_CONTEXT_WALK(to, flags) \
	bpf_get_task_stack((void *)bpf_get_current_task_btf(), to, STRATA_CONTEXT_STACK, flags)
#endif

struct strata_context_place {
	uint32_t is_taken;
	uint32_t at;
	/* The copy of the program's stack, which is in no place: only its size has to be known before a record is reserved. */
	uint64_t copy_from;  /* user address; 0: there is neither registers nor stack */
	uint64_t copy_bytes; /* of the stack */
	unsigned char bytes[STRATA_ABI_KERNEL_CONTEXT_MAX];
};

struct strata_context_places {
	struct strata_context_place place[STRATA_CONTEXT_PLACES];
};

/* Memory in which contexts are put together, one for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct strata_context_places);
} contexts SEC(".maps");

#ifndef STRATA_KERNEL_SLEEPABLE
/*
 * Perf events of the counters: COUNTERS of them for each CPU. The largest entry is set by the
 * loader.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(uint32_t));
} counters SEC(".maps");
#endif

/* The result of strata_context_take(): the number of a place, and the size of all contexts below it. */
#define STRATA_TAKEN_SHIFT 20u
#define STRATA_TAKEN_BYTES ((1u << STRATA_TAKEN_SHIFT) - 1)
STRATA_ABI_ASSERT(STRATA_ABI_KERNEL_CONTEXT_MAX + STRATA_ABI_KERNEL_COPY_SLACK < STRATA_TAKEN_BYTES,
		  "the size of all contexts fits");

#define STRATA_HAS_CONTEXT(what, name) ((what) >> STRATA_ABI_KERNEL_CONTEXT_##name & 1)

STRATA_INLINE struct strata_context_place *strata_context_place(uint64_t i)
{
	uint32_t key = 0;
	struct strata_context_places *all =
		(struct strata_context_places *)bpf_map_lookup_elem(&contexts, &key);

	if (!all)
		return NULL;
	/* Makes the compiler bound the register that is used. */
	__asm__ volatile("" : "+r"(i));
	return &all->place[i & (STRATA_CONTEXT_PLACES - 1)];
}

STRATA_INLINE uint32_t strata_context_word(unsigned char *to, uint32_t at, uint32_t value)
{
	if (at > STRATA_ABI_KERNEL_CONTEXT_MAX - 4)
		return at;
	*(volatile uint32_t *)(void *)(to + at) = value;
	return at + 4;
}

/*
 * Appends a word at the place's own position, of which the verifier knows only the bound, since it
 * is in memory: so the number of paths that it follows does not double with each context.
 */
#define STRATA_CONTEXT_BOUND 2047u
STRATA_ABI_ASSERT(STRATA_ABI_KERNEL_CONTEXT_MAX <= STRATA_CONTEXT_BOUND,
		  "the bound is above all of them: those of an event alone come behind stacks");

STRATA_INLINE void strata_context_more(struct strata_context_place *place, uint32_t value)
{
	uint32_t at = *(volatile uint32_t *)&place->at & STRATA_CONTEXT_BOUND;

	*(volatile uint32_t *)&place->at = strata_context_word(place->bytes, at, value);
}

/*
 * Adds the numbers of the process, the thread and the parent in the task's own PID namespace, and
 * the numbers of its namespaces.
 */
STRATA_INLINE void strata_context_inside(struct strata_context_place *place, uint32_t what,
					 const struct task_struct *task)
{
	const struct pid *pid = task->thread_pid;
	const struct nsproxy *all = task->nsproxy;
	uint32_t level = pid ? pid->level : 0;
	struct upid own = strata_upid(pid, level), parent;

	if (STRATA_HAS_CONTEXT(what, VPID))
		strata_context_more(
			place, (uint32_t)strata_upid(task->group_leader->thread_pid, level).nr);
	if (STRATA_HAS_CONTEXT(what, VTID))
		strata_context_more(place, (uint32_t)own.nr);
	if (STRATA_HAS_CONTEXT(what, VPPID)) {
		parent = strata_upid(task->real_parent->group_leader->thread_pid, level);
		strata_context_more(place, parent.ns == own.ns ? (uint32_t)parent.nr : 0);
	}
	if (STRATA_HAS_CONTEXT(what, CGROUP_NS))
		strata_context_more(place, all->cgroup_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, IPC_NS))
		strata_context_more(place, all->ipc_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, MNT_NS))
		strata_context_more(place, all->mnt_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, NET_NS))
		strata_context_more(place, all->net_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, PID_NS))
		strata_context_more(place, own.ns ? BPF_CORE_READ(own.ns, ns.inum) : 0);
	if (STRATA_HAS_CONTEXT(what, TIME_NS))
		strata_context_more(place, all->time_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, USER_NS))
		strata_context_more(place, task->real_cred->user_ns->ns.inum);
	if (STRATA_HAS_CONTEXT(what, UTS_NS))
		strata_context_more(place, all->uts_ns->ns.inum);
}

#define STRATA_CONTEXT_COUNTERS \
	(((1u << STRATA_ABI_KERNEL_COUNTERS) - 1) << STRATA_ABI_KERNEL_CONTEXT_COUNTER)

/* A counter that cannot be read has a negative errno as its value. */
#define STRATA_COUNTER_IS_ERROR(value) ((value) >= (uint64_t)-4095)

/* A sleepable program may not have the map of counters, and no event with counters has such a program. */
#ifndef STRATA_KERNEL_SLEEPABLE
/* Counters that stand at 0 where they cannot be read, which is counted. */
STRATA_INLINE void strata_context_counters(struct strata_context_place *place, uint32_t what)
{
	uint64_t first = bpf_get_smp_processor_id() * STRATA_ABI_KERNEL_COUNTERS, value;
	uint32_t i;

#pragma clang loop unroll(disable)
	for (i = 0; i < STRATA_ABI_KERNEL_COUNTERS; i++) {
		if (!(what >> (STRATA_ABI_KERNEL_CONTEXT_COUNTER + i) & 1))
			continue;
		value = bpf_perf_event_read(&counters, first + i);
		if (STRATA_COUNTER_IS_ERROR(value)) {
			__sync_fetch_and_add(&control.uncounted, 1);
			value = 0;
		}
		strata_context_more(place, (uint32_t)value);
		strata_context_more(place, (uint32_t)(value >> 32));
	}
}
#endif

/*
 * Writes one of the two stacks at @at, and returns where the next context begins. A stack that cannot be walked is
 * written without addresses.
 */
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
 * Adds the contexts of @what from a position on, in their order. @where: the number of the place in
 * bits TAKEN_SHIFT and up, the position below. Returns @where with the position behind the contexts. A
 * function of its own, whose arguments may be anything for the verifier.
 */
__attribute__((noinline)) int strata_context_put(uint32_t where, uint32_t what)
{
	struct strata_context_place *place = strata_context_place(where >> STRATA_TAKEN_SHIFT);
	const struct task_struct *task = strata_current();
	uint64_t uid_gid = bpf_get_current_uid_gid();
	uint32_t at = where & STRATA_TAKEN_BYTES;
	unsigned char *to;

	if (!place || at > STRATA_ABI_KERNEL_CONTEXT_MAX)
		return -1;
	to = place->bytes;
	if (STRATA_HAS_CONTEXT(what, PID))
		at = strata_context_word(to, at, (uint32_t)task->tgid);
	if (STRATA_HAS_CONTEXT(what, PPID))
		at = strata_context_word(to, at, (uint32_t)task->real_parent->tgid);
	if (STRATA_HAS_CONTEXT(what, PROCNAME) && at <= STRATA_ABI_KERNEL_CONTEXT_MAX - 16) {
		bpf_get_current_comm(to + at, 16);
		at += 16;
	}
	if (STRATA_HAS_CONTEXT(what, UID))
		at = strata_context_word(to, at, (uint32_t)uid_gid);
	if (STRATA_HAS_CONTEXT(what, GID))
		at = strata_context_word(to, at, (uint32_t)(uid_gid >> 32));
	if (STRATA_HAS_CONTEXT(what, PRIO))
		at = strata_context_word(to, at, (uint32_t)(task->prio - 100));
	if (STRATA_HAS_CONTEXT(what, CGROUP) && at <= STRATA_ABI_KERNEL_CONTEXT_MAX - 8) {
		*(volatile uint64_t *)(void *)(to + at) = bpf_get_current_cgroup_id();
		at += 8;
	}
	place->at = at;
	strata_context_inside(place, what, task);
#ifndef STRATA_KERNEL_SLEEPABLE
	if (what & STRATA_CONTEXT_COUNTERS)
		strata_context_counters(place, what);
#endif
	at = *(volatile uint32_t *)&place->at & STRATA_CONTEXT_BOUND;
	if (STRATA_HAS_CONTEXT(what, STACK))
		at = strata_context_stack(to, at, 0);
	if (STRATA_HAS_CONTEXT(what, USER_STACK))
		at = strata_context_stack(to, at, BPF_F_USER_STACK);
	return (int)at;
}

/*
 * Copies of the program's registers and stack, from which a reader finds the callers of functions that keep no frame
 * pointer.
 */
#define STRATA_COPY_CODE(what)                                                                \
	((uint32_t)((what) >>                                                                 \
		    (STRATA_ABI_KERNEL_CONTEXT_OWN + STRATA_ABI_KERNEL_CONTEXT_STACK_COPY)) & \
	 7u)
#define STRATA_COPY_REGISTER_BYTES (STRATA_ARCH_COPY_REGISTERS * 8u)
#define STRATA_COPY_HEAD	   (4u + STRATA_COPY_REGISTER_BYTES + 4u)
#define STRATA_COPY_PAGE	   4096u
STRATA_ABI_ASSERT(STRATA_COPY_HEAD + STRATA_ABI_KERNEL_COPY_MAX <= STRATA_ABI_KERNEL_COPY_SLACK,
		  "a copy ends within its slack");

/*
 * Decides what is copied, and returns its size. The copy ends where the kernel has put the program's arguments, and in
 * front of the thread's own data, which C libraries have above the stack of a thread: no caller is beyond.
 */
static __attribute__((noinline)) uint32_t strata_copy_measure(struct strata_context_place *place,
							      uint32_t code)
{
	const struct task_struct *task = strata_current();
	const struct task_struct___memory *with_memory = (const void *)task;
	const struct mm_struct *mm = with_memory->mm;
	uint64_t bytes = (uint64_t)STRATA_ABI_KERNEL_COPY_UNIT << (code & 7), from, end, word;
	struct pt_regs *regs;

	place->copy_from = 0;
	place->copy_bytes = 0;
	if (!mm)
		return 8;
	regs = (struct pt_regs *)bpf_task_pt_regs((struct task_struct *)task);
	if (!regs || !strata_arch_is_user_64(regs))
		return 8;
	from = strata_arch_sp(regs) & ~7ull;
	/* A program that another one replaces, or that ends, has no memory at its stack pointer. */
	if (strata_read_user(&word, sizeof(word), (const void *)from))
		return 8;
	end = mm->start_stack & ~7ull;
	if (from < end && end - from < bytes)
		bytes = end - from;
	end = STRATA_ARCH_THREAD_DATA(task) & ~7ull;
	if (from < end && end - from < bytes)
		bytes = end - from;
	place->copy_from = from;
	place->copy_bytes = bytes;
	return STRATA_COPY_HEAD + (uint32_t)bytes;
}

/*
 * Writes registers and stack to @to, and returns their size. A page that is not in memory is left out: its bytes are 0.
 */
static __attribute__((noinline)) uint64_t strata_copy_put(unsigned char *to,
							  struct strata_context_place *place)
{
	uint64_t from = *(const volatile uint64_t *)&place->copy_from, n, at = 0, piece;
	uint64_t bytes = *(const volatile uint64_t *)&place->copy_bytes;
	const void *regs;
	uint32_t i;

	if (bytes > STRATA_ABI_KERNEL_COPY_MAX || !from) {
		*(volatile uint32_t *)(void *)to = 0;
		*(volatile uint32_t *)(void *)(to + 4) = 0;
		return 8;
	}
	n = bytes;
	regs = (const void *)bpf_task_pt_regs((struct task_struct *)strata_current());
	*(volatile uint32_t *)(void *)to = STRATA_ARCH_COPY_REGISTERS;
	bpf_probe_read_kernel(to + 4, STRATA_COPY_REGISTER_BYTES, regs);
	*(volatile uint32_t *)(void *)(to + 4 + STRATA_COPY_REGISTER_BYTES) = (uint32_t)n / 8;
	to += STRATA_COPY_HEAD;
	if (!strata_read_user(to, n, (const void *)from))
		return STRATA_COPY_HEAD + n;
#pragma clang loop unroll(disable)
	for (i = 0; i <= STRATA_ABI_KERNEL_COPY_MAX / STRATA_COPY_PAGE; i++) {
		if (at >= n || at >= STRATA_ABI_KERNEL_COPY_MAX)
			break;
		piece = STRATA_COPY_PAGE - ((from + at) & (STRATA_COPY_PAGE - 1));
		if (piece > n - at)
			piece = n - at;
		if (piece > STRATA_COPY_PAGE)
			break;
		strata_read_user(to + at, piece, (const void *)(from + at));
		at += piece;
	}
	return STRATA_COPY_HEAD + n;
}

/*
 * Puts all contexts of @what together. Returns the number of the place in bits TAKEN_SHIFT and up, and their
 * size below; a negative number if more programs are inside each other than there are places.
 */
__attribute__((noinline)) int strata_context_take(uint64_t what)
{
	struct strata_context_place *place = NULL;
	uint32_t i, own = (uint32_t)(what >> STRATA_ABI_KERNEL_CONTEXT_OWN);
	int at = 0;

	for (i = 0; i < STRATA_CONTEXT_PLACES; i++) {
		place = strata_context_place(i);
		if (place && !__sync_lock_test_and_set(&place->is_taken, 1))
			break;
	}
	if (!place || i >= STRATA_CONTEXT_PLACES)
		return -1;
	at = strata_context_put(i << STRATA_TAKEN_SHIFT, (uint32_t)what);
	if (own)
		at = strata_context_put(
			i << STRATA_TAKEN_SHIFT | ((uint32_t)at & STRATA_TAKEN_BYTES), own);
	if (STRATA_COPY_CODE(what)) {
		place->at = (uint32_t)at;
		at += (int)strata_copy_measure(place, STRATA_COPY_CODE(what));
	}
	return (int)(i << STRATA_TAKEN_SHIFT | ((uint32_t)at & STRATA_TAKEN_BYTES));
}

/*
 * Writes the contexts of @what to @to, unless @to is NULL, and gives their memory back. Returns their size. @what is
 * constant.
 */
STRATA_INLINE uint64_t strata_context_give(int taken, uint64_t what, unsigned char *to)
{
	struct strata_context_place *place =
		strata_context_place((uint32_t)taken >> STRATA_TAKEN_SHIFT);
	uint64_t bytes = (uint64_t)taken & STRATA_TAKEN_BYTES, copied;

	if (!place)
		return 0;
	if (STRATA_COPY_CODE(what))
		bytes = *(const volatile uint32_t *)&place->at;
	if (bytes > STRATA_ABI_KERNEL_CONTEXT_MAX)
		return 0;
	if (to)
		strata_read_kernel(to, bytes, place->bytes);
	if (STRATA_COPY_CODE(what) && to) {
		copied = strata_copy_put(to + bytes, place);
		if (copied <= STRATA_ABI_KERNEL_COPY_SLACK)
			bytes += copied;
	}
	*(volatile uint32_t *)&place->is_taken = 0;
	return bytes;
}

#endif /* STRATA_KERNEL_CONTEXT_BPF_H */
