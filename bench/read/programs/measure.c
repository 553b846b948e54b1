/* SPDX-License-Identifier: MIT */
/*
 * measure.c - what a command needs, with its output to /dev/null.
 *
 *   measure [--first] COMMAND [ARGUMENT]...
 *
 * Prints "SECONDS CPU_SECONDS PEAK_RSS_BYTES CONTROL_NS", the last of the control loop (bench/control.h), the slower of before
 * and after. With --first, the seconds are those up to the first byte
 * of its output; then the pipe is closed. Exit: the command's status, of which SIGPIPE is none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../control.h"

#define RUNS 51 /* of the control loop, each time */

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How quick is the core now? The median of some runs, which no interruption is in. */
static double control(void)
{
	double runs[RUNS];
	int i;

	for (i = 0; i < RUNS; i++)
		runs[i] = bench_control();
	qsort(runs, RUNS, sizeof(*runs), compare);
	return runs[RUNS / 2];
}

int main(int argc, char **argv)
{
	int first = argc > 1 && !strcmp(argv[1], "--first"), status, out[2];
	struct rusage used;
	double begin, wall = 0, before, after;
	pid_t child;
	char byte;

	if (argc < 2 + first || pipe2(out, O_CLOEXEC))
		return 2;
	before = control();
	begin = now_s();
	child = fork();
	if (!child) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(first ? out[1] : null, STDOUT_FILENO);
		execvp(argv[1 + first], argv + 1 + first);
		perror(argv[1 + first]);
		_exit(127);
	}
	close(out[1]);
	if (first) {
		if (read(out[0], &byte, 1) != 1)
			fprintf(stderr, "measure: %s printed nothing\n", argv[2]);
		wall = now_s() - begin;
	}
	close(out[0]);
	if (child < 0 || wait4(child, &status, 0, &used) != child)
		return 2;
	if (!first)
		wall = now_s() - begin;
	after = control();
	printf("%.6f %.6f %ld %.4f\n", wall, seconds(used.ru_utime) + seconds(used.ru_stime),
	       used.ru_maxrss * 1024L, before > after ? before : after);
	if (WIFSIGNALED(status))
		return first && WTERMSIG(status) == SIGPIPE ? 0 : 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}
