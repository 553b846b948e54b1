/* SPDX-License-Identifier: MIT */
/*
 * brackets.c - events between two system calls that ask for the time: before, and after the event before.
 * BATCHES batches of 500, with pauses, on one CPU after another. With "when-on": not before it is recorded.
 */
#include <strata/tracepoint.h>

#include <sched.h>
#include <sys/syscall.h>

#include "count.h"

STRATA_CLASS(times, (int64_t before, int64_t after_last), strata_int(before, before),
	     strata_int(after_last, after_last));
STRATA_EVENT(brackets, step, INFO, times);

/* Not the vdso's: the kernel is entered. */
static int64_t ask(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Is it recorded? Each place in the code is switched on by itself: here all events are one place's. */
static __attribute__((noinline)) int step(int64_t before, int64_t after_last)
{
	int on = 0;

	STRATA_TRACE_EVENT(brackets, step, (on = 1, before), after_last);
	return on;
}

static void next_cpu(const cpu_set_t *all, int *cpu)
{
	cpu_set_t one;

	do
		*cpu = (*cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(*cpu, all));
	CPU_ZERO(&one);
	CPU_SET(*cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
	unsigned long batches = test_number(argc, argv, 1, 10), i, j;
	int64_t before, after = 0;
	cpu_set_t all;
	int cpu = 0;

	test_must(!sched_getaffinity(0, sizeof(all), &all));
	alarm(120);
	puts("ready");
	fflush(stdout);
	for (i = 0; i < batches; i++) {
		next_cpu(&all, &cpu);
		for (j = 0; j < 500; j++) {
			before = ask();
			while (!step(before, after) && argc > 2 && !after) {
				test_sleep_ms(1);
				before = ask();
			}
			after = ask();
		}
		test_sleep_ms(25);
	}
	test_count("brackets", batches * 500);
	return 0;
}
