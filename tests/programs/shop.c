/* SPDX-License-Identifier: MIT */
/*
 * shop.c - the program of the examples in the help, under each name that these have for a program.
 *
 *   shop ROUNDS     two threads take turns with a lock, read and write a file, and sell something in each round
 *
 * Other arguments, such as "--port 80", are ignored: the program then makes 20 rounds.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <strata/tracepoint.h>

#define PAUSE_MS 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long rounds = 20;

static void sell(long id)
{
	STRATA_TRACE(shop, request_in, INFO, strata_int(id, id));
	STRATA_SPAN(shop, request, INFO, strata_int(id, id));
	FILE *file;

	pthread_mutex_lock(&lock);
	file = fopen("/dev/zero", "r+");
	if (file) {
		if (fgetc(file) == 0)
			fprintf(file, "%ld\n", id);
		fclose(file);
	}
	poll(NULL, 0, PAUSE_MS);
	pthread_mutex_unlock(&lock);
	STRATA_TRACE(shop, sold, INFO, strata_int(id, id), strata_float(price, (double)id * 12.5));
	if (id % 5 == 0)
		STRATA_TRACE(shop, expensive, WARNING, strata_int(id, id));
	STRATA_TRACE(shop, beat, INFO);
	STRATA_TRACE(shop, request_out, INFO, strata_int(id, id));
}

static void *serve(void *first)
{
	long i;

	for (i = 0; i < rounds; i++)
		sell((long)first + i * 2);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	if (argc == 2)
		rounds = strtol(argv[1], NULL, 10);
	if (pthread_create(&other, NULL, serve, (void *)1L))
		return 2;
	serve(NULL);
	pthread_join(other, NULL);
	return 0;
}
