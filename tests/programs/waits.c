/* SPDX-License-Identifier: MIT */
/*
 * A program whose waits are known by construction, by the name of the thread that has them. For each, one line on
 * stdout: what it was, the thread, and how long by its own clock [ns]; and one of what the kernel says of the thread:
 * how long it ran and waited for a CPU [ns], and how long it ran [ticks].
 *
 * Who is waited for begins its sleep when the other one is blocked, however busy the machine is.
 *
 *   sleep   10 sleeps of 5 ms in "sleeper"
 *   lock    "locker" waits for a mutex that "holder" holds while it sleeps 10 ms
 *   pipe    "reader" waits for a byte that "writer" writes after 15 ms
 *   chain   "first" waits for "second", which waits for "third", which sleeps 20 ms: by pipes
 *   hog     "hog" and "rival" share one CPU, 30 ms of CPU time each, once both want it
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int held[2], word[2], one[2], two[2];

/* Threads that will be waited for, once they have begun. */
static _Atomic int locks, reads, is_first, is_second;

/* Both threads of one CPU are there. */
static pthread_barrier_t rivals;

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(3);
	}
}

static int64_t now(clockid_t clock)
{
	struct timespec time;

	check(clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static void pause_for(long ns)
{
	struct timespec time = { .tv_nsec = ns };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR)
		;
}

static void put(int *pipe_fds)
{
	check(write(pipe_fds[1], "x", 1) != 1, "write");
}

static void take(int *pipe_fds)
{
	char byte;

	check(read(pipe_fds[0], &byte, 1) != 1, "read");
}

static void here(_Atomic int *who)
{
	atomic_store(who, (int)syscall(SYS_gettid));
}

/* Returns when the thread sleeps: it does so in one place only. */
static void when_blocked(_Atomic int *who)
{
	char path[64], stat[256], *state;
	ssize_t size;
	int file;

	for (;;) {
		sched_yield();
		if (!atomic_load(who))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(who));
		file = open(path, O_RDONLY);
		check(file < 0, path);
		size = read(file, stat, sizeof(stat) - 1);
		check(size <= 0, path);
		close(file);
		stat[size] = 0;
		state = strrchr(stat, ')');
		if (state && state[1] == ' ' && state[2] == 'S')
			return;
	}
}

/* What the kernel has counted of the thread: ns on a CPU and waiting for one, and ticks of both kinds on a CPU. */
static void of_kernel(const char *thread)
{
	char text[512] = "", *rest;
	long long ran = -1, waited = -1;
	unsigned long user = 0, system = 0;
	int fd = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);

	check(fd < 0 || read(fd, text, sizeof(text) - 1) <= 0, "stat");
	close(fd);
	rest = strrchr(text, ')');
	check(!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			      &system) != 2,
	      "stat");
	fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	memset(text, 0, sizeof(text));
	check(fd < 0 || read(fd, text, sizeof(text) - 1) <= 0, "schedstat");
	close(fd);
	check(sscanf(text, "%lld %lld", &ran, &waited) != 2, "schedstat");
	printf("kernel %s %lld %lld %lu\n", thread, ran, waited, user + system);
}

static void say(const char *what, const char *thread, int64_t begin)
{
	of_kernel(thread);
	printf("%s %s %ld %lld\n", what, thread, (long)syscall(SYS_gettid),
	       (long long)(now(CLOCK_MONOTONIC) - begin));
}

static void *sleeper(void *unused)
{
	int64_t begin = now(CLOCK_MONOTONIC);

	(void)unused;
	for (int i = 0; i < 10; i++)
		pause_for(5 * MS);
	say("sleep", "sleeper", begin);
	return NULL;
}

static void *holder(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	put(held);
	when_blocked(&locks);
	pause_for(10 * MS);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void *locker(void *unused)
{
	int64_t begin;

	(void)unused;
	take(held);
	here(&locks);
	begin = now(CLOCK_MONOTONIC);
	pthread_mutex_lock(&mutex);
	say("lock", "locker", begin);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void *reader(void *unused)
{
	int64_t begin = now(CLOCK_MONOTONIC);

	(void)unused;
	here(&reads);
	take(word);
	say("pipe", "reader", begin);
	return NULL;
}

static void *writer(void *unused)
{
	(void)unused;
	when_blocked(&reads);
	pause_for(15 * MS);
	put(word);
	return NULL;
}

static void *first(void *unused)
{
	int64_t begin = now(CLOCK_MONOTONIC);

	(void)unused;
	here(&is_first);
	take(one);
	say("chain", "first", begin);
	return NULL;
}

static void *second(void *unused)
{
	(void)unused;
	here(&is_second);
	take(two);
	put(one);
	return NULL;
}

static void *third(void *unused)
{
	(void)unused;
	when_blocked(&is_first);
	when_blocked(&is_second);
	pause_for(20 * MS);
	put(two);
	return NULL;
}

/* Both on CPU 0: what one has, the other waits for. */
static void *spin(void *name)
{
	cpu_set_t set;
	int64_t begin = now(CLOCK_MONOTONIC), used;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	check(sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
	pthread_barrier_wait(&rivals);
	used = now(CLOCK_THREAD_CPUTIME_ID);
	while (now(CLOCK_THREAD_CPUTIME_ID) - used < 30 * MS)
		;
	say("hog", name, begin);
	return NULL;
}

static void *hog(void *unused)
{
	(void)unused;
	return spin("hog");
}

static void *rival(void *unused)
{
	(void)unused;
	return spin("rival");
}

struct begun {
	const char *name;
	void *(*body)(void *);
};

/* By itself: before who has made it has a CPU again it may have ended. */
static void *named(void *argument)
{
	const struct begun *begun = argument;

	check(pthread_setname_np(pthread_self(), begun->name) != 0, "pthread_setname_np");
	return begun->body(NULL);
}

static void run(const char *const *names, void *(*const *bodies)(void *), int count)
{
	struct begun begun[3];
	pthread_t threads[3];

	for (int i = 0; i < count; i++) {
		begun[i] = (struct begun){ names[i], bodies[i] };
		check(pthread_create(&threads[i], NULL, named, &begun[i]) != 0, "pthread_create");
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* Nobody wakes it: the time is over, in a call that might have been ended otherwise. */
static void give_up(void)
{
	struct timespec time = { .tv_nsec = 10000000 };
	static uint32_t never;

	check(poll(NULL, 0, 10), "poll");
	check(syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) != -1 ||
		      errno != ETIMEDOUT,
	      "futex");
}

int main(void)
{
	int *pipes[] = { held, word, one, two };

	for (int i = 0; i < 4; i++)
		check(pipe(pipes[i]), "pipe");
	check(pthread_barrier_init(&rivals, NULL, 2) != 0, "pthread_barrier_init");
	give_up();
	run((const char *const[]){ "sleeper" }, (void *(*const[])(void *)){ sleeper }, 1);
	run((const char *const[]){ "holder", "locker" },
	    (void *(*const[])(void *)){ holder, locker }, 2);
	run((const char *const[]){ "reader", "writer" },
	    (void *(*const[])(void *)){ reader, writer }, 2);
	run((const char *const[]){ "first", "second", "third" },
	    (void *(*const[])(void *)){ first, second, third }, 3);
	run((const char *const[]){ "hog", "rival" }, (void *(*const[])(void *)){ hog, rival }, 2);
	return 0;
}
