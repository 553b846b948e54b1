/* SPDX-License-Identifier: MIT */
/*
 * read.h - the consumer of one stream: poll, get, put. counters.h has the counters.
 *
 * One consumer at a time for each stream (the caller's matter, as in Lockless §4.1); it may run on any
 * CPU and change CPUs. It reads what either way of publishing has left, and needs no configuration.
 *
 *   nothing ──▶ poll() ──▶ get_next() ──▶ packet is the reader's ──▶ put_next() ──▶ space is free
 *                              │                                  └─▶ put() ──▶ still unread
 *                              └─ -EAGAIN: not delivered, or taken by the writer
 *
 * Discard mode: the writer cannot reach the packet until read_count passes it. Overwrite mode: the
 * reader exchanges its spare frame for the packet's (§4.3.2), so the writer can reach neither.
 *
 * Shared memory is not trusted: sizes come from private memory, each value read is checked once, as a
 * copy. A producer that writes nonsense gets -EPROTO for its packet, and harms nothing else.
 */
#ifndef STRATA_RING_READ_H
#define STRATA_RING_READ_H

#include <strata/ring/stream.h>
#include <strata/ring/wakeup.h>

/*
 * .records counts a packet that was delivered, and by position a prefix, too: strata_ring_copy_available().
 * It is 0 for a prefix by commit, and for what strata_ring_get_rest() gives that is not complete.
 */
struct strata_ring_packet {
	const unsigned char *data; /* the sub-buffer; [0, header_bytes) is the reader's to fill */
	uint64_t position;	   /* of the packet's first byte [byte since stream creation] */
	uint64_t content_bytes;	   /* header_bytes and records; what follows is padding */
	uint64_t header_bytes;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t records;	 /* 0: none, or not counted; see above */
	uint64_t records_before; /* of the stream, in front of it; only BY_POSITION, else 0 */
	uint64_t discarded;	 /* of the stream, all reasons, since its creation */
	uint64_t unpublished_bytes; /* reserved but never committed; only from strata_ring_get_rest() */
};

struct strata_ring_reader {
	struct strata_ring_stream *s;
	uint64_t spare;	   /* overwrite mode: the frame that is the reader's */
	uint64_t holding;  /* 1: between get and put; 2: too, but the table names no frame for it */
	uint64_t position; /* of the packet held */
	uint64_t entry;	   /* overwrite mode: what was in the table for it */
	uint64_t given;	   /* overwrite mode: what is there now */
	uint64_t records;  /* of the packet held */
	uint64_t rest;	   /* next position for strata_ring_get_rest() */
	uint64_t rest_end; /* write_count when it began */
	int rest_begun;
	int (*barrier)(void *of, uint32_t cpu); /* strata_ring_reader_set_barrier() */
	void *barrier_of;
};

enum strata_ring_poll {
	STRATA_RING_NOTHING = 0,
	STRATA_RING_READABLE = 1,
	STRATA_RING_URGENT = 2, /* discard mode: the producer is in the last free sub-buffer */
	STRATA_RING_HANGUP = 3, /* finalized, and everything delivered was read */
};

/*
 * strata_ring_ready() - return whether the packet that begins at @position was delivered (eq. 2).
 *
 * Ordering: ACQUIRE pairs with the RELEASE in strata_ring_deliver() or strata_rseq_publish().
 */
STRATA_INLINE int strata_ring_ready(const struct strata_ring_stream *s, uint64_t position)
{
	uint64_t end = position + s->subbuf_bytes;

	if (s->publish == STRATA_ABI_RING_BY_POSITION)
		return (int64_t)(strata_load_acquire(&s->shared->write_count) - end) >= 0;
	return strata_load_acquire(&strata_ring_subbuf(s, position)->published) == end;
}

/**
 * strata_ring_read_position() - return where the oldest unread packet begins.
 *
 * Returns a position: a multiple of the sub-buffer's size, whatever the shared memory says.
 * Context: the consumer of the stream. In overwrite mode a writer may move it at any time.
 * Ordering: relaxed.
 * Checked: test: read malicious; step: step.
 */
STRATA_INLINE uint64_t strata_ring_read_position(const struct strata_ring_reader *r)
{
	return strata_ring_begin(r->s, strata_load_relaxed(&r->s->shared->read_count));
}

/*
 * Overwrite mode: puts back the packet of a reader that died between get and put, which is in the
 * frame that the table does not have. It stays out if it was read already, or if the writer has
 * come round.
 */
STRATA_FUNC void strata_ring_reader_restore(struct strata_ring_reader *r)
{
	struct strata_ring_stream *s = r->s;
	uint64_t position = strata_plain_read_u64(&s->frames[r->spare].position);
	uint64_t *p = &strata_ring_subbuf(s, position)->entry, given = strata_load_acquire(p);

	if (strata_ring_offset(s, position) ||
	    (int64_t)(position - strata_ring_read_position(r)) < 0 ||
	    !strata_ring_ready(s, position) || strata_ring_entry_frame(given) > s->nr_subbufs ||
	    given & STRATA_ABI_RING_ENTRY_HELD ||
	    strata_ring_entry_tag(given) != strata_ring_tag_taken(s, position))
		return;
	/* RELEASE as in strata_ring_put_subbuf(). */
	if (strata_cas_acq_rel(p, &given,
			       strata_ring_entry(r->spare, strata_ring_tag(s, position))))
		r->spare = strata_ring_entry_frame(given);
}

/**
 * strata_ring_reader_init() - begin or continue to read @s.
 *
 * Nothing is remembered outside of the shared memory: after a reader died, the next one goes on, with
 * the packet that it held. Which frame is the reader's is found by looking which one the table does not
 * have; so a reader that is to go on after another one of the stream was used must be initialised again.
 *
 * Returns 0, or -EPROTO: the sub-buffer table is damaged.
 * Context: the consumer of @s, any CPU; not while a reader that lives holds a packet of it.
 * Ordering: a dead reader's packet is put back as by strata_ring_put_subbuf().
 * Invariant: I13 a damaged table gives no frame outside of the stream's.
 * Checked: model: discard-full overwrite-laps; test: read malicious kill.
 */
STRATA_FUNC int strata_ring_reader_init(struct strata_ring_reader *r, struct strata_ring_stream *s)
{
	uint64_t i, frame, sum = 0;

	memset(r, 0, sizeof(*r));
	r->s = s;
	if (s->loss_mode != STRATA_ABI_RING_OVERWRITE)
		return 0;
	for (i = 0; i < s->nr_subbufs; i++) {
		frame = strata_ring_entry_frame(strata_load_relaxed(&s->subbufs[i].entry));
		if (frame > s->nr_subbufs)
			return -EPROTO;
		sum += frame;
	}
	/*
	 * The sum 0 + 1 + ... + N without the frames in the table is the missing one; a damaged table may
	 * give any number.
	 */
	frame = (uint64_t)s->nr_subbufs * (s->nr_subbufs + UINT64_C(1)) / 2 - sum;
	if (frame > s->nr_subbufs)
		return -EPROTO;
	r->spare = frame;
	strata_ring_reader_restore(r);
	return 0;
}

/**
 * strata_ring_reader_set_barrier() - of a stream whose writers are UNORDERED.
 * @barrier: has @cpu, the stream's number, make a full memory barrier between two of its instructions, and comes
 *           back when it has; itself one on the calling CPU. Returns 0, or a negative errno: nothing is read then.
 *
 * Called once for each packet that is there, before it is looked at. What would need one for each record,
 * strata_ring_copy_available(), _scan_copy() and _scan_look(), gives nothing.
 *
 * Context: the consumer of the stream, after strata_ring_reader_init().
 * Ordering: the writer's CPU has it between two instructions: what it stored before the count that the reader has
 *           seen, it stored before the barrier.
 * Source: Lockless alg. 6 lines 3 to 5, §4.4.
 * Checked: model: unordered-*; module.
 */
STRATA_FUNC void strata_ring_reader_set_barrier(struct strata_ring_reader *r,
						int (*barrier)(void *of, uint32_t cpu), void *of)
{
	r->barrier = barrier;
	r->barrier_of = of;
}

/* Orders the load of a count before the loads of the records that it counts. */
STRATA_INLINE int strata_ring_reader_order(const struct strata_ring_reader *r)
{
	return r->barrier ? r->barrier(r->barrier_of, r->s->cpu) : 0;
}

/**
 * strata_ring_poll() - report what the reader can do next. Never blocks.
 *
 * Returns STRATA_RING_NOTHING, _READABLE, _URGENT or _HANGUP, above.
 * Context: the consumer of the stream, any CPU. No lock, no system call.
 * Ordering: ACQUIRE of finalized pairs with strata_ring_finalize(): after HANGUP no packet comes.
 * Source:   Lockless alg. 5.
 * Checked: stress; test: read wait.
 */
STRATA_FUNC enum strata_ring_poll strata_ring_poll(const struct strata_ring_reader *r)
{
	const struct strata_ring_stream *s = r->s;
	uint64_t position = strata_ring_read_position(r), used;
	/* Before looking for packets: none is delivered after it was set. ACQUIRE pairs with _finalize(). */
	uint64_t finalized = strata_load_acquire(&s->shared->finalized);

	if (!strata_ring_ready(s, position))
		return finalized ? STRATA_RING_HANGUP : STRATA_RING_NOTHING;
	used = strata_load_relaxed(&s->shared->write_count) - position;
	if (s->loss_mode == STRATA_ABI_RING_DISCARD && used > s->buffer_bytes - s->subbuf_bytes)
		return STRATA_RING_URGENT;
	return STRATA_RING_READABLE;
}

/* Overwrite mode: takes the frame of the packet at @position in exchange for the spare one. */
STRATA_INLINE int strata_ring_reader_exchange(struct strata_ring_reader *r, uint64_t position)
{
	struct strata_ring_stream *s = r->s;
	uint64_t *p = &strata_ring_subbuf(s, position)->entry;
	/* ACQUIRE pairs with the RELEASE of the entry in strata_ring_deliver() and _close_on_cpu(). */
	uint64_t entry = strata_load_acquire(p);

	if (entry & STRATA_ABI_RING_ENTRY_HELD ||
	    strata_ring_entry_tag(entry) != strata_ring_tag(s, position))
		return -EAGAIN;
	if (strata_ring_entry_frame(entry) > s->nr_subbufs)
		return -EPROTO;
	r->entry = entry;
	r->given = strata_ring_entry(r->spare, strata_ring_tag_taken(s, position));
	/* RELEASE: this reader has finished with the frame that it gives; pairs with the ACQUIRE in _hold(). */
	if (!strata_cas_acq_rel(p, &entry, r->given))
		return -EAGAIN;
	r->spare = strata_ring_entry_frame(r->entry);
	return 0;
}

/**
 * strata_ring_get_subbuf() - take the delivered packet that begins at @position.
 * @packet: out; valid until put.
 *
 * Returns 0, or a negative errno and no packet:
 *   -EAGAIN  not delivered yet; or already read, or overwritten, or held by the writer.
 *   -EBUSY   the last packet was not put back.
 *   -EPROTO  the shared memory is damaged; strata_ring_put_next() of the same position skips it.
 *   other    what the barrier of strata_ring_reader_set_barrier() said.
 * Context:   any CPU; one consumer for each stream. Lock-free, no system call.
 * Ordering:  ACQUIRE in strata_ring_ready() pairs with the producer's RELEASE at delivery.
 *            Overwrite mode: the CAS of the entry is ACQUIRE and RELEASE, and pairs with
 *            strata_ring_deliver() and _hold().
 * Invariant: I8 the packet has no hole. I9 no writer holds its frame.
 * Source:    Lockless alg. 6; without the interprocessor interrupt: the producer's store is a RELEASE.
 * Checked:   model: discard-full overwrite-laps overwrite-scan; spin: exclusive; stress; test:
 *            read scan.
 */
STRATA_FUNC int strata_ring_get_subbuf(struct strata_ring_reader *r, uint64_t position,
				       struct strata_ring_packet *packet)
{
	struct strata_ring_stream *s = r->s;
	const struct strata_abi_ring_frame *frame;
	uint64_t index;
	int error;

	if (r->holding)
		return -EBUSY;
	if ((int64_t)(position - strata_ring_read_position(r)) < 0 ||
	    !strata_ring_ready(s, position))
		return -EAGAIN;
	error = strata_ring_reader_order(r);
	if (error)
		return error;
	if (s->loss_mode == STRATA_ABI_RING_OVERWRITE) {
		error = strata_ring_reader_exchange(r, position);
		if (error == -EPROTO) {
			r->holding = 2;
			r->position = position;
		}
		if (error)
			return error;
		index = r->spare;
	} else {
		index = strata_ring_index(s, position);
	}
	r->holding = 1;
	r->position = position;
	frame = &s->frames[index];
	packet->data = s->data + (index << s->subbuf_shift);
	packet->header_bytes = s->header_bytes;
	packet->position = strata_plain_read_u64(&frame->position);
	packet->timestamp_begin = strata_plain_read_u64(&frame->timestamp_begin);
	packet->timestamp_end = strata_plain_read_u64(&frame->timestamp_end);
	packet->content_bytes = strata_plain_read_u64(&frame->content_bytes);
	packet->records = strata_plain_read_u64(&frame->records);
	packet->discarded = strata_plain_read_u64(&frame->discarded);
	packet->records_before = s->publish == STRATA_ABI_RING_BY_POSITION ?
					 strata_plain_read_u64(&frame->records_before) :
					 0;
	packet->unpublished_bytes = 0;
	r->records = packet->records;
	if (packet->position == position && packet->content_bytes >= s->header_bytes &&
	    packet->content_bytes <= s->subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES)
		return 0;
	packet->position = position;
	packet->content_bytes = s->header_bytes;
	packet->records = 0;
	return -EPROTO;
}

/**
 * strata_ring_put_subbuf() - give the packet back unread, so that it can be taken again.
 *
 * Overwrite mode: if the writer has come round meanwhile, the packet is overwritten. The writer found
 * no packet in the frame that it took, so it is counted here.
 *
 * Context:  the consumer of the stream, any CPU; does nothing where no packet is held.
 * Ordering: RELEASE of the entry pairs with the ACQUIRE in strata_ring_hold(): the frame is the
 *           writer's.
 * Invariant: I7 a packet that the writer has passed is counted once.
 * Checked:  model: overwrite-scan; stress; test: read scan.
 */
STRATA_FUNC void strata_ring_put_subbuf(struct strata_ring_reader *r)
{
	struct strata_abi_ring_stream *shared = r->s->shared;
	uint64_t given = r->given, holding = r->holding;

	r->holding = 0;
	if (holding != 1 || r->s->loss_mode != STRATA_ABI_RING_OVERWRITE)
		return;
	/* RELEASE: the frame belongs to the writer again; pairs with the ACQUIRE in strata_ring_hold(). */
	if (strata_cas_acq_rel(&strata_ring_subbuf(r->s, r->position)->entry, &given, r->entry)) {
		r->spare = strata_ring_entry_frame(given);
		return;
	}
	/* Only the consumer writes these. */
	strata_store_relaxed(&shared->reclaimed_records,
			     strata_load_relaxed(&shared->reclaimed_records) + r->records);
	strata_store_relaxed(&shared->reclaimed_packets,
			     strata_load_relaxed(&shared->reclaimed_packets) + 1);
}

/**
 * strata_ring_get_next() - take the oldest unread packet.
 *
 * Returns as strata_ring_get_subbuf(); -EAGAIN: none is delivered, or the writer overwrote all that
 * we tried.
 * Context: the consumer of the stream, any CPU. Lock-free, no system call.
 * Ordering, invariants: as strata_ring_get_subbuf().
 * Checked: model: discard-full overwrite-laps smp-discard rseq-overwrite-read; step: step abort;
 *          spin: once; stress; test: read malicious.
 */
STRATA_FUNC int strata_ring_get_next(struct strata_ring_reader *r,
				     struct strata_ring_packet *packet)
{
	uint32_t tries = r->s->nr_subbufs;
	uint64_t position;
	int error;

	/* Repeats only while the writer moves the reader's position: each time it has overwritten a whole packet. */
	do {
		position = strata_ring_read_position(r);
		error = strata_ring_get_subbuf(r, position, packet);
	} while (error == -EAGAIN && strata_ring_read_position(r) != position && tries--);
	return error;
}

/**
 * strata_ring_put_next() - the packet is read: its space belongs to the producer again.
 *
 * A packet that is not the oldest unread one is put back as by strata_ring_put_subbuf().
 *
 * Ordering: RELEASE pairs with the ACQUIRE of read_count in strata_ring_may_open() and
 *           strata_ring_publish_slow().
 * Source:   Lockless alg. 7. The CAS fails where the writer has pushed us; then it is done already.
 * Context:  the consumer of the stream, any CPU; does nothing where no packet is held.
 * Checked:  model: discard-full overwrite-laps; step: step abort; spin: drained; stress; test: read
 *           malicious.
 */
STRATA_FUNC void strata_ring_put_next(struct strata_ring_reader *r)
{
	uint64_t *read_count = &r->s->shared->read_count, position = r->position;

	if (!r->holding)
		return;
	/* A packet that is not the oldest cannot be released alone, since those before it are unread. */
	if (r->holding == 1 && (int64_t)(position - strata_ring_read_position(r)) > 0) {
		strata_ring_put_subbuf(r);
		return;
	}
	r->holding = 0;
	if (r->s->loss_mode != STRATA_ABI_RING_OVERWRITE)
		strata_store_release(read_count, position + r->s->subbuf_bytes);
	else if (!strata_cas_acq_rel(read_count, &position, position + r->s->subbuf_bytes) &&
		 /* read_count is damaged, but still inside this packet: it moves all the same. */
		 strata_ring_begin(r->s, position) == r->position)
		strata_cas_acq_rel(read_count, &position, r->position + r->s->subbuf_bytes);
}

/**
 * strata_ring_finalize() - declare that no more records will come: the reader then gets HANGUP.
 *
 * Context:  after the last producer's last operation; makes a futex call where a reader sleeps.
 * Ordering: RELEASE pairs with the ACQUIRE in strata_ring_poll().
 * Checked:  test: read wait iterate.
 */
STRATA_FUNC void strata_ring_finalize(struct strata_ring_stream *s)
{
	strata_store_release(&s->shared->finalized, 1);
	strata_ring_wake(s, 0);
}

#endif /* STRATA_RING_READ_H */
