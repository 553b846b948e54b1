/* SPDX-License-Identifier: MIT */
/*
 * at_once.h - publishing by write position with the clock inside of the critical section.
 *
 * publish.h reads the clock in C, and its section finds out whether somebody has written since. Here
 * all that a record needs is one section: the CPU's line, room, clock, header, context, payload,
 * write_count. Nothing that it reads can be stale when it stores, since it is not interrupted in between;
 * so a record's time needs no comparison with the one before.
 *
 * One line of memory for each CPU says it all: write_count, records, full_timestamp, last_timestamp, limit and
 * frame of struct strata_abi_ring_stream. A record fits if limit - write_count is its size or more. The limit
 * lies before the end of the sub-buffer that is open. Positions only grow, so when that one is closed the limit
 * says no by itself, and nobody has to change it; who opens the next one raises it afterwards. Whoever finds it
 * too low takes the long way, strata_ring_publish_slow(), which raises it first (see publish.h).
 *
 * For header formats of bits (compact, large) and a clock that is the CPU's counter. Everything else, and
 * other machines, go the way of publish.h.
 */
#ifndef STRATA_RING_AT_ONCE_H
#define STRATA_RING_AT_ONCE_H

#include <strata/ring/clock.h>
#include <strata/ring/header.h>
#include <strata/ring/publish.h>

/* How the counter's cycles become the channel's clock, at this moment. */
struct strata_ring_counter {
	const struct strata_ring_conversion *conversion;
	const uint64_t *index; /* who changes conversions changes this first; atomic */
	uint64_t while_index;  /* @conversion holds while *index is this */
};

/* What must be so for the record to be written at all, for example that its session has not ended. */
struct strata_ring_condition {
	const uint64_t *epoch; /* atomic */
	uint64_t while_epoch;
};

/* What the section needs to know besides the streams. */
struct strata_rseq_at_once {
	const uint64_t *epoch, *index;
	const struct strata_ring_conversion *clock;
	uint64_t while_epoch, while_index;
	uint64_t bytes;	       /* of the whole record */
	uint64_t prefix_bytes; /* header and context */
	uint64_t payload_bytes;
	const unsigned char *payload;
	uint32_t id, context;
};

#if defined(STRATA_RING_MODEL)
#include <strata/ring/at_once_model.h>
#elif defined(STRATA_RSEQ_NATIVE) && defined(__x86_64__) && defined(__OPTIMIZE__)
#include <strata/ring/at_once_x86_64.h>
#endif

/*
 * strata_ring_publish_at_once() - write one event record by write position, in one critical section.
 * @config:        as strata_ring_publish(); header compact or large, record_align 1, the clock the same as @counter.
 * @streams:       one stream for each possible CPU.
 * @event:         id, and the payload without the context.
 * @context:       the first @context_bytes of it, 0 or 4, go between header and payload, in the machine's byte order.
 * @counter, @condition: above.
 * @staging:       the payload, in private memory, as strata_ring_publish() wants it, with room for the
 *                 context in front of it, too.
 *
 * Returns as strata_ring_publish(); if the condition does not hold: -ESTALE, and nothing is counted.
 * Context, progress and invariants: as strata_ring_publish().
 * Ordering: the store of write_count is a RELEASE. The clock is read after write_count and limit, in a
 *           section that comes to its end only without an interruption: times of one stream never go back.
 * Source:   Lockless §4.3.1; docs/decisions/0019.
 * Checked:  ring/check/model (rseq-once-*), ring/check/step (abort at every instruction), ring/check/stress,
 *           ring/test/at_once.c.
 */
STRATA_INLINE int strata_ring_publish_at_once(const struct strata_ring_config *config,
					      const struct strata_ring_streams *streams,
					      const struct strata_ring_event *event,
					      uint32_t context, uint32_t context_bytes,
					      const struct strata_ring_counter *counter,
					      const struct strata_ring_condition *condition,
					      unsigned char *staging)
{
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	struct strata_rseq_at_once a;

	if (strata_likely(event->id < config->header.short_ids)) {
		a.epoch = condition->epoch;
		a.while_epoch = condition->while_epoch;
		a.index = counter->index;
		a.while_index = counter->while_index;
		a.clock = counter->conversion;
		a.prefix_bytes = config->header.short_bytes + context_bytes;
		a.payload_bytes = event->payload_bytes;
		a.bytes = a.prefix_bytes + a.payload_bytes;
		a.payload = staging;
		a.id = event->id;
		a.context = context;
		if (strata_likely(strata_rseq_publish_at_once(config, streams, &a)))
			return 0;
	}
#else
	(void)counter;
#endif
	if (strata_load_relaxed(condition->epoch) != condition->while_epoch)
		return -ESTALE;
	__builtin_memcpy(staging - context_bytes, &context, context_bytes);
	return strata_ring_publish_slow(config, streams, staging - context_bytes, event->id,
					event->payload_bytes + context_bytes, event->in_handler);
}

#endif /* STRATA_RING_AT_ONCE_H */
