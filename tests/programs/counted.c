/* SPDX-License-Identifier: MIT */
/*
 * counted.c - makes system calls whose numbers, descriptors and results are known: `strata count` must find these.
 *
 *   counted N THREADS   each thread N rounds: getppid(); of 5 rounds one read() of 3 bytes, of 10 one write() of 7 bytes, and
 *                       of 100 one read() of a closed descriptor, which fails
 *
 * Says "ZERO NULL": the descriptors of /dev/zero and /dev/null. It sleeps 2 ms once, by nanosleep().
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16

static int zero, null;

static void *run(void *rounds)
{
	char bytes[8];
	long i, n = *(const long *)rounds;

	for (i = 0; i < n; i++) {
		syscall(SYS_getppid);
		if (i % 5 == 0 && syscall(SYS_read, zero, bytes, 3) != 3)
			exit(2);
		if (i % 10 == 0 && syscall(SYS_write, null, bytes, 7) != 7)
			exit(2);
		if (i % 100 == 0 && syscall(SYS_read, -1, bytes, 1) != -1)
			exit(2);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct timespec moment = { .tv_nsec = 2000000 };
	pthread_t thread[THREADS_MAX];
	long n = argc == 3 ? atol(argv[1]) : 0, threads = argc == 3 ? atol(argv[2]) : 0, i;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	/* Descriptors that neither the loader nor libc uses. */
	zero = fcntl(open("/dev/zero", O_RDONLY), F_DUPFD, 100);
	null = fcntl(open("/dev/null", O_WRONLY), F_DUPFD, 100);
	if (zero < 0 || null < 0)
		return 2;
	printf("%d %d\n", zero, null);
	fflush(stdout);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, run, &n))
			return 2;
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	syscall(SYS_nanosleep, &moment, NULL);
	return 0;
}
