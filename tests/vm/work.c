/* SPDX-License-Identifier: MIT */
/* work.c - what is recorded in the guest: a known number of system calls of each kind, and switches. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GETPPID 1000
#define OPEN	200
#define SLEEP	50
#define FORK	5

static void need(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

int main(void)
{
	const struct timespec nap = { 0, 1000000 };
	/* On the stack, so in memory: what has to be read from the file first cannot be recorded. */
	char there[] = "/etc/workload", absent[] = "/etc/not-there";
	int i, fd;

	for (i = 0; i < GETPPID; i++)
		syscall(SYS_getppid);
	for (i = 0; i < OPEN; i++) {
		fd = open(there, O_RDONLY);
		need(fd >= 0, there);
		close(fd);
	}
	need(open(absent, O_RDONLY) < 0, "/etc/not-there is there");
	for (i = 0; i < SLEEP; i++)
		need(!syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL), "nanosleep");
	for (i = 0; i < FORK; i++) {
		pid_t pid = fork();

		need(pid >= 0, "fork");
		if (!pid) {
			syscall(SYS_getppid);
			_exit(i);
		}
		need(waitpid(pid, NULL, 0) == pid, "waitpid");
	}
	printf("getppid %d\nopen %d\nsleep %d\nfork %d\n", GETPPID + FORK, OPEN, SLEEP, FORK);
	return 0;
}
