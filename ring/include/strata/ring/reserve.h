/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - publishing by commit: reserve, write, commit, cancel, flush.
 *
 * For producers that can be interrupted by another one that must not wait: kernel, BPF, signal
 * handlers, and user space without restartable sequences. publish.h is the other way; both leave the
 * same bytes.
 *
 *   reserve   CAS on write_count: this slot is ours                       Lockless alg. 1, 2
 *   write     payload, in any order with other producers
 *   commit    add to the sub-buffer's commit word; who completes it delivers    alg. 3
 *   close     CAS on write_count to the next sub-buffer, commit the padding     alg. 4
 *
 * A slot never spans sub-buffers. A write_count at the begin of a sub-buffer means that nobody has
 * opened it; the first record there does (I3). Switching is therefore two separate CAS, close and
 * open, and flush is the first of them alone.
 *
 * Which of these may run at the same time on one stream:
 *              reserve  write  commit  cancel  flush  consumer
 *   reserve       x       x      x       x       x       x      all of them, on any CPU with SMP
 *   (any)         x       x      x       x       x       x      writers; nested with LOCAL writers
 */
#ifndef STRATA_RING_RESERVE_H
#define STRATA_RING_RESERVE_H

#include <strata/ring/slot.h>

/**
 * strata_ring_discard_nested() - count a record that its producer gives up without a slot, because it interrupted a
 * record that holds what it needs, such as memory for its contexts.
 *
 * Context: as strata_ring_reserve(): a producer of @s. Wait-free.
 * Ordering: one add, ACQUIRE and RELEASE (LOCAL and UNORDERED: of this CPU only); nothing pairs with it.
 * Invariant: I7 each record that was tried is counted once; not one that strata_ring_reserve() refused.
 * Checked: bpf; test: reserve.
 */
STRATA_INLINE void strata_ring_discard_nested(const struct strata_ring_config *config,
					      struct strata_ring_stream *s)
{
	strata_ring_add(config, &s->shared->discarded_nested, 1);
}

/*
 * Makes one attempt at a reservation of any kind. Returns 0; -EAGAIN: somebody else was faster, or a sub-buffer has
 * been closed; or a negative errno, counted: the record is discarded. Also called by probe/kernel/ring_client.bpf.h.
 */
STRATA_INLINE int strata_ring_reserve_try(const struct strata_ring_config *config,
					  struct strata_ring_stream *s,
					  const struct strata_ring_event *event,
					  struct strata_ring_slot *slot)
{
	struct strata_abi_ring_stream *shared = s->shared;
	/* ACQUIRE pairs with the RELEASE of another producer's CAS (SMP). */
	uint64_t old = strata_load_acquire(&shared->write_count);
	uint64_t offset = strata_ring_offset(s, old), now, bytes, begin;
	int error;

	now = strata_ring_clock_by_commit(config);
	slot->full_timestamp =
		offset &&
		strata_ring_needs_full(config, now, strata_load_relaxed(&shared->full_timestamp));
	slot->header_bytes =
		strata_ring_record_header_bytes(config, event->id, slot->full_timestamp);
	bytes = strata_ring_slot_bytes(config, slot->header_bytes, event->payload_bytes);
	if (bytes > strata_ring_slot_max(s) || !bytes) {
		strata_ring_add(config, &shared->discarded_too_big, 1);
		return -EMSGSIZE;
	}
	if (offset && !strata_ring_fits(s, offset, bytes)) {
		STRATA_RING_CLOSE(config, s, old, now, event->in_handler);
		return -EAGAIN;
	}
	begin = old;
	if (!offset) {
		error = strata_ring_may_open(config, s, old);
		if (error == -EAGAIN)
			return -EAGAIN;
		if (error) {
			strata_ring_add(config,
					error == -EBUSY ? &shared->discarded_nested :
							  &shared->discarded_full,
					1);
			return error;
		}
		begin += s->header_bytes;
	}
	if (!strata_ring_cas(config, &shared->write_count, &old, begin + bytes))
		return -EAGAIN;
	slot->timestamp = now;
	slot->begin = begin;
	slot->bytes = (uint32_t)bytes;
	slot->opened = !offset;
	if (slot->opened)
		strata_ring_open(config, s, strata_ring_begin(s, begin), now);
	return 0;
}

/* Reserves a slot on the slow path; strata_ring_reserve() does the common case itself. Sets begin to header_bytes. */
STRATA_SLOW int strata_ring_reserve_slow(const struct strata_ring_config *config,
					 struct strata_ring_stream *s,
					 const struct strata_ring_event *event,
					 struct strata_ring_slot *slot)
{
	int error;

	STRATA_RING_TRIES(n)
	{
		error = STRATA_RING_RESERVE_TRY(config, s, event, slot);
		if (error != -EAGAIN)
			return error;
	}
#ifdef STRATA_RING_TRIES_END
	strata_ring_discard_nested(config, s);
	return -EBUSY;
#endif
}

/**
 * strata_ring_reserve_fast() - the first half of strata_ring_reserve(), for clients that are short of
 * registers: the sub-buffer is open and has room, a short timestamp is enough, and nobody
 * comes between.
 *
 * Returns 0; -ENOBUFS, counted; or -EAGAIN: nothing has happened to the buffer, @slot means
 * nothing, and strata_ring_reserve_rest() or _reserve() is to be called.
 * Context: as for the whole, invariants, too.
 * Ordering: ACQUIRE of write_count, of read_count (full) and of the entry (overwrite mode); the clock; then the
 *           CAS, ACQUIRE and RELEASE (LOCAL and UNORDERED: of this CPU only); the header by plain stores.
 * Checked: model: discard-* overwrite-* smp-*; step: step; stress; bpf; test: reserve.
 */
STRATA_INLINE int strata_ring_reserve_fast(const struct strata_ring_config *config,
					   struct strata_ring_stream *s,
					   const struct strata_ring_event *event,
					   struct strata_ring_slot *slot)
{
	/* ACQUIRE pairs with the RELEASE of another producer's CAS (SMP). */
	uint64_t old = strata_load_acquire(&s->shared->write_count);
	uint64_t offset = strata_ring_offset(s, old), bytes;
	int discards = config->loss_mode == STRATA_RING_DISCARD;

	slot->stream = s;
	slot->opened = 0;
	slot->full_timestamp = 0;
	slot->payload_bytes = event->payload_bytes;
	slot->in_handler = event->in_handler;
	slot->header_bytes = strata_ring_record_header_bytes(config, event->id, 0);
	bytes = strata_ring_slot_bytes(config, slot->header_bytes, event->payload_bytes);
	if (discards && strata_unlikely(!offset) && bytes &&
	    strata_ring_fits(s, s->header_bytes, bytes) && strata_ring_full(s, old) &&
	    strata_load_relaxed(&s->shared->write_count) == old) {
		/* Tested here too, before the clock is read: discarding must cost less than writing. */
		strata_ring_add(config, &s->shared->discarded_full, 1);
		return -ENOBUFS;
	}
	if (strata_unlikely(!offset || !bytes || !strata_ring_fits(s, offset, bytes)))
		return -EAGAIN;
	slot->timestamp = strata_ring_clock_by_commit(config);
	STRATA_RING_REFRESH(s);
	slot->begin = old;
	slot->bytes = (uint32_t)bytes;
	/* While the clock is being read, and before the CAS, which all that follows waits for. */
	if (strata_unlikely(!strata_ring_reserve_ahead(config, s, slot)))
		return -EAGAIN;
	if (strata_unlikely(strata_ring_needs_full(
		    config, slot->timestamp, strata_load_relaxed(&s->shared->full_timestamp))))
		return -EAGAIN;
	if (strata_unlikely(!strata_ring_cas(config, &s->shared->write_count, &old, old + bytes)))
		return -EAGAIN;
	strata_ring_reserve_header(config, event, slot);
	return 0;
}

/**
 * strata_ring_reserve_rest() - any reservation, where strata_ring_reserve_fast() returned -EAGAIN,
 * or was not tried.
 *
 * Returns as strata_ring_reserve(), never -EAGAIN; sets all of @slot.
 * Context: as strata_ring_reserve(), invariants, too.
 * Ordering: as strata_ring_reserve_fast(), for each try; ACQUIRE of published before a sub-buffer is opened;
 *           one that closes a sub-buffer, as strata_ring_commit().
 * Checked: model: discard-* overwrite-* smp-*; step: step; stress; bpf; test: reserve.
 */
STRATA_INLINE int strata_ring_reserve_rest(const struct strata_ring_config *config,
					   struct strata_ring_stream *s,
					   const struct strata_ring_event *event,
					   struct strata_ring_slot *slot)
{
	/* Only these copies have an address, so that the other values stay in registers across the atomics. */
	struct strata_ring_event slow_event = *event;
	struct strata_ring_slot slow;
	int error = STRATA_RING_RESERVE_SLOW(config, s, &slow_event, &slow);

	if (error)
		return error;
	slot->stream = s;
	slot->payload_bytes = event->payload_bytes;
	slot->in_handler = event->in_handler;
	slot->begin = slow.begin;
	slot->timestamp = slow.timestamp;
	slot->bytes = slow.bytes;
	slot->header_bytes = slow.header_bytes;
	slot->full_timestamp = slow.full_timestamp;
	slot->opened = slow.opened;
	strata_ring_reserve_place(config, s, slot);
	strata_ring_reserve_header(config, event, slot);
	return 0;
}

/**
 * strata_ring_reserve() - claim a slot for one event record (fast path).
 * @config: the client's constant configuration; writers LOCAL or SMP, or RSEQ on the fallback.
 * @s:      the stream: this CPU's, or the global one.
 * @event:  what is to be written.
 * @slot:   out, valid only on 0; its header is written, its payload is the caller's.
 *
 * Returns 0, or a negative errno and no slot:
 *   -EMSGSIZE  the record is empty or more than a sub-buffer holds;   adds 1 to discarded_too_big.
 *   -ENOBUFS   discard mode, all sub-buffers full;                    adds 1 to discarded_full.
 *   -EBUSY     the sub-buffer still has an uncommitted slot of the last lap, for example of a producer
 *              that was interrupted there;                            adds 1 to discarded_nested.
 * Context:   any thread, signal or interrupt handler. No lock, allocation or system call; with
 *            WAKE_BY_WRITER a futex call at delivery unless @event->in_handler.
 * Progress:  lock-free; a failed CAS means that another producer reserved.
 * Ordering:  the clock is read after write_count and before the CAS on it, so that records of one
 *            stream never go back in time (§4.3.1).
 * Invariant: I1 write_count never goes below a committed record. I2 write_count - read_count <= buf in
 *            discard mode. I3 offset 0 is not open. I4 full_timestamp is at or before each later record.
 * Source:    Desnoyers & Dagenais, "Lockless Multi-Core High-Throughput Buffering", alg. 1-2, eq. 1.
 * Checked:   model: discard-* overwrite-* smp-* wrap-discard; step: step; spin: once; stress; bpf;
 *            test: reserve timestamp.
 */
STRATA_INLINE int strata_ring_reserve(const struct strata_ring_config *config,
				      struct strata_ring_stream *s,
				      const struct strata_ring_event *event,
				      struct strata_ring_slot *slot)
{
	int error = strata_ring_reserve_fast(config, s, event, slot);

	if (strata_likely(error != -EAGAIN))
		return error;
	return strata_ring_reserve_rest(config, s, event, slot);
}

/**
 * strata_ring_commit() - the slot is written: make it part of its packet.
 *
 * Whoever commits the last bytes of a sub-buffer delivers it to the reader.
 *
 * Context:   as strata_ring_reserve(). Wait-free.
 * Ordering:  RELEASE add; the deliverer's RELEASE store of published pairs with strata_ring_ready().
 * Invariant: I5 everything in a sub-buffer below its committed position is committed.
 * Source:    Lockless alg. 3, eq. 3.
 * Checked:   model: discard-* overwrite-* smp-*; step: step; spin: once; stress; bpf; test: reserve
 *            kill.
 */
STRATA_INLINE void strata_ring_commit(const struct strata_ring_config *config,
				      struct strata_ring_slot *slot)
{
	struct strata_ring_stream *s = slot->stream;
	/* The opener also accounts for the bytes reserved at the start of the sub-buffer. */
	uint64_t bytes = slot->bytes + (slot->opened ? s->header_bytes : 0);

	strata_ring_commit_to(config, s, slot->sub, slot->begin, UINT64_C(1) << 32 | bytes,
			      slot->in_handler);
	/* I4: from here on the slot cannot be taken back, so other records may count from its timestamp. */
	if (strata_unlikely(slot->full_timestamp))
		strata_hint_relaxed(&s->shared->full_timestamp, slot->timestamp);
}

/**
 * strata_ring_cancel() - give up a reserved slot instead of committing it.
 *
 * Returns 0   the slot was the last one: its space is free again, as if it had not been reserved;
 *         1   it stays as padding that readers skip (others came after it, it opened its sub-buffer,
 *             or writers are SMP with a clock); adds 1 to cancelled;
 *     -EBUSY  as for 1, but the header format has no padding: the caller must still write and commit.
 * Context:   as strata_ring_reserve(). Wait-free.
 * Invariant: I1; the CAS fails if anything was reserved after this slot. A slot that opened its
 *            sub-buffer is never taken back, so that "offset 0 is not open" (I3) stays true.
 * Ordering:  as strata_ring_commit(), where it leaves padding.
 * Checked:   model: discard-cancel discard-cancel-clock smp-cancel; step: step; test: reserve.
 */
STRATA_INLINE int strata_ring_cancel(const struct strata_ring_config *config,
				     struct strata_ring_slot *slot)
{
	struct strata_ring_stream *s = slot->stream;
	uint64_t expected = slot->begin + slot->bytes, index;
	struct strata_ring_header_bytes header;

	/*
	 * The slot is not taken back with SMP writers and a clock: another producer may have read
	 * write_count and then the clock, and would not notice a later record that took the same bytes
	 * meanwhile.
	 */
	if (!slot->opened && (strata_ring_is_local(config) || !config->clock) &&
	    strata_ring_cas(config, &s->shared->write_count, &expected, slot->begin))
		return 0;
	if (!config->header.pad)
		return -EBUSY;
	index = strata_ring_frame_of(config, s, slot->begin);
	header = config->header.pad(slot->bytes, slot->timestamp);
	strata_plain_write(strata_ring_address(config, s, index, slot->begin), &header,
			   config->header.bytes(0, 0));
	strata_ring_add(config, &s->shared->cancelled, 1);
	strata_ring_commit_to(config, s, slot->sub, slot->begin,
			      slot->bytes + (slot->opened ? s->header_bytes : 0), slot->in_handler);
	return 1;
}

/**
 * strata_ring_flush_try() - make one attempt of strata_ring_flush(), for callers that must return whatever the
 * producers do.
 *
 * Returns 1: closed, or nothing was being filled; 0: a producer came between.
 * Context:  as strata_ring_reserve(), or the consumer, with a configuration that has the channel's
 *           loss mode, and writers SMP or RSEQ.
 * Ordering: as strata_ring_commit().
 * Source:   Lockless alg. 4, without its second half: the next record opens.
 * Checked:  model: discard-full overwrite-laps; step: step; stress; test: reserve.
 */
STRATA_INLINE int strata_ring_flush_try(const struct strata_ring_config *config,
					struct strata_ring_stream *s)
{
	/* ACQUIRE pairs with the RELEASE of another producer's CAS (SMP). */
	uint64_t old = strata_load_acquire(&s->shared->write_count);

	return !strata_ring_offset(s, old) ||
	       strata_ring_close(config, s, old, strata_ring_clock_by_commit(config), 0);
}

/**
 * strata_ring_flush() - deliver the sub-buffer that is being filled, even if it has room left.
 *
 * Does nothing on an empty sub-buffer.
 *
 * Context:  as strata_ring_reserve(): a producer of this stream.
 * Ordering: as strata_ring_commit().
 * Checked:  model: discard-full overwrite-laps; step: step; stress; test: reserve.
 */
STRATA_INLINE void strata_ring_flush(const struct strata_ring_config *config,
				     struct strata_ring_stream *s)
{
	STRATA_RING_TRIES(n)
	{
		if (strata_ring_flush_try(config, s))
			break;
	}
}

#endif /* STRATA_RING_RESERVE_H */
