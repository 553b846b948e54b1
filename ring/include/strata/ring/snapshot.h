/* SPDX-License-Identifier: MIT */
/*
 * snapshot.h - look at the delivered packets of a stream without consuming them, in either direction,
 * as often as wanted.
 *
 * A snapshot is a range of positions. Producers go on; in overwrite mode they may reclaim packets
 * that the snapshot has not reached, which strata_ring_snapshot_get() then says.
 *
 * Source: "Generic Ring Buffer Library (v2)": sub-buffers newest to oldest, and read more than once.
 */
#ifndef STRATA_RING_SNAPSHOT_H
#define STRATA_RING_SNAPSHOT_H

#include <strata/ring/read.h>

enum strata_ring_direction {
	STRATA_RING_OLDEST_FIRST = 0,
	STRATA_RING_NEWEST_FIRST = 1,
};

struct strata_ring_snapshot {
	struct strata_ring_reader *reader;
	enum strata_ring_direction direction;
	uint64_t begin; /* position of the oldest packet */
	uint64_t end;	/* behind the newest delivered one */
	uint64_t done;	/* packets visited */
};

/**
 * strata_ring_snapshot_take() - the whole of what is delivered and unread now.
 *
 * Context: the consumer of the stream, any CPU; nothing is written.
 * Ordering: ACQUIRE of write_count; each packet is asked again by strata_ring_snapshot_get().
 * Checked: model: overwrite-snapshot; stress; test: snapshot.
 */
STRATA_FUNC void strata_ring_snapshot_take(struct strata_ring_snapshot *snap,
					   struct strata_ring_reader *r,
					   enum strata_ring_direction direction)
{
	const struct strata_ring_stream *s = r->s;
	uint64_t end = strata_ring_begin(s, strata_load_acquire(&s->shared->write_count));

	snap->reader = r;
	snap->direction = direction;
	snap->begin = strata_ring_read_position(r);
	if (end - snap->begin > s->buffer_bytes)
		snap->begin = end - s->buffer_bytes;
	snap->end = end;
	snap->done = 0;
}

/**
 * strata_ring_snapshot_get() - take the next packet of the snapshot; to be put back with
 * strata_ring_put_subbuf().
 *
 * Returns 0; -ENODATA: all were visited, strata_ring_snapshot_rewind() begins anew; -EAGAIN: this one
 * is not to be had (overwritten, or an unfinished slot is in it), go on with the next call; -EPROTO.
 * Context: the consumer of the stream, any CPU. No system call.
 * Ordering: as strata_ring_get_subbuf().
 * Checked: model: overwrite-snapshot; stress; test: snapshot.
 */
STRATA_FUNC int strata_ring_snapshot_get(struct strata_ring_snapshot *snap,
					 struct strata_ring_packet *packet)
{
	uint64_t size = snap->reader->s->subbuf_bytes, at = snap->done * size;

	if (at >= snap->end - snap->begin)
		return -ENODATA;
	snap->done++;
	return strata_ring_get_subbuf(snap->reader,
				      snap->direction == STRATA_RING_OLDEST_FIRST ?
					      snap->begin + at :
					      snap->end - size - at,
				      packet);
}

/**
 * strata_ring_snapshot_rewind() - begin the same snapshot anew.
 *
 * Context: as strata_ring_snapshot_take().
 * Checked: model: overwrite-snapshot; test: snapshot.
 */
STRATA_FUNC void strata_ring_snapshot_rewind(struct strata_ring_snapshot *snap)
{
	snap->done = 0;
}

#endif /* STRATA_RING_SNAPSHOT_H */
