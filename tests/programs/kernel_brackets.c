/* SPDX-License-Identifier: MIT */
/*
 * kernel_brackets.c - a tracepoint, a system call, a tracepoint: N times by each of two threads, which go from
 * CPU to CPU, also inside of the system call. The call is close(BASE + i) of a file that is not open; each
 * 50th is a sched_setaffinity().
 *
 *   kernel_brackets N [MICROSECONDS]
 *
 * Behind each call the thread sleeps so long.
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "count.h"

#define BASE 1000000

STRATA_CLASS(number, (int i), strata_int(i, i));
STRATA_EVENT(brackets, before, INFO, number);
STRATA_EVENT(brackets, after, INFO, number);

static unsigned long nr_calls, pause_us;
static long nr_cpus;

static void *loop(void *nth)
{
	unsigned long i;
	cpu_set_t one;

	for (i = 0; i < nr_calls; i++) {
		CPU_ZERO(&one);
		CPU_SET((i / 50 + (uintptr_t)nth) % (unsigned long)nr_cpus, &one);
		STRATA_TRACE_EVENT(brackets, before, (int)i);
		if (i % 50 == 0)
			syscall(SYS_sched_setaffinity, 0, sizeof(one), &one);
		else
			syscall(SYS_close, BASE + (int)i);
		STRATA_TRACE_EVENT(brackets, after, (int)i);
		if (pause_us)
			usleep((useconds_t)pause_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	uintptr_t i;

	nr_calls = test_number(argc, argv, 1, 1000);
	pause_us = test_number(argc, argv, 2, 0);
	alarm((unsigned)(120 + nr_calls * (pause_us + 100) / 1000000));
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (i = 0; i < 2; i++)
		test_must(!pthread_create(&threads[i], NULL, loop, (void *)i));
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	test_count("kernel_brackets", nr_calls * 4);
	return 0;
}
