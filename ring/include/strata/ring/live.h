/* SPDX-License-Identifier: MIT */
/*
 * live.h - read the committed prefix of the packet that is still being filled, without disturbing its
 * producers: for live viewing, for a collector that cuts partial packets, for a flight recorder's last
 * moments.
 *
 * By write position, everything below write_count is there. By commit, everything in its sub-buffer
 * below subbuf.committed is; that lags while a slot is reserved and not committed.
 */
#ifndef STRATA_RING_LIVE_H
#define STRATA_RING_LIVE_H

#include <strata/ring/read.h>

/**
 * strata_ring_available() - return how much of the packet at @position, which is being filled, is committed.
 *
 * Returns bytes from its begin, the reserved header included; 0: nothing, or delivered already.
 * Context: the consumer of @s, any CPU. Nothing is written.
 * Ordering: ACQUIRE pairs with the RELEASE in strata_ring_commit_to() or strata_rseq_publish().
 * Invariant: I5, I6.
 * Checked: model: discard-live smp-live; test: live.
 */
STRATA_FUNC uint64_t strata_ring_available(const struct strata_ring_stream *s, uint64_t position)
{
	uint64_t n = strata_load_acquire(s->publish == STRATA_ABI_RING_BY_POSITION ?
						 &s->shared->write_count :
						 &strata_ring_subbuf(s, position)->committed) -
		     position;

	/* strata_ring_get_next() returns a delivered packet. */
	return n < s->subbuf_bytes && !strata_ring_ready(s, position) ? n : 0;
}

/**
 * strata_ring_get_available() - look at the committed prefix of the packet being filled (discard mode).
 * @packet: out; content_bytes is what is there, records and timestamp_end are 0.
 *
 * Disturbs no producer: nothing is written. The bytes stay valid until the packet is delivered and
 * put; only its begin, strata_ring_read_position(), can be looked at. There is nothing to put.
 *
 * Returns 0; -EAGAIN: nothing committed, or delivered already: use strata_ring_get_next();
 * -EINVAL: overwrite mode, where the writer may come round: use strata_ring_copy_available().
 * Context: the consumer of the stream, any CPU. No lock, allocation or system call.
 * Ordering: as strata_ring_available().
 * Checked: model: discard-live smp-live rseq-live; stress; test: live malicious.
 */
STRATA_FUNC int strata_ring_get_available(struct strata_ring_reader *r,
					  struct strata_ring_packet *packet)
{
	struct strata_ring_stream *s = r->s;
	uint64_t position = strata_ring_read_position(r), n, index;
	int error;

	if (s->loss_mode == STRATA_ABI_RING_OVERWRITE)
		return -EINVAL;
	n = strata_ring_available(s, position);
	if (n <= s->header_bytes)
		return -EAGAIN;
	error = strata_ring_reader_order(r);
	if (error)
		return error;
	index = strata_ring_index(s, position);
	memset(packet, 0, sizeof(*packet));
	packet->data = s->data + (index << s->subbuf_shift);
	packet->position = position;
	packet->header_bytes = s->header_bytes;
	packet->content_bytes = n;
	packet->timestamp_begin = strata_plain_read_u64(&s->frames[index].timestamp_begin);
	packet->discarded = strata_ring_discarded(s);
	return 0;
}

/*
 * Overwrite mode: returns 1 if @entry leads to the frame in which the packet at @position is being filled. Held since
 * the lap before; by position the frame may also be given to the reader already, which write_count does not show yet.
 */
STRATA_INLINE int strata_ring_being_filled(const struct strata_ring_stream *s, uint64_t position,
					   uint64_t entry)
{
	uint64_t tag = strata_ring_entry_tag(entry);

	if (entry & STRATA_ABI_RING_ENTRY_HELD)
		return (tag | STRATA_RING_UNREAD) == strata_ring_tag(s, position - s->buffer_bytes);
	return s->publish == STRATA_ABI_RING_BY_POSITION && tag == strata_ring_tag(s, position);
}

/**
 * strata_ring_copy_available() - copy the committed prefix of the packet at @position (either mode).
 * @dst, @size: room for it; subbuf_bytes is always enough.
 * @packet: out, on 0; data is @dst; records and timestamp_end only BY_POSITION, else 0.
 *
 * Returns 0, -ENOSPC, -EOPNOTSUPP: writers UNORDERED, -EAGAIN as strata_ring_get_available() or because the writer was too quick.
 * Context: the consumer of the stream, any CPU. No lock, allocation or system call; gives up after
 *          1000 tries.
 * Ordering: the copy is made without protection and thrown away unless the sub-buffer's entry still is
 *           what it was; the fences pair with those in strata_ring_hold().
 * Invariant: I10 a copy that passes its validation is whole.
 * Checked: model: overwrite-copy rseq-copy once-copy; step: step abort; stress; test: live.
 */
STRATA_FUNC int strata_ring_copy_available(struct strata_ring_reader *r, uint64_t position,
					   unsigned char *dst, uint64_t size,
					   struct strata_ring_packet *packet)
{
	struct strata_ring_stream *s = r->s;
	uint64_t entry = 0, n, index = strata_ring_index(s, position), last, write, records = 0,
		 before = 0;
	int tries = 1000;
	const uint64_t *p = &strata_ring_subbuf(s, position)->entry;

	memset(packet, 0, sizeof(*packet));
	if (r->barrier)
		return -EOPNOTSUPP;
	/* A packet that was read belongs to the producers again. Only the consumer moves this position. */
	if (s->loss_mode == STRATA_ABI_RING_DISCARD &&
	    (int64_t)(position - strata_ring_read_position(r)) < 0)
		return -EAGAIN;
	if (s->loss_mode == STRATA_ABI_RING_OVERWRITE) {
		entry = strata_load_acquire(p);
		index = strata_ring_entry_frame(entry);
		if (index > s->nr_subbufs || !strata_ring_being_filled(s, position, entry))
			return -EAGAIN;
	}
	if (s->publish == STRATA_ABI_RING_BY_POSITION) {
		/* last_timestamp belongs to this write_count if that did not change around it. */
		do {
			if (!tries--)
				return -EAGAIN;
			write = strata_load_acquire(&s->shared->write_count);
			last = strata_load_relaxed(&s->shared->last_timestamp);
			strata_fence_acquire();
		} while (strata_load_relaxed(&s->shared->write_count) != write);
		/*
		 * The count of records belongs to it likewise; not in the loop, whose rounds the model
		 * checker all runs.
		 */
		records = strata_load_relaxed(&s->shared->records);
		strata_fence_acquire();
		if (strata_load_relaxed(&s->shared->write_count) != write)
			return -EAGAIN;
		n = write - position < s->subbuf_bytes ? write - position : 0;
		packet->timestamp_end = last;
	} else {
		n = strata_ring_available(s, position);
	}
	if (n <= s->header_bytes)
		return -EAGAIN;
	if (n > size)
		return -ENOSPC;
	strata_plain_peek(dst, s->data + (index << s->subbuf_shift), n);
	strata_plain_peek(&packet->timestamp_begin, &s->frames[index].timestamp_begin,
			  sizeof(uint64_t));
	if (s->publish == STRATA_ABI_RING_BY_POSITION)
		strata_plain_peek(&before, &s->frames[index].records_before, sizeof(before));
	strata_fence_acquire();
	if (s->loss_mode == STRATA_ABI_RING_OVERWRITE && strata_load_relaxed(p) != entry)
		return -EAGAIN;
	packet->data = dst;
	packet->position = position;
	packet->header_bytes = s->header_bytes;
	packet->content_bytes = n;
	packet->records = records - before;
	packet->records_before = before;
	packet->discarded = strata_ring_discarded(s);
	return 0;
}

#endif /* STRATA_RING_LIVE_H */
