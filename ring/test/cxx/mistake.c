/* SPDX-License-Identifier: MIT */
/*
 * mistake.c - two clients in one file, as C and as C++. As it is, it compiles; with MISTAKE, a number, one line
 * uses what is one client's with the other, and it must not.
 */
#include <strata/ring/client/flight.h>
#include <strata/ring/client/logger.h>

int use(struct strata_ring_logger *logger, struct strata_ring_flight *flight);

int use(struct strata_ring_logger *logger, struct strata_ring_flight *flight)
{
	const struct strata_ring_event event = { 1, 4, 0 };
	struct strata_ring_logger_slot slot;
	struct strata_ring_attr attr;
	struct strata_ring_merge merge;
	int n = 0;

	memset(&attr, 0, sizeof(attr));
	n += strata_ring_logger_create(logger, &attr, NULL);
	n += strata_ring_flight_record(flight, 1, "four", 4);
	n += strata_ring_logger_merge_init(&merge, logger, STRATA_RING_REST);
	if (!strata_ring_logger_reserve(logger, &event, &slot)) {
		strata_ring_logger_write(&slot, "four", 4);
		strata_ring_logger_commit(&slot);
	}
#if MISTAKE == 1
	n += strata_ring_logger_record(flight, 1, "four", 4);
#elif MISTAKE == 2
	n += strata_ring_logger_create(flight, &attr, NULL);
#elif MISTAKE == 3
	n += strata_ring_flight_merge_init(&merge, logger, STRATA_RING_REST);
#elif MISTAKE == 4
	strata_ring_flight_commit(&slot);
#elif MISTAKE == 5
	n += strata_ring_flight_reserve(flight, &event, &slot);
#elif MISTAKE == 6
	strata_ring_flight_flush(logger);
#elif MISTAKE == 7
	strata_ring_flight_close(logger);
#endif
	return n;
}
