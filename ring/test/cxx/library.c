/* SPDX-License-Identifier: MIT */
/* library.c - a library that records, to be loaded and unloaded; the channel is its caller's. */
#include <strata/ring/client/logger.h>

int library_record(const struct strata_ring_channel *channel, uint64_t number);
void library_flush(const struct strata_ring_channel *channel);

int library_record(const struct strata_ring_channel *channel, uint64_t number)
{
	return strata_ring_record(&strata_ring_logger, channel, 1, &number, sizeof(number));
}

void library_flush(const struct strata_ring_channel *channel)
{
	strata_ring_flush_current(&strata_ring_logger, channel);
}
