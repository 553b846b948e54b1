/* SPDX-License-Identifier: MIT */
/*
 * burst.c - EVENTS numbered events as fast as possible, in each of THREADS threads; thread t stays on one
 * CPU. Then, after MS milliseconds, one event "last".
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <sched.h>

#include "count.h"

static unsigned long nr_events;

static void *burst(void *argument)
{
	unsigned long thread = (unsigned long)argument, i;
	cpu_set_t all, one;
	int cpu, left;

	test_must(!sched_getaffinity(0, sizeof(all), &all));
	for (cpu = 0, left = (int)(thread % (unsigned)CPU_COUNT(&all));
	     left || !CPU_ISSET(cpu, &all); cpu++)
		left -= CPU_ISSET(cpu, &all) ? 1 : 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	test_must(!sched_setaffinity(0, sizeof(one), &one));
	for (i = 0; i < nr_events; i++)
		STRATA_TRACE(burst, step, INFO, strata_int(thread, thread), strata_int(number, i));
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long nr_threads = test_number(argc, argv, 2, 1), i;
	unsigned pause_ms = (unsigned)test_number(argc, argv, 3, 0);
	pthread_t threads[64];

	nr_events = test_number(argc, argv, 1, 100000);
	test_must(nr_threads <= 64);
	for (i = 0; i < nr_threads; i++)
		test_must(!pthread_create(&threads[i], NULL, burst, (void *)i));
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	if (pause_ms) {
		test_sleep_ms(pause_ms);
		STRATA_TRACE(burst, last, INFO);
	}
	test_count("burst", nr_threads * nr_events + (pause_ms ? 1 : 0));
	return 0;
}
