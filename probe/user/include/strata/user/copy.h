/* SPDX-License-Identifier: MIT */
/*
 * copy.h - copy text that other threads may change at the same time, and examine the copy: each byte is loaded once.
 *
 * By 16 bytes, in the vectors that gcc and clang have for any machine; a library call costs more than the copy
 * of the texts that events have.
 */
#ifndef STRATA_USER_COPY_H
#define STRATA_USER_COPY_H

#include <stdint.h>

/* Longest text that is copied here; libc copies longer ones [byte]. */
#define STRATA_USER_COPY_BYTES 256

typedef unsigned char strata_user_vector __attribute__((vector_size(16)));

#define STRATA_USER_COPY_INLINE static inline __attribute__((always_inline, unused))

/* Out of line, and one for all translation units where the language can. Not cold: that is for size. */
#ifdef __cplusplus
#define STRATA_USER_FUNCTION inline __attribute__((noinline, hot, visibility("hidden")))
#else
#define STRATA_USER_FUNCTION static __attribute__((noinline, hot, unused))
#endif

/* The highest bit of each byte that is 0, and maybe of bytes above it. */
STRATA_USER_COPY_INLINE uint64_t strata_user_zero_bytes(uint64_t word)
{
	return (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
}

/* Copies one word or vector. The barrier makes the compiler examine the copy, and not load the source again. */
STRATA_USER_COPY_INLINE uint64_t strata_user_copy_word(unsigned char *to, const unsigned char *from)
{
	uint64_t word;

	__builtin_memcpy(&word, from, sizeof(word));
	__asm__("" : "+r"(word));
	__builtin_memcpy(to, &word, sizeof(word));
	return strata_user_zero_bytes(word);
}

#ifdef __SSE2__

/* Bits of the bytes that are 0. */
STRATA_USER_COPY_INLINE uint64_t strata_user_copy_vector(unsigned char *to,
							 const unsigned char *from)
{
	typedef char strata_user_bytes __attribute__((vector_size(16)));
	strata_user_vector vector;

	__builtin_memcpy(&vector, from, sizeof(vector));
	__asm__("" : "+x"(vector));
	__builtin_memcpy(to, &vector, sizeof(vector));
	vector = (strata_user_vector)(vector == 0);
	return (uint64_t)(unsigned)__builtin_ia32_pmovmskb128((strata_user_bytes)vector);
}

#else

STRATA_USER_COPY_INLINE uint64_t strata_user_copy_vector(unsigned char *to,
							 const unsigned char *from)
{
	return strata_user_copy_word(to, from) | strata_user_copy_word(to + 8, from + 8);
}

#endif

/*
 * Copies @n bytes, in pieces whose ends overlap. Returns 0 if the copy has no byte that is 0; otherwise it may have
 * one.
 */
STRATA_USER_COPY_INLINE uint64_t strata_user_copy_seen(unsigned char *to, const unsigned char *from,
						       uint64_t n)
{
	uint64_t zeros = 0, i;

	if (n >= 16) {
		if (n > STRATA_USER_COPY_BYTES) {
			__builtin_memcpy(to, from, n);
			return __builtin_memchr(to, 0, n) != 0;
		}
		for (i = 0; i < n - 16; i += 16)
			zeros |= strata_user_copy_vector(to + i, from + i);
		return zeros | strata_user_copy_vector(to + n - 16, from + n - 16);
	}
	if (n >= 8)
		return strata_user_copy_word(to, from) |
		       strata_user_copy_word(to + n - 8, from + n - 8);
	for (i = 0; i < n; i++) {
		to[i] = *(const volatile unsigned char *)(from + i);
		zeros |= !to[i];
	}
	return zeros;
}

/* Copy @n bytes, few as a rule. */
STRATA_USER_COPY_INLINE void strata_user_copy_bytes(unsigned char *to, const unsigned char *from,
						    uint64_t n)
{
	uint64_t first, last;
	uint32_t low, high, i;
	strata_user_vector vector;

	if (n > 64) {
		__builtin_memcpy(to, from, n);
	} else if (n >= 16) {
		for (i = 0; i < n - 16; i += 16) {
			__builtin_memcpy(&vector, from + i, sizeof(vector));
			__builtin_memcpy(to + i, &vector, sizeof(vector));
		}
		__builtin_memcpy(&vector, from + n - 16, sizeof(vector));
		__builtin_memcpy(to + n - 16, &vector, sizeof(vector));
	} else if (n >= 8) {
		__builtin_memcpy(&first, from, sizeof(first));
		__builtin_memcpy(&last, from + n - 8, sizeof(last));
		__builtin_memcpy(to, &first, sizeof(first));
		__builtin_memcpy(to + n - 8, &last, sizeof(last));
	} else if (n >= 4) {
		__builtin_memcpy(&low, from, sizeof(low));
		__builtin_memcpy(&high, from + n - 4, sizeof(high));
		__builtin_memcpy(to, &low, sizeof(low));
		__builtin_memcpy(to + n - 4, &high, sizeof(high));
	} else {
		for (i = 0; i < n; i++)
			to[i] = from[i];
	}
}

/*
 * Set for tools that watch which bytes are read: they must not see bytes behind a NUL being read,
 * which may be unwritten, or written by another thread.
 */
#if defined(__SANITIZE_THREAD__)
#define STRATA_USER_IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer) || \
	__has_feature(hwaddress_sanitizer)
#define STRATA_USER_IS_WATCHED 1
#endif
#endif

#if defined(__SSE2__) && !defined(STRATA_USER_IS_WATCHED)

/*
 * strata_user_copy_string() - copy a string and its NUL in one pass.
 * @room: at most so many bytes are kept; 16 more may be written.
 *
 * Returns the bytes copied, NUL included; 0: there is no NUL in the first @room bytes.
 *
 * Reads up to 15 bytes behind the NUL, never across a page: they are there, and an address sanitizer must not take it
 * for a mistake of the program. What it writes behind the NUL is not the program's to be seen: the caller overwrites it.
 */
STRATA_USER_FUNCTION __attribute__((no_sanitize("address"))) uint64_t
strata_user_copy_string(unsigned char *to, const unsigned char *from, uint64_t room)
{
	const unsigned char *begin = to, *end = to + room;
	uint64_t zeros;

	for (;;) {
		if (((uintptr_t)from & 4095) > 4096 - 16) {
			do {
				if (to == end)
					return 0;
				*to = *(const volatile unsigned char *)from++;
				if (!*to++)
					return (uint64_t)(to - begin);
			} while ((uintptr_t)from & 4095);
		}
		zeros = strata_user_copy_vector(to, from);
		if (zeros) {
			to += __builtin_ctzll(zeros) + 1;
			return to <= end ? (uint64_t)(to - begin) : 0;
		}
		to += 16;
		from += 16;
		if (to >= end)
			return 0;
	}
}

#define STRATA_USER_HAS_COPY_STRING 1

#endif

#endif /* STRATA_USER_COPY_H */
