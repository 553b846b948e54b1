/* SPDX-License-Identifier: MIT */
/*
 * rseq.h - restartable sequences: short critical sections on the current CPU, without atomics.
 *
 * The kernel sends a thread that is preempted, migrated or signalled inside a section to its abort
 * address. So all stores up to there may have happened, the last one has not. Each section here
 * checks that the thread still is on @cpu and that a 64-bit word, the *guard*, still holds @expect,
 * and ends with one store that makes the others count. None retries by itself: 0 means that nothing
 * was published, and the caller starts over from what it read.
 *
 *   strata_rseq_available()      is the calling process' libc registering its threads?
 *   strata_rseq_cpu()            the CPU that the thread runs on
 *   strata_rseq_store_plain()    if guard: store 64 bits of packet information
 *   strata_rseq_store_release()  if guard: store a shared word
 *   strata_rseq_cas()            the shared word is its own guard
 *   strata_rseq_publish_first()  the same for the first record of a sub-buffer, with its begin time
 *   strata_rseq_publish()        if guard: copy a record, store last_timestamp, then {write_count,
 *                                records} at once
 *
 * last_timestamp is at or after each record that is there, because it is stored before write_count,
 * and at or before each one to come, because a section whose time is earlier fails.
 *
 * The 16 bytes of the last one are a single instruction, and an instruction is interrupted or not;
 * so the count of records is exact, and costs no second section. A reader needs write_count alone.
 *
 * A section's descriptor is taken away again when it is left, not lazily: the kernel would look at
 * it after the library with the section was unloaded, and kill the thread. Clients that are never unloaded may define
 * STRATA_RSEQ_STAYS, which one_section_x86_64.h heeds.
 *
 * Source: rseq(2); glibc 2.35 and later register each thread.
 */
#ifndef STRATA_RING_RSEQ_H
#define STRATA_RING_RSEQ_H

#include <strata/ring/stream.h>

/*
 * Bytes that strata_rseq_publish() copies to @dst: the low @header_bytes of @header (at most 8, in memory
 * order), then @payload_bytes from @payload. Writes and reads whole 64-bit words: up to 7 bytes past the
 * end of both are touched, which strata_ring_fits() leaves room for.
 */
struct strata_rseq_copy {
	unsigned char *dst;
	uint64_t header;
	uint64_t header_bytes;
	const unsigned char *payload;
	uint64_t payload_bytes;
};

/*
 * Bytes that strata_rseq_publish_first() copies, header included, to the begin of a sub-buffer; @begin and
 * full_timestamp get the same time as last_timestamp. Whole words, as above.
 */
struct strata_rseq_first {
	uint64_t *begin;
	unsigned char *dst;
	const unsigned char *src;
	uint64_t src_bytes;
};

#if defined(STRATA_RING_MODEL)
#include <strata/ring/rseq_model.h>
#elif defined(__x86_64__) && defined(__linux__) && defined(__SSE2__) && !defined(__ILP32__) && \
	!defined(STRATA_THREAD_SANITIZER) && !defined(STRATA_RING_NO_RSEQ)
#define STRATA_RSEQ_NATIVE 1
#elif defined(__aarch64__) && defined(__linux__) && !defined(__ILP32__) && \
	!defined(__AARCH64EB__) && !defined(STRATA_THREAD_SANITIZER) &&    \
	!defined(STRATA_RING_NO_RSEQ)
#define STRATA_RSEQ_NATIVE 1
#endif

#if defined(STRATA_RSEQ_NATIVE)

/* Set by libc. Weak, because other libcs and older glibcs do not have it. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/*
 * Offset of the thread's rseq area. A library may have its own copy of libc's constant, which saves a load for each
 * record.
 */
#ifndef STRATA_RSEQ_OFFSET
#define STRATA_RSEQ_OFFSET __rseq_offset
#endif

/* Offsets in struct rseq of <linux/rseq.h>. */
#define STRATA_RSEQ_CPU_ID  4
#define STRATA_RSEQ_RSEQ_CS 8

/**
 * strata_rseq_available() - return whether the calling process' libc registers its threads.
 *
 * Returns 1: records can be published by write position; 0: by commit only.
 * Context: any, a signal handler, too. The answer does not change while the process runs.
 * Ordering: none: private memory, constants of libc.
 * Checked: test: record one_section.
 */
STRATA_INLINE int strata_rseq_available(void)
{
	return &__rseq_size && &__rseq_offset && __rseq_size;
}

#if defined(__x86_64__)
#include <strata/ring/rseq_x86_64.h>
#else
#include <strata/ring/rseq_aarch64.h>
#endif

STRATA_INLINE int strata_rseq_store_release(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					    uint64_t *dst, uint64_t value)
{
	return strata_rseq_store_plain(cpu, guard, expect, dst, value);
}

#elif !defined(STRATA_RING_MODEL)

/*
 * This machine has no restartable sequences: strata_rseq_available() says so, and nothing else is called.
 */
STRATA_INLINE int strata_rseq_available(void)
{
	return 0;
}

STRATA_INLINE uint32_t strata_rseq_cpu(void)
{
	return ~UINT32_C(0);
}

STRATA_INLINE int strata_rseq_store_plain(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					  uint64_t *dst, uint64_t value)
{
	(void)cpu, (void)guard, (void)expect, (void)dst, (void)value;
	return 0;
}

STRATA_INLINE int strata_rseq_store_release(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					    uint64_t *dst, uint64_t value)
{
	return strata_rseq_store_plain(cpu, guard, expect, dst, value);
}

STRATA_INLINE int strata_rseq_publish(uint32_t cpu, struct strata_abi_ring_stream *shared,
				      uint64_t expect, uint64_t bytes, uint64_t records,
				      uint64_t now, const struct strata_rseq_copy *copy)
{
	(void)cpu, (void)shared, (void)expect, (void)bytes, (void)records, (void)now, (void)copy;
	return 0;
}

STRATA_INLINE int strata_rseq_publish_first(uint32_t cpu, struct strata_abi_ring_stream *shared,
					    uint64_t expect, uint64_t bytes, uint64_t now,
					    const struct strata_rseq_first *first)
{
	(void)cpu, (void)shared, (void)expect, (void)bytes, (void)now, (void)first;
	return 0;
}

#endif

STRATA_INLINE int strata_rseq_cas(uint32_t cpu, uint64_t *p, uint64_t expect, uint64_t desired)
{
	return strata_rseq_store_release(cpu, p, expect, p, desired);
}

#endif /* STRATA_RING_RSEQ_H */
