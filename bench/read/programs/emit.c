/* SPDX-License-Identifier: MIT */
/*
 * emit.c - what bench/read/run records with LTTng-UST: of ten events eight carry a u64, one a string of
 * 32 bytes, one ten fields. A thread on each of two CPUs; a pause behind each batch lets the consumer
 * empty the buffers.
 *
 *   emit EVENTS
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "../../user/lttng_provider.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS	 2
#define BATCH	 40000u
#define PAUSE_NS 4000000

static unsigned long events_each;

static void *emit(void *thread)
{
	const struct timespec pause = { 0, PAUSE_NS };
	unsigned long i;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)thread, &set);
	sched_setaffinity(0, sizeof(set), &set); /* where that is not allowed, anywhere */
	for (i = 0; i < events_each; i++) {
		if (i % 10 == 3)
			lttng_ust_tracepoint(bench, string, "thirty-one characters and a NUL");
		else if (i % 10 == 7)
			lttng_ust_tracepoint(bench, ten, i * 0x9e3779b97f4a7c15);
		else
			lttng_ust_tracepoint(bench, u64, i);
		if (i % BATCH == BATCH - 1)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long events = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_t threads[THREADS];
	size_t i;

	events_each = events / THREADS;
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, emit, (void *)i))
			return 2;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("emitted %lu\n", events_each * THREADS);
	return 0;
}
