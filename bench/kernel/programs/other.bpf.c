/* SPDX-License-Identifier: MIT */
/*
 * other.bpf.c - what the same events cost without our ring: empty programs, and records of the same size and
 * content in a bpf_ringbuf, one for all CPUs, without wake-ups.
 */
#include <linux/bpf.h>
#include <stdint.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define CORE __attribute__((preserve_access_index))

struct task_struct {
	int pid;
	int prio;
	char comm[16];
} CORE;

struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, ip;
} CORE;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

uint64_t discarded;

/* What each record has: which event, when, whose. */
struct header {
	uint64_t time;
	uint32_t id;
	uint32_t tid;
};

struct record_six {
	struct header header;
	uint64_t argument[6];
};

struct record_switch {
	struct header header;
	uint64_t prev_comm[2];
	int32_t prev_tid, prev_prio;
	int64_t prev_state;
	uint64_t next_comm[2];
	int32_t next_tid, next_prio;
};

struct record_fault {
	struct header header;
	uint64_t address, ip, error_code;
};

static __always_inline void *begin(uint64_t bytes, uint32_t id)
{
	struct header *header = bpf_ringbuf_reserve(&ring, bytes, 0);

	if (!header) {
		__sync_fetch_and_add(&discarded, 1);
		return 0;
	}
	header->time = bpf_ktime_get_ns();
	header->id = id;
	header->tid = (uint32_t)bpf_get_current_pid_tgid();
	return header;
}

SEC("tp_btf/sys_enter")
int empty_syscall(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int empty_switch(void *ctx)
{
	return 0;
}

SEC("tp_btf/page_fault_user")
int empty_fault(void *ctx)
{
	return 0;
}

SEC("tp_btf/sys_enter")
int empty_six(void *ctx)
{
	return 0;
}

SEC("tp_btf/sys_enter")
int ring_six(uint64_t *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct record_six *record = begin(sizeof(*record), 4);

	if (!record)
		return 0;
	record->argument[0] = regs->di;
	record->argument[1] = regs->si;
	record->argument[2] = regs->dx;
	record->argument[3] = regs->r10;
	record->argument[4] = regs->r8;
	record->argument[5] = regs->r9;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sys_enter")
int ring_syscall(uint64_t *ctx)
{
	struct header *header = begin(sizeof(*header), 1);

	if (header)
		bpf_ringbuf_submit(header, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_switch")
int ring_switch(uint64_t *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct record_switch *record = begin(sizeof(*record), 2);

	if (!record)
		return 0;
	bpf_probe_read_kernel(record->prev_comm, 16, prev->comm);
	record->prev_tid = prev->pid;
	record->prev_prio = prev->prio;
	record->prev_state = (int64_t)ctx[3];
	bpf_probe_read_kernel(record->next_comm, 16, next->comm);
	record->next_tid = next->pid;
	record->next_prio = next->prio;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/page_fault_user")
int ring_fault(uint64_t *ctx)
{
	struct pt_regs *regs = (void *)ctx[1];
	struct record_fault *record = begin(sizeof(*record), 3);

	if (!record)
		return 0;
	record->address = ctx[0];
	record->ip = regs->ip;
	record->error_code = ctx[2];
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
