/* SPDX-License-Identifier: MIT */
/*
 * large.c - events whose payloads are too large for the stack, from more threads than there is memory kept for, from a
 * signal handler that interrupts them, and from children of fork() and vfork().
 *
 *   large ROUNDS    prints how many events there were
 *
 * Each event has its writer, its number, and a text of the letter that follows from both, of a length that does, too.
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "count.h"

#define THREADS	 12
#define LONGEST	 70000u
#define HANDLERS 100
/* Events of the first thread for each signal: however late the signals are, no more are written than the test's buffers hold. */
#define BETWEEN 10

static char letters[26][LONGEST];
static unsigned long rounds, nr_all, nr_handled;

static void emit(unsigned writer, unsigned long number)
{
	/* Some on the stack, some in memory that is kept, some larger than that. */
	static const unsigned lengths[] = { 40, 700, 3000, 5000, 20000, LONGEST };
	const unsigned length = lengths[(writer + number) % 6] - (unsigned)(number % 7);
	const char *text = letters[(writer * 7 + number) % 26];

	STRATA_TRACE(large, event, INFO, strata_int(writer, writer), strata_int(number, number),
		     strata_text_sequence(text, text, length));
	__atomic_fetch_add(&nr_all, 1, __ATOMIC_RELAXED);
}

static void on_signal(int signal)
{
	(void)signal;
	emit(100, nr_handled);
	__atomic_store_n(&nr_handled, nr_handled + 1, __ATOMIC_RELAXED);
}

static unsigned long handled(void)
{
	return __atomic_load_n(&nr_handled, __ATOMIC_RELAXED);
}

/* Interrupts the first thread, wherever that is. */
static void *interrupt(void *argument)
{
	unsigned long i;

	for (i = 0; i < HANDLERS; i++) {
		test_must(!pthread_kill(*(pthread_t *)argument, SIGUSR1));
		/* The next one would be the same signal. */
		while (handled() == i)
			sched_yield();
	}
	return NULL;
}

static void *work(void *argument)
{
	const unsigned writer = (unsigned)(uintptr_t)argument;
	unsigned long i;

	for (i = 0; i < rounds; i++)
		emit(writer, i);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS], interrupter, self = pthread_self();
	unsigned long i;
	unsigned at;
	int status;
	pid_t child;

	rounds = test_number(argc, argv, 1, 200);
	for (at = 0; at < 26; at++)
		memset(letters[at], 'a' + (int)at, LONGEST);
	test_must(!sigaction(SIGUSR1, &action, NULL));
	test_must(!pthread_create(&interrupter, NULL, interrupt, &self));
	for (at = 1; at < THREADS; at++)
		test_must(!pthread_create(&threads[at], NULL, work, (void *)(uintptr_t)at));
	for (i = 0; i < rounds || handled() < HANDLERS;) {
		if (i < rounds + BETWEEN * handled())
			emit(0, i++);
		else
			sched_yield();
	}
	test_must(!pthread_join(interrupter, NULL));
	/* A child of fork() begins with what the threads have at this moment. */
	child = fork();
	test_must(child >= 0);
	if (!child) {
		for (i = 0; i < 20; i++)
			emit(200, i);
		_exit(0);
	}
	test_must(waitpid(child, &status, 0) == child && !status);
	/* The other threads add as well. */
	__atomic_fetch_add(&nr_all, 20, __ATOMIC_RELAXED);
	child = vfork();
	test_must(child >= 0);
	if (!child) {
		for (i = 0; i < 20; i++)
			emit(201, i);
		_exit(0);
	}
	test_must(waitpid(child, &status, 0) == child && !status);
	for (at = 1; at < THREADS; at++)
		test_must(!pthread_join(threads[at], NULL));
	printf("%lu\n", nr_all);
	return 0;
}
