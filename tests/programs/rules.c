/* SPDX-License-Identifier: MIT */
/* rules.c - tracepoints of several providers and of every log level; "idle" waits for SIGTERM instead. */
#include <strata/tracepoint.h>

#include <signal.h>

#include "count.h"

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void emit(void)
{
	STRATA_TRACE(shop, order_paid, INFO, strata_int(number, 7),
		     strata_string(customer, "somebody"));
	STRATA_TRACE(shop, order_sent, DEBUG, strata_int(number, 7));
	STRATA_TRACE(shop, stock_low, WARNING, strata_int(left, 2));
	STRATA_TRACE(shopping, order_paid, ERR);
	STRATA_TRACE(net, sent, DEBUG_FUNCTION, strata_sequence(bytes, "abc", 3));
	STRATA_TRACE(levels, l0, EMERG);
	STRATA_TRACE(levels, l1, ALERT);
	STRATA_TRACE(levels, l2, CRIT);
	STRATA_TRACE(levels, l3, ERR);
	STRATA_TRACE(levels, l4, WARNING);
	STRATA_TRACE(levels, l5, NOTICE);
	STRATA_TRACE(levels, l6, INFO);
	STRATA_TRACE(levels, l7, DEBUG_SYSTEM);
	STRATA_TRACE(levels, l8, DEBUG_PROGRAM);
	STRATA_TRACE(levels, l9, DEBUG_PROCESS);
	STRATA_TRACE(levels, l10, DEBUG_MODULE);
	STRATA_TRACE(levels, l11, DEBUG_UNIT);
	STRATA_TRACE(levels, l12, DEBUG_FUNCTION);
	STRATA_TRACE(levels, l13, DEBUG_LINE);
	STRATA_TRACE(levels, l14, DEBUG);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };

	(void)argv;
	if (argc == 1) {
		emit();
		return 0;
	}
	test_must(!sigaction(SIGTERM, &action, NULL));
	alarm(120);
	puts("ready");
	fflush(stdout);
	while (!asked)
		test_sleep_ms(10);
	emit();
	return 0;
}
