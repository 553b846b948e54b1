/* SPDX-License-Identifier: MIT */
/* smp.h - any thread on any CPU into one global buffer; records describe themselves. */
#ifndef STRATA_RING_CLIENT_SMP_H
#define STRATA_RING_CLIENT_SMP_H

#include <strata/ring/client.h>

STRATA_RING_CLIENT(strata_ring_smp, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP,
		   STRATA_RING_GLOBAL, STRATA_RING_WAKE_BY_WRITER, 8, strata_clock_monotonic_ns,
		   STRATA_RING_HEADER_SIZED, NULL);

#endif /* STRATA_RING_CLIENT_SMP_H */
