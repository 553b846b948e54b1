/* SPDX-License-Identifier: MIT */
/*
 * waited_calls.bpf.h - records calls that waited for long, without a program at each call.
 *
 * A call that takes a millisecond has nearly always left its CPU. Two programs at each entry and exit, to find the few slow
 * ones among all, took a fifth of a redis' throughput and more. So here the scheduler's switches are looked at instead:
 *
 *   a task leaves its CPU in a call ──▶ the time and the call are noted with the task; arguments are read at the return
 *   it comes back, and was away for half of `slower` ──▶ the kernel is asked to run call_returns() in that task before
 *                                                          it returns to the program
 *   call_returns() ──▶ both ends are recorded, as record_slow() does, if `slower` has passed since it left
 *
 * What this does not see: calls that compute and never leave their CPU, and of a call with several waits what was before
 * the first long one. A begin is never told too early: it is the time at which a task left its CPU within this very call.
 * To ask for a return takes an interrupt, some microseconds: a PostgreSQL whose every third wait was looked at, since short ones
 * of calls that look alike were added up, was 13 % slower for that. So the sum of short waits counts only
 * when it comes to many times `slower`, and makes no more than that the next return is looked at.
 *
 * bpf_task_work_schedule_resume() is there from Linux 6.18 on. Earlier kernels refuse the object, and the programs for
 * entry and exit are loaded.
 */
#ifndef STRATA_KERNEL_WAITED_CALLS_BPF_H
#define STRATA_KERNEL_WAITED_CALLS_BPF_H

/* Returns that can be awaited at a time. A task takes one while it is on its way out of a call. */
#define WAITED_PLACES 4096u
/* Places that a task looks at before it gives up, which is counted. */
#define WAITED_TRIES 4u

/* Short waits in calls of one kind that make their return worth a look, in times of `slower`. */
#define WAITED_SHORT 32

#define TASK_IS_OF_KERNEL 0x00204010u /* PF_KTHREAD, PF_USER_WORKER, PF_IO_WORKER */

/* The kernel's own structure, which it finds in values by its name. */
struct bpf_task_work {
	uint64_t opaque;
} __attribute__((aligned(8)));

struct awaited_return {
	struct bpf_task_work work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WAITED_PLACES);
	__type(key, uint32_t);
	__type(value, struct awaited_return);
} awaited SEC(".maps");

struct task_struct___waited {
	unsigned int flags;
	unsigned long nvcsw, nivcsw;
} STRATA_CORE;

/* Whole, since types of functions are compared by kinds. */
struct bpf_map {
	unsigned int id;
};

extern int
bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *work, void *map,
				   int (*callback)(struct bpf_map *map, void *key, void *value),
				   void *unused) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;

STRATA_INLINE int is_recorded_now(void)
{
	uint32_t on = strata_switch() & ~(STRATA_ABI_KERNEL_ON_TELLS | STRATA_ABI_KERNEL_ON_ASKS);

	return on == STRATA_ABI_KERNEL_ON || on && strata_is_on_now(on);
}

/*
 * Records the call from which the task returns. The kernel runs this in the task, in a context that may be preempted: the
 * memory of this CPU has one user at a time only while it may not.
 */
static int call_returns(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	struct begun_call *mark = begun_here(0);
	uint64_t begin, elapsed;
	int64_t ret;

	if (!mark || !regs)
		return 0;
	ret = strata_arch_result(regs);
	mark->is_scheduled = 0;
	/* It is still in its call: io_uring_enter() and the end of a task run such work, too. */
	if (ret == NO_CALL)
		return 0;
	begin = mark->time;
	mark->time = 0;
	mark->waited = 0;
	elapsed = bpf_ktime_get_ns() - begin;
	if (!begin || elapsed < SLOWER_NS)
		return 0;
	if (!is_execve(mark->place))
		read_arguments(regs, mark->argument);
	bpf_preempt_disable();
	if (is_recorded_now() && strata_is_followed(bpf_get_current_pid_tgid()))
		record_slow(regs, elapsed, ret);
	bpf_preempt_enable();
	return 0;
}

STRATA_INLINE int is_of_kernel(const struct task_struct *task)
{
	const struct task_struct___waited *of = (const struct task_struct___waited *)task;

	return !!(of->flags & TASK_IS_OF_KERNEL);
}

/* Returns how often a task has left a CPU. Switches are not seen while nothing is recorded. */
STRATA_INLINE uint64_t switches_of(const struct task_struct *task)
{
	const struct task_struct___waited *of = (const struct task_struct___waited *)task;

	return of->nvcsw + of->nivcsw;
}

/*
 * Returns whether a task with these registers is in a call that is recorded. What interrupts a program has a negative
 * number, and a call that has got its result is over: its task may still be preempted on the way to the program.
 */
STRATA_INLINE int is_wanted_call(const struct pt_regs *regs)
{
	return strata_arch_is_in_call(regs) && is_recorded_now() &&
	       strata_is_followed(bpf_get_current_pid_tgid()) &&
	       call_at(place_of((uint32_t)strata_arch_call(regs)))->flags &
		       STRATA_ABI_KERNEL_CALL_ENTRY;
}

/* Notes the call in which the current task leaves its CPU. */
static __attribute__((noinline)) int call_leaves(struct task_struct *task)
{
	struct begun_call *mark = task->bpf_storage ? begun_here(0) : NULL;
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	uint32_t nr;

	if (mark && mark->is_scheduled)
		return 0;
	if (is_of_kernel(task) || !is_wanted_call(regs)) {
		if (mark)
			mark->time = 0;
		return 0;
	}
	if (!mark) {
		mark = begun_here(BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!mark)
			return lose_begun();
	}
	nr = (uint32_t)strata_arch_call(regs);
	if (mark->nr != nr)
		mark->waited = 0;
	mark->nr = nr;
	mark->place = place_of(nr);
	/* The others have their arguments when they return. */
	if (is_execve(mark->place))
		read_arguments(regs, mark->argument);
	mark->switches = switches_of(task);
	mark->time = bpf_ktime_get_ns();
	return 0;
}

/* Asks for the return of a task's call, if that has waited for long. */
static __attribute__((noinline)) int call_goes_on(struct task_struct *task)
{
	struct begun_call *mark = (struct begun_call *)bpf_task_storage_get(&begun, task, NULL, 0);
	struct awaited_return *at;
	uint32_t i, place;
	uint64_t away;

	if (!mark || !mark->time || mark->is_scheduled)
		return 0;
	/* It is another call, whose begin was not seen. */
	if (mark->switches != switches_of(task)) {
		mark->time = 0;
		return 0;
	}
	away = bpf_ktime_get_ns() - mark->time;
	mark->waited += away;
	if (away < SLOWER_NS / 2 && mark->waited < WAITED_SHORT * SLOWER_NS)
		return 0;
	mark->waited = 0;
	for (i = 0; i < WAITED_TRIES; i++) {
		place = ((uint32_t)task->pid + i) % WAITED_PLACES;
		at = (struct awaited_return *)bpf_map_lookup_elem(&awaited, &place);
		if (!at)
			break;
		if (!bpf_task_work_schedule_resume_impl(task, &at->work, &awaited, call_returns,
							NULL)) {
			mark->is_scheduled = 1;
			return 0;
		}
	}
	return lose_begun();
}

SEC("tp_btf/sched_switch")
int strata_switch_of_calls(unsigned long long *context)
{
	struct task_struct *prev = (struct task_struct *)context[1];
	struct task_struct *next = (struct task_struct *)context[2];

	if (!strata_switch())
		return 0;
	if (prev->pid)
		call_leaves(prev);
	if (next->bpf_storage)
		call_goes_on(next);
	return 0;
}

#endif /* STRATA_KERNEL_WAITED_CALLS_BPF_H */
