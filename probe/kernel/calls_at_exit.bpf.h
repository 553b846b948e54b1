/* SPDX-License-Identifier: MIT */
/*
 * calls_at_exit.bpf.h - a call of which both ends are recorded when it returns, since only then it is known that it is wanted.
 *
 * A part of syscalls.bpf.c. What is known of the call meanwhile is kept with its task: written at each entry there, or by
 * waited_calls.bpf.h where a task leaves its CPU.
 */
#ifndef STRATA_KERNEL_CALLS_AT_EXIT_BPF_H
#define STRATA_KERNEL_CALLS_AT_EXIT_BPF_H

/* The call that a task is in. It is recorded at its exit if it took at least `slower` of the event. */
struct begun_call {
	uint64_t time;	/* 0: there is none */
	uint32_t place; /* in `syscalls` */
	uint32_t nr;
#ifdef STRATA_KERNEL_WAITED
	/* Of each switch, and so on one cache line with the above. */
	uint64_t left; /* when the task left its CPU in a call, by time_of_switch(); 0: it did not */
	uint64_t alike; /* how much time is between such times of calls of one kind alone [ns] */
	uint32_t is_scheduled; /* 1: the return of this call will be seen */
	uint32_t reserved;
#endif
	uint64_t argument[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct begun_call);
} begun SEC(".maps");

#define SLOWER_NS ((uint64_t)event.slower * 1000)
/* Returns whether a call leaves a mark when it begins, and is recorded or counted when it returns; so do sampled ones. */
#define HOLDS_BEGUN (event.slower || STRATA_COUNT_IS_PAIRED)

STRATA_INLINE struct begun_call *begun_here(uint64_t flags)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return (struct begun_call *)bpf_task_storage_get(&begun, task, NULL, flags);
}

/* Counts a record as discarded, since it will not be known whether the present call was slow. */
static __attribute__((noinline)) int lose_begun(void)
{
	struct strata_ring_stream stream;

	if (STRATA_COUNTS)
		strata_count_busy();
	else if (strata_stream_here(&stream))
		strata_ring_discard_nested(&strata_config, &stream);
	return 0;
}

/*
 * Points the arguments of an execve() that succeeded to where the new program finds the texts: the
 * path last, the strings at its stack.
 */
STRATA_INLINE void move_executed(struct strata_scratch *scratch, const struct pt_regs *regs,
				 const volatile struct strata_abi_kernel_syscall *s)
{
	struct strata_user_memory path = { STRATA_ABI_KERNEL_ARG_PATH, 0, 0 };
	uint64_t unused, i;

	find_executed(&path, &unused);
	for (i = 0; i < 6; i++) {
		if (s->kind[i] == STRATA_ABI_KERNEL_ARG_PATH)
			scratch->argument[i] = path.address;
		else if (s->kind[i] == STRATA_ABI_KERNEL_ARG_STRINGS)
			scratch->argument[i] = strata_arch_sp(regs) + (is_compat() ? 4 : 8);
	}
}

/*
 * Assembles the entry of a slow call, with the content of its memory at the return. Before the arguments are two u64:
 * how long ago the call began [ns], and the least time that is recorded [ns], or of how many calls this is a sample.
 */
static __attribute__((noinline)) int assemble_begun(const struct pt_regs *regs, uint64_t elapsed,
						    int64_t ret)
{
	const volatile struct strata_abi_kernel_syscall *s;
	struct strata_scratch *scratch = strata_scratch();
	struct begun_call *mark = begun_here(0);
	uint64_t i;

	if (!scratch || !mark)
		return 0;
	s = call_at(mark->place);
	begin_scratch(scratch, regs);
	for (i = 0; i < 6; i++)
		scratch->argument[i] = mark->argument[i];
	*(volatile uint64_t *)(void *)scratch->bytes = elapsed;
	*(volatile uint64_t *)(void *)(scratch->bytes + 8) =
		event.slower == STRATA_ABI_KERNEL_SLOWER_NONE ? event.every : SLOWER_NS;
	scratch->at = 16;
	if (s->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN) {
		write_unknown(scratch->bytes + 16, mark->nr);
		scratch->at = 24;
	}
	if (!ret && is_execve(mark->place))
		move_executed(scratch, regs, s);
	for (i = 0; i < 6 && i < s->nr_args; i++) {
		strata_scratch_argument(s->kind[i], scratch->argument[i], scratch->argument[i + 1]);
		if (STRATA_ONCE(uint32_t, scratch->has_unread)) {
			strata_count_unreadable();
			scratch->has_unread = 0;
		}
	}
	return 1;
}

/*
 * Records both ends of a slow call. An execveat returns as execve, so the place is that of its begin. Not in a
 * function below the program: the chain of calls that reserves has as many frames as there may be.
 */
STRATA_INLINE void record_slow(const struct pt_regs *regs, uint64_t elapsed, int64_t ret)
{
	const volatile struct strata_abi_kernel_syscall *s;
	struct begun_call *mark = begun_here(0);
	uint32_t nr;

	if (!mark)
		return;
	nr = mark->nr;
	s = call_at(mark->place);
	if (!(s->flags & STRATA_ABI_KERNEL_CALL_EXIT) || !assemble_begun(regs, elapsed, ret) ||
	    !record_assembled(s->entry_id))
		return;
	if (*(const volatile uint16_t *)(const volatile void *)&s->exit_kind[0] |
	    *(const volatile uint32_t *)(const volatile void *)&s->exit_kind[2]) {
		assemble_exit(regs, nr, ret);
		record_assembled(s->exit_id);
		return;
	}
	record_return(ret, nr, s);
}

#endif /* STRATA_KERNEL_CALLS_AT_EXIT_BPF_H */
