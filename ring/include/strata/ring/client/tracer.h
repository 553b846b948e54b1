/* SPDX-License-Identifier: MIT */
/* tracer.h - user-space tracer: compact CTF headers, cycle counter, byte-packed records. */
#ifndef STRATA_RING_CLIENT_TRACER_H
#define STRATA_RING_CLIENT_TRACER_H

#include <strata/ring/client.h>

STRATA_RING_CLIENT(strata_ring_tracer_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 1, strata_clock_cycles,
		   STRATA_RING_HEADER_COMPACT, strata_clock_cycles_ordered);

STRATA_RING_CLIENT(strata_ring_tracer_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 1, strata_clock_cycles,
		   STRATA_RING_HEADER_COMPACT, strata_clock_cycles_ordered);

#endif /* STRATA_RING_CLIENT_TRACER_H */
