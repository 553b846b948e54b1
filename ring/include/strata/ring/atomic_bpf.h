/* SPDX-License-Identifier: MIT */
/*
 * atomic_bpf.h - accesses to shared memory in BPF programs. Part of atomic.h, which has what this uses.
 *
 * Atomics of BPF are all sequentially consistent. Loads and stores are what this is about.
 */
#ifndef STRATA_RING_ATOMIC_BPF_H
#define STRATA_RING_ATOMIC_BPF_H

#include <strata/ring/platform.h>

#ifdef __bpf__

/*
 * clang 19 knows no acquire and release for BPF. On x86-64 a load or store that the compiler may not move is enough,
 * since the JIT makes one instruction of it (-D__TARGET_ARCH_x86, as libbpf has it). Other machines order less. There,
 * an atomic operation that returns the value before is what the kernel promises to be fully ordered, so that a
 * release is an exchange, and what stands behind an acquire is an exchange of a word on the stack.
 */
#ifdef __TARGET_ARCH_x86
#define STRATA_BPF_FENCE(o) __asm__ volatile("" : : : "memory")
#else
#define STRATA_BPF_IS_WEAK 1
STRATA_INLINE void strata_bpf_fence(void)
{
	uint64_t word = 0, found, *at = &word;

	/* The compiler does not see that nobody else has this word. */
	__asm__ volatile("" : "+r"(at) : : "memory");
	found = __sync_lock_test_and_set(at, 1);
	__asm__ volatile("" : "+r"(found) : : "memory");
}

#define STRATA_BPF_FENCE(o)                          \
	do {                                         \
		if ((o) != __ATOMIC_RELAXED)         \
			strata_bpf_fence();          \
		__asm__ volatile("" : : : "memory"); \
	} while (0)
#endif

STRATA_INLINE uint64_t strata_bpf_load(const uint64_t *p, int order)
{
	uint64_t v = *(const volatile uint64_t *)p;

	(void)order;
	STRATA_BPF_FENCE(order);
	return v;
}

STRATA_INLINE void strata_bpf_store(uint64_t *p, uint64_t v, int order)
{
	(void)order;
	__asm__ volatile("" : : : "memory");
#ifdef STRATA_BPF_IS_WEAK
	if (order != __ATOMIC_RELAXED) {
		v = __sync_lock_test_and_set(p, v);
		__asm__ volatile("" : "+r"(v) : : "memory");
		return;
	}
#endif
	*(volatile uint64_t *)p = v;
}

/* An addition whose result is not used would be one that the machine does not order. */
STRATA_INLINE uint64_t strata_bpf_add(uint64_t *p, uint64_t v, int order)
{
	uint64_t before = __sync_fetch_and_add(p, v);

	(void)order;
#ifdef STRATA_BPF_IS_WEAK
	if (order != __ATOMIC_RELAXED)
		STRATA_HERE(before);
#endif
	return before;
}

STRATA_INLINE int strata_bpf_cas(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	uint64_t old = *expected, found = __sync_val_compare_and_swap(p, old, desired);

	/* Otherwise the compiler converts the success of the operation to a number, and compares that. */
	STRATA_HERE(found);
	*expected = found;
	return found == old;
}

/* @n is a constant. Whole words wherever they lie, which memcpy() would store byte by byte. */
STRATA_INLINE void strata_bpf_copy(void *to, const void *from, size_t n)
{
	unsigned char *dst = (unsigned char *)to;
	const unsigned char *src = (const unsigned char *)from;

	for (; n >= 8; n -= 8, dst += 8, src += 8)
		*(volatile uint64_t *)(void *)dst = *(const volatile uint64_t *)(const void *)src;
	if (n & 4) {
		*(volatile uint32_t *)(void *)dst = *(const volatile uint32_t *)(const void *)src;
		dst += 4;
		src += 4;
	}
	if (n & 2) {
		*(volatile uint16_t *)(void *)dst = *(const volatile uint16_t *)(const void *)src;
		dst += 2;
		src += 2;
	}
	if (n & 1)
		*(volatile unsigned char *)dst = *(const volatile unsigned char *)src;
}

#define STRATA_ATOMIC_INIT(p, v)      strata_bpf_store((p), (v), __ATOMIC_RELAXED)
#define STRATA_ATOMIC_LOAD(p, o)      strata_bpf_load((p), (o))
#define STRATA_ATOMIC_STORE(p, v, o)  strata_bpf_store((p), (v), (o))
#define STRATA_ATOMIC_HINT(p, v, o)   strata_bpf_store((p), (v), (o))
#define STRATA_ATOMIC_CAS(p, e, d, o) strata_bpf_cas((p), (e), (d))
#define STRATA_ATOMIC_ADD(p, v, o)    strata_bpf_add((p), (v), (o))
#define STRATA_ATOMIC_FENCE(o)	      STRATA_BPF_FENCE(o)
#define STRATA_PLAIN_WRITE(d, s, n)   strata_bpf_copy((d), (s), (n))
#define STRATA_PLAIN_READ(d, s, n)    strata_bpf_copy((d), (s), (n))
#define STRATA_PLAIN_PEEK(d, s, n)    strata_bpf_copy((d), (s), (n))

#endif /* __bpf__ */

#endif /* STRATA_RING_ATOMIC_BPF_H */
