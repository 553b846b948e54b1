/* SPDX-License-Identifier: MIT */
/*
 * loop.c - how long does one event's worth of work take? Each of NR_CPUS processes runs on a CPU of its own; all
 * begin each block together, and pause behind it, so that a tracer's consumer can empty the buffers; or do not pause.
 *
 *   loop KIND NR_CPUS BLOCKS N [PAUSE]    prints median, 10th percentile [ns] of N events in a block, and the median of the
 *                                         control loop (bench/control.h) right before and after the blocks [ns]
 *
 * PAUSE is in microseconds, 4000 if it is not said. Kinds:
 *   syscall  getppid()
 *   six      splice() of nothing: a system call with six arguments that does nothing
 *   switch   two processes on the CPU hand a byte to and fro; each N is two switches, the time is of one
 *   fault    a store to a page that is not there
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../control.h"

#define PAUSE_US   4000
#define MAX_BLOCKS 4096
#define MAX_CPUS   2

struct shared {
	unsigned waiting; /* workers at the barrier, of all blocks together */
	double ns[MAX_CPUS][MAX_BLOCKS], control[MAX_CPUS][MAX_BLOCKS];
};

struct worker {
	struct shared *shared;
	unsigned cpu, nr_cpus, blocks, n, pause_us;
	int there[2], back[2]; /* of the other process */
	volatile char *memory;
};

static void fail(const char *what)
{
	fprintf(stderr, "loop: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The @nth CPU of those that we may use. */
static void pin(unsigned nth)
{
	cpu_set_t all, one;
	size_t cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		fail("sched_getaffinity");
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && !nth--)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("there are not so many CPUs");
}

/* ---- what is timed ---- */

static double block_syscall(struct worker *w)
{
	double begin = now_ns();
	unsigned i;

	for (i = 0; i < w->n; i++)
		syscall(SYS_getppid);
	return (now_ns() - begin) / w->n;
}

static double block_six(struct worker *w)
{
	double begin = now_ns();
	unsigned i;

	for (i = 0; i < w->n; i++)
		syscall(SYS_splice, -1, NULL, -1, NULL, 0, 0);
	return (now_ns() - begin) / w->n;
}

static void answer(struct worker *w)
{
	char byte;

	while (read(w->there[0], &byte, 1) == 1)
		if (write(w->back[1], &byte, 1) != 1)
			_exit(2);
	_exit(0);
}

static double block_switch(struct worker *w)
{
	double begin = now_ns();
	char byte = 0;
	unsigned i;

	for (i = 0; i < w->n; i++)
		if (write(w->there[1], &byte, 1) != 1 || read(w->back[0], &byte, 1) != 1)
			fail("pipe");
	return (now_ns() - begin) / w->n / 2;
}

static double block_fault(struct worker *w)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	double begin;
	unsigned i;

	if (madvise((void *)(uintptr_t)w->memory, w->n * page, MADV_DONTNEED))
		fail("madvise");
	begin = now_ns();
	for (i = 0; i < w->n; i++)
		w->memory[i * page] = 1;
	return (now_ns() - begin) / w->n;
}

/* ---- processes ---- */

static void prepare(struct worker *w)
{
	const struct sched_param lowest = { .sched_priority = 1 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	pid_t other;

	pin(w->cpu);
	/* Nobody else's work is in the time, if we may; another CPU is left to the tracer. */
	if (w->nr_cpus == 1)
		sched_setscheduler(0, SCHED_FIFO, &lowest);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	w->memory = (volatile char *)mmap(NULL, w->n * page, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->memory == MAP_FAILED || pipe(w->there) || pipe(w->back))
		fail("memory, or a pipe");
	other = fork();
	if (other < 0)
		fail("fork");
	if (!other) {
		close(w->there[1]);
		answer(w);
	}
	close(w->there[0]);
}

static void work(struct worker *w, double (*block)(struct worker *))
{
	const struct timespec pause = { w->pause_us / 1000000, w->pause_us % 1000000 * 1000 };
	unsigned i, all = 0;
	double before, after;

	prepare(w);
	for (i = 0; i < w->blocks; i++) {
		if (w->pause_us)
			nanosleep(&pause, NULL);
		/* After a pause the first one finds nothing in the caches. */
		bench_loop_control(BENCH_CONTROLS);
		before = bench_control();
		all += w->nr_cpus;
		__atomic_add_fetch(&w->shared->waiting, 1, __ATOMIC_ACQ_REL);
		while (__atomic_load_n(&w->shared->waiting, __ATOMIC_ACQUIRE) < all)
			;
		w->shared->ns[w->cpu][i] = block(w);
		after = bench_control();
		w->shared->control[w->cpu][i] = before > after ? before : after;
	}
	_exit(0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct worker w = { .n = 0 };
	double (*block)(struct worker *) = block_syscall, all[MAX_CPUS * MAX_BLOCKS];
	static double controls[MAX_CPUS * MAX_BLOCKS];
	unsigned i, nr;
	int status;

	if (argc != 5 && argc != 6)
		return 2;
	w.nr_cpus = (unsigned)atoi(argv[2]);
	w.blocks = (unsigned)atoi(argv[3]);
	w.n = (unsigned)atoi(argv[4]);
	w.pause_us = argc > 5 ? (unsigned)atoi(argv[5]) : PAUSE_US;
	if (!w.nr_cpus || w.nr_cpus > MAX_CPUS || !w.blocks || w.blocks > MAX_BLOCKS || !w.n)
		return 2;
	if (!strcmp(argv[1], "six"))
		block = block_six;
	else if (!strcmp(argv[1], "switch"))
		block = block_switch;
	else if (!strcmp(argv[1], "fault"))
		block = block_fault;
	w.shared = (struct shared *)mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.shared == MAP_FAILED)
		fail("memory");
	for (w.cpu = 0; w.cpu < w.nr_cpus; w.cpu++)
		if (!fork())
			work(&w, block);
	for (i = 0; i < w.nr_cpus; i++)
		if (wait(&status) < 0 || status)
			return 2;
	/* The first quarter makes everything warm. */
	for (nr = 0, w.cpu = 0; w.cpu < w.nr_cpus; w.cpu++)
		for (i = w.blocks / 4; i < w.blocks; i++) {
			controls[nr] = w.shared->control[w.cpu][i];
			all[nr++] = w.shared->ns[w.cpu][i];
		}
	qsort(all, nr, sizeof(*all), compare);
	qsort(controls, nr, sizeof(*controls), compare);
	printf("%.1f %.1f %.4f\n", all[nr / 2], all[nr / 10], controls[nr / 2]);
	return 0;
}
