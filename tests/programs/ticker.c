/* SPDX-License-Identifier: MIT */
/*
 * ticker.c - a program that runs until it is told to end (SIGTERM), and no longer than two minutes.
 *
 *   ticker wait EVENTS     when somebody records it, so many events, once for each time it is switched on; a line
 *                          "off" when it has seen that it no longer is
 *   ticker run MS          an event every MS milliseconds, from its start on; 0: as fast as possible
 *   ticker idle            none at all
 *
 * behind these, "closed": it closes the descriptor of its shared memory first, as programs do that close all;
 * "hidden": its own user may not look into it any more.
 *
 * It prints "ready" when it runs, and in the end how many events it emitted while somebody recorded it.
 */
#include <strata/tracepoint.h>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include "count.h"

STRATA_CLASS(tick, (uint64_t number), strata_int(number, number), strata_int(mono, test_now_ns()));
STRATA_EVENT(ticker, tick, INFO, tick);
STRATA_EVENT(ticker, detail, DEBUG, tick);

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static int told_to_end(int ms)
{
	poll(NULL, 0, ms);
	return asked;
}

static uint64_t wait_and_emit(uint64_t events)
{
	uint64_t emitted = 0, i;
	int was_on = 0, on;

	while (!told_to_end(2)) {
		on = STRATA_ENABLED(ticker, tick);
		if (on && !was_on)
			for (i = 0; i < events; i++)
				STRATA_TRACE_EVENT(ticker, tick, emitted++);
		if (was_on && !on) {
			puts("off");
			fflush(stdout);
		}
		was_on = on;
	}
	return emitted;
}

static uint64_t run(unsigned period_ms)
{
	uint64_t emitted = 0, number = 0;

	for (; period_ms ? !told_to_end((int)period_ms) : !asked; number++) {
		emitted += (uint64_t)STRATA_ENABLED(ticker, tick);
		STRATA_TRACE_EVENT(ticker, tick, number);
		if (period_ms)
			STRATA_TRACE_EVENT(ticker, detail, number);
	}
	return emitted;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "idle";
	unsigned long number = test_number(argc, argv, 2, 100);
	struct sigaction action = { .sa_handler = on_term };
	uint64_t emitted = 0;

	test_must(!sigaction(SIGTERM, &action, NULL));
	alarm(120);
	if (argc > 3 && !strcmp(argv[3], "closed"))
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	if (argc > 3 && !strcmp(argv[3], "hidden"))
		test_must(!prctl(PR_SET_DUMPABLE, 0));
	puts("ready");
	fflush(stdout);
	if (!strcmp(way, "wait"))
		emitted = wait_and_emit(number);
	else if (!strcmp(way, "run"))
		emitted = run((unsigned)number);
	else
		while (!told_to_end(100))
			;
	test_count("ticker", emitted);
	return 0;
}
