/* SPDX-License-Identifier: MIT */
/*
 * core.bpf.h - the kernel's structures, as far as they are read. libbpf finds the fields where the
 * running kernel has them (CO-RE); what was renamed has a structure of its own behind "___".
 */
#ifndef STRATA_KERNEL_CORE_BPF_H
#define STRATA_KERNEL_CORE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <stdint.h>

#define STRATA_CORE __attribute__((preserve_access_index))

/* x86-64, as the kernel has it. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
} STRATA_CORE;

struct thread_info {
	uint32_t status;
	uint32_t cpu;
} STRATA_CORE;

struct bpf_local_storage;

struct task_struct {
	struct thread_info thread_info;
	int prio;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	char comm[16];
	struct bpf_local_storage *bpf_storage;
} STRATA_CORE;

static inline __attribute__((always_inline)) const struct task_struct *strata_current(void)
{
	return (const struct task_struct *)bpf_get_current_task_btf();
}

struct bpf_iter__task {
	struct task_struct *task;
} STRATA_CORE;

struct irqaction {
	const char *name;
} STRATA_CORE;

struct timerqueue_node {
	int64_t expires;
} STRATA_CORE;

struct hrtimer {
	struct timerqueue_node node;
	int64_t _softexpires;
	void *function;
} STRATA_CORE;

/* Until 5.15. */
struct task_struct___old_cpu {
	unsigned int cpu;
} STRATA_CORE;

#endif /* STRATA_KERNEL_CORE_BPF_H */
