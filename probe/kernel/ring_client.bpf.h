/* SPDX-License-Identifier: MIT */
/*
 * ring_client.bpf.h - the ring as these programs use it: its configuration, one CPU's stream, and the slow paths.
 *
 * The slow paths are global functions. The verifier goes through such a one once, for all arguments it
 * may get; through a static one at each call and in each state, which took 120 ms for one program. Pointers
 * into the ring cannot be handed to them: they ask for this CPU's stream again. So the steps of reserve.h and
 * switch.h are put together a second time here, by the ring's private functions that say "Also called by". Nothing
 * else in this folder may call such (tools/gate/ring_api).
 *
 * Before 6.8 the frames of a chain of calls, each rounded up to 32 bytes, have 512 bytes together. In overwrite
 * mode these take up to 224 of them, behind a program and what it calls to record:
 *   reserve (4) ── close (96) ── hold (16), deliver (12..48)
 *              └── try (80..96) ── hold
 */
#ifndef STRATA_KERNEL_RING_CLIENT_BPF_H
#define STRATA_KERNEL_RING_CLIENT_BPF_H

#define STRATA_RING_HOLD_SLOW	 strata_slow_hold
#define STRATA_RING_DELIVER	 strata_slow_deliver
#define STRATA_RING_CLOSE	 strata_slow_close
#define STRATA_RING_RESERVE_SLOW strata_slow_reserve
/* Marks functions that are called once in this file, and so are inlined. */
#define STRATA_SLOW STRATA_INLINE

#include "maps.bpf.h"

#include <strata/ring/stream.h>

struct strata_ring_slot;

/* A value of a stream's `publish`: the frame is held, whatever its entry says. */
#define STRATA_SLOW_HELD UINT32_MAX

/* Functions that the ring calls in place of its own; they call the global functions below. */
STRATA_INLINE uint64_t strata_slow_hold(const struct strata_ring_config *config,
					const struct strata_ring_stream *s, uint64_t position,
					uint64_t entry);
STRATA_INLINE void strata_slow_deliver(const struct strata_ring_config *config,
				       const struct strata_ring_stream *s, uint64_t begin,
				       uint64_t records, int in_handler);
STRATA_INLINE int strata_slow_close(const struct strata_ring_config *config,
				    const struct strata_ring_stream *s, uint64_t old, uint64_t now,
				    int in_handler);
STRATA_INLINE int strata_slow_reserve(const struct strata_ring_config *config,
				      const struct strata_ring_stream *s,
				      const struct strata_ring_event *event,
				      struct strata_ring_slot *slot);

STRATA_INLINE void strata_stream_at(struct strata_ring_stream *s, unsigned char *memory)
{
	const struct strata_sizes *sizes = strata_sizes();

	s->shared = (struct strata_abi_ring_stream *)memory;
	s->subbufs = (struct strata_abi_ring_subbuf *)(memory + sizeof(*s->shared));
	s->frames = (struct strata_abi_ring_frame *)(memory + sizes->frames_offset);
	s->data = memory + sizes->data_offset;
	s->subbuf_shift = sizes->subbuf_shift;
	s->subbuf_bytes = sizes->subbuf_bytes;
	s->buffer_bytes = sizes->buffer_bytes;
	s->header_bytes = 0;
	s->publish = STRATA_ABI_RING_BY_COMMIT;
}

/* Computes a stream from constants again, which takes less than keeping it on the stack. */
#define STRATA_RING_REFRESH(s) strata_stream_at((s), (unsigned char *)(s)->shared)

#include <strata/ring/header.h>
#include <strata/ring/reserve.h>

STRATA_CALLBACK uint64_t strata_kernel_clock(void)
{
	return bpf_ktime_get_ns();
}

static const struct strata_ring_config strata_config = {
	STRATA_KERNEL_LOSS_MODE,
	STRATA_RING_WRITERS_SMP,
	STRATA_RING_PER_CPU,
	STRATA_RING_WAKE_NONE,
	1,
	strata_kernel_clock,
	STRATA_RING_HEADER_LARGE,
	NULL,
};

/* The stream of a CPU; 0: there is none. */
STRATA_INLINE int strata_stream(struct strata_ring_stream *s, uint32_t cpu)
{
	unsigned char *memory = (unsigned char *)bpf_map_lookup_elem(&rings, &cpu);

	if (!memory)
		return 0;
	strata_stream_at(s, memory);
	return 1;
}

/* Looks up the stream of this CPU: a program stays on the CPU where it began. */
STRATA_INLINE int strata_stream_here(struct strata_ring_stream *s)
{
	return strata_stream(s, bpf_get_smp_processor_id());
}

#define STRATA_GLOBAL __attribute__((noinline))

STRATA_GLOBAL uint64_t strata_hold(uint64_t position, uint64_t entry)
{
	struct strata_ring_stream s;

	if (!strata_stream_here(&s))
		return entry;
	return strata_ring_hold_slow(&strata_config, &s, position, entry);
}

/*
 * Delivers the sub-buffer at @begin. The caller has held the frame already: it has written there,
 * or closed the sub-buffer.
 */
STRATA_GLOBAL int strata_deliver(uint64_t begin, uint64_t records)
{
	struct strata_ring_stream s;

	if (strata_stream_here(&s)) {
		s.publish = STRATA_SLOW_HELD;
		strata_ring_deliver(&strata_config, &s, begin, records, 1);
	}
	return 0;
}

STRATA_GLOBAL int strata_close(uint64_t old, uint64_t now)
{
	struct strata_ring_stream s;

	return strata_stream_here(&s) && strata_ring_close(&strata_config, &s, old, now, 1);
}

/* The members of a struct strata_ring_slot that do not follow from the others. */
struct strata_found {
	uint64_t begin;
	uint64_t timestamp;
	uint32_t full_timestamp;
	uint16_t opened;
	uint16_t closes; /* 1: there is no slot; the sub-buffer of begin is to be closed, at timestamp */
};

/* State of one attempt to reserve a slot. The ring passes its stream to the functions below. */
struct strata_attempt {
	struct strata_ring_stream stream;
	struct strata_found *found;
};

STRATA_INLINE void strata_found_give(struct strata_found *found,
				     const struct strata_ring_slot *slot)
{
	found->begin = slot->begin;
	found->timestamp = slot->timestamp;
	found->full_timestamp = (uint32_t)slot->full_timestamp;
	found->opened = (uint16_t)slot->opened;
}

STRATA_INLINE void strata_found_take(const struct strata_found *found,
				     const struct strata_ring_event *wanted,
				     struct strata_ring_slot *slot)
{
	slot->begin = found->begin;
	slot->timestamp = found->timestamp;
	slot->full_timestamp = !!found->full_timestamp;
	slot->opened = !!found->opened;
	/*
	 * The size is computed here and not read from memory, since the verifier takes what it reads for any number.
	 */
	slot->header_bytes =
		strata_ring_record_header_bytes(&strata_config, wanted->id, slot->full_timestamp);
	slot->bytes = (uint32_t)strata_ring_slot_bytes(&strata_config, slot->header_bytes,
						       wanted->payload_bytes);
}

STRATA_GLOBAL int strata_try(uint32_t id, uint32_t payload_bytes, struct strata_found *found)
{
	struct strata_ring_event wanted = { id, payload_bytes, 1 };
	struct strata_attempt attempt;
	struct strata_ring_slot slot;
	int error;

	if (!found || !strata_stream_here(&attempt.stream))
		return -ENXIO;
	attempt.found = found;
	error = strata_ring_reserve_try(&strata_config, &attempt.stream, &wanted, &slot);
	if (!error)
		strata_found_give(found, &slot);
	return error;
}

/*
 * Reserves as strata_ring_reserve_slow() does, but closes the sub-buffer here and not below
 * strata_try(): the functions that a close calls need the stack that strata_try() has.
 */
STRATA_GLOBAL int strata_reserve(uint32_t id, uint32_t payload_bytes, struct strata_found *found)
{
	struct strata_ring_stream s;
	int error;

	if (!found)
		return -ENXIO;
	STRATA_RING_TRIES(n)
	{
		found->closes = 0;
		error = strata_try(id, payload_bytes, found);
		if (error != -EAGAIN)
			return error;
		if (found->closes)
			strata_close(found->begin, found->timestamp);
	}
	if (strata_stream_here(&s))
		strata_ring_discard_nested(&strata_config, &s);
	return -EBUSY;
}

STRATA_INLINE uint64_t strata_slow_hold(const struct strata_ring_config *config,
					const struct strata_ring_stream *s, uint64_t position,
					uint64_t entry)
{
	return s->publish == STRATA_SLOW_HELD ? entry : strata_hold(position, entry);
}

STRATA_INLINE void strata_slow_deliver(const struct strata_ring_config *config,
				       const struct strata_ring_stream *s, uint64_t begin,
				       uint64_t records, int in_handler)
{
	strata_deliver(begin, records);
}

STRATA_INLINE int strata_slow_close(const struct strata_ring_config *config,
				    const struct strata_ring_stream *s, uint64_t old, uint64_t now,
				    int in_handler)
{
	struct strata_found *found = ((const struct strata_attempt *)s)->found;

	found->begin = old;
	found->timestamp = now;
	found->closes = 1;
	return 0;
}

STRATA_INLINE int strata_slow_reserve(const struct strata_ring_config *config,
				      const struct strata_ring_stream *s,
				      const struct strata_ring_event *wanted,
				      struct strata_ring_slot *slot)
{
	/* Kernels before 6.3 want all of it written before it is handed to a function. */
	struct strata_found found = { 0, 0, 0, 0, 0 };
	int error = strata_reserve(wanted->id, wanted->payload_bytes, &found);

	if (!error)
		strata_found_take(&found, wanted, slot);
	return error;
}

#endif /* STRATA_KERNEL_RING_CLIENT_BPF_H */
