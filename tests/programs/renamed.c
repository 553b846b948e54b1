/* SPDX-License-Identifier: MIT */
/*
 * renamed.c - a program that has other names than its file, and an event and a call of getppid() every 10 ms in each thread.
 *
 *   renamed [NAME [THREAD]]   it calls itself NAME, and a second thread THREAD
 *
 * It prints "ready" when it has its names, and runs until it is told to end, or for two minutes.
 */
#include <strata/tracepoint.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

STRATA_CLASS(tick, (int number), strata_int(number, number));
STRATA_EVENT(renamed, tick, INFO, tick);

static pthread_barrier_t barrier;

static void run(void)
{
	int number;

	for (number = 0; number < 12000; number++) {
		STRATA_TRACE_EVENT(renamed, tick, number);
		getppid();
		poll(NULL, 0, 10);
	}
}

static void *second(void *name)
{
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&barrier);
	run();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		prctl(PR_SET_NAME, argv[1]);
	if (argc > 2) {
		if (pthread_barrier_init(&barrier, NULL, 2) ||
		    pthread_create(&thread, NULL, second, argv[2]))
			return 1;
		pthread_barrier_wait(&barrier);
	}
	puts("ready");
	fflush(stdout);
	run();
	return 0;
}
