/* SPDX-License-Identifier: MIT */
/*
 * record.bpf.h - one event record: which are recorded, reserve, write, commit.
 *
 * Each program goes in this order, what is cheap and rejects most first:
 *   active ── followed ── filter ── reserve ── write ── commit
 */
#ifndef STRATA_KERNEL_RECORD_BPF_H
#define STRATA_KERNEL_RECORD_BPF_H

#include "slow.bpf.h"
#include "follow.bpf.h"
#include "source.bpf.h"

#include "filter.bpf.h"

/* What this program records. */
const volatile struct strata_abi_kernel_event event SEC(".rodata.event");

/* The context of every record: the thread's id. */
#define STRATA_CONTEXT_BYTES 4u

/*
 * A payload's position from which on no text begins [byte]. Header, context and a text of the largest
 * size behind it end within STRATA_ABI_KERNEL_SLACK: the verifier knows no more of a position.
 */
#define STRATA_TEXT_BEGIN_MAX 3040u
STRATA_ABI_ASSERT(STRATA_TEXT_BEGIN_MAX + 2 + STRATA_ABI_KERNEL_TEXT_MAX + STRATA_CONTEXT_BYTES +
				  14 <=
			  STRATA_ABI_KERNEL_SLACK,
		  "a record ends within the slack");

struct strata_record {
	struct strata_ring_stream stream;
	struct strata_ring_slot slot;
};

/*
 * Returns where the payload goes; NULL: the record is discarded, and counted.
 *
 * No pointer into @r is kept in it: then the compiler can hold all of it in registers.
 */
STRATA_INLINE unsigned char *strata_record_begin(struct strata_record *r, uint32_t cpu, uint32_t id,
						 uint64_t pid_tgid, uint32_t payload_bytes)
{
	struct strata_ring_event e = { id, STRATA_CONTEXT_BYTES + payload_bytes, 1 };
	struct strata_ring_stream stream;
	struct strata_ring_slot slot;

	/* The loader has no more event record classes: a header is long for its time only. */
	__builtin_assume(id < STRATA_RING_LARGE_EXTENDED);
	if (!strata_stream(&stream, cpu) || strata_ring_reserve(&strata_config, &stream, &e, &slot))
		return NULL;
	*(volatile uint32_t *)(void *)slot.cursor = (uint32_t)pid_tgid;
	r->stream = stream;
	r->slot = slot;
	r->slot.stream = NULL;
	return slot.cursor + STRATA_CONTEXT_BYTES;
}

STRATA_INLINE void strata_record_end(const struct strata_record *r)
{
	struct strata_ring_stream stream = r->stream;
	struct strata_ring_slot slot = r->slot;

	slot.stream = &stream;
	strata_ring_commit(&strata_config, &slot);
}

/* As strata_record_end(), and looks the stream up anew: of @r less was kept on the stack meanwhile. */
STRATA_INLINE void strata_record_end_here(const struct strata_record *r)
{
	struct strata_ring_slot slot = r->slot;
	struct strata_ring_stream stream;

	if (!strata_stream_here(&stream))
		return;
	slot.stream = &stream;
	strata_ring_commit(&strata_config, &slot);
}

/* Whether this program's event may be recorded now; says where and of whom. */
STRATA_INLINE int strata_source_begin(struct strata_source *source)
{
	if (!strata_is_active())
		return 0;
	source->pid_tgid = bpf_get_current_pid_tgid();
	if (event.followed && !strata_is_followed(source->pid_tgid))
		return 0;
	source->cpu = bpf_get_smp_processor_id();
	return 1;
}

/*
 * Apart: its registers would be spilled by all programs. Programs without a filter do not call it. And not
 * with a structure, which would be on the stack of all of them. @which: of event.filter.
 */
static __attribute__((noinline)) int strata_passes_filter(const void *base, uint64_t kind,
							  uint64_t pid_tgid, uint32_t cpu,
							  uint64_t which)
{
	struct strata_source source = { base, kind, pid_tgid, cpu };

	return strata_filter(&event.filter[which & 1], &source);
}

/* @which: of event.filter. What base points to has been written, whatever the compiler thinks. */
STRATA_INLINE int strata_passes(const struct strata_source *source, uint64_t which)
{
	if (!event.filter[which].nr_tests)
		return 1;
	__asm__ volatile("" : : "r"(source->base) : "memory");
	return strata_passes_filter(source->base, source->kind, source->pid_tgid, source->cpu,
				    which);
}

/* A payload of constant size, naturally aligned, on the stack. */
STRATA_INLINE int strata_record_fixed(struct strata_source *source, const void *payload,
				      uint32_t bytes)
{
	struct strata_record r;
	unsigned char *to;

	source->base = payload;
	source->kind = STRATA_SOURCE_DIRECT;
	if (!strata_passes(source, 0))
		return 0;
	to = strata_record_begin(&r, source->cpu, event.id, source->pid_tgid, bytes);
	if (!to)
		return 0;
	strata_plain_write(to, payload, bytes);
	strata_record_end(&r);
	return 0;
}

#endif /* STRATA_KERNEL_RECORD_BPF_H */
