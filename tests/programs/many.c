/* SPDX-License-Identifier: MIT */
/*
 * many.c - NUMBER tracepoints (31, 32, 300), each emitted in every one of ROUNDS rounds. With a second argument each is
 * emitted ROUNDS times from when it is recorded, in as many rounds as that takes, and then SIGTERM is waited for.
 */
#include <strata/tracepoint.h>

#include <signal.h>

#include "count.h"

STRATA_CLASS(one, (unsigned number), strata_int(number, number), strata_int(mono, test_now_ns()));
STRATA_EVENT(many, gate, INFO, one);

/* Behind the numbers of the others. */
#define GATE 300

/* How often each was recorded, and all together. */
static unsigned long emitted[GATE + 1], emitted_in_all, rounds;

/* An argument: it is asked for where the tracepoint is recorded only. Each place in the code is switched on by itself. */
static unsigned counted(unsigned number)
{
	emitted[number]++;
	emitted_in_all++;
	return number;
}

#define ONE(n)                                                                      \
	if (emitted[n] < rounds)                                                    \
		STRATA_TRACE(many, event_##n, INFO, strata_int(number, counted(n)), \
			     strata_int(mono, test_now_ns()));
#define TEN(n)    \
	ONE(n##0) \
	ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) \
	TEN(n##0)  \
	TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

/* With the gate, NUMBER tracepoints. */
static void emit(void)
{
#if NUMBER >= 300
	HUNDRED(1)
	HUNDRED(2)
	TEN(3)
	TEN(4)
	TEN(5)
	TEN(6)
	TEN(7)
	TEN(8)
	ONE(0)
	ONE(2)
	ONE(3)
	ONE(4)
	ONE(5)
	ONE(6)
	ONE(7)
	ONE(8)
#endif
	TEN(1)
	TEN(2)
	TEN(9)
#if NUMBER >= 32
	ONE(1)
#endif
}

int main(int argc, char **argv)
{
	unsigned long i;
	struct sigaction action = { .sa_handler = on_term };

	rounds = test_number(argc, argv, 1, 3);
	test_must(!sigaction(SIGTERM, &action, NULL));
	alarm(120);
	puts("ready");
	fflush(stdout);
	for (i = 0; argc > 2 ? emitted_in_all < rounds * NUMBER && !asked : i < rounds; i++) {
		if (emitted[GATE] < rounds)
			STRATA_TRACE_EVENT(many, gate, counted(GATE));
		emit();
		if (argc > 2)
			test_sleep_ms(1);
	}
	test_count("many", rounds * NUMBER);
	while (argc > 2 && !asked)
		test_sleep_ms(5);
	return 0;
}
