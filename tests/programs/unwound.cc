/* SPDX-License-Identifier: MIT */
/*
 * unwound.cc - burns CPU time at the ends of known call chains, through libc, the C++ library, a signal handler, a thread and
 * the vdso. Each chain has functions of its own, so that a sample says which chain it is of.
 *
 * usage: unwound SECONDS
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

/* Neither inlined nor one function with others of the same code. */
#define OWN __attribute__((noipa))

static volatile unsigned long sink;
static double seconds;

/* Returns the CPU time of this thread [s]. */
static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

#define BURN(name)                                                      \
	OWN static void name(void)                                      \
	{                                                               \
		for (unsigned long i = 0; i < 20000; i++)               \
			sink = sink + i * sink;                         \
		/* No jump in place of a call, and no frame pointer. */ \
		__asm__ volatile("" ::: "memory");                      \
	}

/* Through libc: main, qsort_outer, qsort_middle, qsort(), compare, burn_qsort. */
BURN(burn_qsort)
OWN static int compare(const void *a, const void *b)
{
	burn_qsort();
	return *(const int *)a - *(const int *)b;
}
OWN static void qsort_middle(int n)
{
	int values[64];

	for (int i = 0; i < 64; i++)
		values[i] = (i * 37 + n) % 64;
	qsort(values, 64, sizeof(int), compare);
	sink = sink + (unsigned long)values[0];
}
OWN static void qsort_outer(void)
{
	char text[300];

	memset(text, 1, sizeof(text));
	qsort_middle(7);
	sink = sink + (unsigned long)text[sink % 300];
}

/* By virtual and indirect calls: main, shape_outer, Circle::area, std::function, burn_shape; with an exception. */
BURN(burn_shape)
struct Shape {
	virtual ~Shape() = default;
	virtual double area(const std::function<void()> &each) = 0;
};
struct Circle : Shape {
	OWN double area(const std::function<void()> &each) override
	{
		each();
		if (sink % 3 == 0)
			throw std::runtime_error("odd");
		return 1;
	}
};
OWN static void shape_outer(Shape *shape)
{
	try {
		sink = sink + (unsigned long)shape->area([] { burn_shape(); });
	} catch (const std::exception &) {
		sink = sink + 1;
	}
}

/* From a signal handler: main, signal_outer, raise(), the kernel's return from a signal, on_signal, burn_signal. */
BURN(burn_signal)
OWN static void on_signal(int)
{
	burn_signal();
	sink = sink + 1;
}
OWN static void signal_outer(void)
{
	raise(SIGUSR1);
	sink = sink + 1;
}

/* In a thread with its own stack, and much of it: thread_begin, thread_middle, burn_thread. */
BURN(burn_thread)
OWN static void thread_middle(int n)
{
	char text[2000];

	memset(text, n, sizeof(text));
	burn_thread();
	sink = sink + (unsigned long)text[sink % 2000];
}
OWN static void *thread_begin(void *)
{
	for (double end = now() + seconds; now() < end;)
		thread_middle(3);
	return NULL;
}

/* In the vdso: main, clock_outer, clock_gettime(), the kernel's code in the program. */
OWN static void clock_outer(void)
{
	struct timespec time;

	for (int i = 0; i < 2000; i++)
		clock_gettime(CLOCK_MONOTONIC, &time);
	sink = sink + (unsigned long)time.tv_nsec;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	Circle circle;

	seconds = argc > 1 ? atof(argv[1]) : 0.2;
	signal(SIGUSR1, on_signal);
	if (pthread_create(&thread, NULL, thread_begin, NULL))
		return 1;
	for (double end = now() + seconds; now() < end;) {
		qsort_outer();
		for (int i = 0; i < 100; i++) {
			shape_outer(&circle);
			signal_outer();
			clock_outer();
		}
	}
	pthread_join(thread, NULL);
	return 0;
}
