/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the id of the thread that writes a record, as gettid() gives it, without a system call. It is in
 * front of the payload of each record in sessions that want it (STRATA_ABI_USER_SESSION_VTID).
 */
#ifndef STRATA_RUNTIME_THREAD_H
#define STRATA_RUNTIME_THREAD_H

#include "thread_memory.h"
#include "runtime.h"

#define STRATA_USER_VTID_BYTES 4u

/*
 * The id of this thread, prepared so that strata_thread_with() makes a record's first 8 bytes of it
 * by one addition. 0 if the id is not known yet. With a lower half of 0 the upper one is negative:
 * between vfork() and the child's end or exec, when the child has the parent's memory, and only the
 * kernel knows who is asking. Else the id less 1, and 2^32 - STRATA_THREAD_CARRY below, so that the
 * addition's carry makes it the id.
 */
extern STRATA_OF_THREAD uint64_t strata_thread STRATA_HIDDEN;

#define STRATA_THREAD_CARRY	    UINT64_C(0x40000000)
#define STRATA_THREAD_VFORKED	    -1
#define STRATA_THREAD_VFORKED_TWICE -2 /* a child of such a child, or of its child, ... */

STRATA_INLINE int32_t strata_thread_noted(void)
{
	const uint64_t noted = __atomic_load_n(&strata_thread, __ATOMIC_RELAXED);

	return (int32_t)((noted + STRATA_THREAD_CARRY) >> 32);
}

/*
 * A record's first 8 bytes without the time: the event's @id in the lower half, where the header is, and the thread in the
 * upper one, where the context is. Where the thread is not known the lower half is STRATA_THREAD_CARRY or more, which is
 * no id that has a short header.
 */
STRATA_INLINE uint64_t strata_thread_with(uint16_t id)
{
	return __atomic_load_n(&strata_thread, __ATOMIC_RELAXED) + STRATA_THREAD_CARRY + id;
}

/* Notes the thread's @id, which is positive. */
STRATA_INLINE void strata_thread_note(int32_t id)
{
	__atomic_store_n(&strata_thread, ((uint64_t)(uint32_t)id << 32) - STRATA_THREAD_CARRY,
			 __ATOMIC_RELAXED);
}

STRATA_HIDDEN void strata_threads_begin(void);
STRATA_HIDDEN void strata_thread_after_fork(void);
STRATA_HIDDEN uint32_t strata_thread_ask(void);

/* Only where vfork() is libstrata's (interpose.c). */
#if defined(__x86_64__) && !defined(__ILP32__)
/* Functions of vfork.c */
STRATA_HIDDEN int strata_vforked_write(const struct strata_user_channel *channel,
				       const struct strata_ring_event *event,
				       unsigned char *payload);

STRATA_INLINE int strata_thread_is_vforked(void)
{
	return strata_thread_noted() < 0;
}
#else
#define strata_thread_is_vforked()		      0
#define strata_vforked_write(channel, event, payload) (-ESTALE)
#endif

/* Functions of thread_names.c */
extern struct strata_tracepoint strata_thread_name STRATA_HIDDEN;
STRATA_HIDDEN void strata_thread_named(int32_t id, const char *name);

/* Safe in a signal handler; errno stays. 0: it cannot be known. */
STRATA_INLINE uint32_t strata_thread_id(void)
{
	int32_t id = strata_thread_noted();

	return strata_likely(id > 0) ? (uint32_t)id : strata_thread_ask();
}

/* Puts the thread's id before @payload, which has room for it there. */
STRATA_INLINE void strata_thread_put(unsigned char *payload)
{
	uint32_t id = strata_thread_id();

	memcpy(payload - STRATA_USER_VTID_BYTES, &id, sizeof(id));
}

#endif /* STRATA_RUNTIME_THREAD_H */
