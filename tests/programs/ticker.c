/* SPDX-License-Identifier: MIT */
/*
 * ticker.c - a program that runs until it is told to end (SIGTERM), and no longer than two minutes.
 *
 *   ticker wait EVENTS     when somebody records it, so many events, once for each time it is switched on; a line
 *                          "on" behind them, and "off" when it has seen that it no longer is recorded
 *   ticker run MS          an event every MS milliseconds, from its start on; 0: as fast as possible
 *   ticker idle            none at all
 *
 * behind these, "closed": it closes the descriptor of its shared memory first, as programs do that close all;
 * "hidden": its own user may not look into it any more; "fails": its exit status is 3; "becomes": instead of ending, it
 * becomes `sleep 100`; "pauses": as fast as possible, a thousand are followed by a millisecond without any.
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

/* Each place in the code is switched on by itself: here the answer and the record are one place's. */
static __attribute__((noinline)) int tick(uint64_t *emitted)
{
	uint64_t before = *emitted;

	STRATA_TRACE_EVENT(ticker, tick, (*emitted)++);
	return *emitted != before;
}

/* The same for who only asks. */
static __attribute__((noinline)) int is_on(void)
{
	return STRATA_ENABLED(ticker, tick);
}

static uint64_t wait_and_emit(uint64_t events)
{
	uint64_t emitted = 0, i;
	int was_on = 0, on;

	while (!told_to_end(2)) {
		on = was_on || !events ? is_on() : tick(&emitted);
		if (on && !was_on) {
			for (i = 1; i < events; i++)
				tick(&emitted);
			/* This one may be switched on later. */
			while (!is_on() && !told_to_end(1))
				;
			puts("on");
			fflush(stdout);
		}
		if (was_on && !on) {
			puts("off");
			fflush(stdout);
		}
		was_on = on;
	}
	return emitted;
}

static uint64_t run(unsigned period_ms, int pauses)
{
	uint64_t emitted = 0, number = 0;

	for (; period_ms ? !told_to_end((int)period_ms) : !asked; number++) {
		STRATA_TRACE_EVENT(ticker, tick, (emitted++, number));
		if (period_ms)
			STRATA_TRACE_EVENT(ticker, detail, number);
		if (pauses && number % 1000 == 999)
			told_to_end(1);
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
		emitted = run((unsigned)number, argc > 3 && !strcmp(argv[3], "pauses"));
	else
		while (!told_to_end(100))
			;
	test_count("ticker", emitted);
	if (argc > 3 && !strcmp(argv[3], "becomes"))
		test_must(execlp("sleep", "sleep", "100", (char *)NULL) == 0);
	return argc > 3 && !strcmp(argv[3], "fails") ? 3 : 0;
}
