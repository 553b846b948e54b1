/* SPDX-License-Identifier: MIT */
/*
 * calls.c - what bench/analyze/run records: two processes at both ends of a pipe, with other system calls between, of
 * which some have arguments. Of a hundred records some 99 are of system calls, the others of the scheduler: who reads is
 * rarely found asleep. turns.c has the others.
 *
 *   calls ROUNDS
 *
 * A round is some 16 records.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, i;
	int zero = open("/dev/zero", O_RDONLY), ends[2], status;
	char bytes[64];
	pid_t child;

	if (zero < 0 || pipe(ends) || (child = fork()) < 0)
		return 2;
	prctl(PR_SET_NAME, child ? "bench-writer" : "bench-reader");
	for (i = 0; i < rounds; i++) {
		if (child) {
			if (read(zero, bytes, sizeof(bytes)) < 0 || write(ends[1], bytes, 1) != 1)
				return 2;
			syscall(SYS_getppid);
			lseek(zero, 0, SEEK_SET);
			syscall(SYS_gettid);
		} else {
			if (read(ends[0], bytes, 1) != 1)
				return 2;
			syscall(SYS_getuid);
		}
	}
	return child && (waitpid(child, &status, 0) != child || status) ? 2 : 0;
}
