/* SPDX-License-Identifier: MIT */
/* flight.h - flight recorder: like logger.h, but the newest records stay and nobody is woken. */
#ifndef STRATA_RING_CLIENT_FLIGHT_H
#define STRATA_RING_CLIENT_FLIGHT_H

#include <strata/ring/client.h>

STRATA_RING_CLIENT(strata_ring_flight, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 8, strata_clock_monotonic_ns,
		   STRATA_RING_HEADER_SIZED, NULL);

#endif /* STRATA_RING_CLIENT_FLIGHT_H */
