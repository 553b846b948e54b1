/* SPDX-License-Identifier: MIT */
/*
 * pthread.c - locks and conditions of libpthread. A lock is tried first: only who finds it taken waits, and only that is
 * an event of `pthread`. What a lock says of a try that fails otherwise (a dead owner, no right to it) it says of the lock.
 *
 * Who is cancelled in a wait leaves it without an end.
 */
#define STRATA_LIBC_PTHREAD
#include "events.h"
#include "replaced_function.h"

#include <pthread.h>

/* x86-64 has functions of before 2003, by the same names; others began with the present ones. */
#if defined(__x86_64__) && !defined(__ILP32__)
#define COND_VERSION "GLIBC_2.3.2"
#else
#define COND_VERSION NULL
#endif

#ifdef __GLIBC__
#define OWNER(mutex) __atomic_load_n(&(mutex)->__data.__owner, __ATOMIC_RELAXED)
#define WRITER(lock) __atomic_load_n(&(lock)->__data.__cur_writer, __ATOMIC_RELAXED)
#else
#define OWNER(mutex) 0
#define WRITER(lock) 0
#endif

/* An older libc may not have the newest of them. */
#define CALL(name, ...) (strata_next_##name() ? STRATA_LIBC_NEXT(name)(__VA_ARGS__) : ENOSYS)

/* The four events of a lock: those of waiting for it, and each call. */
#define LOCKS(name, type, try_name, event, owner, parameters, ...)                             \
	STRATA_LIBC_COLD static int recorded_##name parameters;                                \
	STRATA_LIBC_COLD static int recorded_##name parameters                                 \
	{                                                                                      \
		int result = strata_next_##try_name() ? CALL(try_name, lock) : EBUSY;          \
                                                                                               \
		if (result == EBUSY) {                                                         \
			STRATA_TRACE_EVENT(pthread, event##_begin, lock, owner(lock), caller); \
			result = CALL(name, __VA_ARGS__);                                      \
			STRATA_TRACE_EVENT(pthread, event##_end, lock, result);                \
		}                                                                              \
		STRATA_TRACE_EVENT(pthread_all, event, lock, result, caller);                  \
		return result;                                                                 \
	}

#define WANTS_LOCK(event)                                                 \
	__builtin_expect((STRATA_ENABLED(pthread, event##_begin) |        \
			  STRATA_ENABLED(pthread, event##_end) |          \
			  STRATA_ENABLED(pthread_all, event)) &&          \
				 !strata_libc_is_own(STRATA_LIBC_CALLER), \
			 0)

#define LOCK(name, type, try_name, event, owner)                                           \
	STRATA_LIBC_NEXT_IS(name)                                                          \
	LOCKS(name, type, try_name, event, owner, (type * lock, const void *caller), lock) \
	STRATA_LIBC_EXPORT int name(type *lock)                                            \
	{                                                                                  \
		if (WANTS_LOCK(event))                                                     \
			return recorded_##name(lock, STRATA_LIBC_CALLER);                  \
		return CALL(name, lock);                                                   \
	}

#define LOCK_TIMED(name, type, try_name, event, owner)                                      \
	STRATA_LIBC_NEXT_IS(name)                                                           \
	LOCKS(name, type, try_name, event, owner,                                           \
	      (type * lock, const struct timespec *until, const void *caller), lock, until) \
	STRATA_LIBC_EXPORT int name(type *lock, const struct timespec *until)               \
	{                                                                                   \
		if (WANTS_LOCK(event))                                                      \
			return recorded_##name(lock, until, STRATA_LIBC_CALLER);            \
		return CALL(name, lock, until);                                             \
	}

#define LOCK_CLOCK(name, type, try_name, event, owner)                                          \
	STRATA_LIBC_NEXT_IS(name)                                                               \
	LOCKS(name, type, try_name, event, owner,                                               \
	      (type * lock, clockid_t clock, const struct timespec *until, const void *caller), \
	      lock, clock, until)                                                               \
	STRATA_LIBC_EXPORT int name(type *lock, clockid_t clock, const struct timespec *until)  \
	{                                                                                       \
		if (WANTS_LOCK(event))                                                          \
			return recorded_##name(lock, clock, until, STRATA_LIBC_CALLER);         \
		return CALL(name, lock, clock, until);                                          \
	}

/* Defines a function that does not wait. It is recorded after the call. */
#define AFTER(name, type, event)                                                                  \
	STRATA_LIBC_NEXT_IS(name)                                                                 \
	STRATA_LIBC_EXPORT int name(type *lock)                                                   \
	{                                                                                         \
		int result = CALL(name, lock);                                                    \
                                                                                                  \
		if (!strata_libc_is_own(STRATA_LIBC_CALLER))                                      \
			STRATA_TRACE_EVENT(pthread_all, event, lock, result, STRATA_LIBC_CALLER); \
		return result;                                                                    \
	}

/*
 * Defines a function that is recorded before the call: after an unlock, the next owner's event
 * might be earlier. A call that fails has a second event.
 */
#define BEFORE(name, type, event)                                                     \
	STRATA_LIBC_NEXT_IS(name)                                                     \
	STRATA_LIBC_COLD static int recorded_##name(type *lock, const void *caller)   \
	{                                                                             \
		int result;                                                           \
                                                                                      \
		STRATA_TRACE_EVENT(pthread_all, event, lock, 0, caller);              \
		result = CALL(name, lock);                                            \
		if (result)                                                           \
			STRATA_TRACE_EVENT(pthread_all, event, lock, result, caller); \
		return result;                                                        \
	}                                                                             \
	STRATA_LIBC_EXPORT int name(type *lock)                                       \
	{                                                                             \
		if (__builtin_expect(STRATA_ENABLED(pthread_all, event), 0) &&        \
		    !strata_libc_is_own(STRATA_LIBC_CALLER))                          \
			return recorded_##name(lock, STRATA_LIBC_CALLER);             \
		return CALL(name, lock);                                              \
	}

AFTER(pthread_mutex_trylock, pthread_mutex_t, mutex_trylock)
AFTER(pthread_rwlock_tryrdlock, pthread_rwlock_t, rwlock_tryrdlock)
AFTER(pthread_rwlock_trywrlock, pthread_rwlock_t, rwlock_trywrlock)

LOCK(pthread_mutex_lock, pthread_mutex_t, pthread_mutex_trylock, mutex_lock, OWNER)
LOCK_TIMED(pthread_mutex_timedlock, pthread_mutex_t, pthread_mutex_trylock, mutex_lock, OWNER)
LOCK_CLOCK(pthread_mutex_clocklock, pthread_mutex_t, pthread_mutex_trylock, mutex_lock, OWNER)
BEFORE(pthread_mutex_unlock, pthread_mutex_t, mutex_unlock)

LOCK(pthread_rwlock_rdlock, pthread_rwlock_t, pthread_rwlock_tryrdlock, rwlock_rdlock, WRITER)
LOCK_TIMED(pthread_rwlock_timedrdlock, pthread_rwlock_t, pthread_rwlock_tryrdlock, rwlock_rdlock,
	   WRITER)
LOCK_CLOCK(pthread_rwlock_clockrdlock, pthread_rwlock_t, pthread_rwlock_tryrdlock, rwlock_rdlock,
	   WRITER)
LOCK(pthread_rwlock_wrlock, pthread_rwlock_t, pthread_rwlock_trywrlock, rwlock_wrlock, WRITER)
LOCK_TIMED(pthread_rwlock_timedwrlock, pthread_rwlock_t, pthread_rwlock_trywrlock, rwlock_wrlock,
	   WRITER)
LOCK_CLOCK(pthread_rwlock_clockwrlock, pthread_rwlock_t, pthread_rwlock_trywrlock, rwlock_wrlock,
	   WRITER)
BEFORE(pthread_rwlock_unlock, pthread_rwlock_t, rwlock_unlock)

/* ---- conditions ---- */

#define WAITS(name, parameters, call_arguments)                                                 \
	STRATA_LIBC_NEXT_OF(name, COND_VERSION)                                                 \
	STRATA_LIBC_EXPORT int name parameters                                                  \
	{                                                                                       \
		int result;                                                                     \
                                                                                                \
		STRATA_TRACE_EVENT(pthread, cond_wait_begin, cond, lock, STRATA_LIBC_CALLER);   \
		result = strata_next_##name() ? STRATA_LIBC_NEXT(name) call_arguments : ENOSYS; \
		STRATA_TRACE_EVENT(pthread, cond_wait_end, cond, lock, result);                 \
		return result;                                                                  \
	}

#define WAKES(name, event)                                                           \
	STRATA_LIBC_NEXT_OF(name, COND_VERSION)                                      \
	STRATA_LIBC_EXPORT int name(pthread_cond_t *cond)                            \
	{                                                                            \
		STRATA_TRACE_EVENT(pthread_all, event, cond, 0, STRATA_LIBC_CALLER); \
		return CALL(name, cond);                                             \
	}

WAITS(pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *lock), (cond, lock))
WAITS(pthread_cond_timedwait,
      (pthread_cond_t * cond, pthread_mutex_t *lock, const struct timespec *until),
      (cond, lock, until))
WAITS(pthread_cond_clockwait,
      (pthread_cond_t * cond, pthread_mutex_t *lock, clockid_t clock, const struct timespec *until),
      (cond, lock, clock, until))
WAKES(pthread_cond_signal, cond_signal)
WAKES(pthread_cond_broadcast, cond_broadcast)

__attribute__((constructor)) static void begin(void)
{
	strata_libc_find_own();
}
