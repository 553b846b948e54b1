/* SPDX-License-Identifier: MIT */
/*
 * scarce.c - a program that opens nothing, and emits at once, whatever it lacks (fault_scarce sets that up).
 *
 *   scarce emits EVENTS     it emits, reads from its standard input until the end, and ends
 *   scarce forks EVENTS     it uses up its descriptors, and its child does that
 */
#include <strata/tracepoint.h>

#include <sys/wait.h>

#include "count.h"

STRATA_CLASS(step, (uint64_t number), strata_int(number, number));
STRATA_EVENT(scarce, step, INFO, step);

static int emit(unsigned long nr_events)
{
	unsigned long i;
	char byte;

	for (i = 0; i < nr_events; i++)
		STRATA_TRACE_EVENT(scarce, step, i);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long nr_events = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	int status = 0;
	pid_t child;

	if (argc < 2 || strcmp(argv[1], "forks"))
		return emit(nr_events);
	while (dup(STDOUT_FILENO) >= 0)
		;
	child = fork();
	if (!child)
		_exit(emit(nr_events));
	return waitpid(child, &status, 0) != child || status;
}
