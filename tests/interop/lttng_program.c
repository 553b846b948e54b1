// SPDX-License-Identifier: MIT
// lttng_program.c - threads on all CPUs that emit events of lttng_provider.h through LTTng-UST.
//
//   lttng_program THREADS EVENTS
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lttng_provider.h"

static unsigned int events;

static void *emit(void *argument)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int thread = (int)(intptr_t)argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(thread % cpus, &set);
	sched_setaffinity(0, sizeof(set), &set); // Where it is not allowed, anywhere.
	for (unsigned int n = 0; n < events; n++) {
		uint8_t bytes[6] = { n, n >> 8, 0xff, 0x80, 1, thread };
		uint16_t words[3] = { n, 0x0102, 0xfffe };
		char text[32];

		if (n % 8 == 0)
			lttng_ust_tracepoint(interop, step_begin, n);
		snprintf(text, sizeof(text), "thread %d, \"%u\"\n", thread, n);
		lttng_ust_tracepoint(interop, small, thread, n);
		if (n % 4 == 0)
			lttng_ust_tracepoint(interop, large, (int)n, text, bytes, n / 7.0);
		if (n % 8 == 0)
			lttng_ust_tracepoint(interop, network, (int)n, words);
		if (n % 64 == 0)
			lttng_ust_tracepoint(interop, nothing);
		if (n % 8 == 6)
			lttng_ust_tracepoint(interop, step_end, n);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t *started = calloc(threads, sizeof(*started));

	events = argc > 2 ? atoi(argv[2]) : 100;
	for (int i = 0; started && i < threads; i++)
		if (pthread_create(&started[i], NULL, emit, (void *)(intptr_t)i))
			return 1;
	for (int i = 0; started && i < threads; i++)
		pthread_join(started[i], NULL);
	free(started);
	return 0;
}
