/* SPDX-License-Identifier: MIT */
/*
 * record.bpf.h - one event record: the tests whether it is recorded, reserve, write, commit.
 *
 * Each program goes in this order, what is cheap and rejects most first:
 *   early tests ── on ── tracked ── followed ── filter ── sampled ── reserve ── write ── commit
 * Of system calls, "on" is that the call is recorded, too.
 */
#ifndef STRATA_KERNEL_RECORD_BPF_H
#define STRATA_KERNEL_RECORD_BPF_H

#include "ring_client.bpf.h"
#include "follow.bpf.h"
#include "filter.bpf.h"
#include "track.bpf.h"
#include "replacing.bpf.h"
#include "context.bpf.h"
#include "count.bpf.h"

/* The event that this program records. Constant from loading on. */
const volatile struct strata_abi_kernel_event event SEC(".rodata.event");

#include "sampled.bpf.h"

/*
 * Each source is compiled twice. In the objects for events with early tests (STRATA_KERNEL_EARLY) a program makes
 * these, and calls its body if they pass: what is rejected saves no registers for it and sets up no stack. In the
 * others the body is the program, without a call.
 */
#ifdef STRATA_KERNEL_EARLY
#define STRATA_BODY	static __attribute__((noinline))
#define STRATA_IS_EARLY 1
#else
#define STRATA_BODY	STRATA_INLINE
#define STRATA_IS_EARLY 0
#endif

/* Returns the program's switch. The verifier knows its place. */
STRATA_INLINE uint32_t strata_switch(void)
{
	uint32_t at = event.switch_at;

	return at < STRATA_ABI_KERNEL_SWITCHES ? STRATA_ONCE(uint8_t, control.on[at]) : 0;
}

#define STRATA_HAS_TURNS(on) ((on) & (STRATA_ABI_KERNEL_ON_TELLS | STRATA_ABI_KERNEL_ON_ASKS))

/*
 * Tests a switch that says more than on and off. A program that tells others about an event does so
 * in any case.
 */
static __attribute__((noinline)) int strata_is_on_now(uint32_t on)
{
	if (STRATA_HAS_TURNS(on) && !strata_has_turn(on))
		return 0;
	if (!(on & STRATA_ABI_KERNEL_ON))
		return 0;
	if (!(on & STRATA_ABI_KERNEL_ON_TRACKED))
		return 1;
	if (!event.followed &&
	    STRATA_ONCE(uint32_t, control.tracked) >> STRATA_ABI_KERNEL_TRACK_FOLLOWED & 1)
		return 1;
	return strata_is_tracked();
}

/* Returns 1 if the program records the current process now. */
STRATA_INLINE int strata_is_on(void)
{
	uint32_t on = strata_switch();

	return on == STRATA_ABI_KERNEL_ON || on && strata_is_on_now(on);
}

/*
 * Notes that the early tests reject the event. While programs are replaced, the program that tells of its events
 * tells of this one too, and the one that asks clears the mark.
 */
STRATA_INLINE void strata_rejected(void)
{
	uint32_t on;

	if (!STRATA_IS_EARLY || !STRATA_ONCE(uint16_t, control.changing))
		return;
	on = strata_switch();
	if (STRATA_HAS_TURNS(on))
		strata_has_turn(on);
}

/* Makes the early tests of event.filter[@which]. */
STRATA_INLINE bool strata_passes_early(uint64_t which, strata_filter_argument *argument,
				       const unsigned long long *context)
{
	return !STRATA_IS_EARLY || strata_filter_early(&event.filter[which], argument, context);
}

/* The context of every record: the thread's id. Others may follow, see context.bpf.h. */
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

/*
 * The distance ahead of a record at which the ring's memory is fetched [byte], so that a later
 * record's stores hit the cache: the LOCK of its commit waits for them. There is no prefetch in
 * BPF, but nobody waits for a load that is not used.
 */
#define STRATA_AHEAD_BYTES 512
STRATA_ABI_ASSERT(STRATA_AHEAD_BYTES + 14 + 8 <= STRATA_ABI_KERNEL_SLACK, "within the slack");

struct strata_record {
	struct strata_ring_stream stream;
	struct strata_ring_slot slot;
};

STRATA_INLINE void strata_fetch_ahead(const unsigned char *cursor)
{
	uint64_t unused;

	__asm__ volatile("%0 = *(u64 *)(%1 + %2)"
			 : "=r"(unused)
			 : "r"(cursor), "i"(STRATA_AHEAD_BYTES));
}

/*
 * Parts of a reservation: all of it at once, or in two steps. What follows FAST alone needs fewer registers, and
 * keeps nothing on the stack; see strata_ring_reserve_fast(). If FAST returns -EAGAIN, REST or BOTH must follow.
 */
enum strata_record_part {
	STRATA_RECORD_FAST,
	STRATA_RECORD_REST,
	STRATA_RECORD_BOTH
};

/*
 * Reserves a slot, and writes header and contexts in front of the payload, which goes to r->slot.cursor.
 *
 * Returns 0; -EAGAIN, of FAST only; or another negative errno: the record is discarded, and counted (-ENXIO is not:
 * there is a stream for each CPU that can be).
 *
 * No pointer into @r is kept in it: then the compiler can hold all of it in registers.
 */
STRATA_INLINE int strata_record_begin_part(struct strata_record *r, enum strata_record_part part,
					   uint32_t id, uint64_t pid_tgid, uint32_t payload_bytes)
{
	struct strata_ring_event e = { id, STRATA_CONTEXT_BYTES + payload_bytes, 1 };
	struct strata_ring_stream stream;
	struct strata_ring_slot slot;
	int error, taken = 0;

	/*
	 * Contexts are those of all programs of a session, or none, which the verifier knows. Records with contexts
	 * take the slow path.
	 */
	if (event.contexts && part == STRATA_RECORD_FAST)
		return -EAGAIN;
	/* The loader has no more event record classes: a header is long for its time only. */
	__builtin_assume(id < STRATA_RING_LARGE_EXTENDED);
	if (!strata_stream_here(&stream))
		return -ENXIO;
	if (part != STRATA_RECORD_FAST && event.contexts) {
		taken = strata_context_take(event.contexts);
		if (taken < 0) {
			strata_ring_discard_nested(&strata_config, &stream);
			return -EBUSY;
		}
		e.payload_bytes += (uint32_t)taken & STRATA_TAKEN_BYTES;
	}
	if (part == STRATA_RECORD_FAST)
		error = strata_ring_reserve_fast(&strata_config, &stream, &e, &slot);
	else if (part == STRATA_RECORD_REST)
		error = strata_ring_reserve_rest(&strata_config, &stream, &e, &slot);
	else
		error = strata_ring_reserve(&strata_config, &stream, &e, &slot);
	if (error) {
		if (part != STRATA_RECORD_FAST && event.contexts)
			strata_context_give(taken, event.contexts, NULL);
		return error;
	}
	*(volatile uint32_t *)(void *)slot.cursor = (uint32_t)pid_tgid;
	strata_fetch_ahead(slot.cursor);
	slot.cursor += STRATA_CONTEXT_BYTES;
	if (part != STRATA_RECORD_FAST && event.contexts)
		slot.cursor += strata_context_give(taken, event.contexts, slot.cursor);
	r->stream = stream;
	r->slot = slot;
	r->slot.stream = NULL;
	return 0;
}

/* Reserves a record, and returns where its payload goes; NULL if the record is discarded, which is counted. */
STRATA_INLINE unsigned char *strata_record_begin(struct strata_record *r, uint32_t id,
						 uint64_t pid_tgid, uint32_t payload_bytes)
{
	return strata_record_begin_part(r, STRATA_RECORD_BOTH, id, pid_tgid, payload_bytes) ?
		       NULL :
		       r->slot.cursor;
}

STRATA_INLINE void strata_record_end(const struct strata_record *r)
{
	struct strata_ring_stream stream = r->stream;
	struct strata_ring_slot slot = r->slot;

	slot.stream = &stream;
	strata_ring_commit(&strata_config, &slot);
}

/*
 * Ends a record like strata_record_end(), but computes the stream again, so that less of @r stays on the stack in
 * between.
 */
STRATA_INLINE void strata_record_end_here(const struct strata_record *r)
{
	struct strata_ring_slot slot = r->slot;
	struct strata_ring_stream stream;

	if (!strata_stream_here(&stream))
		return;
	slot.stream = &stream;
	strata_ring_commit(&strata_config, &slot);
}

/* Returns 1 if this program's event may be recorded now, and fills in the CPU and the task. */
STRATA_INLINE int strata_source_begin(struct strata_source *source)
{
	if (!strata_is_on())
		return 0;
	source->pid_tgid = bpf_get_current_pid_tgid();
	if (event.followed && !strata_is_followed(source->pid_tgid))
		return 0;
	source->cpu = bpf_get_smp_processor_id();
	return 1;
}

/*
 * Makes the tests of event.filter[@which] that are not early, and takes a sample of what passes. A function of its own, since
 * its registers would be spilled by all programs; programs without a filter do not call it, and the loader gives those that
 * take samples one that passes everything. Its arguments are no structure, which would be on the stack of all of them.
 */
static __attribute__((noinline)) int strata_passes_filter(const void *base, uint64_t kind,
							  uint64_t pid_tgid, uint32_t cpu,
							  uint64_t which)
{
	struct strata_source source = { base, kind, pid_tgid, cpu };

	if (!strata_filter(&event.filter[which & 1], &source))
		return 0;
	return STRATA_SAMPLES_CALLS || !STRATA_IS_SAMPLED || !strata_is_left_out(0);
}

/*
 * Returns 1 if the event passes event.filter[@which]. The memory at @base has been written,
 * whatever the compiler thinks.
 */
STRATA_INLINE int strata_passes(const struct strata_source *source, uint64_t which)
{
	if (event.filter[which].nr_tests == event.filter[which].nr_early)
		return 1;
	__asm__ volatile("" : : "r"(source->base) : "memory");
	return strata_passes_filter(source->base, source->kind, source->pid_tgid, source->cpu,
				    which);
}

/*
 * Records (or counts) an event that the filter passes, whose payload has a constant size, is
 * naturally aligned and lies on the stack.
 */
STRATA_INLINE int strata_record_fixed(struct strata_source *source, const void *payload,
				      uint32_t bytes)
{
	struct strata_record r;
	int error;

	source->base = payload;
	source->kind = STRATA_SOURCE_DIRECT;
	if (!strata_passes(source, 0))
		return 0;
	if (STRATA_COUNTS) {
		__asm__ volatile("" : : "r"(payload) : "memory");
		return strata_count(payload, STRATA_SOURCE_DIRECT, event.id, 0, 0);
	}
	error = strata_record_begin_part(&r, STRATA_RECORD_FAST, event.id, source->pid_tgid, bytes);
	if (!error) {
		strata_ring_write(&r.slot, payload, bytes);
		strata_record_end(&r);
		return 0;
	}
	if (error != -EAGAIN ||
	    strata_record_begin_part(&r, STRATA_RECORD_REST, event.id, source->pid_tgid, bytes))
		return 0;
	strata_ring_write(&r.slot, payload, bytes);
	strata_record_end(&r);
	return 0;
}

#endif /* STRATA_KERNEL_RECORD_BPF_H */
