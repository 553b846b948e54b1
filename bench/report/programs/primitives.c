/* SPDX-License-Identifier: MIT */
/*
 * primitives.c - what do single services of the kernel take, as lmbench measures them? Prints "NAME NS" for each, on the CPU that
 * it may run on: of BATCHES batches the median of the time of one call.
 *
 *   primitives BATCHES
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_BATCHES 10000
#define PAGES	    256u

static int zero, null;
static int there[2], back[2];
static char *memory;
static const char *file = "/etc/passwd";

static void fail(const char *what)
{
	fprintf(stderr, "primitives: %s: %s\n", what, strerror(errno));
	exit(2);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void null_call(unsigned n)
{
	for (; n; n--)
		syscall(SYS_getppid);
}

static void read_byte(unsigned n)
{
	char byte;

	for (; n; n--)
		if (read(zero, &byte, 1) != 1)
			fail("read");
}

static void write_byte(unsigned n)
{
	char byte = 0;

	for (; n; n--)
		if (write(null, &byte, 1) != 1)
			fail("write");
}

static void stat_file(unsigned n)
{
	struct stat about;

	for (; n; n--)
		if (stat(file, &about))
			fail(file);
}

static void open_close(unsigned n)
{
	int fd;

	for (; n; n--) {
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fail(file);
		close(fd);
	}
}

static void page_fault(unsigned n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned i;

	for (i = 0; i < n && i < PAGES; i++)
		((volatile char *)memory)[i * page] = 1;
}

/* The pages are new again. */
static void forget_pages(void)
{
	if (madvise(memory, PAGES * (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED))
		fail("madvise");
}

static void fork_exit(unsigned n)
{
	pid_t child;

	for (; n; n--) {
		child = fork();
		if (child < 0)
			fail("fork");
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

/* There and back between two processes on the CPU: two switches. */
static void pipe_round_trip(unsigned n)
{
	char byte = 0;

	for (; n; n--)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
}

static void answer(void)
{
	char byte;

	close(there[1]);
	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			break;
	_exit(0);
}

static const struct {
	const char *name;
	void (*call)(unsigned n);
	unsigned n; /* calls in a batch */
	void (*before)(void);
} primitives[] = {
	{ "null call (getppid)", null_call, 2000, NULL },
	{ "read of a byte", read_byte, 1000, NULL },
	{ "write of a byte", write_byte, 1000, NULL },
	{ "stat", stat_file, 500, NULL },
	{ "open and close", open_close, 300, NULL },
	{ "page fault", page_fault, PAGES, forget_pages },
	{ "pipe, there and back", pipe_round_trip, 100, NULL },
	{ "fork, exit and wait", fork_exit, 4, NULL },
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	unsigned batches = argc == 2 ? (unsigned)atoi(argv[1]) : 0, i, batch;
	static double ns[MAX_BATCHES];
	pid_t other;

	if (!batches || batches > MAX_BATCHES) {
		fprintf(stderr, "usage: primitives BATCHES, 1 to %d\n", MAX_BATCHES);
		return 2;
	}
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	memory = (char *)mmap(NULL, PAGES * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero < 0 || null < 0 || memory == MAP_FAILED || pipe(there) || pipe(back))
		fail("/dev/zero, /dev/null, memory or a pipe");
	madvise(memory, PAGES * (size_t)sysconf(_SC_PAGESIZE), MADV_NOHUGEPAGE);
	other = fork();
	if (other < 0)
		fail("fork");
	if (!other)
		answer();
	close(there[0]);
	for (i = 0; i < sizeof(primitives) / sizeof(*primitives); i++) {
		for (batch = 0; batch < batches + batches / 4 + 1; batch++) {
			double begin;

			if (primitives[i].before)
				primitives[i].before();
			begin = now_ns();
			primitives[i].call(primitives[i].n);
			/* The first quarter makes everything warm. */
			if (batch > batches / 4)
				ns[batch - batches / 4 - 1] = (now_ns() - begin) / primitives[i].n;
		}
		qsort(ns, batches, sizeof(*ns), compare);
		printf("%s\t%.1f\n", primitives[i].name, ns[batches / 2]);
	}
	close(there[1]);
	waitpid(other, NULL, 0);
	return 0;
}
