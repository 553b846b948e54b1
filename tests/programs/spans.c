/* SPDX-License-Identifier: MIT */
/*
 * spans.c - STRATA_SPAN() in four threads: spans in each other, of one name too, left early, and by longjmp() or, in
 * C++, an exception. Behind each span is an event with the times before and after it, by the program's own clock.
 */
#include <pthread.h>
#include <setjmp.h>
#include <strata/tracepoint.h>

#include "count.h"

enum {
	THREADS = 4,
	ROUNDS = 50
};

static uint64_t emitted;

static void took(const char *what, int id, uint64_t before)
{
	STRATA_TRACE(spans, took, INFO, strata_string(what, what), strata_int(id, id),
		     strata_int(before, before), strata_int(after, test_now_ns()));
	__atomic_add_fetch(&emitted, 1, __ATOMIC_RELAXED);
}

static int step(int id, int depth)
{
	STRATA_SPAN(spans, step, DEBUG, strata_int(id, id), strata_int(depth, depth));
	__atomic_add_fetch(&emitted, 2, __ATOMIC_RELAXED);
	if (depth == 3)
		return depth;
	for (int i = 0; i < 2; i++) {
		STRATA_SPAN(spans, turn, DEBUG, strata_int(id, id));
		__atomic_add_fetch(&emitted, 2, __ATOMIC_RELAXED);
		if (!i)
			continue;
		return step(id, depth + 1);
	}
	return 0;
}

static int left(int id)
{
	STRATA_SPAN(spans, left, WARNING, strata_int(id, id));
	__atomic_add_fetch(&emitted, 1, __ATOMIC_RELAXED);
#ifdef __cplusplus
	__atomic_add_fetch(&emitted, 1, __ATOMIC_RELAXED);
	throw id;
#else
	extern __thread jmp_buf spans_back;
	longjmp(spans_back, 1);
#endif
}

#ifndef __cplusplus
__thread jmp_buf spans_back;
#endif

static void work(int id)
{
	STRATA_SPAN(spans, work, INFO, strata_int(id, id));
	__atomic_add_fetch(&emitted, 2, __ATOMIC_RELAXED);
	uint64_t before = test_now_ns();

	step(id, 1);
	took("step", id, before);
#ifdef __cplusplus
	try {
		left(id);
	} catch (int) {
	}
#else
	if (!setjmp(spans_back))
		left(id);
#endif
}

static void *thread(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		const int id = *(int *)arg * 1000 + i;
		uint64_t before = test_now_ns();

		work(id);
		took("work", id, before);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		test_must(!pthread_create(&threads[i], NULL, thread, &numbers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	test_count("spans", emitted);
	return 0;
}
