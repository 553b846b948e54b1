/* SPDX-License-Identifier: MIT */
/*
 * thread.c - which thread is this? libc knows, but tells it by a system call only. It writes the id into a
 * recursive mutex that a thread holds, though: one of our own, in the thread's stack, says it.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>

#include "thread.h"

__thread int32_t strata_thread;

/* As libc registers them: what the kernel has of the area at least, and what stands in front of an abort. */
#define STRATA_RSEQ_BYTES     32
#define STRATA_RSEQ_SIGNATURE 0x53053053

/* A mutex of libc's says its owner's id: compared with the kernel's word when the process began. */
static int libc_knows;

/*
 * What libc believes this thread's id to be, 0 if it cannot be had. By the name that C11 gives to it, since
 * pthread_mutex_lock() is a function that tools replace, and programs with tracepoints in it.
 */
static int32_t said_by_libc(void)
{
#if defined(__GLIBC__) && defined(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
	union {
		pthread_mutex_t mutex;
		mtx_t c11;
	} own = { .mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };

	/* Nobody else knows it, nor will: it is left as it is. */
	return mtx_trylock(&own.c11) == thrd_success ? own.mutex.__data.__owner : 0;
#else
	return 0;
#endif
}

static int32_t said_by_kernel(void)
{
	return (int32_t)strata_syscall(SYS_gettid);
}

/* The process begins, in this thread. */
void strata_threads_begin(void)
{
	strata_thread = said_by_kernel();
	libc_knows = said_by_libc() == strata_thread;
}

/*
 * In the child of a fork(), or of a clone() that libc knows nothing of: what is noted, and what libc believes, may
 * be the parent's.
 */
void strata_thread_after_fork(void)
{
	strata_thread = said_by_kernel();
}

/* What strata_thread does not say. */
uint32_t strata_thread_ask(void)
{
	int saved = errno;
	int32_t id = __atomic_load_n(&strata_thread, __ATOMIC_RELAXED);
	int shared = id < 0;

	if (id <= 0) {
		id = 0;
		if (!shared && libc_knows)
			id = said_by_libc();
		else if (!__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
			id = said_by_kernel();
		/* A signal handler may have been quicker, with the same. */
		if (!shared && id > 0)
			__atomic_store_n(&strata_thread, id, __ATOMIC_RELAXED);
	}
	errno = saved;
	return id > 0 ? (uint32_t)id : 0;
}

/*
 * In the child of a vfork(), before it goes on: the kernel has registered no restartable sequences for it, without
 * which its records would damage those of other threads. Of the parent, whose memory this is, nothing changes: it waits,
 * and its registration is the kernel's. Not where no session may be, nor where a system call may be the child's end.
 */
void strata_thread_vforked(void)
{
#if defined(STRATA_RSEQ_NATIVE) && defined(__x86_64__)
	int saved = errno;

	if (!strata_runtime.memory || !strata_rseq_offset || !strata_sessions_claimed() ||
	    __atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		return;
	strata_syscall(SYS_rseq, (long)__builtin_thread_pointer() + strata_rseq_offset,
		       STRATA_RSEQ_BYTES, 0, STRATA_RSEQ_SIGNATURE);
	errno = saved;
#endif
}
