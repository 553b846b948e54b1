/* SPDX-License-Identifier: MIT */
/*
 * vtid.c - events of every kind of thread, each of which says the id that the kernel gives it.
 *
 *   vtid           threads, children by fork(), vfork() and a clone() that libc knows nothing of, handlers of signals
 *                  in them, and the program once more
 *   vtid exec      what it then is
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "count.h"

#define NR_THREADS 3

static unsigned long nr_emitted;

STRATA_CLASS(own, (int32_t said, const char *where), strata_int(said, said),
	     strata_string(where, where));
STRATA_EVENT(vtid, own, INFO, own);
STRATA_CLASS(text, (int32_t said, const char *where, const char *more), strata_int(said, said),
	     strata_string(where, where), strata_string(more, more));
STRATA_EVENT(vtid, text, INFO, text);

static int32_t by_kernel(void)
{
	return (int32_t)syscall(SYS_gettid);
}

static void emit(const char *where)
{
	STRATA_TRACE_EVENT(vtid, own, by_kernel(), where);
	STRATA_TRACE_EVENT(vtid, text, by_kernel(), where, "a text of thirty-two bytes, NUL.");
}

static void on_signal(int number)
{
	int saved = errno;

	(void)number;
	emit("handler");
	errno = saved;
}

static void *thread(void *where)
{
	emit(where);
	raise(SIGUSR1);
	emit(where);
	return NULL;
}

static void with_thread(const char *where)
{
	pthread_t one;

	test_must(!pthread_create(&one, NULL, thread, (void *)where));
	test_must(!pthread_join(one, NULL));
}

static void wait_for_child(pid_t pid)
{
	int state;

	test_must(pid > 0 && waitpid(pid, &state, 0) == pid && !state);
}

static __attribute__((noinline)) void by_vfork(const char *where, int by_number)
{
	pid_t pid = by_number ? (pid_t)syscall(SYS_vfork) : vfork();

	if (!pid) {
		emit(where);
		raise(SIGUSR1);
		_exit(0);
	}
	emit("behind vfork");
	wait_for_child(pid);
	emit("behind vfork");
}

static void *forks(void *unused)
{
	pid_t pid;

	(void)unused;
	emit("forks");
	pid = fork();
	if (!pid) {
		raise(SIGUSR1);
		emit("fork");
		with_thread("thread of fork");
		by_vfork("vfork of fork", 0);
		_exit(0);
	}
	wait_for_child(pid);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		emit("clone");
		raise(SIGUSR1);
		by_vfork("vfork of clone", 0);
		_exit(0);
	}
	wait_for_child(pid);
	by_vfork("vfork", 0);
	by_vfork("vfork by its number", 1);
	emit("forks");
	return NULL;
}

/* Children are made and end while signals arrive. */
static void storm(void)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	int i;

	signal(SIGALRM, on_signal);
	test_must(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; i < 50; i++)
		by_vfork("vfork in a storm", i & 1);
	test_must(!setitimer(ITIMER_REAL, &never, NULL));
}

int main(int argc, char **argv)
{
	pthread_t threads[NR_THREADS];
	int i;

	(void)nr_emitted;
	signal(SIGUSR1, on_signal);
	if (argc > 1) {
		emit("exec");
		with_thread("thread of exec");
		return 0;
	}
	emit("main");
	raise(SIGUSR1);
	for (i = 0; i < NR_THREADS; i++)
		test_must(!pthread_create(&threads[i], NULL, i ? thread : forks, "thread"));
	for (i = 0; i < NR_THREADS; i++)
		test_must(!pthread_join(threads[i], NULL));
	storm();
	emit("main");
	test_must(!execl(argv[0], argv[0], "exec", NULL));
	return 0;
}
