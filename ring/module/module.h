/* SPDX-License-Identifier: MIT */
/*
 * module.h - the module's clients of the ring, and what its files share.
 *
 * A client for each loss mode: compact CTF headers, the clock of the kernel's own ring buffer, local atomic
 * operations, and stores that a barrier of the reader's orders.
 */
#ifndef STRATA_RING_MODULE_H
#define STRATA_RING_MODULE_H

#include <linux/trace_clock.h>
#include <strata/ring/client.h>

STRATA_CALLBACK uint64_t module_clock(void)
{
	return trace_clock_local();
}

STRATA_RING_CLIENT(module_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_UNORDERED,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 4, module_clock,
		   STRATA_RING_HEADER_COMPACT, NULL);
STRATA_RING_CLIENT(module_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_UNORDERED,
		   STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 4, module_clock,
		   STRATA_RING_HEADER_COMPACT, NULL);

/* The cost of one way to write: see bench.c. */
struct module_cost {
	const char *what;
	u64 ticks; /* of the counter, for all records */
	u32 records;
	u32 discarded; /* of them, not written */
};

enum {
	MODULE_COSTS = 8
};

/* Write @records in each way. Returns 0 or a negative errno, and then @costs says nothing. */
int module_bench(u32 records, struct module_cost costs[MODULE_COSTS]);

#endif /* STRATA_RING_MODULE_H */
