/* SPDX-License-Identifier: MIT */
/*
 * libc_counted.c - a program that allocates in all situations, and knows how often it has called what:
 *
 *   libc_counted N [PLUGIN]   with PLUGIN, which is loaded, all of them, and in the end itself with N alone
 *
 * prints "PID FIRST LAST FUNCTION COUNT" for its own code and for the plugin's, where the first two are addresses.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NR_malloc,
	NR_calloc,
	NR_realloc,
	NR_reallocarray,
	NR_memalign,
	NR_aligned_alloc,
	NR_valloc,
	NR_pvalloc,
	NR_posix_memalign,
	NR_free,
	NR
};
static const char *const names[] = { "malloc",	       "calloc",	"realloc", "reallocarray",
				     "memalign",       "aligned_alloc", "valloc",  "pvalloc",
				     "posix_memalign", "free" };
static unsigned long counts[NR];
/* libjemalloc has none: libc gives what it cannot take back. */
static int has_pvalloc;

#define COUNTED(name, ...) \
	(__atomic_fetch_add(&counts[NR_##name], 1, __ATOMIC_RELAXED), name(__VA_ARGS__))

extern const char __executable_start, etext;

/* By write(): printf() allocates, and what is behind this is not said. */
static void say(void)
{
	char text[256];
	int i, bytes;

	for (i = 0; i < NR; i++) {
		bytes = snprintf(text, sizeof(text), "%d %p %p %s %lu\n", getpid(),
				 (const void *)&__executable_start, (const void *)&etext, names[i],
				 counts[i]);
		if (write(1, text, (size_t)bytes) != bytes)
			abort();
	}
}

static void check(const void *ptr)
{
	if (!ptr)
		abort();
}

static void each(unsigned long n)
{
	void *ptr, *other;
	unsigned long i;

	for (i = 0; i < n; i++) {
		check(ptr = COUNTED(malloc, 1 + i % 5000));
		check(ptr = COUNTED(realloc, ptr, 100 + i));
		check(ptr = COUNTED(reallocarray, ptr, 3, 100 + i));
		check(other = COUNTED(calloc, 7, 1 + i % 100));
		COUNTED(free, ptr);
		COUNTED(free, other);
		if (i % 64)
			continue;
		check(ptr = COUNTED(memalign, 64, 100));
		COUNTED(free, ptr);
		check(ptr = COUNTED(aligned_alloc, 32, 320));
		COUNTED(free, ptr);
		check(ptr = COUNTED(valloc, 10));
		COUNTED(free, ptr);
		if (has_pvalloc) {
			check(ptr = COUNTED(pvalloc, 10));
			COUNTED(free, ptr);
		}
		if (COUNTED(posix_memalign, &ptr, 128, 1000))
			abort();
		COUNTED(free, ptr);
		COUNTED(free, NULL);
	}
}

static void *thread(void *n)
{
	each(*(unsigned long *)n);
	return NULL;
}

static void handler(int signal)
{
	(void)signal;
	each(3);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_t threads[8];
	struct sigaction action = { .sa_handler = handler };
	int i, status;
	pid_t pid;

	has_pvalloc = !getenv("STRATA_TEST_NO_PVALLOC");
	each(n);
	if (argc < 3) {
		say();
		return 0;
	}
	sigaction(SIGUSR1, &action, NULL);
	for (i = 0; i < 10; i++)
		raise(SIGUSR1);
	if (!dlopen(argv[2], RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	for (i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, thread, &n);
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	pid = vfork();
	if (!pid) {
		COUNTED(free, COUNTED(malloc, 100));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	/* Which are counted by nobody else, whatever the child's end says. */
	each(7);
	pid = fork();
	if (!pid) {
		memset(counts, 0, sizeof(counts));
		each(n);
		pthread_create(&threads[0], NULL, thread, &n);
		pthread_join(threads[0], NULL);
		say();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	each(n);
	say();
	argv[2] = NULL;
	execv("/proc/self/exe", argv);
	return 2;
}
