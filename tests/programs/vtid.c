/* SPDX-License-Identifier: MIT */
/*
 * vtid.c - events of every kind of thread, each of which says the id that the kernel gives it.
 *
 *   vtid           threads, children by fork(), vfork() and a clone() that libc knows nothing of, handlers of signals
 *                  in them, and the program once more
 *   vtid exec      what it then is
 *   vtid nested    a vfork() between vfork() and its end
 *   vtid names     threads that are named, by themselves and by others
 *   vtid pool      three threads on one CPU, each of which has begun a span when any of them ends one: 60 in all
 *   vtid wait      an event each millisecond until SIGTERM, beside a thread that has a name; prints "ready"
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "count.h"

#define NR_THREADS 3

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

/* Where records are written in restartable sequences. */
static int by_rseq(void)
{
#ifdef RSEQ_SIG
	return __rseq_size && getenv("STRATA_SESSION") && !getenv("STRATA_PUBLISH");
#else
	return 0;
#endif
}

/* What the kernel has said last of this thread's, or its parent's, CPU. */
static uint32_t cpu_of_area(void)
{
	uint32_t cpu = 0;

#ifdef RSEQ_SIG
	if (by_rseq())
		memcpy(&cpu, (char *)__builtin_thread_pointer() + __rseq_offset + 4, sizeof(cpu));
#endif
	return cpu;
}

/* To another CPU than the one that this thread is on, if there is one. */
static void move_to_another_cpu(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	test_must(!sched_getaffinity(0, sizeof(set), &set));
	if (cpu < 0 || CPU_COUNT(&set) < 2)
		return;
	CPU_CLR((size_t)cpu, &set);
	test_must(!sched_setaffinity(0, sizeof(set), &set));
}

/* The kernel has no registration of the area that is the parent's, and knows one that is this child's own. */
static void has_its_own_area(void)
{
#ifdef RSEQ_SIG
	if (by_rseq())
		test_must(syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32,
				  0, RSEQ_SIG) == -1 &&
			  errno == EINVAL);
#endif
}

static __attribute__((noinline)) void by_vfork(const char *where, int by_number)
{
	pid_t pid = by_number ? (pid_t)syscall(SYS_vfork) : vfork();

	if (!pid) {
		uint32_t cpu = cpu_of_area();

		emit(where);
		move_to_another_cpu();
		emit(where);
		raise(SIGUSR1);
		test_must(cpu_of_area() == cpu);
		has_its_own_area();
		_exit(0);
	}
	emit("behind vfork");
	wait_for_child(pid);
	emit("behind vfork");
}

/* A child of a child that has its parent's memory. */
static int nested(void)
{
	pid_t pid = vfork();

	if (!pid) {
		emit("vfork");
		pid = vfork();
		if (!pid) {
			emit("vfork of vfork");
			_exit(0);
		}
		emit("vfork");
		_exit(pid < 0);
	}
	emit("behind vfork");
	wait_for_child(pid);
	return 0;
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
		test_must(!prctl(PR_SET_NAME, "of clone", 0, 0, 0));
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

static pthread_barrier_t step;

static void *is_named(void *unused)
{
	char name[16];

	(void)unused;
	test_must(!pthread_setname_np(pthread_self(), "its own choice"));
	test_must(pthread_setname_np(pthread_self(), "sixteen bytes...") == ERANGE);
	test_must(!prctl(PR_GET_NAME, name) && !strcmp(name, "its own choice"));
	emit("named");
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	test_must(!pthread_getname_np(pthread_self(), name, sizeof(name)));
	test_must(!strcmp(name, "by another one"));
	emit("named");
	test_must(!prctl(PR_SET_NAME, "a name that is cut by the kernel", 0, 0, 0));
	emit("named");
	/* Without libc's prctl(). */
	test_must(!syscall(SYS_prctl, PR_SET_NAME, "", 0, 0, 0));
	emit("named");
	return NULL;
}

static int names(void)
{
	pthread_t one;

	test_must(!pthread_barrier_init(&step, NULL, 2));
	test_must(!pthread_create(&one, NULL, is_named, NULL));
	pthread_barrier_wait(&step);
	test_must(!pthread_setname_np(one, "by another one"));
	pthread_barrier_wait(&step);
	test_must(!pthread_join(one, NULL));
	test_must(!pthread_setname_np(pthread_self(), "main"));
	return 0;
}

STRATA_CLASS(span, (int32_t said, int number), strata_int(said, said), strata_int(number, number));
STRATA_EVENT(pool, work_begin, INFO, span);
STRATA_EVENT(pool, work_end, INFO, span);

static void *works(void *first)
{
	int number = (int)(intptr_t)first, i;

	for (i = 0; i < 20; i++, number += NR_THREADS) {
		pthread_barrier_wait(&step);
		STRATA_TRACE_EVENT(pool, work_begin, by_kernel(), number);
		pthread_barrier_wait(&step);
		STRATA_TRACE_EVENT(pool, work_end, by_kernel(), number);
	}
	return NULL;
}

static int pool(void)
{
	pthread_t threads[NR_THREADS];
	cpu_set_t all, one;
	intptr_t i = 0;

	test_must(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET((size_t)i, &all))
		i++;
	CPU_ZERO(&one);
	CPU_SET((size_t)i, &one);
	test_must(!sched_setaffinity(0, sizeof(one), &one));
	test_must(!pthread_barrier_init(&step, NULL, NR_THREADS));
	for (i = 0; i < NR_THREADS; i++)
		test_must(!pthread_create(&threads[i], NULL, works, (void *)i));
	for (i = 0; i < NR_THREADS; i++)
		test_must(!pthread_join(threads[i], NULL));
	return 0;
}

static volatile sig_atomic_t over;

static void on_term(int number)
{
	(void)number;
	over = 1;
}

static void *waits(void *unused)
{
	test_must(!pthread_setname_np(pthread_self(), "named \"before\""));
	pthread_barrier_wait(&step);
	while (!over)
		test_sleep_ms(1);
	return unused;
}

static int wait_for_term(void)
{
	pthread_t one;

	signal(SIGTERM, on_term);
	test_must(!pthread_barrier_init(&step, NULL, 2));
	test_must(!pthread_create(&one, NULL, waits, NULL));
	pthread_barrier_wait(&step);
	puts("ready");
	fflush(stdout);
	while (!over) {
		emit("main");
		test_sleep_ms(1);
	}
	test_must(!pthread_join(one, NULL));
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[NR_THREADS];
	int i;

	signal(SIGUSR1, on_signal);
	if (argc > 1 && !strcmp(argv[1], "nested"))
		return nested();
	if (argc > 1 && !strcmp(argv[1], "names"))
		return names();
	if (argc > 1 && !strcmp(argv[1], "wait"))
		return wait_for_term();
	if (argc > 1 && !strcmp(argv[1], "pool"))
		return pool();
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
