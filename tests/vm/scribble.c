/* SPDX-License-Identifier: MIT */
/*
 * scribble.c - a hostile reader of the ring in a kernel module: mappings that it may not have, then any bytes in the
 * words that its producers read, while they write.
 *
 *   scribble DEVICE     exit: 0 all refused that is to be, and it is still there
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BARRIER _IO('S', 1)

static uint64_t stride, streams;

static void status(int fd)
{
	char text[4096] = "";
	ssize_t n = read(fd, text, sizeof(text) - 1);
	const char *at;

	if (n > 0 && (at = strstr(text, "stride ")))
		stride = strtoull(at + 7, NULL, 10);
	if (n > 0 && (at = strstr(text, "nr_streams ")))
		streams = strtoull(at + 11, NULL, 10);
}

static void refused(int fd, uint64_t bytes, int protection, int flags, uint64_t at)
{
	if (mmap(NULL, bytes, protection, flags, fd, (off_t)at) == MAP_FAILED)
		return;
	printf("mapped %llu bytes at %llu, protection %d, flags %d\n", (unsigned long long)bytes,
	       (unsigned long long)at, protection, flags);
	exit(1);
}

int main(int argc, char **argv)
{
	const int both = PROT_READ | PROT_WRITE;
	uint64_t *words[64], i, n, seed = 1;
	int fd;

	if (argc != 2 || (fd = open(argv[1], O_RDWR)) < 0)
		return 2;
	status(fd);
	if (!stride || !streams || streams > 64)
		return 2;
	refused(fd, stride, both, MAP_PRIVATE, 0);
	refused(fd, stride, both | PROT_EXEC, MAP_SHARED, 0);
	refused(fd, stride, both, MAP_SHARED, streams * stride);
	refused(fd, stride, both, MAP_SHARED, 4096);
	refused(fd, stride, both, MAP_SHARED, UINT64_C(1) << 62);
	refused(fd, stride * streams, both, MAP_SHARED, 0);
	refused(fd, 4096, both, MAP_SHARED, 0);
	if (!ioctl(fd, BARRIER, streams) || !ioctl(fd, BARRIER, -1L) ||
	    !ioctl(fd, BARRIER + 1, 0) || ioctl(fd, BARRIER, 0) ||
	    write(fd, "load 99999999999999999999999999999999", 37) >= 0 ||
	    write(fd, "flush 4096", 10) >= 0 || write(fd, "timer 1", 7) >= 0 ||
	    write(fd, "bench 4000000000", 16) >= 0)
		return 1;
	for (i = 0; i < streams; i++)
		if ((words[i] = mmap(NULL, stride, both, MAP_SHARED, fd, (off_t)(i * stride))) ==
		    MAP_FAILED)
			return 2;
	/* Positions, counters, the tables of sub-buffers and frames: the first 1,024 bytes. */
	for (n = 0; n < 2000000; n++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		__atomic_store_n(&words[seed >> 40 & (streams - 1)][seed >> 50 & 127],
				 n & 1 ? seed : seed >> (seed & 63), __ATOMIC_RELAXED);
	}
	printf("scribbled\n");
	return 0;
}
