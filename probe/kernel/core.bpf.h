/* SPDX-License-Identifier: MIT */
/*
 * core.bpf.h - the kernel's structures, as far as they are read. libbpf finds the fields where the
 * running kernel has them (CO-RE); what was renamed has a structure of its own behind "___". A structure
 * within another has the kernel's name: strata-kernel/src/discover/btf.rs hands libbpf the named ones only.
 */
#ifndef STRATA_KERNEL_CORE_BPF_H
#define STRATA_KERNEL_CORE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <stdint.h>

#define STRATA_CORE __attribute__((preserve_access_index))

/*
 * The functions bpf_probe_read_kernel() and bpf_probe_read_user(), with a size of 64 bits. The
 * verifier of Linux 5.15 forgets the bounds of a number of 32 bits that the compiler keeps on the
 * stack for a while. So a size that is needed again after a call has 64 bits, and is passed as it
 * is.
 */
typedef long (*strata_read)(void *to, uint64_t bytes, const void *from);
static const strata_read strata_read_kernel
	__attribute__((unused)) = (strata_read)BPF_FUNC_probe_read_kernel;
static const strata_read strata_read_user
	__attribute__((unused)) = (strata_read)BPF_FUNC_probe_read_user;

#include "arch.bpf.h"

struct bpf_local_storage;

/* The members that namespaces of every kind share. */
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

/* The numbers of a task, from the machine's first PID namespace to the task's own. */
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
	struct thread_struct thread;
	int pagefault_disabled; /* how deep the kernel is in code that cannot wait for a page */
} STRATA_CORE;

static inline __attribute__((always_inline)) const struct task_struct *strata_current(void)
{
	return (const struct task_struct *)bpf_get_current_task_btf();
}

/*
 * Returns the number of a task in the namespace at @level below the first one. All zeroes if the
 * task has no namespace so deep, or is gone.
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

struct super_block {
	unsigned long s_magic;
	void *s_bdev;
	uint32_t s_dev;
} STRATA_CORE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} STRATA_CORE;

/* A tree by index, such as of the pages of a file that are in memory. */
struct xarray {
	void *xa_head;
} STRATA_CORE;

struct xa_node {
	unsigned char shift;
	void *slots[1];
} STRATA_CORE;

struct address_space {
	struct inode *host;
	struct xarray i_pages;
} STRATA_CORE;

struct qstr {
	const unsigned char *name;
} STRATA_CORE;

struct dentry {
	struct qstr d_name;
} STRATA_CORE;

struct path {
	struct dentry *dentry;
} STRATA_CORE;

struct file {
	struct inode *f_inode;
	struct path f_path;
} STRATA_CORE;

struct mm_struct {
	unsigned long arg_start, arg_end, env_start, env_end;
	unsigned long start_stack;
	struct file *exe_file;
} STRATA_CORE;

struct task_struct___memory {
	struct mm_struct *mm;
} STRATA_CORE;

struct vm_userfaultfd_ctx {
	void *ctx;
} STRATA_CORE;

struct vm_area_struct {
	struct file *vm_file;
	struct vm_userfaultfd_ctx vm_userfaultfd_ctx;
} STRATA_CORE;

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

/*
 * The task's counter of nested readers: exists with CONFIG_TASKS_TRACE_RCU, which sleepable
 * programs need.
 */
struct task_struct___trace_rcu {
	int trc_reader_nesting;
} STRATA_CORE;

/* The task's CPU, where kernels up to 5.15 have it. */
struct task_struct___old_cpu {
	unsigned int cpu;
} STRATA_CORE;

#endif /* STRATA_KERNEL_CORE_BPF_H */
