/* SPDX-License-Identifier: MIT */
/*
 * events - emits many large events, so slowly that what records them keeps up. Compiled with LTTng-UST and with Strata's headers.
 *
 *     events MEGABYTES MEGABYTES_A_SECOND
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "events_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_BYTES 1000

int main(int argc, char **argv)
{
	char text[TEXT_BYTES + 1];
	struct timespec begin, now;
	unsigned long number, count, each;

	if (argc != 3)
		return fprintf(stderr, "events MEGABYTES MEGABYTES_A_SECOND\n"), 2;
	count = strtoul(argv[1], NULL, 10) * 1000;
	each = strtoul(argv[2], NULL, 10) * 1000;
	memset(text, 'x', TEXT_BYTES);
	text[TEXT_BYTES] = '\0';
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (number = 0; number < count; number++) {
		lttng_ust_tracepoint(relayed, text, number, text);
		if (number % 64 || !each)
			continue;
		for (;;) {
			struct timespec pause = { .tv_nsec = 500000 };
			double due = (double)number / (double)each, past;

			clock_gettime(CLOCK_MONOTONIC, &now);
			past = (double)(now.tv_sec - begin.tv_sec) +
			       (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
			if (past >= due)
				break;
			nanosleep(&pause, NULL);
		}
	}
	printf("emitted %lu\n", count);
	return 0;
}
