/* SPDX-License-Identifier: MIT */
/* sampled.c - burns CPU time in two functions, in known shares, and then some in a hole that no event is in. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Where nearly all of the time is. */
#define BURN(seconds)                                         \
	do {                                                  \
		double end = cpu_time() + (seconds);          \
		while (cpu_time() < end)                      \
			for (unsigned i = 0; i < 200000; i++) \
				sink += i;                    \
	} while (0)

__attribute__((noinline)) void burn_three(double seconds)
{
	BURN(3 * seconds);
}

__attribute__((noinline)) void burn_one(double seconds)
{
	BURN(seconds);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;

	for (int i = 0; i < 20; i++) {
		burn_three(seconds / 80);
		burn_one(seconds / 80);
	}
	return 0;
}
