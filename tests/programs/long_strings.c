/* SPDX-License-Identifier: MIT */
/*
 * long_strings.c - in each of ROUNDS rounds 50 numbered events in front of and behind one with a string of 1 MiB and its
 * NUL, whose letters are those of its number; it waits for SIGUSR1, says "done", and ends with SIGTERM.
 */
#include <strata/tracepoint.h>

#include <signal.h>

#include "count.h"

#define LENGTH (1u << 20)

static char text[LENGTH + 1];

static void emit(unsigned long round)
{
	unsigned i;

	for (i = 0; i < 50; i++)
		STRATA_TRACE(long_strings, count, INFO, strata_int(number, round * 50 + i));
}

int main(int argc, char **argv)
{
	unsigned long rounds = test_number(argc, argv, 1, 4), i;
	unsigned at;
	sigset_t set;
	int signal;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	test_must(!sigprocmask(SIG_BLOCK, &set, NULL));
	puts("ready");
	fflush(stdout);
	test_must(!sigwait(&set, &signal) && signal == SIGUSR1);
	for (i = 0; i < 2 * rounds; i++) {
		if (i % 2) {
			for (at = 0; at < LENGTH; at++)
				text[at] = (char)('a' + (at * (i / 2 + 1) + at / 97) % 26);
			STRATA_TRACE(long_strings, text, INFO, strata_int(number, i / 2),
				     strata_string(text, text));
		}
		emit(i);
	}
	puts("done");
	fflush(stdout);
	test_must(!sigwait(&set, &signal) && signal == SIGTERM);
	return 0;
}
