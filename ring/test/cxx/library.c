/* SPDX-License-Identifier: MIT */
/* library.c - a library that records, to be loaded and unloaded; the ring is its caller's. */
#include <strata/ring/client/logger.h>

int library_record(const struct strata_ring_logger *ring, uint64_t number);
void library_flush(const struct strata_ring_logger *ring);

int library_record(const struct strata_ring_logger *ring, uint64_t number)
{
	return strata_ring_logger_record(ring, 1, &number, sizeof(number));
}

void library_flush(const struct strata_ring_logger *ring)
{
	strata_ring_logger_flush(ring);
}
