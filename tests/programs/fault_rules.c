/* SPDX-License-Identifier: MIT */
/*
 * fault_rules.c - three kinds of numbered events, one of each in every round, for ever.
 *
 *   fault_rules PAUSE_US
 *
 * Sleeps PAUSE_US after every 16th round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <strata/tracepoint.h>

int main(int argc, char **argv)
{
	const useconds_t pause_us = argc == 2 ? (useconds_t)atoi(argv[1]) : 1000;
	uint64_t k;

	for (k = 0;; k++) {
		STRATA_TRACE(red, one, WARNING, strata_int(number, k));
		STRATA_TRACE(green, two, INFO, strata_int(number, k), strata_int(twice, 2 * k));
		STRATA_TRACE(blue, three, DEBUG, strata_int(number, k),
			     strata_string(text, "three"));
		if (k % 16 == 15)
			usleep(pause_us);
	}
}
