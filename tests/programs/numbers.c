/* SPDX-License-Identifier: MIT */
/*
 * numbers.c - tasks whose numbers change hands. Each calls getppid() once, by which a recorder of it sees who did.
 *
 *   numbers as NUMBER    in a child that has this number; 77: that is not allowed, or somebody has it
 *   numbers exec         in the program that a second thread begins
 *   numbers once         here
 */
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int as(pid_t number)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	if (child < 0) {
		fprintf(stderr, "numbers: clone3 with number %d: %s\n", (int)number,
			strerror(errno));
		return 77;
	}
	if (!child) {
		syscall(SYS_getppid);
		_exit(0);
	}
	return waitpid((pid_t)child, &status, 0) != (pid_t)child || status;
}

static void *begin(void *unused)
{
	(void)unused;
	execl("/proc/self/exe", "numbers", "once", (char *)NULL);
	_exit(2);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc == 3 && !strcmp(argv[1], "as"))
		return as((pid_t)atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "exec")) {
		if (pthread_create(&thread, NULL, begin, NULL))
			return 2;
		pthread_join(thread, NULL);
		return 2;
	}
	if (argc == 2 && !strcmp(argv[1], "once"))
		return syscall(SYS_getppid) < 0;
	return 2;
}
