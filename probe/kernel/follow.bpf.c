/* SPDX-License-Identifier: MIT */
/*
 * follow.bpf.c - find the tasks that are followed: from fork to fork, from execve on, and those that run already.
 *
 *   made by the tracer ──▶ AT_EXEC ── execve ──▶ ALL ── fork, clone ──▶ ALL
 *                                     roots ─────▲
 */
#include "follow.bpf.h"
#include "core.bpf.h"

#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Set to 1 by the tracer if processes that it creates are followed. */
const volatile uint32_t follow_children SEC(".rodata.children");

/*
 * Processes to be followed with their threads and descendants, key: tgid in the tracer's PID namespace. Sized by the
 * loader.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} roots SEC(".maps");

/* Tasks that the walk found; the tracer walks until there are no more. */
uint64_t nr_found SEC(".data.found");

/* Sets the two bits of the task. Another CPU may set the neighbouring bits of the word at the same time. */
STRATA_INLINE void set(uint32_t tid, uint32_t follow)
{
	uint32_t *word = strata_follow_word(tid);
	uint32_t shift = (tid & 15) * 2;

	if (!word || strata_follow_of(tid) == follow)
		return;
	__sync_fetch_and_and(word, ~(3u << shift));
	__sync_fetch_and_or(word, follow << shift);
}

/*
 * The kernel calls this for every new task before it runs, including those of io_uring and vhost, and by then the
 * task is in the list that the iterator visits. So a number that is used again says nothing of who had it before.
 */
SEC("tp_btf/task_newtask")
int BPF_PROG(strata_fork, struct task_struct *child)
{
	const struct task_struct *parent = strata_current();
	uint32_t follow = strata_follow_of((uint32_t)parent->pid);

	if (follow_children && (uint32_t)parent->tgid == STRATA_ONCE(uint32_t, control.tracer))
		follow = child->tgid == parent->tgid ? STRATA_ABI_KERNEL_FOLLOW_NONE :
						       STRATA_ABI_KERNEL_FOLLOW_AT_EXEC;
	set((uint32_t)child->pid, follow);
	return 0;
}

/*
 * Follows exec() by a thread that was not the first one. It has the number of that by now, and
 * either all threads of the process were followed or none.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(strata_exec, struct task_struct *task)
{
	if (strata_follow_of((uint32_t)task->pid) == STRATA_ABI_KERNEL_FOLLOW_AT_EXEC)
		set((uint32_t)task->pid, STRATA_ABI_KERNEL_FOLLOW_ALL);
	return 0;
}

SEC("iter/task")
int strata_walk(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	const struct pid *own = strata_current()->thread_pid;
	uint32_t tgid, tracer, here, level;

	if (!task)
		return 0;
	/*
	 * The current task is the tracer, which iterates over the tasks. Here its id is the
	 * machine's, whatever namespace it lives in.
	 */
	tracer = (uint32_t)(bpf_get_current_pid_tgid() >> 32);
	control.tracer = tracer;
	tgid = (uint32_t)task->tgid;
	if (tgid == tracer || strata_follow_of((uint32_t)task->pid) == STRATA_ABI_KERNEL_FOLLOW_ALL)
		return 0;
	/* The kernel walks through those of the tracer's namespace alone. */
	level = own ? own->level : 0;
	here = (uint32_t)strata_upid(task->group_leader->thread_pid, level).nr;
	if (!bpf_map_lookup_elem(&roots, &here) &&
	    strata_follow_of((uint32_t)task->real_parent->pid) != STRATA_ABI_KERNEL_FOLLOW_ALL)
		return 0;
	set((uint32_t)task->pid, STRATA_ABI_KERNEL_FOLLOW_ALL);
	__sync_fetch_and_add(&nr_found, 1);
	return 0;
}
