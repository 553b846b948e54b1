/* SPDX-License-Identifier: MIT */
/* count.h - how a test program says how many events it emitted. */
#ifndef TEST_COUNT_H
#define TEST_COUNT_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t test_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void test_sleep_ms(unsigned ms)
{
	/* Until then, and not for so long: signals that come one after the other leave it no time to sleep. */
	const uint64_t end = test_now_ns() + ms * UINT64_C(1000000);
	const struct timespec until = { (time_t)(end / 1000000000), (long)(end % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Opened while the file can be reached, for when it cannot; -1: opened each time. */
static int test_counts_kept __attribute__((unused)) = -1;

/* The file where emitted events are counted; -1: none, or it is outside of this root folder. */
static inline int test_counts_open(void)
{
	const char *path = getenv("STRATA_TEST_COUNTS");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;

	if (path && fd < 0 && errno != ENOENT) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		_exit(99);
	}
	return fd;
}

/* One line "WHO PID NUMBER", by one write(). */
static inline void test_count_to(int fd, const char *who, uint64_t number)
{
	char line[120];
	int n = snprintf(line, sizeof(line), "%s %d %llu\n", who, (int)getpid(),
			 (unsigned long long)number);

	if (fd >= 0 && write(fd, line, (size_t)n) != n)
		_exit(98);
}

/* This process has emitted so many events. */
static inline void test_count(const char *who, uint64_t number)
{
	int fd = test_counts_kept >= 0 ? test_counts_kept : test_counts_open();

	test_count_to(fd, who, number);
	if (fd >= 0 && fd != test_counts_kept)
		close(fd);
}

static inline unsigned long test_number(int argc, char **argv, int at, unsigned long otherwise)
{
	return at < argc ? strtoul(argv[at], NULL, 0) : otherwise;
}

#define test_must(what)                                                               \
	do {                                                                          \
		if (!(what)) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, \
				strerror(errno));                                     \
			_exit(97);                                                    \
		}                                                                     \
	} while (0)

#endif /* TEST_COUNT_H */
