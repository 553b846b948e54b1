/* SPDX-License-Identifier: MIT */
/*
 * beat.c - a clock for limits on a busy machine: each time that 10 ms of sleep have passed, a byte goes to stdout. Where
 * processes get no CPU for a while, or the whole machine stands still, it stands still as well, so that a limit is one
 * for what the other process does.
 */
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec pause = { 0, 10000000 };

	while (!nanosleep(&pause, NULL))
		if (write(STDOUT_FILENO, "", 1) != 1)
			return 1;
	return 1;
}
