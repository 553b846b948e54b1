/* SPDX-License-Identifier: MIT */
/*
 * idle.c - a program that does nothing, with a tracepoint (-DTRACED) or without. It prints how many threads
 * and descriptors it has; or, with an argument, the time when main() began.
 */
#ifdef TRACED
#include <strata/tracepoint.h>
#endif

#include <dirent.h>

#include "count.h"

static int entries(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int n = 0;

	test_must(folder);
	while ((entry = readdir(folder)))
		n += entry->d_name[0] != '.';
	closedir(folder);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t now = test_now_ns();

#ifdef TRACED
	STRATA_TRACE(idle, step, INFO, strata_int(number, argc));
#endif
	(void)argv;
	if (argc > 1)
		return write(1, &now, sizeof(now)) != sizeof(now);
	/* The folder itself is open while it is read. */
	printf("threads %d descriptors %d\n", entries("/proc/self/task"),
	       entries("/proc/self/fd") - 1);
	return 0;
}
