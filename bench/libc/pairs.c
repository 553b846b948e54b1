/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - what a malloc() and the free() of it take, and a call of an empty function under -finstrument-functions.
 *
 *   pairs [--once]    prints the lowest of the rounds: "pair NS", "function NS"
 *
 * Lowest, since whatever else a machine does only adds to it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OFF __attribute__((no_instrument_function))

OFF static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

__attribute__((noinline)) static void function(void)
{
	__asm__ volatile("");
}

OFF static void pairs(unsigned n)
{
	while (n--) {
		void *ptr = malloc(64);

		__asm__ volatile("" : "+r"(ptr));
		free(ptr);
	}
}

OFF static void functions(unsigned n)
{
	while (n--)
		function();
}

OFF static double lowest(void (*run)(unsigned), unsigned rounds, unsigned n)
{
	double best = 1e9;

	while (rounds--) {
		double begin = now_ns(), ns;

		run(n);
		ns = (now_ns() - begin) / n;
		best = ns < best ? ns : best;
	}
	return best;
}

OFF int main(int argc, char **argv)
{
	int once = argc > 1 && !strcmp(argv[1], "--once");
	/* The first rounds touch the buffers' pages. */
	unsigned rounds = once ? 3 : 200, n = once ? 1000 : 20000;

	printf("pair %.1f\n", lowest(pairs, rounds, n));
	printf("function %.1f\n", lowest(functions, rounds, n));
	return 0;
}
