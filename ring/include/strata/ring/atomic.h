/* SPDX-License-Identifier: MIT */
/*
 * atomic.h - the only place of the ring buffer that touches shared memory.
 *
 * Production: thin names for the compiler's builtins; the memory order is in the name.
 * -DSTRATA_RING_MODEL: every access is a call into the model checker (ring/check/engine/engine.h),
 * where a 64-bit field holds the identity of a checked object. Nothing else of the library knows.
 *
 * __bpf__: what a BPF program has (clang -target bpf -ffreestanding), where the verifier looks at each
 * access: see atomic_bpf.h.
 *
 * Three families:
 *   strata_load_*, strata_store_*, strata_cas_*, strata_add_*   between any two CPUs
 *   strata_local_*   one instruction, atomic against interrupts and signals of this CPU only
 *   strata_plain_*   payload and packet information, published by one of the above
 */
#ifndef STRATA_RING_ATOMIC_H
#define STRATA_RING_ATOMIC_H

#include <strata/ring/platform.h>

#define strata_likely(x)   __builtin_expect(!!(x), 1)
#define strata_unlikely(x) __builtin_expect(!!(x), 0)
#define STRATA_INLINE	   static inline __attribute__((always_inline, unused))
#define STRATA_FUNC	   static __attribute__((unused))
#ifdef __bpf__
/* @x is worked out here, and not later where it is used. */
#define STRATA_HERE(x) __asm__ volatile("" : "+r"(x))
/* BPF has neither calls through pointers nor a section for cold code. */
#define STRATA_CALLBACK STRATA_INLINE
#ifndef STRATA_SLOW /* a program's own, where each of these is called once: see switch.h */
#define STRATA_SLOW static __attribute__((__noinline__, unused))
#endif
#define STRATA_SLOW_HEADER STRATA_INLINE /* returns a structure, which a BPF function cannot */
#else
#define STRATA_HERE(x)	   ((void)(x))
/* Called through a pointer, too, which an always_inline function cannot be with -Og. */
#define STRATA_CALLBACK	   static inline __attribute__((unused))
#define STRATA_SLOW	   static __attribute__((__noinline__, cold, unused))
#define STRATA_SLOW_HEADER STRATA_SLOW
#endif

/*
 * Number of attempts at an operation that another producer can spoil. Without end, and lock-free; but the
 * verifier of BPF wants one, and a kernel must not wait for who has its memory mapped: there, as many as
 * interrupts can nest and to spare, then the record is discarded as nested.
 */
#if defined(__bpf__) || defined(__KERNEL__)
#define STRATA_RING_TRIES_END 1
#define STRATA_RING_TRIES(n)  for (uint32_t n = 0; n < 8; n++)
#else
#define STRATA_RING_TRIES(n) for (;;)
#endif

/* ThreadSanitizer must see every access, so all of them are atomics there. */
#if defined(__SANITIZE_THREAD__)
#define STRATA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRATA_THREAD_SANITIZER 1
#endif
#endif

#ifdef STRATA_RING_MODEL

#ifdef __cplusplus
extern "C" {
#endif
uint64_t mc_new(uint64_t initial, const char *name);
uint64_t mc_load(uint64_t id, int order);
void mc_store(uint64_t id, uint64_t value, int order);
void mc_store_hint(uint64_t id, uint64_t value, int order);
int mc_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order);
int mc_local_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order);
uint64_t mc_add(uint64_t id, uint64_t value, int order);
uint64_t mc_local_add(uint64_t id, uint64_t value, int order);
void mc_fence(int order);
void mc_plain_write(void *dst, const void *src, size_t n);
void mc_plain_read(void *dst, const void *src, size_t n);
int mc_peek(void *dst, const void *src, size_t n);
#ifdef __cplusplus
}
#endif

#define STRATA_ATOMIC_INIT(p, v)      ((void)(*(p) = mc_new((v), #p)))
#define STRATA_ATOMIC_LOAD(p, o)      mc_load(*(p), (o))
#define STRATA_ATOMIC_STORE(p, v, o)  mc_store(*(p), (v), (o))
#define STRATA_ATOMIC_HINT(p, v, o)   mc_store_hint(*(p), (v), (o))
#define STRATA_ATOMIC_CAS(p, e, d, o) mc_cas(*(p), (e), (d), (o))
#define STRATA_ATOMIC_ADD(p, v, o)    mc_add(*(p), (v), (o))
#define STRATA_ATOMIC_FENCE(o)	      mc_fence(o)
#define STRATA_LOCAL_CAS(p, e, d, o)  mc_local_cas(*(p), (e), (d), (o))
#define STRATA_LOCAL_ADD(p, v, o)     mc_local_add(*(p), (v), (o))
#define STRATA_PLAIN_WRITE(d, s, n)   mc_plain_write((d), (s), (n))
#define STRATA_PLAIN_READ(d, s, n)    mc_plain_read((d), (s), (n))
#define STRATA_PLAIN_PEEK(d, s, n)    ((void)mc_peek((d), (s), (n)))

#elif defined(__bpf__)

#include <strata/ring/atomic_bpf.h>

#else /* production */

#ifndef __KERNEL__
STRATA_INLINE void strata_atomic_requires_lock_free_64_bit(void)
{
	/* A library call behind an atomic would take a lock, which a signal handler cannot. */
	typedef char check[__atomic_always_lock_free(sizeof(uint64_t), 0) ? 1 : -1];
	(void)sizeof(check);
}
#endif

#define STRATA_ATOMIC_INIT(p, v)     __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define STRATA_ATOMIC_LOAD(p, o)     __atomic_load_n((p), (o))
#define STRATA_ATOMIC_STORE(p, v, o) __atomic_store_n((p), (v), (o))
#define STRATA_ATOMIC_HINT(p, v, o)  __atomic_store_n((p), (v), (o))
#define STRATA_ATOMIC_CAS(p, e, d, o) \
	__atomic_compare_exchange_n((p), (e), (d), 0, (o), __ATOMIC_RELAXED)
#define STRATA_ATOMIC_ADD(p, v, o)  __atomic_fetch_add((p), (v), (o))
#define STRATA_ATOMIC_FENCE(o)	    __atomic_thread_fence(o)
#define STRATA_PLAIN_WRITE(d, s, n) ((void)__builtin_memcpy((d), (s), (n)))
#define STRATA_PLAIN_READ(d, s, n)  ((void)__builtin_memcpy((d), (s), (n)))
#define STRATA_PLAIN_PEEK(d, s, n)  ((void)__builtin_memcpy((d), (s), (n)))

#endif

/* Sets a field before any other thread can see it. */
#define strata_init(p, v) STRATA_ATOMIC_INIT(p, v)

STRATA_INLINE uint64_t strata_load_relaxed(const uint64_t *p)
{
	return STRATA_ATOMIC_LOAD(p, __ATOMIC_RELAXED);
}

STRATA_INLINE uint64_t strata_load_acquire(const uint64_t *p)
{
	return STRATA_ATOMIC_LOAD(p, __ATOMIC_ACQUIRE);
}

STRATA_INLINE void strata_store_relaxed(uint64_t *p, uint64_t v)
{
	STRATA_ATOMIC_STORE(p, v, __ATOMIC_RELAXED);
}

STRATA_INLINE void strata_store_release(uint64_t *p, uint64_t v)
{
	STRATA_ATOMIC_STORE(p, v, __ATOMIC_RELEASE);
}

/*
 * strata_hint_relaxed(), strata_hint_release() - stores that several producers may issue at once,
 * to fields where each value ever stored stays true, so that an older one may land last.
 */
STRATA_INLINE void strata_hint_relaxed(uint64_t *p, uint64_t v)
{
	STRATA_ATOMIC_HINT(p, v, __ATOMIC_RELAXED);
}

STRATA_INLINE void strata_hint_release(uint64_t *p, uint64_t v)
{
	STRATA_ATOMIC_HINT(p, v, __ATOMIC_RELEASE);
}

/* Returns 1 and stores @desired if *@p was *@expected; else 0, and *@expected is what was found. */
STRATA_INLINE int strata_cas_relaxed(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return STRATA_ATOMIC_CAS(p, expected, desired, __ATOMIC_RELAXED);
}

STRATA_INLINE int strata_cas_acq_rel(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return STRATA_ATOMIC_CAS(p, expected, desired, __ATOMIC_ACQ_REL);
}

/* Returns the value before. */
STRATA_INLINE uint64_t strata_add_relaxed(uint64_t *p, uint64_t v)
{
	return STRATA_ATOMIC_ADD(p, v, __ATOMIC_RELAXED);
}

STRATA_INLINE uint64_t strata_add_acq_rel(uint64_t *p, uint64_t v)
{
	return STRATA_ATOMIC_ADD(p, v, __ATOMIC_ACQ_REL);
}

STRATA_INLINE void strata_fence_acquire(void)
{
	STRATA_ATOMIC_FENCE(__ATOMIC_ACQUIRE);
}

STRATA_INLINE void strata_fence_release(void)
{
	STRATA_ATOMIC_FENCE(__ATOMIC_RELEASE);
}

STRATA_INLINE void strata_fence_seq_cst(void)
{
	STRATA_ATOMIC_FENCE(__ATOMIC_SEQ_CST);
}

/*
 * Local operations are one machine instruction on x86-64, without the LOCK prefix (Lockless §4.1). Only for
 * memory that one CPU writes, by code that cannot migrate between reading the CPU's number and the access.
 * Elsewhere, and where a sanitizer must see them, the SMP operations do the same. The model has them as a
 * load and a store that no interrupt divides: a second CPU that writes there is an error.
 */
#if defined(__x86_64__) && !defined(__bpf__) && !defined(STRATA_RING_MODEL) && \
	!defined(STRATA_THREAD_SANITIZER)

STRATA_INLINE int strata_local_cas(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	unsigned char done;

	__asm__ volatile("cmpxchgq %[desired], %[memory]\n\tsete %[done]"
			 : [memory] "+m"(*p), "+a"(*expected), [done] "=q"(done)
			 : [desired] "r"(desired)
			 : "memory", "cc");
	return done;
}

/* The same as strata_local_cas(): on x86 every store is a release. */
STRATA_INLINE int strata_local_cas_release(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return strata_local_cas(p, expected, desired);
}

STRATA_INLINE uint64_t strata_local_add(uint64_t *p, uint64_t v)
{
	__asm__ volatile("xaddq %[value], %[memory]"
			 : [memory] "+m"(*p), [value] "+r"(v)
			 :
			 : "memory", "cc");
	return v;
}

STRATA_INLINE uint64_t strata_local_add_unordered(uint64_t *p, uint64_t v)
{
	return strata_local_add(p, v);
}

#else

#ifndef STRATA_LOCAL_CAS
#define STRATA_LOCAL_CAS STRATA_ATOMIC_CAS
#define STRATA_LOCAL_ADD STRATA_ATOMIC_ADD
#endif

STRATA_INLINE int strata_local_cas(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return STRATA_LOCAL_CAS(p, expected, desired, __ATOMIC_RELAXED);
}

STRATA_INLINE int strata_local_cas_release(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return STRATA_LOCAL_CAS(p, expected, desired, __ATOMIC_RELEASE);
}

STRATA_INLINE uint64_t strata_local_add(uint64_t *p, uint64_t v)
{
	/* The reader's CPU orders payload by this RELEASE, the paper's promoted barrier, §4.4. */
	return STRATA_LOCAL_ADD(p, v, __ATOMIC_ACQ_REL);
}

/* Adds in order for this CPU's interrupts, and for others once they have had a barrier run here. */
STRATA_INLINE uint64_t strata_local_add_unordered(uint64_t *p, uint64_t v)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	v = STRATA_LOCAL_ADD(p, v, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return v;
}

#endif

STRATA_INLINE void strata_local_store_unordered(uint64_t *p, uint64_t v)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	STRATA_ATOMIC_STORE(p, v, __ATOMIC_RELAXED);
}

STRATA_INLINE void strata_plain_write(void *dst, const void *src, size_t n)
{
	STRATA_PLAIN_WRITE(dst, src, n);
}

STRATA_INLINE void strata_plain_read(void *dst, const void *src, size_t n)
{
	STRATA_PLAIN_READ(dst, src, n);
}

/* A copy that may be torn: the caller finds out afterwards and throws it away. */
STRATA_INLINE void strata_plain_peek(void *dst, const void *src, size_t n)
{
	STRATA_PLAIN_PEEK(dst, src, n);
}

STRATA_INLINE void strata_plain_write_u64(uint64_t *dst, uint64_t v)
{
	STRATA_PLAIN_WRITE(dst, &v, sizeof(v));
}

/* Copies by one load, so that another process' write cannot come between check and use. */
STRATA_INLINE uint64_t strata_plain_read_u64(const uint64_t *src)
{
#ifdef STRATA_RING_MODEL
	uint64_t v;

	STRATA_PLAIN_READ(&v, src, sizeof(v));
	return v;
#else
	return STRATA_ATOMIC_LOAD(src, __ATOMIC_RELAXED);
#endif
}

/* Reads a word that may be written at the same time; the caller finds out afterwards. */
STRATA_INLINE uint64_t strata_plain_peek_u64(const uint64_t *src)
{
#ifdef STRATA_RING_MODEL
	uint64_t v;

	STRATA_PLAIN_PEEK(&v, src, sizeof(v));
	return v;
#else
	return STRATA_ATOMIC_LOAD(src, __ATOMIC_RELAXED);
#endif
}

/* Stores a word after the earlier plain writes, for readers of a dead producer's memory. */
STRATA_INLINE void strata_plain_seal_u64(uint64_t *dst, uint64_t v)
{
#ifdef STRATA_RING_MODEL
	STRATA_PLAIN_WRITE(dst, &v, sizeof(v));
#else
	STRATA_ATOMIC_STORE(dst, v, __ATOMIC_RELEASE);
#endif
}

#endif /* STRATA_RING_ATOMIC_H */
