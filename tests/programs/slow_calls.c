/* SPDX-License-Identifier: MIT */
/*
 * slow_calls.c - system calls that wait for known times, and for how long each of them was under way by the program's clock.
 *
 *   slow_calls ROUNDS THREADS
 *
 * It prints a line for each call: "TID NUMBER ASKED BEGIN END RET", with the number of the system call, the time that it waits
 * at least [ns], the time of day before and after it [ns], and its result. ASKED is 0 where nothing is known of its time. Calls that look alike follow each other, as a server makes them: the same arguments from the same place.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US 1000L
#define MS 1000000L

static long rounds;

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Makes a call, and prints what it was. Nothing else of the program is a system call meanwhile. */
static long made(long asked, long number, long a, long b, long c, long d)
{
	int64_t begin = now(), end;
	long ret = syscall(number, a, b, c, d);

	if (ret < 0)
		ret = -errno;
	end = now();
	flockfile(stdout);
	printf("%ld %ld %ld %ld %ld %ld\n", (long)syscall(SYS_gettid), number, asked, (long)begin,
	       (long)end, ret);
	funlockfile(stdout);
	return ret;
}

static void sleep_for(long ns)
{
	struct timespec time = { 0, ns };

	made(ns, SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&time, 0);
}

static void *work(void *unused)
{
	int ends[2], child, i;
	long n;
	char byte;

	if (pipe(ends))
		exit(2);
	for (n = 0; n < rounds; n++) {
		for (i = 0; i < 5; i++)
			sleep_for(2 * MS);
		/* Each is short, and they look alike. */
		for (i = 0; i < 40; i++)
			sleep_for(100 * US);
		made(3 * MS, SYS_poll, 0, 0, 3, 0);
		for (i = 0; i < 1000; i++)
			made(0, SYS_getppid, 0, 0, 0, 0);
		child = fork();
		if (!child) {
			struct timespec time = { 0, 5 * MS };

			syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
			if (write(ends[1], "x", 1) != 1)
				_exit(4);
			_exit(3);
		}
		made(0, SYS_read, ends[0], (long)&byte, 1, 0);
		made(0, SYS_wait4, child, 0, 0, 0);
		/* Computes in the kernel, and need not leave the CPU. */
		made(0, SYS_mmap, 0, 64 << 20, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread[64];
	long n, threads = argc > 2 ? atol(argv[2]) : 1;
	static char buffer[1 << 22];

	rounds = argc > 1 ? atol(argv[1]) : 1;
	if (threads < 1 || threads > 64)
		return 2;
	/* What is printed is written at the end alone. */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	for (n = 0; n < threads; n++)
		if (pthread_create(&thread[n], NULL, work, NULL))
			return 2;
	for (n = 0; n < threads; n++)
		pthread_join(thread[n], NULL);
	return 0;
}
