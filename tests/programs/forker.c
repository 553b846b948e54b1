/* SPDX-License-Identifier: MIT */
/*
 * forker.c - when somebody records it: events, five children that emit and are gone, and a child that has
 * one itself; then it waits for SIGTERM. "private": others of its user may not look into it.
 */
#include <strata/tracepoint.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "count.h"

STRATA_CLASS(numbered, (int number), strata_int(number, number));
STRATA_EVENT(forker, step, INFO, numbered);

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

/* Each place in the code is switched on by itself: here all events are one place's. */
static __attribute__((noinline)) int step(int number)
{
	int on = 0;

	STRATA_TRACE_EVENT(forker, step, (on = 1, number));
	return on;
}

static void emit(int from, int to)
{
	int i;

	for (i = from; i < to; i++)
		step(i);
	test_count("forker", (uint64_t)to);
}

static void child(int generations)
{
	int status;

	if (!fork()) {
		emit(0, 20);
		if (generations > 1)
			child(generations - 1);
		emit(0, 20);
		_exit(0);
	}
	test_must(wait(&status) > 0 && !status);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };
	int i;

	if (argc > 1 && !strcmp(argv[1], "private"))
		test_must(!prctl(PR_SET_DUMPABLE, 0));
	test_must(!sigaction(SIGTERM, &action, NULL));
	alarm(120);
	puts("ready");
	fflush(stdout);
	while (!asked && !step(0))
		test_sleep_ms(2);
	if (!asked) {
		emit(1, 10);
		for (i = 0; i < 5; i++)
			child(1);
		child(3);
		emit(0, 10);
		test_count("done", 0);
	}
	while (!asked)
		test_sleep_ms(5);
	return 0;
}
