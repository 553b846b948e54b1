/* SPDX-License-Identifier: MIT */
/*
 * scan.h - read what a stream holds at one moment without consuming it, in either direction, repeatedly.
 *
 * A scan is a range of positions. Producers continue; in overwrite mode they may reclaim packets that the scan has
 * not reached, which all ways to scan report:
 *
 *   strata_ring_scan_get()   takes each delivered packet and puts it back: it is the reader's meanwhile
 *   strata_ring_scan_copy()  copies each packet, the one being filled too, and writes nothing to the
 *                            ring: a copy that a producer was quicker than is thrown away
 *   strata_ring_scan_look()  says where a delivered packet lies, to be read from there; afterwards
 *                            strata_ring_scan_holds() says whether it still was that packet
 *
 * Oldest first, packets that are reclaimed on the way leave a gap. Newest first, the first one that is
 * gone is the end: what there is has none.
 *
 * Source: "Generic Ring Buffer Library (v2)": sub-buffers newest to oldest, and read more than once.
 */
#ifndef STRATA_RING_SCAN_H
#define STRATA_RING_SCAN_H

#include <strata/ring/live.h>
#include <strata/ring/read.h>

/* Attempts at a packet that is neither delivered nor quiet; the model checker runs every round. */
#ifdef STRATA_RING_MODEL
#define STRATA_RING_SCAN_TRIES 1
#else
#define STRATA_RING_SCAN_TRIES 20
#endif

enum strata_ring_direction {
	STRATA_RING_OLDEST_FIRST = 0,
	STRATA_RING_NEWEST_FIRST = 1,
};

struct strata_ring_scan {
	struct strata_ring_reader *reader;
	enum strata_ring_direction direction;
	uint64_t begin; /* position of the oldest packet */
	uint64_t end;	/* behind the newest delivered one */
	uint64_t done;	/* packets visited */
	int open;	/* 1: at end, one was being filled */
	/* Result of strata_ring_scan_copy() for the packet that it has copied: */
	int whole;		      /* delivered; 0: a committed prefix */
	uint64_t overwritten_records; /* of the stream, counted while the packet was still there */
	uint64_t overwritten_packets; /* the same; all of these are in overwritten_records */
	uint64_t seen; /* the entry of the packet that strata_ring_scan_look() has given */
};

/**
 * strata_ring_scan_begin() - begin a scan over everything that is unread now.
 *
 * Context: the consumer of the stream, any CPU; nothing is written.
 * Ordering: ACQUIRE of write_count; each packet is asked again on the way.
 * Checked: model: overwrite-scan overwrite-scan-copy; stress; test: scan.
 */
STRATA_FUNC void strata_ring_scan_begin(struct strata_ring_scan *scan, struct strata_ring_reader *r,
					enum strata_ring_direction direction)
{
	const struct strata_ring_stream *s = r->s;
	uint64_t write = strata_load_acquire(&s->shared->write_count);

	memset(scan, 0, sizeof(*scan));
	scan->reader = r;
	scan->direction = direction;
	scan->end = strata_ring_begin(s, write);
	scan->open = write != scan->end;
	scan->begin = strata_ring_read_position(r);
	if (scan->end - scan->begin > s->buffer_bytes)
		scan->begin = scan->end - s->buffer_bytes;
}

/**
 * strata_ring_scan_get() - take the next delivered packet of the scan; to be put back with
 * strata_ring_put_subbuf().
 *
 * Returns 0; -ENODATA: all were visited, strata_ring_scan_rewind() begins anew; -EAGAIN: this one
 * is not to be had (overwritten, or an unfinished slot is in it), go on with the next call; -EPROTO.
 * Context: the consumer of the stream, any CPU. No system call.
 * Ordering: as strata_ring_get_subbuf().
 * Checked: model: overwrite-scan; stress; test: scan.
 */
STRATA_FUNC int strata_ring_scan_get(struct strata_ring_scan *scan,
				     struct strata_ring_packet *packet)
{
	uint64_t size = scan->reader->s->subbuf_bytes, at = scan->done * size;

	if (at >= scan->end - scan->begin)
		return -ENODATA;
	scan->done++;
	return strata_ring_get_subbuf(scan->reader,
				      scan->direction == STRATA_RING_OLDEST_FIRST ?
					      scan->begin + at :
					      scan->end - size - at,
				      packet);
}

/*
 * Overwrite mode: counts the records that were overwritten while a packet was still there. ACQUIRE: all
 * records of the packets counted are in; pairs with the add in strata_ring_hold_slow(), which counts
 * packets last.
 */
STRATA_INLINE void strata_ring_scan_count(struct strata_ring_scan *scan)
{
	const struct strata_abi_ring_stream *shared = scan->reader->s->shared;

	scan->overwritten_packets = strata_load_acquire(&shared->overwritten_packets) +
				    strata_load_relaxed(&shared->reclaimed_packets);
	scan->overwritten_records = strata_load_acquire(&shared->overwritten_records) +
				    strata_load_relaxed(&shared->reclaimed_records);
}

/* Copy the complete packet at @position. -EAGAIN: it is not delivered, or not there any more. */
STRATA_FUNC int strata_ring_scan_copy_whole(struct strata_ring_scan *scan, uint64_t position,
					    unsigned char *dst, uint64_t size,
					    struct strata_ring_packet *packet)
{
	const struct strata_ring_stream *s = scan->reader->s;
	const uint64_t *p = &strata_ring_subbuf(s, position)->entry;
	uint64_t entry = 0, index = strata_ring_index(s, position), n;
	const int overwrite = s->loss_mode == STRATA_ABI_RING_OVERWRITE;
	const struct strata_abi_ring_frame *frame;
	int good;

	if (overwrite) {
		/* ACQUIRE pairs with the RELEASE of the entry in strata_ring_deliver() and _close_on_cpu(). */
		entry = strata_load_acquire(p);
		index = strata_ring_entry_frame(entry);
		if (entry & STRATA_ABI_RING_ENTRY_HELD ||
		    strata_ring_entry_tag(entry) != strata_ring_tag(s, position))
			return -EAGAIN;
		if (index > s->nr_subbufs)
			return -EPROTO;
	}
	/*
	 * The entry tells whether the packet is whole by commit: nothing but the store of published comes
	 * after it.
	 */
	if ((!overwrite || s->publish == STRATA_ABI_RING_BY_POSITION) &&
	    !strata_ring_ready(s, position))
		return -EAGAIN;
	frame = &s->frames[index];
	n = strata_plain_peek_u64(&frame->content_bytes);
	good = strata_plain_peek_u64(&frame->position) == position && n >= s->header_bytes &&
	       n <= s->subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES;
	if (good && n > size)
		return -ENOSPC;
	if (good)
		strata_plain_peek(dst, s->data + (index << s->subbuf_shift), n);
	packet->timestamp_begin = strata_plain_peek_u64(&frame->timestamp_begin);
	packet->timestamp_end = strata_plain_peek_u64(&frame->timestamp_end);
	packet->records = strata_plain_peek_u64(&frame->records);
	packet->discarded = strata_plain_peek_u64(&frame->discarded);
	if (s->publish == STRATA_ABI_RING_BY_POSITION)
		packet->records_before = strata_plain_peek_u64(&frame->records_before);
	strata_ring_scan_count(scan);
	/* Pairs with the fence in strata_ring_hold(), as in strata_ring_copy_available(). */
	strata_fence_acquire();
	if (overwrite && strata_load_relaxed(p) != entry)
		return -EAGAIN;
	if (!good)
		return -EPROTO;
	packet->data = dst;
	packet->content_bytes = n;
	scan->whole = 1;
	return 0;
}

/**
 * strata_ring_scan_copy() - copy the next packet of the scan.
 * @dst, @size: room for it; subbuf_bytes is always enough.
 * @packet: out: on 0 data is @dst, and scan->whole says whether the packet was delivered. Of a prefix
 *          records and timestamp_end are known BY_POSITION only. Otherwise position is all that it says.
 *
 * A packet that was closed and has an unfinished slot in it is a prefix, too; unpublished_bytes is what
 * was reserved behind it, padding included. The last packet may hold records that came after
 * strata_ring_scan_begin(). Nobody is disturbed: nothing is written to shared memory.
 *
 * Returns 0; -ENODATA: all were visited, strata_ring_scan_rewind() begins anew; or this one is not to be
 * had and the next call goes on: -EAGAIN: overwritten, or read; -EBUSY: nothing of it is committed, or its
 * producers were quicker each time; -ENOSPC; -EPROTO: damaged; -EOPNOTSUPP: writers UNORDERED.
 * Context: the consumer of the stream, any CPU, producers dead or alive. No lock, allocation or system
 *          call; gives up a packet after STRATA_RING_SCAN_TRIES.
 * Ordering: the copy is made without protection and thrown away unless the sub-buffer's entry still is
 *           what it was; the fences pair with those in strata_ring_hold().
 * Invariant: I10 a copy that passes its validation is whole.
 * Checked: model: overwrite-scan-copy rseq-scan-copy; stress; test: scan malicious.
 */
STRATA_FUNC int strata_ring_scan_copy(struct strata_ring_scan *scan, unsigned char *dst,
				      uint64_t size, struct strata_ring_packet *packet)
{
	struct strata_ring_reader *r = scan->reader;
	const struct strata_ring_stream *s = r->s;
	uint64_t at = scan->done * s->subbuf_bytes, position, reserved;
	uint64_t bytes = scan->end - scan->begin + (scan->open ? s->subbuf_bytes : 0);
	int tries = STRATA_RING_SCAN_TRIES, error;

	if (at >= bytes)
		return -ENODATA;
	scan->done++;
	if (scan->reader->barrier)
		return -EOPNOTSUPP;
	position = scan->direction == STRATA_RING_OLDEST_FIRST ?
			   scan->begin + at :
			   scan->begin + bytes - s->subbuf_bytes - at;
	do {
		memset(packet, 0, sizeof(*packet));
		packet->header_bytes = s->header_bytes;
		scan->whole = 0;
		error = -EAGAIN;
		/* Read, or the oldest one that a writer moves on from: its memory is the producers'. */
		if ((int64_t)(position - strata_ring_read_position(r)) < 0)
			break;
		error = strata_ring_scan_copy_whole(scan, position, dst, size, packet);
		if (error == -EAGAIN) {
			strata_ring_scan_count(scan);
			error = strata_ring_copy_available(r, position, dst, size, packet);
		}
		if (error == -EAGAIN)
			error = -EBUSY;
	} while (error == -EBUSY && --tries);
	packet->position = position;
	if (error || scan->whole)
		return error;
	reserved = strata_load_relaxed(&s->shared->write_count) - position;
	reserved = reserved < s->subbuf_bytes ? reserved : s->subbuf_bytes;
	if (reserved > packet->content_bytes && s->publish == STRATA_ABI_RING_BY_COMMIT)
		packet->unpublished_bytes = reserved - packet->content_bytes;
	return 0;
}

/**
 * strata_ring_scan_holds() - check whether the packet that strata_ring_scan_look() has returned is still there.
 *
 * Returns 1: what was read of it until now is whole; 0: it may have been overwritten meanwhile.
 * Context: the consumer of the stream, or whoever has a description of its memory of his own; any CPU.
 * Ordering: the fence pairs with the one in strata_ring_hold(), as in strata_ring_copy_available().
 * Checked: test: scan.
 */
STRATA_INLINE int strata_ring_scan_holds(const struct strata_ring_scan *scan)
{
	const struct strata_ring_stream *s = scan->reader->s;
	uint64_t position = scan->begin + scan->done * s->subbuf_bytes;

	strata_fence_acquire();
	return strata_load_relaxed(&strata_ring_subbuf(s, position)->entry) == scan->seen;
}

/**
 * strata_ring_scan_look() - the next packet of a scan, the oldest first, where it lies; without going on.
 * @packet: out: data is in shared memory, and may be overwritten at any time.
 *
 * Overwrite mode only. strata_ring_scan_holds() says afterwards whether what was read was this packet,
 * strata_ring_scan_pass() goes on behind it; strata_ring_scan_copy() takes what this one does not give.
 *
 * Returns 0; -EAGAIN: there is none, it is not delivered, is damaged, or is not there any more.
 * Context: as strata_ring_scan_holds(). Nothing is written to shared memory.
 * Ordering: ACQUIRE pairs with the RELEASE of the entry in strata_ring_deliver() and _close_on_cpu().
 * Checked: test: scan.
 */
STRATA_FUNC int strata_ring_scan_look(struct strata_ring_scan *scan,
				      struct strata_ring_packet *packet)
{
	const struct strata_ring_stream *s = scan->reader->s;
	uint64_t at = scan->done * s->subbuf_bytes, position = scan->begin + at, index;
	const struct strata_abi_ring_frame *frame;

	if (scan->direction != STRATA_RING_OLDEST_FIRST || at >= scan->end - scan->begin ||
	    s->loss_mode != STRATA_ABI_RING_OVERWRITE || scan->reader->barrier ||
	    (int64_t)(position - strata_ring_read_position(scan->reader)) < 0)
		return -EAGAIN;
	scan->seen = strata_load_acquire(&strata_ring_subbuf(s, position)->entry);
	index = strata_ring_entry_frame(scan->seen);
	if (scan->seen & STRATA_ABI_RING_ENTRY_HELD ||
	    strata_ring_entry_tag(scan->seen) != strata_ring_tag(s, position) ||
	    index > s->nr_subbufs ||
	    (s->publish == STRATA_ABI_RING_BY_POSITION && !strata_ring_ready(s, position)))
		return -EAGAIN;
	frame = &s->frames[index];
	memset(packet, 0, sizeof(*packet));
	packet->data = s->data + (index << s->subbuf_shift);
	packet->position = position;
	packet->header_bytes = s->header_bytes;
	packet->content_bytes = strata_plain_peek_u64(&frame->content_bytes);
	packet->timestamp_begin = strata_plain_peek_u64(&frame->timestamp_begin);
	packet->timestamp_end = strata_plain_peek_u64(&frame->timestamp_end);
	packet->records = strata_plain_peek_u64(&frame->records);
	packet->discarded = strata_plain_peek_u64(&frame->discarded);
	if (strata_plain_peek_u64(&frame->position) != position ||
	    packet->content_bytes < s->header_bytes ||
	    packet->content_bytes > s->subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES)
		return -EAGAIN;
	return strata_ring_scan_holds(scan) ? 0 : -EAGAIN;
}

/**
 * strata_ring_scan_pass() - continue after the packet that strata_ring_scan_look() has returned.
 *
 * Context: as strata_ring_scan_look().
 * Ordering: none: private memory.
 * Checked: test: scan.
 */
STRATA_INLINE void strata_ring_scan_pass(struct strata_ring_scan *scan)
{
	scan->done++;
}

/**
 * strata_ring_scan_rewind() - begin the same scan again.
 *
 * Context: as strata_ring_scan_begin().
 * Ordering: none: private memory.
 * Checked: model: overwrite-scan; test: scan.
 */
STRATA_FUNC void strata_ring_scan_rewind(struct strata_ring_scan *scan)
{
	scan->done = 0;
}

#endif /* STRATA_RING_SCAN_H */
