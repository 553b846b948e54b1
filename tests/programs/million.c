/* SPDX-License-Identifier: MIT */
/*
 * million.c - EVENTS events between two system calls that nothing else makes, so that system calls in
 * between can be counted. One event comes before: it maps the buffers.
 */
#include <strata/tracepoint.h>

#include "count.h"

int main(int argc, char **argv)
{
	const uint64_t events = test_number(argc, argv, 1, 1000000);
	uint64_t i;

	STRATA_TRACE(million, first, INFO);
	if (write(-1, "begin", 5) != -1)
		return 1;
	for (i = 0; i < events; i++)
		STRATA_TRACE(million, step, INFO, strata_int(number, i));
	if (write(-1, "end", 3) != -1)
		return 1;
	test_count("million", events + 1);
	return 0;
}
