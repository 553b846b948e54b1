/* SPDX-License-Identifier: MIT */
/*
 * channels.h - for the benchmarks that write records: make a channel, find its stream, empty it.
 */
#ifndef STRATA_BENCH_CHANNELS_H
#define STRATA_BENCH_CHANNELS_H

#include <strata/ring/ring.h>

#include "bench.h"

/*
 * A channel whose memory is touched already, so that no page fault is measured. Ends the program where
 * that fails.
 */
BENCH_FUNC void bench_channel(struct strata_ring_channel *channel,
			      const struct strata_ring_config *config, uint64_t subbuf_bytes,
			      uint64_t nr_subbufs, int by_commit)
{
	struct strata_ring_stream *s;
	struct strata_ring_attr attr;
	struct strata_ring_error error;
	uint32_t i;

	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = subbuf_bytes;
	attr.nr_subbufs = nr_subbufs;
	attr.no_rseq = by_commit;
	if (strata_ring_channel_create(config, &attr, channel, &error)) {
		fprintf(stderr, "bench: %s\n", error.text);
		exit(2);
	}
	for (i = 0; i < channel->streams.nr && i < 64; i++) {
		s = &channel->streams.stream[i];
		memset(s->data, 1, (s->nr_subbufs + UINT64_C(1)) * s->subbuf_bytes);
	}
}

/* The stream that a thread on @cpu writes to. */
BENCH_FUNC struct strata_ring_stream *bench_stream(const struct strata_ring_channel *channel,
						   int cpu)
{
	return &channel->streams.stream[channel->header.global ? 0 : cpu];
}

/* Give all delivered packets back unread. Returns the records in them. */
BENCH_FUNC uint64_t bench_drain(struct strata_ring_reader *reader)
{
	struct strata_ring_packet packet;
	uint64_t records = 0;

	while (!strata_ring_get_next(reader, &packet)) {
		records += packet.records;
		strata_ring_put_next(reader);
	}
	return records;
}

#endif /* STRATA_BENCH_CHANNELS_H */
