/* SPDX-License-Identifier: MIT */
/*
 * thrash.c - takes the caches away from what runs beside it: stores at random places of more memory than the caches hold, until
 * SIGTERM, at the lowest priority. Prints "ready" when it does.
 *
 *   thrash MEBIBYTES
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t bytes = (argc == 2 ? (size_t)atoi(argv[1]) : 0) << 20;
	volatile unsigned char *memory = bytes ? (volatile unsigned char *)malloc(bytes) : NULL;
	uint64_t x = UINT64_C(88172645463325252);

	if (!memory) {
		fprintf(stderr, "usage: thrash MEBIBYTES, of memory that there is\n");
		return 2;
	}
	memset((void *)(uintptr_t)memory, 1, bytes);
	if (nice(19) < 0)
		perror("thrash: nice");
	puts("ready");
	fflush(stdout);
	for (;;) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memory[x % bytes]++;
	}
}
