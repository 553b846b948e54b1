/* SPDX-License-Identifier: MIT */
/* A program with COUNT threads, a few at once, each of which calls the kernel some times and ends: many rows. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AT_ONCE 8

static void *work(void *unused)
{
	struct timespec time = { .tv_nsec = 20000 };
	int i;

	(void)unused;
	for (i = 0; i < 5; i++)
		nanosleep(&time, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[AT_ONCE];
	long count = argc > 1 ? atol(argv[1]) : 1000;
	long i;
	int j;

	for (i = 0; i < count; i += AT_ONCE) {
		for (j = 0; j < AT_ONCE; j++) {
			if (pthread_create(&threads[j], NULL, work, NULL)) {
				perror("pthread_create");
				return 1;
			}
		}
		for (j = 0; j < AT_ONCE; j++)
			pthread_join(threads[j], NULL);
	}
	return 0;
}
