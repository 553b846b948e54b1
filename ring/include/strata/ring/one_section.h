/* SPDX-License-Identifier: MIT */
/*
 * one_section.h - publishing by write position with the clock inside of the critical section.
 *
 * publish.h reads the clock in C, and its section finds out whether somebody has written since. Here
 * all that a record needs is one section: the CPU's line, room, clock, header, context, payload,
 * write_count. Nothing that it reads can be stale when it stores, since it is not interrupted in between. A time
 * that is before last_timestamp all the same, by a new conversion of the counter, takes the slow path.
 *
 * One line of memory for each CPU has everything: write_count, records, full_timestamp, last_timestamp, limit and
 * frame of struct strata_abi_ring_stream. A record fits if limit - write_count is its size or more. The limit lies
 * before the end of the open sub-buffer. Positions only grow, so when that sub-buffer is closed no record fits any
 * more, without a change of the limit; the producer that opens the next sub-buffer raises it afterwards. A producer
 * that finds the limit too low takes the slow path, strata_ring_publish_long(), which raises it. Another process may
 * have the line mapped: so places computed from write_count and frame are compared with the channel's size, in
 * private memory.
 *
 * For header formats of bits (compact, large) and a clock that is the CPU's counter. All other formats, clocks and
 * machines use publish.h.
 */
#ifndef STRATA_RING_AT_ONCE_H
#define STRATA_RING_AT_ONCE_H

#include <strata/ring/clock.h>
#include <strata/ring/header.h>
#include <strata/ring/publish.h>

/*
 * The values of a channel that the critical sections need, in one place: private memory of the
 * producer, set once by strata_ring_once_init() and then constant.
 */
struct strata_ring_once {
	/* Added to {write_count, records}, with the payload's size: {header and context, 1}. */
	__attribute__((aligned(16))) uint64_t prefix_bytes;
	uint64_t one_record;
	/* The same of a record of 16 bytes, with a payload of 8: all of it. */
	uint64_t bytes_16;
	uint64_t one_record_16;
	unsigned char *first; /* shared memory of stream 0 */
	uint64_t stride;
	uint32_t nr;
	uint32_t large;	    /* 1: the large header, 0: compact */
	uint32_t short_ids; /* ids below it have a short header */
	uint32_t context_bytes;
	/* The record is written only while *epoch is while_epoch, for example until its session has ended. */
	const uint64_t *epoch; /* atomic */
	uint64_t while_epoch;
	const uint64_t *index; /* of the clock's conversion; atomic */
	/*
	 * Bytes after first at which an empty record may begin; places computed from shared memory are compared with
	 * this.
	 */
	uint64_t room;
	uint64_t room_16;
	uint32_t word_ids; /* ids below it, with a payload of 8 bytes, are records of 16 */
#ifdef STRATA_RING_MODEL
	const struct strata_ring_config *config;
	const struct strata_ring_streams *streams;
#endif
};

/**
 * strata_ring_once_init() - set up @once for strata_ring_publish_in_one_section().
 * @config:        writers RSEQ, header compact or large, record_align 1, the CPU's counter as clock.
 * @streams:       one stream for each possible CPU; copied.
 * @context_bytes: 0 or 4, of what goes between header and payload of each record.
 * @epoch, @while_epoch: the condition under which records are written; tested in the section.
 * @index:         of the conversion that holds; see struct strata_ring_conversion.
 *
 * Context: any.
 * Ordering: none: private memory; @once is given to other threads by a RELEASE of the caller's.
 * Checked: test: one_section.
 */
STRATA_INLINE void strata_ring_once_init(struct strata_ring_once *once,
					 const struct strata_ring_config *config,
					 const struct strata_ring_streams *streams,
					 uint32_t context_bytes, const uint64_t *epoch,
					 uint64_t while_epoch, const uint64_t *index)
{
	once->prefix_bytes = (uint64_t)config->header.short_bytes + context_bytes;
	once->one_record = 1;
	once->bytes_16 = 16;
	once->one_record_16 = 1;
	once->first = streams->first;
	once->stride = streams->stride;
	once->nr = streams->nr;
	once->large = config->header.short_bytes == 6;
	once->short_ids = config->header.short_ids;
	once->context_bytes = context_bytes;
	once->epoch = epoch;
	once->while_epoch = while_epoch;
	once->index = index;
	once->room =
		streams->nr * streams->stride - once->prefix_bytes - STRATA_ABI_RING_TAIL_BYTES;
	once->room_16 = once->room - 8;
	once->word_ids = !once->large && once->prefix_bytes == 8 ? once->short_ids : 0;
#ifdef STRATA_RING_MODEL
	once->config = config;
	once->streams = streams;
#endif
}

#if defined(STRATA_RING_MODEL)
#include <strata/ring/one_section_model.h>
#elif defined(STRATA_RSEQ_NATIVE) && defined(__x86_64__) && defined(__OPTIMIZE__)
#include <strata/ring/one_section_x86_64.h>
#elif defined(STRATA_RSEQ_NATIVE) && defined(__aarch64__) && defined(__OPTIMIZE__)
#include <strata/ring/one_section_aarch64.h>
#endif

#if defined(STRATA_RSEQ_HAS_AT_ONCE) && !defined(STRATA_RING_MODEL)
/*
 * Publishes a record by the section of its header's format, which takes header and context in one
 * number. Returns 1 if that happened.
 */
STRATA_INLINE int strata_rseq_publish_in_one_section(const struct strata_ring_config *config,
						     const struct strata_ring_once *once,
						     uint32_t id, uint32_t context,
						     const struct strata_ring_conversion *clock,
						     const unsigned char *payload, uint64_t n)
{
	const uint64_t both = id | (uint64_t)context << 32;

	(void)config;
	return strata_unlikely(once->large) ? strata_rseq_large(once, both, clock, payload, n) :
					      strata_rseq_compact(once, both, clock, payload, n);
}
#endif

/**
 * strata_ring_publish_in_one_section() - write one event record by write position, in one critical section.
 * @config:      as strata_ring_once_init() was given.
 * @once:        from there.
 * @id:          of the event record.
 * @context:     its first context_bytes, in memory order, go between header and payload.
 * @conversion:  of the counter to @config's clock, which holds while @once's index is its own.
 * @staging:     the payload of @payload_bytes, in private memory, as strata_ring_publish() wants it.
 *
 * Returns 0; or -EAGAIN: nothing has happened, strata_ring_publish_long() is to be called.
 * Context: as strata_ring_publish().
 * Ordering: the store of write_count is a RELEASE. The clock is read in the same section as write_count, which comes
 *           to its end only without an interruption: times of one stream never go back.
 * Source:   Lockless §4.3.1; docs/decisions/0019.
 * Checked: model: once-* wrap-once; step: abort; test: one_section.
 */
STRATA_INLINE int strata_ring_publish_in_one_section(
	const struct strata_ring_config *config, const struct strata_ring_once *once, uint32_t id,
	uint32_t context, const struct strata_ring_conversion *conversion,
	const unsigned char *staging, uint32_t payload_bytes)
{
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	if (strata_likely(id < once->short_ids) &&
	    strata_likely(strata_rseq_publish_in_one_section(config, once, id, context, conversion,
							     staging, payload_bytes)))
		return 0;
#else
	(void)config, (void)once, (void)id, (void)context, (void)conversion;
	(void)staging, (void)payload_bytes;
#endif
	return -EAGAIN;
}

/**
 * strata_ring_publish_word_in_one_section() - the same, with a payload of 8 bytes that is in a register.
 * @word: the payload, in memory order.
 *
 * Only for the compact header with a context; others have to go the way of strata_ring_publish_in_one_section().
 *
 * Returns 0; or -EAGAIN: nothing has happened.
 * Context: as strata_ring_publish().
 * Ordering: as strata_ring_publish_in_one_section().
 * Source:   Lockless §4.3.1; docs/decisions/0033.
 * Checked: model: once-word*; step: abort; test: one_section one_section_bytes.
 */
STRATA_INLINE int strata_ring_publish_word_in_one_section(
	const struct strata_ring_once *once, uint32_t id, uint32_t context,
	const struct strata_ring_conversion *conversion, uint64_t word)
{
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	if (strata_likely(id < once->word_ids) &&
	    strata_likely(
		    strata_rseq_compact_16(once, id | (uint64_t)context << 32, conversion, word)))
		return 0;
#else
	(void)once, (void)id, (void)context, (void)conversion, (void)word;
#endif
	return -EAGAIN;
}

/*
 * Lets records be published in one section up to the end of the sub-buffer that this CPU is filling. The
 * frame is stored first: a producer that sees the new limit must not use the frame of the
 * sub-buffer before. Each store is made only while write_count is unchanged; if somebody came
 * between, the next record that finds the limit too low calls this again.
 */
STRATA_SLOW void strata_ring_raise_limit(const struct strata_ring_config *config,
					 const struct strata_ring_streams *streams)
{
	const uint32_t cpu = strata_rseq_cpu();
	uint64_t position, begin, limit, index, frame, *guard;
	struct strata_ring_stream *s;

	if (cpu >= streams->nr)
		return;
	s = &streams->stream[cpu];
	guard = &s->shared->write_count;
	position = strata_load_acquire(guard);
	begin = strata_ring_begin(s, position);
	limit = begin + s->subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES;
	/*
	 * I3: a position at the begin of a sub-buffer means that it is not open yet; a limit that is set already
	 * needs no change.
	 */
	if (position == begin || strata_load_relaxed(&s->shared->limit) == limit)
		return;
	index = strata_ring_frame_on_cpu(config, s, position);
	frame = (uint64_t)(s->data - streams->first) + (index << s->subbuf_shift) - begin;
	if (strata_rseq_store_release(cpu, guard, position, &s->shared->frame, frame))
		strata_rseq_store_release(cpu, guard, position, &s->shared->limit, limit);
}

/**
 * strata_ring_publish_long() - write one event record that strata_ring_publish_in_one_section() did not.
 * @staging: has room for the context in front of it, too, which is written there.
 *
 * Returns as strata_ring_publish(); -ESTALE: the condition does not hold any more, and nothing is counted.
 * Context: as strata_ring_publish().
 * Ordering: as strata_ring_publish().
 * Checked: model: once-* wrap-once; step: abort; test: one_section.
 */
STRATA_INLINE int strata_ring_publish_long(const struct strata_ring_config *config,
					   const struct strata_ring_once *once,
					   const struct strata_ring_streams *streams,
					   const struct strata_ring_event *event, uint32_t context,
					   unsigned char *staging)
{
	int error;

	if (strata_load_relaxed(once->epoch) != once->while_epoch)
		return -ESTALE;
	staging -= once->context_bytes;
	__builtin_memcpy(staging, &context, once->context_bytes);
	error = strata_ring_publish_slow(config, streams, staging, event->id,
					 event->payload_bytes + once->context_bytes,
					 event->in_handler);
	if (!error)
		strata_ring_raise_limit(config, streams);
	return error;
}

#endif /* STRATA_RING_AT_ONCE_H */
