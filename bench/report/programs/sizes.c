/* SPDX-License-Identifier: MIT */
/*
 * sizes.c - what does an event cost by its size, and by where its tracepoint is? Prints "BYTES NS" for each size [ns for an
 * event]: of ROUNDS batches the median; behind each a pause, in which the tracer's consumer empties the buffers.
 *
 *   sizes ROUNDS [LIBRARY]    LIBRARY, with emit_sizes(), is loaded while the program runs
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sizes.h"

#define MAX_ROUNDS  1000
#define BATCH_BYTES (512u << 10) /* of records: less than a buffer */
#define OVERHEAD    32u
#define PAUSE_NS    4000000

#ifdef LOADED
#define HERE NULL
#else
#define HERE emit_sizes
#endif

static const unsigned sizes[] = { 0, 8, 32, 128, 512, 1024, 2048, 4096 };

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, PAUSE_NS };
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0, round, i;
	void (*emit)(unsigned long, unsigned) = HERE;
	static double ns[MAX_ROUNDS];
	unsigned long n;
	double begin;
	void *library;

	if (!rounds || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: sizes ROUNDS [LIBRARY]\n");
		return 2;
	}
	if (argc > 2) {
		library = dlopen(argv[2], RTLD_NOW);
		if (library)
			*(void **)&emit = dlsym(library, "emit_sizes");
	}
	if (!emit) {
		fprintf(stderr, "sizes: %s\n", dlerror());
		return 2;
	}
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		n = BATCH_BYTES / (sizes[i] + OVERHEAD);
		/* The first quarter makes everything warm. */
		for (round = 0; round < rounds + rounds / 4 + 1; round++) {
			nanosleep(&pause, NULL);
			begin = now_ns();
			emit(n, sizes[i]);
			if (round > rounds / 4)
				ns[round - rounds / 4 - 1] = (now_ns() - begin) / (double)n;
		}
		qsort(ns, rounds, sizeof(*ns), compare);
		printf("%u %.2f\n", sizes[i], ns[rounds / 2]);
	}
	return 0;
}
