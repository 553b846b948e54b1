/* SPDX-License-Identifier: MIT */
/*
 * numbered.c - threads that emit numbered events, one behind the other, until the program is told to end (SIGTERM),
 * and no longer than two minutes; beside each a second one, which others may switch on and off.
 *
 *   numbered THREADS SPINS [MS]     between two events a thread runs through a loop so often, and sleeps so long behind
 *                                   each 32 of them
 *
 * It prints "ready" when all are on their way, and in the end a line "THREAD NUMBER" for each: it has emitted the numbers
 * from 0 on up to this one, while somebody recorded it from begin to end.
 */
#include <strata/tracepoint.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "count.h"

STRATA_CLASS(number, (uint64_t thread, uint64_t number), strata_int(thread, thread),
	     strata_int(number, number));
STRATA_EVENT(numbered, count, INFO, number);
STRATA_EVENT(numbered, other, INFO, number);

#define THREADS_MAX 64

static volatile sig_atomic_t asked;
static uint64_t emitted[THREADS_MAX];
static unsigned long spins, pause_ms;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void *emit(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument, number, begun = 0;
	volatile unsigned long spin;

	/* Numbers begin when somebody records this place in the code: each is switched on by itself. */
	for (number = 0; !asked; number += begun) {
		STRATA_TRACE_EVENT(numbered, count, thread, (begun = 1, number));
		if (!begun) {
			test_sleep_ms(1);
			continue;
		}
		STRATA_TRACE_EVENT(numbered, other, thread, number);
		for (spin = 0; spin < spins; spin++)
			;
		if (pause_ms && number % 32 == 31)
			test_sleep_ms(pause_ms);
	}
	emitted[thread] = number;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, i;
	pthread_t thread[THREADS_MAX];
	int ms;

	if (!threads || threads > THREADS_MAX)
		return 2;
	spins = strtoul(argv[2], NULL, 10);
	pause_ms = test_number(argc, argv, 3, 0);
	signal(SIGTERM, on_term);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, emit, (void *)(uintptr_t)i))
			return 2;
	puts("ready");
	fflush(stdout);
	for (ms = 0; ms < 120000 && !asked; ms += 10)
		poll(NULL, 0, 10);
	asked = 1;
	for (i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		printf("%lu %llu\n", i, (unsigned long long)emitted[i]);
	}
	return 0;
}
