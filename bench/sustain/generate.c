/* SPDX-License-Identifier: MIT */
/*
 * generate.c - emit u64 events at a rate: what bench/sustain/run records.
 *
 *   generate THREADS EVENTS_PER_SECOND SECONDS      in steps of a millisecond, each thread by itself
 *   generate THREADS burst EVENTS                   as fast as possible, once
 *
 * Prints "emitted N events, R per second and thread".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <strata/tracepoint.h>

static unsigned long rate, seconds, burst;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void emit(unsigned long from, unsigned long n)
{
	for (; n; n--, from++)
		STRATA_TRACE(sustain, event, INFO, strata_int(number, from));
}

static void *run(void *data)
{
	struct timespec at;
	unsigned long ms;

	(void)data;
	if (burst) {
		emit(0, burst);
		return NULL;
	}
	clock_gettime(CLOCK_MONOTONIC, &at);
	for (ms = 0; ms < seconds * 1000; ms++) {
		emit(ms * (rate / 1000), rate / 1000);
		at.tv_nsec += 1000000;
		at.tv_sec += at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	unsigned long n, i, each;
	double begin, took;

	if (argc != 4 || (n = strtoul(argv[1], NULL, 10)) < 1 || n > 64) {
		fprintf(stderr, "usage: generate THREADS EVENTS_PER_SECOND|burst SECONDS|EVENTS\n");
		return 2;
	}
	if (!strcmp(argv[2], "burst")) {
		burst = strtoul(argv[3], NULL, 10);
	} else {
		rate = strtoul(argv[2], NULL, 10);
		seconds = strtoul(argv[3], NULL, 10);
	}
	each = burst ? burst : rate / 1000 * 1000 * seconds;
	begin = now_s();
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 2;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	took = now_s() - begin;
	printf("emitted %lu events, %.0f per second and thread\n", each * n, (double)each / took);
	return 0;
}
