/* SPDX-License-Identifier: MIT */
/*
 * startup.c - how long it takes from exec to main(), for each PROGRAM, which writes CLOCK_MONOTONIC to its
 * standard output: the median of RUNS runs [ns], the programs taking turns.
 *
 *   startup RUNS PROGRAM...
 */
#include <spawn.h>
#include <sys/wait.h>

#include "count.h"

#define RUNS_MAX     1000
#define PROGRAMS_MAX 8

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t run(char *program)
{
	char *arguments[] = { program, (char *)"time", NULL }, *none[] = { NULL };
	posix_spawn_file_actions_t actions;
	uint64_t begin, main_begins = 0;
	int ends[2];
	pid_t child;

	test_must(!pipe2(ends, O_CLOEXEC));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	begin = test_now_ns();
	test_must(!posix_spawn(&child, program, &actions, NULL, arguments, none));
	close(ends[1]);
	test_must(read(ends[0], &main_begins, sizeof(main_begins)) == sizeof(main_begins));
	close(ends[0]);
	test_must(waitpid(child, NULL, 0) == child);
	posix_spawn_file_actions_destroy(&actions);
	return main_begins - begin;
}

int main(int argc, char **argv)
{
	static uint64_t times[PROGRAMS_MAX][RUNS_MAX];
	unsigned long runs = test_number(argc, argv, 1, 50), i;
	int programs = argc - 2, p;

	test_must(runs > 0 && runs <= RUNS_MAX && programs > 0 && programs <= PROGRAMS_MAX);
	for (i = 0; i < runs; i++)
		for (p = 0; p < programs; p++)
			times[p][i] = run(argv[2 + p]);
	for (p = 0; p < programs; p++) {
		qsort(times[p], runs, sizeof(times[p][0]), compare);
		printf("%llu ", (unsigned long long)times[p][runs / 2]);
	}
	puts("");
	return 0;
}
