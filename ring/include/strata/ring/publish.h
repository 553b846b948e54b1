/* SPDX-License-Identifier: MIT */
/*
 * publish.h - publishing by write position: one restartable sequence for each record.
 *
 * For threads of user space with one buffer per CPU. The record is assembled in private memory; then
 * one critical section (rseq.h) checks that nobody has written since write_count and the clock were
 * read, copies the record, and stores the new write_count. That store is the commit: everything below
 * write_count is there (I6). A thread killed in the middle leaves nothing behind, and a signal
 * handler's record lands before the one that it interrupted.
 *
 * Reading the clock outside of the section and checking write_count inside leaves clock and header
 * format to the client, in C: the sections are a handful, and know nothing of either.
 *
 *   publish   if write_count == old: copy, write_count = old + size
 *   close     if write_count == old: packet size, end time, ...; then write_count = next sub-buffer
 *   open      if write_count == begin: begin time, copy, write_count = begin + size
 *
 * The stores of close are one section each, guarded by write_count: a thread that was preempted in
 * between can change nothing any more once another one has moved on, and may do again what the other
 * did. Only the last store, of write_count, is the switch.
 */
#ifndef STRATA_RING_PUBLISH_H
#define STRATA_RING_PUBLISH_H

#include <strata/ring/reserve.h>
#include <strata/ring/rseq.h>

/*
 * The streams of a channel, one per CPU: the part of struct strata_ring_channel that publishing needs. Their shared
 * memory lies at a constant stride, so that the first load after the CPU's number is write_count.
 */
struct strata_ring_streams {
	struct strata_ring_stream *stream; /* [nr] */
	uint32_t nr;
	unsigned char *first; /* shared memory of stream 0 */
	uint64_t stride;      /* from one stream to the next [byte] */
};

STRATA_INLINE struct strata_abi_ring_stream *
strata_ring_shared(const struct strata_ring_streams *streams, uint32_t cpu)
{
	return (struct strata_abi_ring_stream *)(void *)(streams->first + cpu * streams->stride);
}

/*
 * Counts a discarded record in @counter of this CPU. Returns 0 if the thread was moved or disturbed; the caller tries
 * again.
 */
STRATA_INLINE int strata_ring_count_on_cpu(uint32_t cpu, uint64_t *counter)
{
	uint64_t before = strata_load_relaxed(counter);

	return strata_rseq_cas(cpu, counter, before, before + 1);
}

STRATA_INLINE uint64_t strata_ring_frame_on_cpu(const struct strata_ring_config *config,
						const struct strata_ring_stream *s,
						uint64_t position)
{
	/* Relaxed: the sub-buffer was opened before the write_count was stored that this thread has acquired. */
	if (config->loss_mode == STRATA_RING_OVERWRITE)
		return strata_ring_frame_bound(
			s, strata_load_relaxed(&strata_ring_subbuf(s, position)->entry));
	return strata_ring_index(s, position);
}

/* Closes the sub-buffer of position @old; does nothing if write_count has moved since. */
STRATA_SLOW void strata_ring_close_on_cpu(const struct strata_ring_config *config,
					  struct strata_ring_stream *s, uint32_t cpu, uint64_t old,
					  uint64_t now, int in_handler)
{
	struct strata_abi_ring_stream *shared = s->shared;
	struct strata_abi_ring_subbuf *sub = strata_ring_subbuf(s, old);
	uint64_t begin = strata_ring_begin(s, old), index, before, records;
	uint64_t *guard = &shared->write_count;
	struct strata_abi_ring_frame *frame;
	struct strata_rseq_copy padding;

	index = strata_ring_frame_on_cpu(config, s, old);
	frame = &s->frames[index];
	/* Torn only if write_count has moved, and then none of the stores below is made. */
	strata_plain_peek(&before, &frame->records_before, sizeof(before));
	records = strata_load_relaxed(&shared->records) - before;
	if (!strata_rseq_store_plain(cpu, guard, old, &frame->content_bytes,
				     strata_ring_offset(s, old)) ||
	    !strata_rseq_store_plain(cpu, guard, old, &frame->timestamp_end, now) ||
	    !strata_rseq_store_plain(cpu, guard, old, &frame->discarded,
				     strata_ring_discarded(s)) ||
	    !strata_rseq_store_plain(cpu, guard, old, &frame->records, records) ||
	    !strata_rseq_store_plain(cpu, guard, old, &frame->position, begin))
		return;
	/*
	 * The reader may take the frame from here on by its entry, but does not before write_count is
	 * past its end. RELEASE pairs with the ACQUIRE in strata_ring_reader_exchange().
	 */
	if (config->loss_mode == STRATA_RING_OVERWRITE &&
	    !strata_rseq_store_release(cpu, guard, old, &sub->entry,
				       strata_ring_entry(index, strata_ring_tag(s, begin))))
		return;
	/* The publishing section wants something to copy: 8 zero bytes of the padding. */
	padding.dst = s->data + (index << s->subbuf_shift) + strata_ring_offset(s, old);
	padding.header = 0;
	padding.header_bytes = 8;
	padding.payload = padding.dst;
	padding.payload_bytes = 0;
	if (strata_rseq_publish(cpu, shared, old, begin + s->subbuf_bytes - old, 0, now,
				&padding) &&
	    config->wakeup == STRATA_RING_WAKE_BY_WRITER)
		strata_ring_wake(s, in_handler);
}

/*
 * State that the fast and the slow path of publication share: this CPU's stream, and the record as it would be
 * written now.
 */
struct strata_ring_attempt {
	struct strata_ring_stream *s;
	uint32_t cpu;
	uint64_t old; /* write_count that the section will check */
	uint64_t timestamp;
	uint64_t bytes; /* header, payload and alignment */
	uint32_t header_bytes;
	int full_timestamp; /* 1: the header holds the whole timestamp */
};

/* Copies the assembled record to its place in an open sub-buffer and publishes it. Returns 1 if that happened. */
STRATA_INLINE int strata_ring_publish_at(const struct strata_ring_config *config,
					 const struct strata_ring_attempt *at,
					 const struct strata_ring_event *event,
					 unsigned char *staging, uint64_t index)
{
	struct strata_ring_stream *s = at->s;
	struct strata_ring_header_bytes header;
	struct strata_rseq_copy copy;

	copy.dst = strata_ring_address(config, s, index, at->old);
	copy.payload = staging;
	copy.payload_bytes = event->payload_bytes;
	copy.header = 0;
	copy.header_bytes = at->header_bytes;
	if (config->header.make) {
		header = config->header.make(event->id, event->payload_bytes, at->timestamp,
					     at->full_timestamp);
		copy.header = header.first;
		if (at->header_bytes > sizeof(copy.header)) {
			/* Too long for a register: goes in front of the payload, and with it. */
			copy.payload -= at->header_bytes;
			copy.payload_bytes += at->header_bytes;
			copy.header_bytes = 0;
			__builtin_memcpy(staging - at->header_bytes, &header, at->header_bytes);
		}
	}
	return strata_rseq_publish(at->cpu, s->shared, at->old, at->bytes, 1, at->timestamp, &copy);
}

/*
 * Opens the sub-buffer that begins at @at->old with its first record. Returns 1 if that happened.
 *
 * The begin time is stored by the section that publishes the record whose time it is. Were it stored
 * before, a second thread could put its own, later one there, and the first thread's record would then
 * be older than its packet (found by the model checker). records_before is the same for all of them.
 */
STRATA_INLINE int strata_ring_publish_first(const struct strata_ring_config *config,
					    const struct strata_ring_attempt *at,
					    const struct strata_ring_event *event,
					    unsigned char *staging)
{
	struct strata_ring_stream *s = at->s;
	struct strata_abi_ring_stream *shared = s->shared;
	struct strata_ring_header_bytes header;
	struct strata_abi_ring_frame *frame;
	struct strata_rseq_first first;
	uint64_t index;

	if (config->loss_mode == STRATA_RING_OVERWRITE)
		strata_ring_push_reader(s, at->old);
	index = strata_ring_frame_of(config, s, at->old);
	frame = &s->frames[index];
	if (!strata_rseq_store_plain(at->cpu, &shared->write_count, at->old, &frame->records_before,
				     strata_load_relaxed(&shared->records)))
		return 0;
	if (config->header.make) {
		header = config->header.make(event->id, event->payload_bytes, at->timestamp, 0);
		memcpy(staging - at->header_bytes, &header, at->header_bytes);
	}
	first.begin = &frame->timestamp_begin;
	first.dst = s->data + (index << s->subbuf_shift) + s->header_bytes;
	first.src = staging - at->header_bytes;
	first.src_bytes = (uint64_t)at->header_bytes + event->payload_bytes;
	return strata_rseq_publish_first(at->cpu, shared, at->old, s->header_bytes + at->bytes,
					 at->timestamp, &first);
}

/*
 * Returns @now, but not less than last_timestamp. If a channel is continued after the clock began anew (a file, after
 * a reboot), the sections would wait for its last_timestamp: records carry that time until the clock has passed it.
 */
STRATA_INLINE uint64_t strata_ring_not_before_last(const struct strata_ring_stream *s, uint64_t now)
{
	uint64_t last = strata_load_relaxed(&s->shared->last_timestamp);

	return now < last ? last : now;
}

/* Publishes a record on the slow path; strata_ring_publish() does the common case itself. */
STRATA_SLOW int strata_ring_publish_slow(const struct strata_ring_config *config,
					 const struct strata_ring_streams *streams,
					 unsigned char *staging, uint32_t id,
					 uint32_t payload_bytes, int in_handler)
{
	const struct strata_ring_event event = { id, payload_bytes, in_handler };
	struct strata_ring_attempt at;

	for (;;) {
		struct strata_abi_ring_stream *shared;
		uint64_t offset;

		at.cpu = strata_rseq_cpu();
		if (at.cpu >= streams->nr) {
			strata_add_relaxed(&streams->stream[0].shared->discarded_no_stream, 1);
			return -ENXIO;
		}
		at.s = &streams->stream[at.cpu];
		shared = at.s->shared;
		/* ACQUIRE pairs with the RELEASE of the section that another thread published with. */
		at.old = strata_load_acquire(&shared->write_count);
		offset = strata_ring_offset(at.s, at.old);
		at.timestamp = strata_ring_clock(config);
		at.timestamp = strata_ring_not_before_last(at.s, at.timestamp);
		at.full_timestamp = offset && strata_ring_needs_full(
						      config, at.timestamp,
						      strata_load_relaxed(&shared->full_timestamp));
		at.header_bytes = strata_ring_record_header_bytes(config, id, at.full_timestamp);
		at.bytes = strata_ring_slot_bytes(config, at.header_bytes, payload_bytes);
		if (at.bytes > strata_ring_slot_max(at.s) || !at.bytes) {
			if (!strata_ring_count_on_cpu(at.cpu, &shared->discarded_too_big))
				continue;
			return -EMSGSIZE;
		}
		if (offset && !strata_ring_fits(at.s, offset, at.bytes)) {
			strata_ring_close_on_cpu(config, at.s, at.cpu, at.old, at.timestamp,
						 in_handler);
			continue;
		}
		if (!offset && config->loss_mode == STRATA_RING_DISCARD &&
		    strata_ring_full(at.s, at.old)) {
			if (!strata_ring_count_on_cpu(at.cpu, &shared->discarded_full))
				continue;
			return -ENOBUFS;
		}
		if (!offset) {
			if (!strata_ring_publish_first(config, &at, &event, staging))
				continue;
			return 0;
		}
		if (!strata_ring_publish_at(config, &at, &event, staging,
					    strata_ring_frame_on_cpu(config, at.s, at.old)))
			continue;
		/* I4: only a published whole timestamp counts, and only while it is the last record. */
		if (at.full_timestamp)
			strata_rseq_store_release(at.cpu, &shared->write_count, at.old + at.bytes,
						  &shared->full_timestamp, at.timestamp);
		return 0;
	}
}

/**
 * strata_ring_publish() - write one event record (fast path), by write position.
 * @config:  the client's constant configuration; writers RSEQ.
 * @streams: one stream for each possible CPU.
 * @event:   what is to be written.
 * @staging: the payload, in private memory. STRATA_RING_HEADER_MAX bytes in front of it are written;
 *           up to 7 bytes behind it are read, and may reach the padding of a packet.
 *
 * Returns 0, or a negative errno and nothing written:
 *   -EMSGSIZE  the record is empty or more than a sub-buffer holds;   adds 1 to discarded_too_big.
 *   -ENOBUFS   discard mode, all sub-buffers full;                    adds 1 to discarded_full.
 *   -ENXIO     the CPU's number is not below @streams->nr; adds 1 to discarded_no_stream of stream 0.
 * Context:   any thread or signal handler of a process with strata_rseq_available(). No lock,
 *            allocation or system call; with WAKE_BY_WRITER a futex call at delivery unless
 *            in_handler.
 * Progress:  restarts when the thread is preempted, migrated or signalled: lock-free.
 * Ordering:  the store of write_count is a RELEASE and pairs with strata_ring_ready() and
 *            strata_ring_available(). The clock is read between the load of write_count and the
 *            section that checks it: records of one stream never go back in time.
 * Invariant: I2 write_count - read_count <= buf in discard mode. I4 full_timestamp is at or before each
 *            later record. I6 everything below write_count is there.
 * Source:    Lockless §4.3.1 (time stamp and reservation are one); rseq in place of the local CAS.
 * Checked: model: rseq-* wrap-rseq; step: abort; spin: drained committed; stress; test: record
 *          timestamp kill.
 */
STRATA_INLINE int strata_ring_publish(const struct strata_ring_config *config,
				      const struct strata_ring_streams *streams,
				      const struct strata_ring_event *event, unsigned char *staging)
{
	struct strata_ring_attempt at;
	uint64_t offset;

	at.cpu = strata_rseq_cpu();
	if (strata_unlikely(at.cpu >= streams->nr))
		goto slow;
	/* ACQUIRE pairs with the RELEASE of the section that another thread published with. */
	at.old = strata_load_acquire(&strata_ring_shared(streams, at.cpu)->write_count);
	at.s = &streams->stream[at.cpu];
	offset = strata_ring_offset(at.s, at.old);
	at.full_timestamp = 0;
	at.header_bytes = strata_ring_record_header_bytes(config, event->id, 0);
	at.bytes = strata_ring_slot_bytes(config, at.header_bytes, event->payload_bytes);
	if (config->loss_mode == STRATA_RING_DISCARD && strata_unlikely(!offset) && at.bytes &&
	    strata_ring_fits(at.s, at.s->header_bytes, at.bytes) &&
	    strata_ring_full(at.s, at.old)) {
		/* Tested here too, before the clock is read: discarding must cost less than writing. */
		if (strata_ring_count_on_cpu(at.cpu, &at.s->shared->discarded_full))
			return -ENOBUFS;
		goto slow;
	}
	at.timestamp = strata_ring_clock(config);
	if (strata_likely(
		    offset && at.bytes && strata_ring_fits(at.s, offset, at.bytes) &&
		    !strata_ring_needs_full(config, at.timestamp,
					    strata_load_relaxed(&at.s->shared->full_timestamp)) &&
		    strata_ring_publish_at(config, &at, event, staging,
					   strata_ring_frame_on_cpu(config, at.s, at.old))))
		return 0;
slow:
	/*
	 * Arguments go by value: were a local variable's address to leave, it could not stay in a register
	 * above.
	 */
	return strata_ring_publish_slow(config, streams, staging, event->id, event->payload_bytes,
					event->in_handler);
}

/**
 * strata_ring_flush_on_cpu() - deliver the sub-buffer that the current CPU is filling.
 *
 * Does nothing on an empty sub-buffer. Other CPUs' sub-buffers can be flushed from those CPUs only;
 * a reader gets what is in them by strata_ring_available(), and with it disturbs no producer.
 *
 * Context: as strata_ring_publish(), from a thread: with WAKE_BY_WRITER it makes a futex call.
 * Ordering: as strata_ring_publish().
 * Checked: model: rseq-*; step: abort; stress; test: record.
 */
STRATA_INLINE void strata_ring_flush_on_cpu(const struct strata_ring_config *config,
					    const struct strata_ring_streams *streams)
{
	uint32_t cpu = strata_rseq_cpu();
	struct strata_ring_stream *s;
	uint64_t old, begin;

	if (cpu >= streams->nr)
		return;
	s = &streams->stream[cpu];
	old = strata_load_acquire(&s->shared->write_count);
	/*
	 * Loops until this packet is closed, by us or by another thread; records may still come meanwhile.
	 */
	for (begin = strata_ring_begin(s, old);
	     strata_ring_offset(s, old) && strata_ring_begin(s, old) == begin;
	     old = strata_load_acquire(&s->shared->write_count)) {
		strata_ring_close_on_cpu(config, s, cpu, old,
					 strata_ring_not_before_last(s, strata_ring_clock(config)),
					 0);
		if (strata_rseq_cpu() != cpu)
			return; /* moved away: that CPU's next record or flush does it */
	}
}

#endif /* STRATA_RING_PUBLISH_H */
