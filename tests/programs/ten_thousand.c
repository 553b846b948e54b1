/* SPDX-License-Identifier: MIT */
/*
 * ten_thousand.c - 10,000 tracepoints, each emitted with its own number once in each of ROUNDS rounds; with a second
 * argument "when-asked" not before SIGUSR1, and in more rounds until each was recorded in so many. It says "done", and
 * ends with SIGTERM. Further arguments are libraries that it loads first: with -DPART this is one, of 1,000 tracepoints
 * more that nobody emits.
 */
#include <strata/tracepoint.h>

#include <dlfcn.h>
#include <signal.h>

#include "count.h"

STRATA_CLASS(one, (unsigned number), strata_int(number, number));

/* How often each was recorded, so far and in the end: each place in the code is switched on by itself. */
static unsigned char times[10000];
static unsigned long rounds;

#define EVENT(n) STRATA_EVENT(ten_thousand, event_##n, INFO, one);
#define EMIT(n)                           \
	if (times[1##n - 10000] < rounds) \
		STRATA_TRACE_EVENT(ten_thousand, event_##n, (times[1##n - 10000]++, 1##n - 10000));

#define TEN(what, n)                                                                            \
	what(n##0) what(n##1) what(n##2) what(n##3) what(n##4) what(n##5) what(n##6) what(n##7) \
		what(n##8) what(n##9)
#define HUNDRED(what, n) \
	TEN(what, n##0)  \
	TEN(what, n##1)  \
	TEN(what, n##2)  \
	TEN(what, n##3)  \
	TEN(what, n##4)  \
	TEN(what, n##5) TEN(what, n##6) TEN(what, n##7) TEN(what, n##8) TEN(what, n##9)
#define EACH_TEN(what) \
	what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9)
#define THOUSAND(what, n)   \
	HUNDRED(what, n##0) \
	HUNDRED(what, n##1) \
	HUNDRED(what, n##2) \
	HUNDRED(what, n##3) \
	HUNDRED(what, n##4) \
	HUNDRED(what, n##5) \
	HUNDRED(what, n##6) HUNDRED(what, n##7) HUNDRED(what, n##8) HUNDRED(what, n##9)

/* A function for each thousand, for compilers whose time grows with the square of a function's size. */
#define FUNCTION(n)               \
	THOUSAND(EVENT, n)        \
	void emit_##n(void);      \
	void emit_##n(void)       \
	{                         \
		THOUSAND(EMIT, n) \
	}
#define CALL(n) emit_##n();

#ifdef PART
FUNCTION(0)
#else
EACH_TEN(FUNCTION)

static int all_were_recorded(void)
{
	unsigned k;

	for (k = 0; k < sizeof(times); k++)
		if (times[k] < rounds)
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	int waits = argc > 2 && !strcmp(argv[2], "when-asked"), signal, nr;
	unsigned long i;
	sigset_t set;

	rounds = test_number(argc, argv, 1, 3);
	for (nr = 3; nr < argc; nr++)
		test_must(dlopen(argv[nr], RTLD_NOW | RTLD_LOCAL));
	/* What has come already is seen, too. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	test_must(!sigprocmask(SIG_BLOCK, &set, NULL));
	puts("ready");
	fflush(stdout);
	test_must(!waits || (!sigwait(&set, &signal) && signal == SIGUSR1));
	for (i = 0; i < rounds || (waits && !all_were_recorded()); i++) {
		if (i >= rounds)
			test_sleep_ms(1);
		EACH_TEN(CALL)
	}
	puts("done");
	fflush(stdout);
	test_must(!sigwait(&set, &signal) && signal == SIGTERM);
	return 0;
}
#endif
