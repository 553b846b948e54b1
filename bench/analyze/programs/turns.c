/* SPDX-License-Identifier: MIT */
/*
 * turns.c - what bench/analyze/run records of the scheduler: two threads on one CPU that take turns, at first by a futex
 * and then by pipes. Of ten records some three are of the scheduler: each turn is a waking, a wakeup, a switch and
 * three system calls.
 *
 *   turns TURNS
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long turns;
/* Whose turn it is. */
static _Atomic uint32_t turn;
static int pipes[2][2];

static void fail(void)
{
	_exit(2);
}

static void by_futex(uint32_t me)
{
	unsigned long i;
	uint32_t now;

	for (i = 0; i < turns / 4; i++) {
		while ((now = atomic_load(&turn)) != me)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
		syscall(SYS_getppid);
		atomic_store(&turn, !me);
		if (syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0)
			fail();
	}
}

static void by_pipe(uint32_t me)
{
	unsigned long i;
	char byte = 0;

	for (i = 0; i < turns / 4; i++) {
		if ((me || i) && read(pipes[me][0], &byte, 1) != 1)
			fail();
		syscall(SYS_getppid);
		if (write(pipes[!me][1], &byte, 1) != 1)
			fail();
	}
}

static void *take_turns(void *number)
{
	uint32_t me = (uint32_t)(uintptr_t)number;

	prctl(PR_SET_NAME, me ? "bench-pong" : "bench-ping");
	by_futex(me);
	by_pipe(me);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;
	cpu_set_t all, one;
	int cpu;

	turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	if (sched_getaffinity(0, sizeof(all), &all))
		return 2;
	for (cpu = 0; cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &all); cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(pipes[0]) || pipe(pipes[1]) ||
	    pthread_create(&other, NULL, take_turns, (void *)1))
		return 2;
	take_turns(NULL);
	return pthread_join(other, NULL) ? 2 : 0;
}
