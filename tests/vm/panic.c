/* SPDX-License-Identifier: MIT */
/*
 * panic.c - the last thing that a guest does: so many system calls, then, when it was told to go on by the device that it
 * has told of them, as many again, and as many without a pause, while its recorder is stopped; and its kernel panics.
 * With a third argument it waits for the end of its machine instead. Behind each call there is an event, by its number.
 */
#include <strata/tracepoint.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void calls(int times, long pause_ns)
{
	const struct timespec nap = { 0, pause_ns };
	static int number;

	while (times--) {
		syscall(SYS_getppid);
		STRATA_TRACE(panic, call, INFO, strata_int(number, number));
		number++;
		if (pause_ns)
			nanosleep(&nap, NULL); /* Time: the clocks are compared meanwhile. */
	}
}

/* The recorder that began this program; without a call of those that are counted. */
static pid_t recorder(void)
{
	FILE *stat = fopen("/proc/self/stat", "r");
	int pid = 0;

	if (!stat || fscanf(stat, "%*d (%*[^)]) %*c %d", &pid) != 1)
		return 0;
	fclose(stat);
	return pid;
}

int main(int argc, char **argv)
{
	int go, trigger, waits = argc > 3, times = argc > 2 ? atoi(argv[2]) : 0;
	pid_t pid;
	char byte;

	if (argc < 3 || (go = open(argv[1], O_RDWR)) < 0 ||
	    (trigger = waits ? go : open("/proc/sysrq-trigger", O_WRONLY)) < 0) {
		perror("panic");
		return 1;
	}
	calls(times, 5000000);
	if (write(go, "r", 1) != 1 || read(go, &byte, 1) != 1) {
		perror(argv[1]);
		return 1;
	}
	calls(times, 5000000);
	/* What it has not handed over by now is only in the memory. */
	pid = recorder();
	if (pid <= 1 || kill(pid, SIGSTOP)) {
		perror("the recorder");
		return 1;
	}
	calls(times, 0);
	if (write(trigger, "c", 1) != 1)
		return 1;
	while (waits)
		pause();
	return 0;
}
