/* SPDX-License-Identifier: MIT */
/*
 * probed.c - a place in a program and one in the kernel that tracers put probes on. Prints what reaching it takes [ns], the median
 * of BATCHES batches; probes of a kind that nobody has put there cost what they cost when they are off.
 *
 *   probed push|step|usdt|call BATCHES N
 *
 * push: a call of reach_push(), whose first instruction the kernel emulates; step: a call of reach_step(), whose first one it has the
 * CPU execute alone, in a single step; usdt: a USDT probe, report:reached; call: getppid().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_BATCHES 10000

void reach_push(long number);
void reach_step(long number);

#ifdef __x86_64__
/* As most functions begin, and as some do. */
__asm__(".text\n"
	".globl reach_push\n.type reach_push, @function\n"
	"reach_push:\n\tpush %rbp\n\tpop %rbp\n\tret\n.size reach_push, . - reach_push\n"
	".globl reach_step\n.type reach_step, @function\n"
	"reach_step:\n\tlea 1(%rdi), %rax\n\tret\n.size reach_step, . - reach_step\n");
#else
__attribute__((noipa)) void reach_push(long number)
{
	__asm__ volatile("" : : "r"(number) : "memory");
}

__attribute__((noipa)) void reach_step(long number)
{
	__asm__ volatile("" : : "r"(number + 1) : "memory");
}
#endif

static void call_push(long n)
{
	for (; n; n--)
		reach_push(n);
}

static void call_step(long n)
{
	for (; n; n--)
		reach_step(n);
}

static void pass_usdt(long n)
{
	for (; n; n--)
		DTRACE_PROBE1(report, reached, n);
}

static void call_kernel(long n)
{
	for (; n; n--)
		syscall(SYS_getppid);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	unsigned batches = argc == 4 ? (unsigned)atoi(argv[2]) : 0, batch;
	long n = argc == 4 ? atol(argv[3]) : 0;
	static double ns[MAX_BATCHES];
	void (*kind)(long n) = call_kernel;
	double begin;

	if (!batches || batches > MAX_BATCHES || n < 1) {
		fprintf(stderr, "usage: probed push|step|usdt|call BATCHES N\n");
		return 2;
	}
	if (!strcmp(argv[1], "push"))
		kind = call_push;
	else if (!strcmp(argv[1], "step"))
		kind = call_step;
	else if (!strcmp(argv[1], "usdt"))
		kind = pass_usdt;
	/* The first quarter makes everything warm. */
	for (batch = 0; batch < batches + batches / 4 + 1; batch++) {
		begin = now_ns();
		kind(n);
		if (batch > batches / 4)
			ns[batch - batches / 4 - 1] = (now_ns() - begin) / (double)n;
	}
	qsort(ns, batches, sizeof(*ns), compare);
	printf("%.2f\n", ns[batches / 2]);
	return 0;
}
