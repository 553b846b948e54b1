/* SPDX-License-Identifier: MIT */
/* benchmark.h - the client of the ring buffer papers: 4-byte payload, no clock; each loss mode, each writer.
 *
 * Source: "Generic Ring Buffer Library (v2)", Benchmarks: "4 byte payload/event". */
#ifndef STRATA_RING_CLIENT_BENCHMARK_H
#define STRATA_RING_CLIENT_BENCHMARK_H

#include <strata/ring/client.h>

STRATA_RING_HEADER_FIXED(strata_ring_benchmark, 4)

#define STRATA_RING_BENCHMARK(name, loss_mode, writers)                                          \
	STRATA_RING_CLIENT(name, loss_mode, writers, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, \
			   4, NULL, { 0, NULL, NULL, NULL, strata_ring_benchmark_parse, 0, 0 },  \
			   NULL)

STRATA_RING_BENCHMARK(strata_ring_benchmark_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ);
STRATA_RING_BENCHMARK(strata_ring_benchmark_overwrite, STRATA_RING_OVERWRITE,
		      STRATA_RING_WRITERS_RSEQ);
STRATA_RING_BENCHMARK(strata_ring_benchmark_local_discard, STRATA_RING_DISCARD,
		      STRATA_RING_WRITERS_LOCAL);
STRATA_RING_BENCHMARK(strata_ring_benchmark_local_overwrite, STRATA_RING_OVERWRITE,
		      STRATA_RING_WRITERS_LOCAL);

#endif /* STRATA_RING_CLIENT_BENCHMARK_H */
