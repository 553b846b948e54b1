/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first process of ring/check/guest: runs each command line of /list, says how it ended and what
 * it took, and switches the machine off. There is no shell.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WORDS = 8
};

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void run(char *line)
{
	const double begin = cpu_seconds();
	char *words[WORDS + 1] = { strtok(line, " \n") };
	int i, status = 0;
	pid_t pid;

	if (!words[0])
		return;
	for (i = 1; i < WORDS; i++)
		words[i] = strtok(NULL, " \n");
	printf("== %s\n", words[0]);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execv(words[0], words);
		perror(words[0]);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		perror("fork, or waitpid");
	else if (WIFSIGNALED(status))
		printf("== %s: killed by signal %d\n", words[0], WTERMSIG(status));
	else
		printf("== %s: exit status %d, %.1f s of its CPU\n", words[0], WEXITSTATUS(status),
		       cpu_seconds() - begin);
	fflush(stdout);
}

int main(void)
{
	FILE *list = fopen("/list", "r");
	char line[256];

	/* Tests that need these mounts report by themselves that they are missing. */
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mount("none", "/proc", "proc", 0, NULL);
	mount("none", "/sys", "sysfs", 0, NULL);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	mkdir("/dev/shm", 01777);
	mount("none", "/dev/shm", "tmpfs", 0, NULL);
	while (list && fgets(line, sizeof(line), list))
		run(line);
	puts("== end");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
