// SPDX-License-Identifier: MIT
/*
 * returns_ends.c - functions whose frames end by cancellation, by signals, in children of vfork() and fork(), and behind a
 * breakpoint of the program's own; prints how often each one returned, and the sum of what it returned.
 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBED __attribute__((noinline))
#define HERE   __asm__ volatile("" ::: "memory")

static sem_t ready;
static sigjmp_buf back;
static int pipe_ends[2];
static long i;

enum {
	WAITS,
	HOLDS,
	SPINS,
	FAULTS,
	RAISES,
	TRAPS,
	IN_CHILD,
	VFORKS,
	FORKS,
	PROTECTS,
	NR
};
static const char *const names[NR] = { "waits", "holds",    "spins",  "faults", "raises",
				       "traps", "in_child", "vforks", "forks",	"protects" };
static long returned[NR], sums[NR];

PROBED long waits(long n)
{
	char byte = 0;

	sem_post(&ready);
	if (read(pipe_ends[0], &byte, 1) != 1)
		return -1;
	HERE;
	return n + byte;
}

static void ended(void *unused)
{
	(void)unused;
	HERE;
}

PROBED long holds(long n)
{
	long m;

	pthread_cleanup_push(ended, NULL);
	m = waits(n);
	HERE;
	pthread_cleanup_pop(0);
	return m + 1;
}

PROBED long spins(long n)
{
	volatile long m = 0;

	sem_post(&ready);
	while (n)
		m++;
	return m;
}

PROBED long faults(long n)
{
	HERE;
	if (n % 2)
		raise(SIGSEGV);
	HERE;
	return n;
}

PROBED long raises(long n)
{
	HERE;
	raise(SIGUSR1);
	HERE;
	return n * 2;
}

PROBED long traps(long n)
{
	HERE;
	__asm__ volatile("nop\n\tint3");
	HERE;
	return n + 4;
}

PROBED long in_child(long n)
{
	HERE;
	return n + 3;
}

PROBED long vforks(long n)
{
	int status = 0;
	pid_t pid = vfork();

	if (!pid) {
		long m = in_child(n);

		if (n % 2)
			execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
		_exit((int)m);
	}
	waitpid(pid, &status, 0);
	HERE;
	return WEXITSTATUS(status);
}

static void *saved[5];

PROBED void jumps_back(long n)
{
	HERE;
	if (n % 2)
		__builtin_longjmp(saved, 1);
}

/* No jump of its own leads to what follows the first return. */
PROBED long protects(long n)
{
	if (!__builtin_setjmp(saved)) {
		HERE;
		jumps_back(n);
		HERE;
		return n;
	}
	HERE;
	return -5;
}

/* Returns twice, of which the child's return is 0. */
PROBED long forks(long n)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		return 0;
	waitpid(pid, &status, 0);
	HERE;
	return n;
}

static void on_signal(int signal)
{
	if (signal == SIGSEGV)
		siglongjmp(back, 1);
}

static void count(int which, long value)
{
	returned[which]++;
	sums[which] += value;
}

static void *in_thread(void *n)
{
	holds((long)n);
	return NULL;
}

static void *busy(void *n)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	spins((long)n);
	return NULL;
}

static void cancel(void *(*function)(void *))
{
	pthread_t thread;

	while (!sem_trywait(&ready))
		;
	pthread_create(&thread, NULL, function, (void *)1);
	sem_wait(&ready);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

int main(void)
{
	int which;

	if (pipe(pipe_ends) || sem_init(&ready, 0, 0))
		return 1;
	signal(SIGSEGV, on_signal);
	signal(SIGUSR1, on_signal);
	signal(SIGTRAP, on_signal);
	for (i = 0; i < 20; i++) {
		cancel(in_thread);
		cancel(busy);
		if (!sigsetjmp(back, 1))
			count(FAULTS, faults(i));
		count(RAISES, raises(i));
		count(TRAPS, traps(i));
		count(SPINS, spins(0));
		count(PROTECTS, protects(i));
		if (write(pipe_ends[1], "\1", 1) == 1) {
			count(WAITS, i + 1);
			count(HOLDS, holds(i));
		}
	}
	for (i = 0; i < 6; i++) {
		count(VFORKS, vforks(i));
		count(IN_CHILD, i + 3);
		if (!forks(i + 1))
			_exit(0);
		count(FORKS, i + 1);
		count(FORKS, 0);
	}
	for (which = 0; which < NR; which++)
		printf("%s %ld %ld\n", names[which], returned[which], sums[which]);
	return 7;
}
