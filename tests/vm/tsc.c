/* SPDX-License-Identifier: MIT */
/* tsc.c - prints how fast this processor's time stamp counter counts [kHz], measured for a tenth of a second. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	long long ns;
	unsigned long long ticks;
};

/* Of several the one that took least: nothing came in between. */
static struct moment now(void)
{
	struct moment best = { 0, 0 };
	unsigned long long before, after, least = ~0ull;
	struct timespec t;
	int i;

	for (i = 0; i < 20; i++) {
		before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = __rdtsc();
		if (after - before < least) {
			least = after - before;
			best.ticks = before + least / 2;
			best.ns = t.tv_sec * 1000000000ll + t.tv_nsec;
		}
	}
	return best;
}

int main(void)
{
	const struct timespec nap = { 0, 100000000 };
	struct moment begin = now(), end;

	nanosleep(&nap, NULL); /* Time: both clocks are read behind it. */
	end = now();
	printf("%.0f\n", (double)(end.ticks - begin.ticks) * 1e6 / (double)(end.ns - begin.ns));
	return 0;
}
