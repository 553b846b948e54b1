/* SPDX-License-Identifier: MIT */
/* ender.c - ten events, and then the end: an exit status, or a signal ("signal 11"). */
#include <strata/tracepoint.h>

#include <signal.h>

#include "count.h"

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "0";
	int i;

	for (i = 0; i < 10; i++)
		STRATA_TRACE(ender, step, INFO, strata_int(number, i));
	test_count("ender", 10);
	if (strcmp(way, "signal"))
		return atoi(way);
	/* As a fault would, with no core file. */
	if (argc > 2)
		kill(getpid(), atoi(argv[2]));
	return 0;
}
