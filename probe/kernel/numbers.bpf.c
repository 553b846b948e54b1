/* SPDX-License-Identifier: MIT */
/*
 * numbers.bpf.c - which number the kernel's events have for a task that the tracer knows by another one: in a PID
 * namespace that is not the machine's first. Those that run already by a walk, the others before they run.
 */
#include "core.bpf.h"

#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/*
 * Numbers of tasks on the machine, by their numbers in the tracer's namespace. If a number is used
 * again, its present owner is there. A task may be pushed out by others, and is there again after
 * the next iteration over all tasks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, uint32_t);
	__type(value, uint32_t);
} numbers SEC(".maps");

/* The tracer's namespace, once it has walked. */
struct {
	struct pid_namespace *ns;
	uint32_t level;
} here SEC(".data.here");

static inline __attribute__((always_inline)) void note(const struct task_struct *task)
{
	struct upid inside = strata_upid(task->thread_pid, here.level);
	uint32_t number = (uint32_t)inside.nr, outside = (uint32_t)task->pid;

	if (number && here.ns && inside.ns == here.ns)
		bpf_map_update_elem(&numbers, &number, &outside, BPF_ANY);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(strata_number, struct task_struct *child)
{
	note(child);
	return 0;
}

SEC("iter/task")
int strata_numbers(struct bpf_iter__task *context)
{
	const struct pid *own = strata_current()->thread_pid;
	const struct task_struct *task = context->task;

	if (!task || !own)
		return 0;
	here.level = own->level;
	here.ns = strata_upid(own, own->level).ns;
	note(task);
	return 0;
}
