/* SPDX-License-Identifier: MIT */
/* driver.h - a driver-like producer: 4-byte records, no clock, one CPU and its interrupts. */
#ifndef STRATA_RING_CLIENT_DRIVER_H
#define STRATA_RING_CLIENT_DRIVER_H

#include <strata/ring/client.h>

STRATA_RING_HEADER_FIXED(strata_ring_driver, 4)

STRATA_RING_CLIENT(strata_ring_driver, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 4, NULL,
		   { 0, NULL, NULL, NULL, strata_ring_driver_parse, 0, 0 }, NULL);

#endif /* STRATA_RING_CLIENT_DRIVER_H */
