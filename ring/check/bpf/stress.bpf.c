/* SPDX-License-Identifier: MIT */
/*
 * stress.bpf.c - the ring's headers as a BPF program has them, under interrupts that nest: each event
 * writes a record of random size whose payload follows from its time. stress.c reads and counts.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <strata/ring/header.h>
#include <strata/ring/reserve.h>

#include "stress.h"

char LICENSE[] SEC("license") = "GPL";

/* Known when the program is loaded: the verifier sees constants. */
const volatile uint64_t subbuf_shift;
const volatile uint64_t buffer_bytes;
const volatile uint64_t frames_offset;
const volatile uint64_t data_offset;

/* Attempts on each CPU. */
uint64_t calls[STRESS_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, 4096); /* both set by the loader */
} rings SEC(".maps");

STRATA_CALLBACK uint64_t stress_clock(void)
{
	return bpf_ktime_get_ns();
}

static const struct strata_ring_config config = {
	STRESS_LOSS_MODE,
	STRATA_RING_WRITERS_SMP,
	STRATA_RING_PER_CPU,
	STRATA_RING_WAKE_NONE,
	8,
	stress_clock,
	STRATA_RING_HEADER_SIZED,
	NULL,
};

STRATA_INLINE int stress_event(uint32_t id)
{
	uint32_t cpu = bpf_get_smp_processor_id(), words = bpf_get_prandom_u32() & 31, i;
	unsigned char *memory = bpf_map_lookup_elem(&rings, &cpu);
	struct strata_ring_event event = { id, words * 8, 1 };
	struct strata_ring_stream s;
	struct strata_ring_slot slot;

	if (!memory)
		return 0;
	__sync_fetch_and_add(&calls[cpu & (STRESS_CPUS - 1)], 1);
	s.shared = (struct strata_abi_ring_stream *)memory;
	s.subbufs = (struct strata_abi_ring_subbuf *)(memory + sizeof(*s.shared));
	s.frames = (struct strata_abi_ring_frame *)(memory + frames_offset);
	s.data = memory + data_offset;
	s.subbuf_bytes = UINT64_C(1) << subbuf_shift;
	s.buffer_bytes = buffer_bytes;
	s.subbuf_shift = (uint32_t)subbuf_shift;
	s.header_bytes = 0;
	s.cpu = cpu;
	if (strata_ring_reserve(&config, &s, &event, &slot))
		return 0;
	for (i = 0; i < 31; i++) {
		if (i >= words)
			break;
		*(volatile uint64_t *)(void *)(slot.cursor + i * 8) =
			stress_word(slot.timestamp, id, i);
	}
	strata_ring_commit(&config, &slot);
	return 0;
}

#define STRESS(name, id)                   \
	SEC("tp_btf/" #name)               \
	int on_##name(const void *context) \
	{                                  \
		(void)context;             \
		return stress_event(id);   \
	}
STRESS(sys_enter, 1)
STRESS(sys_exit, 2)
STRESS(sched_switch, 3)
STRESS(sched_waking, 4)
STRESS(sched_wakeup, 5)
STRESS(local_timer_entry, 6)
STRESS(hrtimer_start, 7)
STRESS(hrtimer_expire_entry, 8)
STRESS(softirq_entry, 9)
STRESS(irq_handler_entry, 10)
STRESS(page_fault_user, 11)
STRESS(page_fault_kernel, 12)
STRESS(kmem_cache_alloc, 13)
STRESS(kfree, 14)
STRESS(mm_page_alloc, 15)
