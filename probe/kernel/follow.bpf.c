/* SPDX-License-Identifier: MIT */
/*
 * follow.bpf.c - which tasks are followed: from fork to fork, from execve on, and those that run already.
 *
 *   made by the tracer ──▶ AT_EXEC ── execve ──▶ ALL ── fork, clone ──▶ ALL
 *                                     roots ─────▲
 */
#include "follow.bpf.h"
#include "core.bpf.h"

#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* 1: processes that the tracer makes are followed. */
const volatile uint32_t follow_children SEC(".rodata.children");

/* Processes to be followed with their threads and descendants, key: tgid. Sized by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} roots SEC(".maps");

/* Tasks that the walk found; the tracer walks until there are no more. */
uint64_t nr_found SEC(".data.found");

STRATA_INLINE void set(struct task_struct *task, uint32_t follow)
{
	uint32_t *value = (uint32_t *)bpf_task_storage_get(&followed, task, &follow,
							   BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!value)
		__sync_fetch_and_add(&control.unfollowed, 1);
	else
		*value = follow;
}

STRATA_INLINE uint32_t get(struct task_struct *task)
{
	uint32_t *value = (uint32_t *)bpf_task_storage_get(&followed, task, NULL, 0);

	return value ? *value : STRATA_ABI_KERNEL_FOLLOW_NONE;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(strata_fork, struct task_struct *parent, struct task_struct *child)
{
	uint32_t follow = get(parent);

	if (follow_children && (uint32_t)parent->tgid == STRATA_ONCE(uint32_t, control.tracer)) {
		if (child->tgid == parent->tgid)
			return 0;
		follow = STRATA_ABI_KERNEL_FOLLOW_AT_EXEC;
	}
	if (follow != STRATA_ABI_KERNEL_FOLLOW_NONE)
		set(child, follow);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(strata_exec, struct task_struct *task)
{
	if (get(task) == STRATA_ABI_KERNEL_FOLLOW_AT_EXEC)
		set(task, STRATA_ABI_KERNEL_FOLLOW_ALL);
	return 0;
}

SEC("iter/task")
int strata_walk(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	uint32_t tgid, tracer;

	if (!task)
		return 0;
	/* Who walks is the tracer; here its id is the machine's, whatever namespace it lives in. */
	tracer = (uint32_t)(bpf_get_current_pid_tgid() >> 32);
	control.tracer = tracer;
	tgid = (uint32_t)task->tgid;
	if (tgid == tracer || get(task) == STRATA_ABI_KERNEL_FOLLOW_ALL)
		return 0;
	if (!bpf_map_lookup_elem(&roots, &tgid) &&
	    get(task->real_parent) != STRATA_ABI_KERNEL_FOLLOW_ALL)
		return 0;
	set(task, STRATA_ABI_KERNEL_FOLLOW_ALL);
	__sync_fetch_and_add(&nr_found, 1);
	return 0;
}
