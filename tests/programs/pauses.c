/* SPDX-License-Identifier: MIT */
/*
 * pauses.c - an event after each pause of so many milliseconds, with the time that CLOCK_MONOTONIC has. The
 * narrow time stamps of records wrap in longer pauses.
 */
#include <strata/tracepoint.h>

#include "count.h"

int main(int argc, char **argv)
{
	uint64_t before = test_now_ns();
	int i;

	for (i = 1; i < argc; i++) {
		STRATA_TRACE(pauses, step, INFO, strata_int(number, i - 1),
			     strata_int(before, before), strata_int(mono, test_now_ns()));
		before = test_now_ns();
		test_sleep_ms((unsigned)strtoul(argv[i], NULL, 0));
	}
	STRATA_TRACE(pauses, step, INFO, strata_int(number, i - 1), strata_int(before, before),
		     strata_int(mono, test_now_ns()));
	test_count("pauses", (uint64_t)i);
	return 0;
}
