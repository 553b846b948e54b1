/* SPDX-License-Identifier: MIT */
/*
 * thread.c - find the id of this thread without a system call. libc knows, but tells it by a system call only. It
 * writes the id into a recursive mutex that a thread holds, though: one of our own, in the thread's stack, says it.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>

#include "old_glibc.h"
#include "thread.h"

STRATA_OF_THREAD uint64_t strata_thread;

/* True if libc's mutexes hold the id of their owner, which was compared with the kernel's answer when the process began. */
static int libc_knows;

#if defined(STRATA_OLDER_FIRST) && !defined(STRATA_RUNTIME_ARCHIVE)
extern __typeof__(pthread_mutex_trylock) __pthread_mutex_trylock;
STRATA_OLDER(__pthread_mutex_trylock, STRATA_OLDER_FIRST)
#define BY_OTHER_NAME(own) \
	STRATA_OLDER_HAS(__pthread_mutex_trylock) && !__pthread_mutex_trylock(&(own)->mutex)
#else
#define BY_OTHER_NAME(own) mtx_trylock(&(own)->c11) == thrd_success
#endif

/*
 * Returns the id that libc has noted for this thread, 0 if it cannot be had. Uses a name of libc's
 * own or of C11, since pthread_mutex_lock() is a function that tools replace, and programs with
 * tracepoints in it.
 */
static int32_t said_by_libc(void)
{
#if defined(__GLIBC__) && defined(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
	union {
		pthread_mutex_t mutex;
		mtx_t c11;
	} own = { .mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };

	/* The mutex is left locked, since no other thread knows it or will. */
	return (BY_OTHER_NAME(&own)) ? own.mutex.__data.__owner : 0;
#else
	return 0;
#endif
}

static int32_t said_by_kernel(void)
{
	return (int32_t)strata_syscall(SYS_gettid);
}

/* Begins the bookkeeping of threads, in the thread that makes the process' memory. */
void strata_threads_begin(void)
{
	strata_thread_note(said_by_kernel());
	libc_knows = said_by_libc() == strata_thread_noted();
	strata_interpose_begin();
}

/*
 * Handles the child of a fork(), or of a clone() that libc does not know of: notes, and libc's own state, may be the
 * parent's.
 */
void strata_thread_after_fork(void)
{
	strata_thread_note(said_by_kernel());
	strata_tell();
}

/* Asks the kernel for the thread's id, if strata_thread does not have it. */
uint32_t strata_thread_ask(void)
{
	int saved = errno;
	int32_t id = strata_thread_noted();
	int shared = id < 0;

	if (id <= 0) {
		id = 0;
		if (!shared && libc_knows)
			id = said_by_libc();
		else if (!__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
			id = said_by_kernel();
		/* A signal handler may have stored the id before us; the id is the same. */
		if (!shared && id > 0)
			strata_thread_note(id);
	}
	errno = saved;
	return id > 0 ? (uint32_t)id : 0;
}
