/* SPDX-License-Identifier: MIT */
/* logger.h - threads log records that describe themselves: id, time in ns, any payload. */
#ifndef STRATA_RING_CLIENT_LOGGER_H
#define STRATA_RING_CLIENT_LOGGER_H

#include <strata/ring/client.h>

STRATA_RING_CLIENT(strata_ring_logger, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_BY_WRITER, 8, strata_clock_monotonic_ns,
		   STRATA_RING_HEADER_SIZED, NULL);

#endif /* STRATA_RING_CLIENT_LOGGER_H */
