/* SPDX-License-Identifier: MIT */
/*
 * control.c - how quick are the CPUs now? Prints what an iteration of the control loop (bench/control.h) takes on the slowest of
 * the CPUs that are named [ns]: of each the median of RUNS runs, less than 2 ms.
 *
 *   control CPU...
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../control.h"

#define RUNS 101

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	double runs[RUNS], slowest = 0;
	cpu_set_t set;
	int i, run;

	for (i = 1; i < argc; i++) {
		CPU_ZERO(&set);
		CPU_SET((size_t)atoi(argv[i]), &set);
		if (sched_setaffinity(0, sizeof(set), &set)) {
			perror("control: sched_setaffinity");
			return 2;
		}
		bench_loop_control(BENCH_CONTROLS);
		for (run = 0; run < RUNS; run++)
			runs[run] = bench_control();
		qsort(runs, RUNS, sizeof(*runs), compare);
		if (runs[RUNS / 2] > slowest)
			slowest = runs[RUNS / 2];
	}
	printf("%.5f\n", slowest);
	return 0;
}
