/* SPDX-License-Identifier: MIT */
/*
 * core.bpf.h - the kernel's structures, as far as they are read. libbpf finds the fields where the
 * running kernel has them (CO-RE); what was renamed has a structure of its own behind "___". A structure
 * within another has the kernel's name: strata-kernel/src/types.rs hands libbpf the named ones only.
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

/* Of namespaces only what all kinds have. */
struct ns_common {
	unsigned int inum;
} STRATA_CORE;

#define STRATA_NAMESPACE(name)       \
	struct name {                \
		struct ns_common ns; \
	} STRATA_CORE
STRATA_NAMESPACE(cgroup_namespace);
STRATA_NAMESPACE(ipc_namespace);
STRATA_NAMESPACE(mnt_namespace);
STRATA_NAMESPACE(net);
STRATA_NAMESPACE(pid_namespace);
STRATA_NAMESPACE(time_namespace);
STRATA_NAMESPACE(user_namespace);
STRATA_NAMESPACE(uts_namespace);

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
	struct time_namespace *time_ns;
	struct cgroup_namespace *cgroup_ns;
} STRATA_CORE;

struct cred {
	struct user_namespace *user_ns;
} STRATA_CORE;

/* A task's number in one PID namespace; copied as a whole, so not moved by CO-RE. */
struct upid {
	int nr;
	struct pid_namespace *ns;
};

/* Its numbers, from the machine's first namespace to its own. */
struct pid {
	unsigned int level;
	struct upid numbers[1];
} STRATA_CORE;

struct task_struct {
	struct thread_info thread_info;
	int prio;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct nsproxy *nsproxy;
	const struct cred *real_cred;
	char comm[16];
	struct bpf_local_storage *bpf_storage;
} STRATA_CORE;

static inline __attribute__((always_inline)) const struct task_struct *strata_current(void)
{
	return (const struct task_struct *)bpf_get_current_task_btf();
}

/*
 * What a task is called in the namespace at @level below the first one. All zeroes: nothing, it is not in there so deep,
 * or is gone.
 */
static inline __attribute__((always_inline)) struct upid strata_upid(const struct pid *pid,
								     uint32_t level)
{
	struct upid found = { 0, NULL };

	if (pid && level <= pid->level &&
	    bpf_probe_read_kernel(&found, sizeof(found),
				  (const char *)&pid->numbers[0] + level * sizeof(found)))
		found.nr = 0;
	return found;
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
