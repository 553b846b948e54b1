/* SPDX-License-Identifier: MIT */
/*
 * kernel_numbered.c - threads that make numbered system calls, one behind the other, until the program is told to end
 * (SIGTERM), and no longer than two minutes.
 *
 *   kernel_numbered THREADS PAUSE_US [BASE]   between two calls a thread sleeps so long; 0: not at all
 *
 * A call is getpgid(THREAD << 24 | NUMBER), threads from BASE (at most 63) + 1, or 1, numbers from 0: the kernel records those of
 * all that run, and their bases tell them apart. It prints "ready" when all are on their way,
 * and in the end a line "THREAD NUMBER" for each: it has made the calls up to this one.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define NUMBERS_MAX (1ul << 24)

static volatile sig_atomic_t asked;
static unsigned long made[THREADS_MAX], pause_us, base;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void *call(void *argument)
{
	unsigned long thread = (uintptr_t)argument, number;
	struct timespec pause = { 0, (long)pause_us * 1000 };

	for (number = 0; !asked && number < NUMBERS_MAX; number++) {
		syscall(SYS_getpgid, (int)((base + thread + 1) << 24 | number));
		if (pause_us)
			nanosleep(&pause, NULL);
	}
	made[thread] = number;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, i;
	pthread_t thread[THREADS_MAX];
	int ms;

	base = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (!threads || threads > THREADS_MAX || base >= THREADS_MAX)
		return 2;
	pause_us = strtoul(argv[2], NULL, 10);
	signal(SIGTERM, on_term);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, call, (void *)i))
			return 2;
	puts("ready");
	fflush(stdout);
	/* Time: how long it runs at most; a signal ends the wait. */
	for (ms = 0; !asked && ms < 120000; ms += 10)
		poll(NULL, 0, 10);
	asked = 1;
	for (i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		printf("%lu %lu\n", base + i + 1, made[i]);
	}
	return 0;
}
