/* SPDX-License-Identifier: MIT */
/*
 * counters.h - how many records went where: written, discarded by reason, overwritten, cancelled.
 */
#ifndef STRATA_RING_COUNTERS_H
#define STRATA_RING_COUNTERS_H

#include <strata/ring/stream.h>

struct strata_ring_counters {
	uint64_t written; /* published or committed [record] */
	uint64_t discarded_full;
	uint64_t discarded_too_big;
	uint64_t discarded_nested;
	uint64_t discarded_no_stream; /* on stream 0: the CPU's number is not in the channel */
	uint64_t overwritten_records;
	uint64_t overwritten_packets;
	uint64_t cancelled;
};

/**
 * strata_ring_read_counters() - read how many records were written, discarded, overwritten and cancelled. Exact while
 * no producer is in the middle of one.
 *
 * Context: any, and anybody who has the stream mapped.
 * Ordering: relaxed: the numbers are of no one moment while producers go on.
 * Invariant: I7 written - overwritten_records is what the reader has read or can still read.
 * Checked: model: *; step: step abort; stress; bpf; test: record reserve read.
 */
STRATA_FUNC void strata_ring_read_counters(const struct strata_ring_stream *s,
					   struct strata_ring_counters *c)
{
	const struct strata_abi_ring_stream *shared = s->shared;
	uint64_t i;

	c->written = strata_load_relaxed(&shared->records);
	if (s->publish == STRATA_ABI_RING_BY_COMMIT)
		for (i = 0; i < s->nr_subbufs; i++)
			c->written += strata_load_relaxed(&s->subbufs[i].commit) >> 32;
	c->discarded_full = strata_load_relaxed(&shared->discarded_full);
	c->discarded_too_big = strata_load_relaxed(&shared->discarded_too_big);
	c->discarded_nested = strata_load_relaxed(&shared->discarded_nested);
	c->discarded_no_stream = strata_load_relaxed(&shared->discarded_no_stream);
	c->overwritten_records = strata_load_relaxed(&shared->overwritten_records) +
				 strata_load_relaxed(&shared->reclaimed_records);
	c->overwritten_packets = strata_load_relaxed(&shared->overwritten_packets) +
				 strata_load_relaxed(&shared->reclaimed_packets);
	c->cancelled = strata_load_relaxed(&shared->cancelled);
}

#endif /* STRATA_RING_COUNTERS_H */
