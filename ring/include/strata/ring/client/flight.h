/* SPDX-License-Identifier: MIT */
/* flight.h - flight recorder: like logger.h, but the newest records stay and nobody is woken. */
#ifndef STRATA_RING_CLIENT_FLIGHT_H
#define STRATA_RING_CLIENT_FLIGHT_H

#include <strata/ring/ring.h>

static const struct strata_ring_config strata_ring_flight __attribute__((unused)) = {
	STRATA_RING_OVERWRITE,
	STRATA_RING_WRITERS_RSEQ,
	STRATA_RING_PER_CPU,
	STRATA_RING_WAKE_NONE,
	8,
	strata_clock_monotonic_ns,
	STRATA_RING_HEADER_SIZED,
	NULL,
};

#endif /* STRATA_RING_CLIENT_FLIGHT_H */
