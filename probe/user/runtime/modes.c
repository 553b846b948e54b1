/* SPDX-License-Identifier: MIT */
/*
 * modes.c - modes of a program that tracing would not survive, noted before the program enters them.
 *
 *   seccomp strict mode   this thread may not read the CPU's counter, nor make a system call
 *   PR_TSC_SIGSEGV        this thread and those that it makes may not read the counter, nor may what the
 *                         process executes
 *   seccomp filter        a system call that the program does not expect may be its end
 *   PR_SET_DUMPABLE       no tracer without the rights of root may write to the code any more
 *
 * The fast path of a record asks nothing of this. When the first thread is about to lose its clock, the
 * channel that the fast path takes is replaced for good by strata_no_channel, which has no streams and fits no
 * session that is on: all threads then go the longer way, which looks here.
 */
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "thread.h"

#define NR_THREADS 64

uint32_t strata_clock_for;

/*
 * Takes the place of the channel of the fast path: its session never has the channel's generation.
 */
static struct strata_abi_user_session no_session;
struct strata_user_channel strata_no_channel = { .generation = 1, .session = &no_session };

/* The threads without a clock, by their thread pointers. One that a later thread gets stays here. */
static void *threads[NR_THREADS];

/*
 * The number of reasons for which STRATA_CLOCK_FOR_NOBODY holds: calls that the kernel has not
 * refused, threads without room, and inherited state.
 */
static uint32_t reasons;

static void *this_thread(void)
{
	return __builtin_thread_pointer();
}

/* Adds the calling thread to the noted threads. Returns 0 if there is no room. */
static int note_thread(void)
{
	uint32_t i;
	void *found;

	for (i = 0; i < NR_THREADS; i++) {
		found = NULL;
		if (__atomic_compare_exchange_n(&threads[i], &found, this_thread(), 0,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
		    found == this_thread())
			return 1;
	}
	return 0;
}

static void forget_thread(void)
{
	uint32_t i;

	for (i = 0; i < NR_THREADS; i++)
		if (__atomic_load_n(&threads[i], __ATOMIC_RELAXED) == this_thread())
			__atomic_store_n(&threads[i], NULL, __ATOMIC_SEQ_CST);
}

int strata_thread_without_clock(void)
{
	uint32_t i;

	if (__atomic_load_n(&strata_clock_for, __ATOMIC_RELAXED) == STRATA_CLOCK_FOR_NOBODY)
		return 1;
	for (i = 0; i < NR_THREADS; i++)
		if (__atomic_load_n(&threads[i], __ATOMIC_RELAXED) == this_thread())
			return 1;
	return 0;
}

static uint32_t threads_without_clock(void)
{
	uint32_t i, nr = 0;

	for (i = 0; i < NR_THREADS; i++)
		nr += !!__atomic_load_n(&threads[i], __ATOMIC_SEQ_CST);
	return __atomic_load_n(&strata_clock_for, __ATOMIC_SEQ_CST) == STRATA_CLOCK_FOR_NOBODY ?
		       UINT32_MAX :
		       nr;
}

/*
 * Tells tracers, which find in /proc the threads that are in strict mode, how many of them we know
 * of. Several threads may do this at once: the last one to store has counted again after its store,
 * with the same result.
 */
static void tell_without_clock(void)
{
	uint32_t nr = threads_without_clock(), told;

	do {
		told = nr;
		__atomic_store_n(&strata_runtime.control->without_clock, told, __ATOMIC_SEQ_CST);
		nr = threads_without_clock();
	} while (nr != told);
}

/*
 * Closes the fast path for threads that have not begun it. make_common() of session.c puts no
 * channel in the place of this one.
 */
static void close_short_way(uint32_t clock_for)
{
	uint32_t now = __atomic_load_n(&strata_clock_for, __ATOMIC_RELAXED);

	while (now < clock_for &&
	       !__atomic_compare_exchange_n(&strata_clock_for, &now, clock_for, 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	__atomic_store_n(&strata_mapped.common, &strata_no_channel, __ATOMIC_SEQ_CST);
}

/*
 * Notes that this thread loses its clock; with @others, the threads that it creates lose it too, and are not known
 * here.
 */
static void lose_clock(int others)
{
	/* A child that has not made its own memory makes it now, while it can. */
	strata_memory_own();
	if (!others && note_thread()) {
		close_short_way(STRATA_CLOCK_NOT_FOR_ALL);
	} else {
		/* The reason is counted first: see keep_clock(). */
		__atomic_fetch_add(&reasons, 1, __ATOMIC_SEQ_CST);
		close_short_way(STRATA_CLOCK_FOR_NOBODY);
	}
	tell_without_clock();
}

/* Notes that the kernel has refused to take the counter from this thread: it continues on the slow path. */
static void keep_clock(void)
{
	uint32_t nobody = STRATA_CLOCK_FOR_NOBODY;

	if (__atomic_sub_fetch(&reasons, 1, __ATOMIC_SEQ_CST))
		return;
	__atomic_compare_exchange_n(&strata_clock_for, &nobody, STRATA_CLOCK_NOT_FOR_ALL, 0,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	/* Another thread may have found a reason in between, and have published it before us. */
	if (__atomic_load_n(&reasons, __ATOMIC_SEQ_CST))
		close_short_way(STRATA_CLOCK_FOR_NOBODY);
	tell_without_clock();
}

/* Counts the records that a thread without a clock would have written. Makes no system call. */
void strata_count_without_clock(uint32_t sessions)
{
	struct strata_abi_user_session *session;

	if (!strata_memory_own())
		return;
	for (; sessions; sessions &= sessions - 1) {
		session = &strata_runtime.sessions[__builtin_ctz(sessions)];
		if (__atomic_load_n(&session->status, __ATOMIC_ACQUIRE) ==
		    STRATA_ABI_USER_SESSION_ACTIVE)
			strata_add_relaxed(&session->discarded_no_clock, 1);
	}
}

/* The machine's CLOCK_MONOTONIC [ns], also where the vdso may not read the counter: the kernel may. */
uint64_t strata_now_ns(void)
{
	struct timespec t = { 0, 0 };

	if (!strata_without_clock())
		return strata_machine_ns();
	strata_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec -
	       (uint64_t)strata_time_namespace_ns;
}

/* Looks for modes that the process has inherited. */
void strata_modes_begin(void)
{
	int tsc = PR_TSC_ENABLE;

	strata_runtime.seccomp = (int)strata_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
	/* The call fails with EINVAL on machines without this mode. */
	if (!strata_syscall(SYS_prctl, PR_GET_TSC, &tsc, 0, 0, 0) && tsc == PR_TSC_SIGSEGV) {
		__atomic_fetch_add(&reasons, 1, __ATOMIC_SEQ_CST);
		close_short_way(STRATA_CLOCK_FOR_NOBODY);
	}
}

/* Forgets the other threads: only this one is left after fork(), and it may make system calls. */
void strata_modes_after_fork(void)
{
	memset(threads, 0, sizeof(threads));
	if (__atomic_load_n(&strata_clock_for, __ATOMIC_RELAXED) == STRATA_CLOCK_NOT_FOR_ALL)
		__atomic_store_n(&strata_clock_for, STRATA_CLOCK_FOR_ALL, __ATOMIC_RELAXED);
	else if (strata_clock_for)
		close_short_way(STRATA_CLOCK_FOR_NOBODY);
}

/* Maps the channels of the sessions that record: soon the program can map nothing any more. */
static void map_channels(void)
{
	uint32_t claimed;

	if (!strata_memory_own())
		return;
	for (claimed = strata_sessions_claimed(); claimed; claimed &= claimed - 1)
		strata_session_prepare((uint32_t)__builtin_ctz(claimed));
}

enum mode {
	HARMLESS,
	STRICT,
	NO_COUNTER,
	FILTER,
	NOT_DUMPABLE,
};

static enum mode mode_of(long call, long a, long b)
{
	if (call == SYS_seccomp)
		return (unsigned)a == SECCOMP_SET_MODE_STRICT ? STRICT :
		       (unsigned)a == SECCOMP_SET_MODE_FILTER ? FILTER :
								HARMLESS;
	if (call != SYS_prctl)
		return HARMLESS;
	switch ((int)a) {
	case PR_SET_SECCOMP:
		return b == SECCOMP_MODE_STRICT ? STRICT :
		       b == SECCOMP_MODE_FILTER ? FILTER :
						  HARMLESS;
	case PR_SET_TSC:
		return (int)b == PR_TSC_SIGSEGV ? NO_COUNTER : HARMLESS;
	case PR_SET_DUMPABLE:
		return b != 1 ? NOT_DUMPABLE : HARMLESS;
	default:
		return HARMLESS;
	}
}

static void before(enum mode mode)
{
	int saved = errno;

	if (mode == STRICT || mode == NO_COUNTER)
		lose_clock(mode == NO_COUNTER);
	if (mode == FILTER) {
		map_channels();
		__atomic_fetch_add(&strata_runtime.shut_in, 1, __ATOMIC_SEQ_CST);
	}
	if (mode == NOT_DUMPABLE)
		strata_objects_by_flag();
	errno = saved;
}

/*
 * Takes back what was noted for a call that the kernel has refused. A fast path that was closed for
 * it stays closed.
 */
static void refused(enum mode mode)
{
	if (mode == STRICT) {
		forget_thread();
		tell_without_clock();
	}
	if (mode == NO_COUNTER)
		keep_clock();
	if (mode == FILTER)
		__atomic_fetch_sub(&strata_runtime.shut_in, 1, __ATOMIC_SEQ_CST);
}

/*
 * Returns 1 for calls that change ids of the calling thread, of which libc tells no other thread.
 */
static int changes_ids(long call)
{
	return call == SYS_setuid || call == SYS_setgid || call == SYS_setreuid ||
	       call == SYS_setregid || call == SYS_setresuid || call == SYS_setresgid;
}

/* Makes a system call of the program as libc does. A call that tracing would not survive is noted first. */
long strata_noted_call(long call, long a, long b, long c, long d, long e)
{
	enum mode mode = strata_runtime.memory ? mode_of(call, a, b) : HARMLESS;
	long result;

	before(mode);
	if (call == SYS_unshare || call == SYS_setns)
		__atomic_store_n(&strata_runtime.moved, 1, __ATOMIC_RELAXED);
	result = strata_syscall(call, a, b, c, d, e);
	if (result < 0)
		refused(mode);
	else if (call == SYS_setns && strata_runtime.memory && !strata_sandboxed())
		strata_time_namespace_look();
	else if (call == SYS_prctl && (int)a == PR_SET_NAME)
		strata_thread_named(0, (const char *)b);
	else if (changes_ids(call))
		strata_tell();
	return result;
}
