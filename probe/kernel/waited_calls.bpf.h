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
 * Nearly every wait of a busy server is short. So that such a one costs nothing where the task comes back, the kernel's own
 * note of when it came to a CPU before is looked at first: it has not been away for longer than since then. That note is
 * beside what the kernel writes next; what was noted by us is memory that nobody has touched since, four dependent loads
 * of it. These times are those of the run queue (rq->clock), which the kernel has read for this very switch. They only decide
 * whether a return is looked at: no clock service adjusts that clock, and without a stable TSC it is a tick off between CPUs.
 * What is recorded is by the clock of the trace, which is read when the task leaves.
 *
 * What this does not see: calls that compute and never leave their CPU, and of a call with several waits what was before
 * the first long one. A begin is never told too early: it is the time at which a task left its CPU within this very call.
 * To ask for a return takes an interrupt, some microseconds: a PostgreSQL whose every third wait was looked at, since short ones
 * of calls that look alike were added up, was 13 % slower for that. So calls of one kind count together only when many times
 * `slower` has passed in them, and that makes no more than that the next return is looked at.
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

/* The time with waits in calls of one kind alone that makes a return worth a look, in times of `slower`. */
#define WAITED_ALIKE 32

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

struct sched_info {
	unsigned long long last_arrival;
} STRATA_CORE;

struct rq {
	uint64_t clock;
} STRATA_CORE;

struct cfs_rq {
	struct rq *rq;
} STRATA_CORE;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} STRATA_CORE;

struct task_struct___waited {
	unsigned int flags;
	struct sched_info sched_info;
	struct sched_entity se;
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
	mark->left = 0;
	mark->alike = 0;
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

/*
 * Returns when a task came to a CPU, the last time but this one if it just comes. Switches are not seen while nothing is
 * recorded: what was noted before that time is of a wait that is over.
 */
STRATA_INLINE uint64_t arrival_of(const struct task_struct *task)
{
	const struct task_struct___waited *of = (const struct task_struct___waited *)task;

	return of->sched_info.last_arrival;
}

/*
 * Returns the time of the switch at which a task leaves its CPU, by the clock of arrival_of() [ns]. Tasks of all kinds have
 * this way to their CPU's run queue, and it is one that no symbol is needed for: many kernels have none of data.
 */
STRATA_INLINE uint64_t time_of_switch(const struct task_struct *leaves)
{
	const struct task_struct___waited *of = (const struct task_struct___waited *)leaves;

	return of->se.cfs_rq->rq->clock;
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

/* Asks the kernel to run call_returns() in a task before it returns to its program. */
static __attribute__((noinline)) int ask_for_return(struct task_struct *task,
						    struct begun_call *mark)
{
	struct awaited_return *at;
	uint32_t i, place;

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

/* Notes the call in which the current task leaves its CPU. */
static __attribute__((noinline)) int call_leaves(struct task_struct *task)
{
	struct begun_call *mark = task->bpf_storage ? begun_here(0) : NULL;
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	uint64_t now;
	uint32_t nr;

	if (mark && mark->is_scheduled)
		return 0;
	if (is_of_kernel(task) || !is_wanted_call(regs)) {
		if (mark)
			mark->left = 0;
		return 0;
	}
	if (!mark) {
		mark = begun_here(BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!mark)
			return lose_begun();
	}
	nr = (uint32_t)strata_arch_call(regs);
	now = time_of_switch(task);
	if (mark->nr == nr && mark->left)
		mark->alike += now - mark->left;
	else
		mark->alike = 0;
	mark->nr = nr;
	mark->place = place_of(nr);
	mark->left = now;
	mark->time = bpf_ktime_get_ns();
	/* The others have their arguments when they return. */
	if (is_execve(mark->place))
		read_arguments(regs, mark->argument);
	if (mark->alike < WAITED_ALIKE * SLOWER_NS)
		return 0;
	mark->alike = 0;
	return ask_for_return(task, mark);
}

/* Asks for the return of a task's call, if that has waited for long. */
static __attribute__((noinline)) int call_goes_on(struct task_struct *task, uint64_t now,
						  uint64_t arrival)
{
	struct begun_call *mark;
	uint64_t away;

	if (!task->bpf_storage)
		return 0;
	mark = (struct begun_call *)bpf_task_storage_get(&begun, task, NULL, 0);
	if (!mark || !mark->left || mark->is_scheduled)
		return 0;
	/* It is another call, whose begin was not seen. */
	if (mark->left < arrival) {
		mark->left = 0;
		return 0;
	}
	away = now - mark->left;
	if (away < SLOWER_NS / 2)
		return 0;
	mark->alike = 0;
	return ask_for_return(task, mark);
}

SEC("tp_btf/sched_switch")
int strata_switch_of_calls(unsigned long long *context)
{
	struct task_struct *prev = (struct task_struct *)context[1];
	struct task_struct *next = (struct task_struct *)context[2];
	uint64_t now, arrival;

	if (!strata_switch())
		return 0;
	if (prev->pid)
		call_leaves(prev);
	now = time_of_switch(prev);
	arrival = arrival_of(next);
	/* Of a new task and the idle one there is no time before this one. */
	if (arrival && now - arrival >= SLOWER_NS / 2)
		call_goes_on(next, now, arrival);
	return 0;
}

#endif /* STRATA_KERNEL_WAITED_CALLS_BPF_H */
