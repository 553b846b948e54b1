/* SPDX-License-Identifier: MIT */
/* threads.c - THREADS threads that emit EVENTS events each, numbered. */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <sched.h>

#include "count.h"

static unsigned long nr_events;
static pthread_barrier_t together;

static void *work(void *argument)
{
	unsigned long thread = (unsigned long)argument, i;

	pthread_barrier_wait(&together);
	for (i = 0; i < nr_events; i++) {
		STRATA_TRACE(threads, step, INFO, strata_int(thread, thread),
			     strata_int(number, i));
		if (i % 1000 == 0)
			sched_yield();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long nr_threads = test_number(argc, argv, 1, 4), i;
	pthread_t threads[256];

	nr_events = test_number(argc, argv, 2, 1000);
	test_must(nr_threads <= 256);
	pthread_barrier_init(&together, NULL, (unsigned)nr_threads);
	for (i = 0; i < nr_threads; i++)
		test_must(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	test_count("threads", nr_threads * nr_events);
	return 0;
}
