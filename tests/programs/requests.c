/* SPDX-License-Identifier: MIT */
/*
 * ports.c - what the host can see of a guest: writes a byte to the port of QEMU's debug console, between two system
 * calls that the guest's kernel records, so many times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/io.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PORT 0xe9

int main(int argc, char **argv)
{
	const struct timespec nap = { 0, 5000000 };
	int i, times = argc > 1 ? atoi(argv[1]) : 0;

	if (ioperm(PORT, 1, 1)) {
		perror("ioperm");
		return 1;
	}
	for (i = 0; i < times; i++) {
		syscall(SYS_getppid);
		outb('a' + i % 26, PORT);
		syscall(SYS_getppid);
		/* Time: it is to take longer than one exchange of the clocks. */
		nanosleep(&nap, NULL);
	}
	printf("brackets %d\n", times);
	return 0;
}
