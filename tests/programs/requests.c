/* SPDX-License-Identifier: MIT */
/*
 * requests.c - what the host can see of a guest, so many times:
 *
 *   requests N DISK    writes a byte to the port of QEMU's debug console, between two system calls that the guest's kernel
 *                      records; and a block to DISK, each to a place of its own, between two events of the program
 */
#include <strata/tracepoint.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PORT  0xe9
#define BLOCK 4096
/* Behind what the guest brings out. */
#define PLACE (128l << 20)

/* With a frame, so that its caller is in call stacks of the kernel. */
static __attribute__((noinline)) void ask(void)
{
	syscall(SYS_getppid);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	static char block[BLOCK] __attribute__((aligned(BLOCK)));
	const struct timespec nap = { 0, 5000000 };
	int i, disk, times = argc > 2 ? atoi(argv[1]) : 0;

	if (!times || (disk = open(argv[2], O_WRONLY | O_DIRECT)) < 0 || ioperm(PORT, 1, 1)) {
		perror("requests");
		return 1;
	}
	memset(block, 'r', sizeof(block));
	for (i = 0; i < times; i++) {
		long place = PLACE + i * (long)BLOCK;

		ask();
		outb('a' + i % 26, PORT);
		ask();
		STRATA_TRACE(requests, request, INFO, strata_int(place, place));
		if (pwrite(disk, block, BLOCK, place) != BLOCK) {
			perror(argv[2]);
			return 1;
		}
		STRATA_TRACE(requests, reply, INFO, strata_int(place, place));
		/* Time: it is to take longer than one exchange of the clocks. */
		nanosleep(&nap, NULL);
	}
	printf("requests %d\n", times);
	return 0;
}
