/* SPDX-License-Identifier: MIT */
/*
 * beat.c - a clock for limits on a busy machine: each time that 10 ms of sleep have passed, some of them on each CPU, a
 * byte goes to stdout. Where processes get no CPU for a while, or one CPU or the whole machine stands still, it stands
 * still as well, so that a limit is one for what the other process does.
 */
#include <sched.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec pause = { 0, 10000000 };
	cpu_set_t all, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		return 1;
	pause.tv_nsec /= CPU_COUNT(&all);
	for (;;) {
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &all))
				continue;
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			/* A CPU that has gone is left out. */
			sched_setaffinity(0, sizeof(one), &one);
			nanosleep(&pause, NULL);
		}
		if (write(STDOUT_FILENO, "", 1) != 1)
			return 1;
	}
}
