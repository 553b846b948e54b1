/* SPDX-License-Identifier: MIT */
/*
 * hot.bpf.c - separate programs for the most frequent events, and for events that happen inside others.
 *
 * Of type tp_btf: an interrupt's are run inside any other program, and there is less in front of them. Their
 * payloads are those of crates/strata-kernel/src/decide/frequent_events.rs: naturally aligned, no padding.
 */
#include "record.bpf.h"
#include "core.bpf.h"
#include "fault.bpf.h"
#include "disk_faults.bpf.h"

#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* BPF_PROG() of libbpf for the program's body, which may be apart: see STRATA_BODY. */
#define HOT_PROG(name, args...)                               \
	name(unsigned long long *ctx);                        \
	STRATA_BODY int body_##name(unsigned long long *ctx); \
	int name(unsigned long long *ctx)                     \
	{                                                     \
		if (strata_passes_early(0, NULL, NULL))       \
			body_##name(ctx);                     \
		else                                          \
			strata_rejected();                    \
		return 0;                                     \
	}                                                     \
	STRATA_BODY int BPF_PROG(body_##name, ##args)

/* The 16 bytes of a task's name, as two words. */
#define COPY_COMM(to, task)                                                  \
	do {                                                                 \
		(to)[0] = ((const uint64_t *)(const void *)(task)->comm)[0]; \
		(to)[1] = ((const uint64_t *)(const void *)(task)->comm)[1]; \
	} while (0)

/* Bytes of a payload up to the end of its last member: what the compiler adds behind is not recorded. */
#define THROUGH(payload, last) \
	((uint32_t)(__builtin_offsetof(__typeof__(payload), last) + sizeof((payload).last)))

STRATA_INLINE int32_t cpu_of(const struct task_struct *task)
{
	const struct task_struct___old_cpu *old = (const void *)task;

	if (bpf_core_field_exists(old->cpu))
		return (int32_t)old->cpu;
	return (int32_t)task->thread_info.cpu;
}

/*
 * Returns the task's state as the kernel's own event has it: what a sleeping task waits for, 0 if it runs, 0x100 if
 * it was preempted.
 */
STRATA_INLINE int64_t reported_state(int preempted, uint32_t state, uint32_t exit_state)
{
	const uint32_t report = 0x7f, idle = 0x402, idle_reported = 0x80, rtlock_wait = 0x1000,
		       frozen = 0x8000;
	uint32_t reported = (state | exit_state) & report, bit;

	if (preempted)
		return 0x100;
	if ((state & idle) == idle)
		return idle_reported;
	if (state & (rtlock_wait | frozen))
		return 2;
	/* The event reports only the highest bit of the state. */
	for (bit = 0x40; bit; bit >>= 1)
		if (reported & bit)
			return bit;
	return 0;
}

SEC("tp_btf/sched_switch")
int HOT_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct strata_source source;
	struct {
		uint64_t prev_comm[2];
		int32_t prev_tid, prev_prio;
		int64_t prev_state;
		uint64_t next_comm[2];
		int32_t next_tid, next_prio;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	COPY_COMM(payload.prev_comm, prev);
	payload.prev_tid = prev->pid;
	payload.prev_prio = prev->prio;
	payload.prev_state = reported_state(preempt, prev_state, (uint32_t)prev->exit_state);
	COPY_COMM(payload.next_comm, next);
	payload.next_tid = next->pid;
	payload.next_prio = next->prio;
	return strata_record_fixed(&source, &payload, sizeof(payload));
}

/* Defines the programs of events that have the same arguments and fields. */
#define WAKING(name)                                                                         \
	SEC("tp_btf/" #name)                                                                 \
	int HOT_PROG(name, struct task_struct *task)                                         \
	{                                                                                    \
		struct strata_source source;                                                 \
		struct {                                                                     \
			uint64_t comm[2];                                                    \
			int32_t tid, prio, target_cpu;                                       \
		} payload;                                                                   \
                                                                                             \
		if (!strata_source_begin(&source))                                           \
			return 0;                                                            \
		COPY_COMM(payload.comm, task);                                               \
		payload.tid = task->pid;                                                     \
		payload.prio = task->prio;                                                   \
		payload.target_cpu = cpu_of(task);                                           \
		return strata_record_fixed(&source, &payload, THROUGH(payload, target_cpu)); \
	}
WAKING(sched_waking)
WAKING(sched_wakeup)
WAKING(sched_wakeup_new)

SEC("tp_btf/sched_migrate_task")
int HOT_PROG(sched_migrate_task, struct task_struct *task, int dest_cpu)
{
	struct strata_source source;
	struct {
		uint64_t comm[2];
		int32_t tid, prio, orig_cpu, dest_cpu;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	COPY_COMM(payload.comm, task);
	payload.tid = task->pid;
	payload.prio = task->prio;
	payload.orig_cpu = cpu_of(task);
	payload.dest_cpu = dest_cpu;
	return strata_record_fixed(&source, &payload, sizeof(payload));
}

SEC("tp_btf/sched_process_fork")
int HOT_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct strata_source source;
	struct {
		uint64_t parent_comm[2];
		int32_t parent_tid, parent_pid;
		uint64_t child_comm[2];
		int32_t child_tid, child_pid;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	COPY_COMM(payload.parent_comm, parent);
	payload.parent_tid = parent->pid;
	payload.parent_pid = parent->tgid;
	COPY_COMM(payload.child_comm, child);
	payload.child_tid = child->pid;
	payload.child_pid = child->tgid;
	return strata_record_fixed(&source, &payload, sizeof(payload));
}

#define OF_TASK(name)                                                           \
	SEC("tp_btf/" #name)                                                    \
	int HOT_PROG(name, struct task_struct *task)                            \
	{                                                                       \
		struct strata_source source;                                    \
		struct {                                                        \
			uint64_t comm[2];                                       \
			int32_t tid, prio;                                      \
		} payload;                                                      \
                                                                                \
		if (!strata_source_begin(&source))                              \
			return 0;                                               \
		COPY_COMM(payload.comm, task);                                  \
		payload.tid = task->pid;                                        \
		payload.prio = task->prio;                                      \
		return strata_record_fixed(&source, &payload, sizeof(payload)); \
	}
OF_TASK(sched_process_exit)
OF_TASK(sched_process_free)
OF_TASK(sched_wait_task)

SEC("tp_btf/sched_stat_runtime")
int HOT_PROG(sched_stat_runtime, struct task_struct *task, uint64_t runtime)
{
	struct strata_source source;
	struct {
		uint64_t comm[2];
		uint64_t runtime;
		int32_t tid;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	COPY_COMM(payload.comm, task);
	payload.runtime = runtime;
	payload.tid = task->pid;
	return strata_record_fixed(&source, &payload, THROUGH(payload, tid));
}

/* The longest name of an interrupt's handler that is recorded, its NUL included [byte]. */
#define IRQ_NAME_MAX 64

SEC("tp_btf/irq_handler_entry")
int HOT_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	char name[IRQ_NAME_MAX];
	struct strata_source source;
	struct strata_record r;
	uint64_t payload = (uint32_t)irq;
	unsigned char *to;
	long n;

	if (!strata_source_begin(&source))
		return 0;
	source.base = &payload;
	source.kind = STRATA_SOURCE_DIRECT;
	if (!strata_passes(&source, 0))
		return 0;
	if (STRATA_COUNTS)
		return strata_count(&payload, STRATA_SOURCE_DIRECT, event.id, 0, 0);
	n = bpf_probe_read_kernel_str(name, sizeof(name), action->name);
	n = n > 0 ? n - 1 : 0;
	if (n >= IRQ_NAME_MAX)
		return 0;
	to = strata_record_begin(&r, event.id, source.pid_tgid, 6 + (uint32_t)n);
	if (!to)
		return 0;
	*(volatile int32_t *)(void *)to = irq;
	*(volatile uint16_t *)(void *)(to + 4) = (uint16_t)n;
	bpf_probe_read_kernel(to + 6, (uint32_t)n & (IRQ_NAME_MAX - 1), name);
	strata_record_end(&r);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int HOT_PROG(irq_handler_exit, int irq, struct irqaction *action, int ret)
{
	struct strata_source source;
	struct {
		int32_t irq, ret;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	payload.irq = irq;
	payload.ret = ret;
	return strata_record_fixed(&source, &payload, sizeof(payload));
}

#define SOFTIRQ(name)                                                       \
	SEC("tp_btf/" #name)                                                \
	int HOT_PROG(name, unsigned int vec)                                \
	{                                                                   \
		struct strata_source source;                                \
		uint64_t payload;                                           \
                                                                            \
		if (!strata_source_begin(&source))                          \
			return 0;                                           \
		payload = vec;                                              \
		return strata_record_fixed(&source, &payload, sizeof(vec)); \
	}
SOFTIRQ(softirq_entry)
SOFTIRQ(softirq_exit)
SOFTIRQ(softirq_raise)

#define TASKLET(name)                                                           \
	SEC("tp_btf/" #name)                                                    \
	int HOT_PROG(name, const void *tasklet, const void *func)               \
	{                                                                       \
		struct strata_source source;                                    \
		struct {                                                        \
			const void *tasklet, *func;                             \
		} payload;                                                      \
                                                                                \
		if (!strata_source_begin(&source))                              \
			return 0;                                               \
		payload.tasklet = tasklet;                                      \
		payload.func = func;                                            \
		return strata_record_fixed(&source, &payload, sizeof(payload)); \
	}
TASKLET(tasklet_entry)
TASKLET(tasklet_exit)

SEC("tp_btf/sched_wake_idle_without_ipi")
int HOT_PROG(sched_wake_idle_without_ipi, int cpu)
{
	struct strata_source source;
	uint64_t payload;

	if (!strata_source_begin(&source))
		return 0;
	payload = (uint32_t)cpu;
	return strata_record_fixed(&source, &payload, sizeof(uint32_t));
}

SEC("tp_btf/hrtimer_start")
int HOT_PROG(hrtimer_start, struct hrtimer *hrtimer, unsigned int mode)
{
	struct strata_source source;
	struct {
		uint64_t hrtimer, function;
		int64_t expires, softexpires;
		uint32_t mode;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	payload.hrtimer = (uint64_t)hrtimer;
	payload.function = (uint64_t)hrtimer->function;
	payload.expires = hrtimer->node.expires;
	payload.softexpires = hrtimer->_softexpires;
	payload.mode = mode;
	return strata_record_fixed(&source, &payload, THROUGH(payload, mode));
}

SEC("tp_btf/hrtimer_expire_entry")
int HOT_PROG(hrtimer_expire_entry, struct hrtimer *hrtimer, int64_t *now)
{
	struct strata_source source;
	struct {
		uint64_t hrtimer;
		int64_t now;
		uint64_t function;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	payload.hrtimer = (uint64_t)hrtimer;
	payload.now = 0;
	bpf_probe_read_kernel(&payload.now, sizeof(payload.now), now);
	payload.function = (uint64_t)hrtimer->function;
	return strata_record_fixed(&source, &payload, sizeof(payload));
}

#define HRTIMER(name)                                                           \
	SEC("tp_btf/" #name)                                                    \
	int HOT_PROG(name, struct hrtimer *hrtimer)                             \
	{                                                                       \
		struct strata_source source;                                    \
		uint64_t payload;                                               \
                                                                                \
		if (!strata_source_begin(&source))                              \
			return 0;                                               \
		payload = (uint64_t)hrtimer;                                    \
		return strata_record_fixed(&source, &payload, sizeof(payload)); \
	}
HRTIMER(hrtimer_expire_exit)
HRTIMER(hrtimer_cancel)

/*
 * Defines the program of a page fault. @is_tracer: an expression that is true if the fault is a
 * tracer's own.
 */
#define PAGE_FAULT(name, is_tracer)                                                               \
	SEC("tp_btf/" #name)                                                                      \
	int HOT_PROG(name, unsigned long address, struct pt_regs *regs, unsigned long error_code) \
	{                                                                                         \
		struct strata_source source;                                                      \
		struct {                                                                          \
			uint64_t address, ip, error_code;                                         \
		} payload;                                                                        \
                                                                                                  \
		if (!strata_source_begin(&source) || (is_tracer))                                 \
			return 0;                                                                 \
		payload.address = address;                                                        \
		payload.ip = strata_arch_ip(regs);                                                \
		payload.error_code = error_code;                                                  \
		return strata_record_fixed(&source, &payload, sizeof(payload));                   \
	}
PAGE_FAULT(page_fault_user, 0)
PAGE_FAULT(page_fault_kernel,
	   strata_is_tracer_fault(strata_arch_ip(regs), strata_arch_sp(regs), error_code))

/* Argument @n of type const void *, which may not be loaded from the context before 6.3. */
STRATA_INLINE uint64_t pointer_argument(const unsigned long long *context, uint32_t n)
{
	uint64_t value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), context + n);
	return value;
}

SEC("tp_btf/mm_filemap_fault")
int HOT_PROG(mm_filemap_fault, struct address_space *mapping, unsigned long index)
{
	const struct address_space *at = (const void *)pointer_argument(ctx, 0);
	const void *pages = __builtin_preserve_access_index(&at->i_pages);
	struct strata_source source;
	struct {
		uint64_t i_ino, index;
		uint32_t s_dev;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	if (event.slower && strata_is_in_memory((uint64_t)pages, index))
		return 0;
	payload.i_ino = mapping->host->i_ino;
	payload.index = index;
	payload.s_dev = mapping->host->i_sb->s_dev;
	return strata_record_fixed(&source, &payload, THROUGH(payload, s_dev));
}

SEC("tp_btf/kmalloc")
int HOT_PROG(kmalloc, unsigned long call_site, const void *ptr, unsigned long bytes_req,
	     unsigned long bytes_alloc, unsigned int gfp_flags, int node)
{
	struct strata_source source;
	struct {
		uint64_t call_site, ptr, bytes_req, bytes_alloc, gfp_flags;
		int32_t node;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	payload.call_site = call_site;
	payload.ptr = pointer_argument(ctx, 1);
	payload.bytes_req = bytes_req;
	payload.bytes_alloc = bytes_alloc;
	payload.gfp_flags = gfp_flags;
	payload.node = node;
	return strata_record_fixed(&source, &payload, THROUGH(payload, node));
}

SEC("tp_btf/kfree")
int HOT_PROG(kfree, unsigned long call_site, const void *ptr)
{
	struct strata_source source;
	struct {
		uint64_t call_site, ptr;
	} payload;

	if (!strata_source_begin(&source))
		return 0;
	payload.call_site = call_site;
	payload.ptr = pointer_argument(ctx, 1);
	return strata_record_fixed(&source, &payload, sizeof(payload));
}
