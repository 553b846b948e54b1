/* SPDX-License-Identifier: MIT */
/*
 * jobs.c - jobs that go from thread to thread: "main" takes them, each with a number, and three workers do them, in
 * another order than they were taken. Each is a pair of events pool:job_begin and pool:job_end of two threads, and in
 * its worker a span pool:work, in which the worker
 *
 *   number % 4 == 0   sleeps 4 ms
 *   number % 4 == 1   reads what another thread writes to a pipe after 6 ms
 *   number % 4 == 2   runs for 3 ms of CPU time
 *   number % 4 == 3   does nothing
 *
 * and the last one, number 40, sleeps 25 ms. For each a line on stdout: "job NUMBER NS", by the program's own clock.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <strata/tracepoint.h>

#include "count.h"

enum {
	JOBS = 41,
	WORKERS = 3
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int waiting[JOBS], count, taken;
static uint64_t begin[JOBS];
static uint64_t emitted;
static int word[2], asked[2];

static void burn_ms(long ms)
{
	struct timespec time;
	long from;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	from = time.tv_sec * 1000000000L + time.tv_nsec;
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	} while (time.tv_sec * 1000000000L + time.tv_nsec - from < ms * 1000000L);
}

static void work(int number)
{
	char byte = 0;

	STRATA_SPAN(pool, work, INFO, strata_int(number, number));
	__atomic_add_fetch(&emitted, 2, __ATOMIC_RELAXED);
	if (number == JOBS - 1)
		test_sleep_ms(25);
	else if (number % 4 == 0)
		test_sleep_ms(4);
	else if (number % 4 == 1)
		test_must(write(asked[1], &byte, 1) == 1 && read(word[0], &byte, 1) == 1);
	else if (number % 4 == 2)
		burn_ms(3);
}

/* The last that was taken is done first. */
static void *worker(void *unused)
{
	uint64_t now;
	int number;

	(void)unused;
	prctl(PR_SET_NAME, "worker");
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!count && taken < JOBS)
			pthread_cond_wait(&more, &lock);
		if (!count) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		number = waiting[--count];
		pthread_mutex_unlock(&lock);
		work(number);
		STRATA_TRACE(pool, job_end, INFO, strata_int(id, number));
		__atomic_add_fetch(&emitted, 1, __ATOMIC_RELAXED);
		now = test_now_ns();
		printf("job %d %llu\n", number, (unsigned long long)(now - begin[number]));
	}
}

static void *writer(void *unused)
{
	char byte;

	(void)unused;
	prctl(PR_SET_NAME, "writer");
	while (read(asked[0], &byte, 1) == 1) {
		test_sleep_ms(6);
		test_must(write(word[1], &byte, 1) == 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[WORKERS], other;

	test_must(!pipe(word) && !pipe(asked));
	test_must(!pthread_create(&other, NULL, writer, NULL));
	for (int i = 0; i < WORKERS; i++)
		test_must(!pthread_create(&threads[i], NULL, worker, NULL));
	for (int i = 0; i < JOBS; i++) {
		begin[i] = test_now_ns();
		STRATA_TRACE(pool, job_begin, INFO, strata_int(id, i), strata_text(kind, "job", 8));
		__atomic_add_fetch(&emitted, 1, __ATOMIC_RELAXED);
		pthread_mutex_lock(&lock);
		waiting[count++] = i;
		taken++;
		pthread_cond_signal(&more);
		pthread_mutex_unlock(&lock);
		if (i % 3 == 2)
			test_sleep_ms(2);
	}
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	close(asked[1]);
	pthread_join(other, NULL);
	test_count("jobs", emitted);
	return 0;
}
