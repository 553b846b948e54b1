/* SPDX-License-Identifier: MIT */
/*
 * slow_spans.c - spans of which some take long. The program says of each how long it was at least and at most, by its own
 * clock: slow:took, which is no span.
 *
 *   slow_spans            two threads, spans in spans, with fields of all sizes
 *   slow_spans jumps      before that, jumps out of more spans than a thread may have open
 *   slow_spans recursion  spans of three statements, with fields of several sizes, in a function that calls itself
 *   slow_spans once       one span that takes long, after a line on the standard input
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <strata/tracepoint.h>

#define NAP_NS	   30000000L
#define LONG_BYTES 3000
#define LEFT	   600
#define WALKS	   4
#define DEPTH	   3

static char long_text[LONG_BYTES + 1];

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void nap(void)
{
	const struct timespec t = { 0, NAP_NS };

	nanosleep(&t, NULL);
}

/* Returns how long the span was at least. */
static long step(int id)
{
	/* The field has the name of what says how long it was. */
	STRATA_SPAN(slow, step, INFO, strata_int(id, id),
		    strata_string(elapsed, id % 3 ? "short" : long_text));
	const long begun = now_ns();

	if (id % 5 == 0)
		nap();
	return now_ns() - begun;
}

static long work(int id)
{
	STRATA_SPAN(slow, work, INFO, strata_int(id, id));
	const long begun = now_ns(), least = step(id), ended = now_ns();

	STRATA_TRACE(slow, took, INFO, strata_int(id, id), strata_string(what, "step"),
		     strata_int(least, least), strata_int(most, ended - begun));
	if (id % 7 == 0)
		nap();
	return now_ns() - begun;
}

static void *run(void *of)
{
	int first = *(const int *)of, id;
	long begun, least, ended;

	for (id = first; id < first + 20; id++) {
		begun = now_ns();
		least = work(id);
		ended = now_ns();
		STRATA_TRACE(slow, took, INFO, strata_int(id, id), strata_string(what, "work"),
			     strata_int(least, least), strata_int(most, ended - begun));
	}
	return NULL;
}

/* Only the outer call takes long, behind the others. */
static void walk(int depth)
{
	STRATA_SPAN(slow, walk, INFO, strata_int(depth, depth));
	STRATA_SPAN(slow, word, INFO, strata_int(depth, (long)depth));
	STRATA_SPAN(slow, text, INFO, strata_int(depth, depth), strata_string(text, long_text));

	if (depth < DEPTH)
		walk(depth + 1);
	if (!depth)
		nap();
}

static void leave(jmp_buf *to)
{
	STRATA_SPAN(slow, left, INFO);
	longjmp(*to, 1);
}

int main(int argc, char **argv)
{
	static const int first[] = { 0, 100 };
	pthread_t thread[2];
	volatile int left;
	jmp_buf back;
	int i;

	memset(long_text, 'x', LONG_BYTES);
	if (argc > 1 && !strcmp(argv[1], "once")) {
		while (getchar() == '\n') {
			step(1);
			step(5);
		}
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "recursion")) {
		for (i = 0; i < WALKS; i++)
			walk(0);
		return 0;
	}
	if (argc > 1)
		for (left = 0; left < LEFT; left++)
			if (!setjmp(back))
				leave(&back);
	/* This thread has places that the jumps have left behind. */
	run((void *)&first[0]);
	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run, (void *)&first[1]);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
