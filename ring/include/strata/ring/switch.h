/* SPDX-License-Identifier: MIT */
/*
 * switch.h - from one sub-buffer to the next: hold, deliver, close, open. Used by reserve.h, and in
 * part by publish.h.
 *
 *            open                 commit ...             close                     last commit
 *   free ──────────▶ being filled ──────────▶ ... ─────────────────▶ closed ─────────────────▶ delivered
 *    ▲   first record              any producer   who finds no room           any producer       │
 *    └──────────────────────── discard: put_next(), by the reader; overwrite: hold(), by a writer ┘
 */
#ifndef STRATA_RING_SWITCH_H
#define STRATA_RING_SWITCH_H

#include <strata/ring/stream.h>
#include <strata/ring/wakeup.h>

/*
 * Slow paths of a producer. BPF's verifier does not accept these functions. A BPF program has others with the same
 * arguments: it defines these macros before it includes a header of the ring, and does the same there. So it combines
 * the steps of a switch a second time, and calls functions that stay private, since each is right only between the
 * others. Their comments have "Also called by", and tools/gate/ring_api lets nobody else call them, or define these
 * macros. See docs/design/ring.md, "Public and private".
 * else call them, or define these macros. See docs/design/ring.md, "Public and private".
 */
#ifndef STRATA_RING_HOLD_SLOW
#define STRATA_RING_HOLD_SLOW strata_ring_hold_slow
#endif
#ifndef STRATA_RING_DELIVER
#define STRATA_RING_DELIVER strata_ring_deliver
#endif
#ifndef STRATA_RING_CLOSE
#define STRATA_RING_CLOSE strata_ring_close
#endif
#ifndef STRATA_RING_RESERVE_TRY
#define STRATA_RING_RESERVE_TRY strata_ring_reserve_try
#endif
#ifndef STRATA_RING_RESERVE_SLOW
#define STRATA_RING_RESERVE_SLOW strata_ring_reserve_slow
#endif
/* Computes the addresses of a stream's parts again where a call would spill the registers that hold them. */
#ifndef STRATA_RING_REFRESH
#define STRATA_RING_REFRESH(s) ((void)(s))
#endif

/* Returns 1 if a single CPU writes, whose interrupts nest. */
STRATA_INLINE int strata_ring_is_local(const struct strata_ring_config *config)
{
	return config->writers == STRATA_RING_WRITERS_LOCAL ||
	       config->writers == STRATA_RING_WRITERS_UNORDERED;
}

/* Compares and exchanges with the family of atomic operations that the configuration chooses. */
STRATA_INLINE int strata_ring_cas(const struct strata_ring_config *config, uint64_t *p,
				  uint64_t *expected, uint64_t desired)
{
	if (strata_ring_is_local(config))
		return strata_local_cas(p, expected, desired);
	return strata_cas_acq_rel(p, expected, desired);
}

STRATA_INLINE uint64_t strata_ring_add(const struct strata_ring_config *config, uint64_t *p,
				       uint64_t v)
{
	if (config->writers == STRATA_RING_WRITERS_LOCAL)
		return strata_local_add(p, v);
	if (config->writers == STRATA_RING_WRITERS_UNORDERED)
		return strata_local_add_unordered(p, v);
	return strata_add_acq_rel(p, v);
}

/*
 * Stores @v so that preceding stores are visible to whoever sees it: at once, or once the reader has had a
 * barrier on this CPU.
 */
STRATA_INLINE void strata_ring_store_release(const struct strata_ring_config *config, uint64_t *p,
					     uint64_t v)
{
	if (config->writers == STRATA_RING_WRITERS_UNORDERED)
		strata_local_store_unordered(p, v);
	else
		strata_store_release(p, v);
}

STRATA_INLINE uint64_t strata_ring_clock(const struct strata_ring_config *config)
{
	return config->clock ? config->clock() : 0;
}

/* Reads the clock for publication by commit, which must not go back between CPUs if several write. */
STRATA_INLINE uint64_t strata_ring_clock_by_commit(const struct strata_ring_config *config)
{
	if (!strata_ring_is_local(config) && config->clock_between_cpus)
		return config->clock_between_cpus();
	return strata_ring_clock(config);
}

/* Returns 1 if the header must hold the whole timestamp. @full: a whole timestamp at or before this record. */
STRATA_INLINE int strata_ring_needs_full(const struct strata_ring_config *config, uint64_t now,
					 uint64_t full)
{
	if (!config->clock || !config->header.timestamp_bits || config->header.timestamp_bits >= 64)
		return 0;
	return now - full >= UINT64_C(1) << config->header.timestamp_bits;
}

/* Returns the size of a record's header [byte]. Also called by probe/kernel/ring_client.bpf.h. */
STRATA_INLINE uint32_t strata_ring_record_header_bytes(const struct strata_ring_config *config,
						       uint32_t id, int full)
{
	return config->header.bytes ? config->header.bytes(id, full) : 0;
}

/*
 * Returns the size of header, payload and alignment [byte]; 64 bits do not overflow. Also called by
 * probe/kernel/ring_client.bpf.h.
 */
STRATA_INLINE uint64_t strata_ring_slot_bytes(const struct strata_ring_config *config,
					      uint32_t header_bytes, uint32_t payload_bytes)
{
	uint64_t align = config->record_align;

	return ((uint64_t)header_bytes + payload_bytes + align - 1) & ~(align - 1);
}

/* Returns the frame index of @entry, which is below the number of frames whatever the shared memory says. */
STRATA_INLINE uint64_t strata_ring_frame_bound(const struct strata_ring_stream *s, uint64_t entry)
{
	uint64_t frame = strata_ring_entry_frame(entry);

	if (frame > s->buffer_bytes >> s->subbuf_shift)
		return 0;
	return frame;
}

/*
 * Slow path of strata_ring_hold(). @entry: as loaded. Returns the entry as it is at the end. Also called by
 * probe/kernel/ring_client.bpf.h.
 */
STRATA_SLOW uint64_t strata_ring_hold_slow(const struct strata_ring_config *config,
					   struct strata_ring_stream *s, uint64_t position,
					   uint64_t entry)
{
	uint64_t *p = &strata_ring_subbuf(s, position)->entry, tag, records;

	STRATA_RING_TRIES(n)
	{
		if (entry & STRATA_ABI_RING_ENTRY_HELD)
			break;
		tag = strata_ring_entry_tag(entry);
		if ((tag | STRATA_RING_UNREAD) != strata_ring_tag(s, position - s->buffer_bytes))
			break;
		/* Before the CAS, after which another thread may go on and write there; it validates. */
		strata_plain_peek(&records, &s->frames[strata_ring_frame_bound(s, entry)].records,
				  sizeof(records));
		/* The reader's CAS comes from another CPU, so this is never a local operation. */
		if (!strata_cas_acq_rel(p, &entry, entry | STRATA_ABI_RING_ENTRY_HELD))
			continue;
		if (tag & STRATA_RING_UNREAD) {
			strata_ring_add(config, &s->shared->overwritten_records, records);
			/* RELEASE: last; pairs with the ACQUIRE in strata_ring_scan_count(). */
			strata_ring_add(config, &s->shared->overwritten_packets, 1);
		}
		break;
	}
	return entry;
}

/*
 * strata_ring_hold() - make sure that the reader cannot take the frame of @position (overwrite mode).
 *
 * Every producer does so before it writes, not only the one that opened the sub-buffer: it may have
 * interrupted that one. Who wins the CAS counts what is overwritten. Returns the frame's index.
 *
 * An entry that is not of the lap before is left alone: the question is stale. That happens to
 * a preempted thread of publish.h, whose next section then fails; by commit there is no way to it.
 *
 * Ordering: ACQUIRE pairs with the RELEASE of the CAS in strata_ring_reader_exchange() (the reader is
 * done with the frame it gave us) and of the CAS here by another producer.
 * Source:   Lockless §4.3.2, alg. 4 line 5 ("set reference flag").
 */
STRATA_INLINE uint64_t strata_ring_hold(const struct strata_ring_config *config,
					struct strata_ring_stream *s, uint64_t position)
{
	uint64_t entry = strata_load_acquire(&strata_ring_subbuf(s, position)->entry);

	if (strata_unlikely(!(entry & STRATA_ABI_RING_ENTRY_HELD)))
		entry = STRATA_RING_HOLD_SLOW(config, s, position, entry);
	/* A reader that copies a live packet looks at the entry again, strata_ring_copy_available(). */
	if (config->writers != STRATA_RING_WRITERS_UNORDERED)
		strata_fence_release();
	return strata_ring_frame_bound(s, entry);
}

STRATA_INLINE uint64_t strata_ring_frame_of(const struct strata_ring_config *config,
					    struct strata_ring_stream *s, uint64_t position)
{
	if (config->loss_mode == STRATA_RING_OVERWRITE)
		return strata_ring_hold(config, s, position);
	return strata_ring_index(s, position);
}

/* Returns the address of the byte at @position, in frame @index. In discard mode frame and offset are one mask. */
STRATA_INLINE unsigned char *strata_ring_address(const struct strata_ring_config *config,
						 const struct strata_ring_stream *s, uint64_t index,
						 uint64_t position)
{
	if (config->loss_mode == STRATA_RING_DISCARD)
		return s->data + (position & (s->buffer_bytes - 1));
	return s->data + (index << s->subbuf_shift) + strata_ring_offset(s, position);
}

/*
 * Publishes a sub-buffer after its last commit. Nobody else can do that, or reopen the sub-buffer, before the store
 * to published.
 *
 * The seal (frame.position) and the cleared commit word come before it, so that a buffer left by a
 * killed process shows which of them was reached; see strata_ring_get_rest().
 * Also called by probe/kernel/ring_client.bpf.h.
 */
STRATA_SLOW void strata_ring_deliver(const struct strata_ring_config *config,
				     struct strata_ring_stream *s, uint64_t begin, uint64_t records,
				     int in_handler)
{
	struct strata_abi_ring_subbuf *sub = strata_ring_subbuf(s, begin);
	uint64_t index = strata_ring_frame_of(config, s, begin);
	struct strata_abi_ring_frame *frame = &s->frames[index];

	strata_plain_write_u64(&frame->records, records);
	strata_plain_seal_u64(&frame->position, begin);
	strata_ring_add(config, &s->shared->records, records);
	/* RELEASE: after the seal, for strata_ring_get_rest() on a dead producer's memory. */
	strata_ring_store_release(config, &sub->commit, 0);
	if (config->loss_mode == STRATA_RING_OVERWRITE)
		/* RELEASE pairs with the ACQUIRE in strata_ring_reader_exchange() and _hold(). */
		strata_ring_store_release(config, &sub->entry,
					  strata_ring_entry(index, strata_ring_tag(s, begin)));
	/* RELEASE pairs with the ACQUIRE in strata_ring_ready() and strata_ring_may_open(). */
	strata_ring_store_release(config, &sub->published, begin + s->subbuf_bytes);
	if (config->wakeup == STRATA_RING_WAKE_BY_WRITER)
		strata_ring_wake(s, in_handler);
}

/*
 * Notes that everything in @sub below @position, which is in it, is committed (I5). On one CPU a nested commit may
 * have noted a higher position already, hence only upwards. Between CPUs a plain store: an older value that lands
 * last is true as well, and the next commit corrects it, without a LOCK for each record. RELEASE pairs with the
 * ACQUIRE in strata_ring_available().
 */
STRATA_INLINE void strata_ring_raise_committed(const struct strata_ring_config *config,
					       struct strata_abi_ring_subbuf *sub,
					       uint64_t position)
{
	uint64_t *p = &sub->committed, before;

	if (!strata_ring_is_local(config)) {
		strata_hint_release(p, position);
		return;
	}
	before = strata_load_relaxed(p);
	STRATA_RING_TRIES(n)
	{
		if ((int64_t)(position - before) <= 0 ||
		    (config->writers == STRATA_RING_WRITERS_UNORDERED ?
			     strata_local_cas(p, &before, position) :
			     strata_local_cas_release(p, &before, position)))
			break;
	}
}

/* Counts @delta, {records:32 | bytes:32}, as committed in @sub, the sub-buffer of @position. */
STRATA_INLINE void strata_ring_commit_to(const struct strata_ring_config *config,
					 struct strata_ring_stream *s,
					 struct strata_abi_ring_subbuf *sub, uint64_t position,
					 uint64_t delta, int in_handler)
{
	uint64_t begin = strata_ring_begin(s, position), total, write;

	/*
	 * ACQUIRE and RELEASE: the producer that completes the sub-buffer publishes what all others wrote. On the
	 * local way the paper's compiler barrier is enough: one CPU (§4.4).
	 */
	total = strata_ring_add(config, &sub->commit, delta) + delta;
	if (strata_unlikely((uint32_t)total == s->subbuf_bytes)) {
		STRATA_RING_DELIVER(config, s, begin, total >> 32, in_handler);
		return;
	}
	/*
	 * All that was reserved in this sub-buffer is committed: say so (I5). Reading write_count after
	 * the add is what makes it true: each commit in the sum came after its reservation.
	 */
	write = strata_load_relaxed(&s->shared->write_count);
	if (strata_likely(write - begin == (uint32_t)total))
		strata_ring_raise_committed(config, sub, write);
}

/*
 * Closes the sub-buffer of position @old, if write_count still is @old. Returns 1 if it was. This step commits the
 * padding, at least STRATA_ABI_RING_TAIL_BYTES, so the sub-buffer cannot be delivered before the packet's size is
 * written here. Also called by probe/kernel/ring_client.bpf.h.
 */
STRATA_SLOW int strata_ring_close(const struct strata_ring_config *config,
				  struct strata_ring_stream *s, uint64_t old, uint64_t now,
				  int in_handler)
{
	uint64_t end = strata_ring_begin(s, old) + s->subbuf_bytes;
	struct strata_abi_ring_frame *frame;
	uint64_t expected = old;
	/* Read before the CAS: the next packet is closed after it, and so never says less. */
	uint64_t discarded = strata_ring_discarded(s);

	if (!strata_ring_cas(config, &s->shared->write_count, &expected, end))
		return 0;
	frame = &s->frames[strata_ring_frame_of(config, s, old)];
	strata_plain_write_u64(&frame->content_bytes, strata_ring_offset(s, old));
	strata_plain_write_u64(&frame->timestamp_end, now);
	strata_plain_write_u64(&frame->discarded, discarded);
	strata_ring_commit_to(config, s, strata_ring_subbuf(s, old), old, end - old, in_handler);
	return 1;
}

/* Moves the reader's position past the sub-buffer that begins at @begin - buffer (overwrite mode). */
STRATA_INLINE void strata_ring_push_reader(struct strata_ring_stream *s, uint64_t begin)
{
	uint64_t read = strata_load_relaxed(&s->shared->read_count);

	/* To the oldest packet that stays, however far behind a damaged read_count is. */
	STRATA_RING_TRIES(n)
	{
		if ((int64_t)(begin - read) < (int64_t)s->buffer_bytes ||
		    strata_cas_relaxed(&s->shared->read_count, &read,
				       begin - s->buffer_bytes + s->subbuf_bytes))
			break;
	}
}

/*
 * Returns 1 if all sub-buffers are unread, for one that begins at @begin: Eq. 1, discard mode. A stale @begin can be
 * less than read_count: then the difference is negative, and the result 0. ACQUIRE pairs with the RELEASE in
 * strata_ring_put_next(): the reader is done with the memory.
 */
STRATA_INLINE int strata_ring_full(const struct strata_ring_stream *s, uint64_t begin)
{
	return (int64_t)(begin - strata_load_acquire(&s->shared->read_count)) >=
	       (int64_t)s->buffer_bytes;
}

/*
 * Decides whether the sub-buffer that begins at @begin may be opened. Returns 0, or the reason as a
 * negative errno; -EAGAIN: @begin is stale, another producer has moved write_count.
 *
 * The *published* count is tested, not the commit word: between its last commit and its delivery a sub-buffer still
 * belongs to the producer that was interrupted there.
 */
STRATA_INLINE int strata_ring_may_open(const struct strata_ring_config *config,
				       struct strata_ring_stream *s, uint64_t begin)
{
	struct strata_abi_ring_stream *shared = s->shared;
	int error = 0;

	/* ACQUIRE pairs with the RELEASE in strata_ring_deliver(): commit word and frame are ours. */
	if (strata_load_acquire(&strata_ring_subbuf(s, begin)->published) !=
	    begin + s->subbuf_bytes - s->buffer_bytes)
		error = -EBUSY;
	else if (config->loss_mode == STRATA_RING_DISCARD && strata_ring_full(s, begin))
		error = -ENOBUFS;
	/* A nested switch between our load of write_count and these is not a reason. */
	if (error && strata_load_relaxed(&shared->write_count) != begin)
		return -EAGAIN;
	return error;
}

/* Writes the fields of a frame. Called by the producer that opened the sub-buffer. */
STRATA_INLINE void strata_ring_open(const struct strata_ring_config *config,
				    struct strata_ring_stream *s, uint64_t begin, uint64_t now)
{
	struct strata_abi_ring_frame *frame;

	if (config->loss_mode == STRATA_RING_OVERWRITE)
		strata_ring_push_reader(s, begin);
	frame = &s->frames[strata_ring_frame_of(config, s, begin)];
	strata_plain_write_u64(&frame->timestamp_begin, now);
	strata_hint_relaxed(&s->shared->full_timestamp, now);
}

#endif /* STRATA_RING_SWITCH_H */
