/* SPDX-License-Identifier: MIT */
/*
 * lttng_payload.h - an LTTng event's payload, assembled in private memory: byte-packed, the fields in
 * their order. Each field's expression is evaluated once.
 *
 *   measure   what is as long as the program says: where it is, and how long; all together. Strings are copied to their
 *             place in the stack meanwhile, in one pass, as long as there is room
 *   begin     memory for it, on the stack or staged
 *   put       the fields
 *   end       the record
 *
 * What other threads change meanwhile may be half old and half new in the record, but a reader of the
 * trace finds the next field: lengths are those of the bytes that were copied.
 */
#ifndef STRATA_USER_LTTNG_PAYLOAD_H
#define STRATA_USER_LTTNG_PAYLOAD_H

#pragma GCC system_header

#include <string.h>

#include <strata/user/copy.h>
#include <strata/user/object.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRATA_LTTNG_INLINE static inline __attribute__((always_inline, unused))

/* Payloads up to this size are assembled on the stack [byte]. */
#define STRATA_LTTNG_STACK_BYTES 512u
/* strata_user_copy_string() may write 16 bytes more. */
#define STRATA_LTTNG_STACK \
	(STRATA_USER_HEADROOM + STRATA_LTTNG_STACK_BYTES + STRATA_USER_TAILROOM + 16u)

/* More than any payload: no memory will be found, and the record is counted as discarded. */
#define STRATA_LTTNG_TOO_LARGE (UINT64_MAX >> 1)

/* A field whose length only the program knows: a string (without its NUL), or a sequence. */
struct strata_lttng_part {
	const void *at;
	uint64_t count;
};

STRATA_LTTNG_INLINE uint64_t strata_lttng_sum(uint64_t a, uint64_t b)
{
	return a > STRATA_LTTNG_TOO_LARGE - b ? STRATA_LTTNG_TOO_LARGE : a + b;
}

/*
 * Measures a string that follows @bytes of the payload. @stack: the begin of the payload if it is put together on the
 * stack.
 */
STRATA_LTTNG_INLINE uint64_t strata_lttng_measure_string(struct strata_lttng_part *part,
							 uint64_t bytes, const char *text,
							 unsigned char *stack)
{
	uint64_t copied = 0;

	(void)stack;
	part->at = text ? text : "(null)";
#ifdef STRATA_USER_HAS_COPY_STRING
	if (bytes < STRATA_LTTNG_STACK_BYTES)
		copied = strata_user_copy_string(stack + bytes, (const unsigned char *)part->at,
						 STRATA_LTTNG_STACK_BYTES - bytes);
#endif
	if (__builtin_expect(!copied, 0)) {
		part->count = strlen((const char *)part->at);
		bytes = strata_lttng_sum(bytes, part->count + 1);
#ifdef STRATA_USER_HAS_COPY_STRING
		/*
		 * The size is made too large for the stack, though the string may have become
		 * shorter meanwhile: what follows would not be in its place.
		 */
		if (bytes <= STRATA_LTTNG_STACK_BYTES)
			bytes = STRATA_LTTNG_STACK_BYTES + 1;
#endif
		return bytes;
	}
	part->at = stack + bytes;
	part->count = copied - 1;
	return bytes + copied;
}

/*
 * Measures the bytes of a sequence with its length. A length that does not fit into its type, such as a negative one, makes the record too large.
 */
STRATA_LTTNG_INLINE uint64_t strata_lttng_measure_sequence(struct strata_lttng_part *part,
							   uint64_t bytes, const void *at,
							   uint64_t count, uint64_t element_bytes,
							   unsigned int length_bytes)
{
	part->at = at;
	part->count = at ? count : 0;
	if ((length_bytes < 8 && part->count >> (length_bytes * 8 % 64)) ||
	    part->count > STRATA_LTTNG_TOO_LARGE / 16)
		return STRATA_LTTNG_TOO_LARGE;
	return strata_lttng_sum(bytes, length_bytes + part->count * element_bytes);
}

/* Returns where the payload begins, or NULL; the record is then counted as discarded. */
STRATA_LTTNG_INLINE unsigned char *strata_lttng_begin(struct strata_tracepoint *tracepoint,
						      unsigned char *stack, uint64_t bytes)
{
	if (__builtin_expect(bytes <= STRATA_LTTNG_STACK_BYTES, 1))
		return stack + STRATA_USER_HEADROOM;
	return strata_user_stage(tracepoint, bytes > UINT32_MAX ? STRATA_LTTNG_TOO_LARGE : bytes);
}

/*
 * Ends the payload of a record. @end: the end of the bytes that were put; @bytes: the size given to
 * strata_lttng_begin().
 */
STRATA_LTTNG_INLINE void strata_lttng_end(struct strata_tracepoint *tracepoint,
					  unsigned char *payload, unsigned char *end,
					  uint64_t bytes)
{
	/*
	 * The last word of the record is copied as a whole, so its unused bytes are set to zero: nothing private may
	 * be in them.
	 */
	memset(end, 0, STRATA_USER_TAILROOM);
	strata_user_record(tracepoint, payload, (uint32_t)(end - payload));
	if (__builtin_expect(bytes > STRATA_LTTNG_STACK_BYTES, 0))
		strata_user_unstage(payload, bytes);
}

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put(unsigned char *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	return to + n;
}

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_array(unsigned char *to, const void *from,
							  size_t n)
{
	if (from)
		memcpy(to, from, n);
	else
		memset(to, 0, n);
	return to + n;
}

/* Text of @n bytes, which ends before its first NUL; NULs behind it. */
STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_text(unsigned char *to, const void *from,
							 size_t n)
{
	const void *nul = 0;
	size_t length = 0;

	if (from) {
		nul = memchr(from, 0, n);
		length = nul ? (size_t)((const char *)nul - (const char *)from) : n;
		/* Another thread may have shortened the text while it was copied. */
		if (strata_user_copy_seen(to, (const unsigned char *)from, length)) {
			nul = memchr(to, 0, length);
			if (nul)
				length = (size_t)((const unsigned char *)nul - to);
		}
	}
	if (length < n)
		memset(to + length, 0, n - length);
	return to + n;
}

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_string(unsigned char *to,
							   const struct strata_lttng_part *part)
{
	const void *nul = 0;

	if (__builtin_expect(part->at == to, 1))
		return to + part->count + 1;
	if (strata_user_copy_seen(to, (const unsigned char *)part->at, part->count))
		nul = memchr(to, 0, (size_t)part->count);
	if (nul)
		return to + ((const unsigned char *)nul - to) + 1;
	to[part->count] = 0;
	return to + part->count + 1;
}

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_length(unsigned char *to, uint64_t count,
							   unsigned int bytes)
{
	uint8_t u8 = (uint8_t)count;
	uint16_t u16 = (uint16_t)count;
	uint32_t u32 = (uint32_t)count;

	switch (bytes) {
	case 1:
		return strata_lttng_put(to, &u8, 1);
	case 2:
		return strata_lttng_put(to, &u16, 2);
	case 4:
		return strata_lttng_put(to, &u32, 4);
	default:
		return strata_lttng_put(to, &count, 8);
	}
}

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_elements(unsigned char *to,
							     const struct strata_lttng_part *part,
							     size_t element_bytes)
{
	if (part->count)
		memcpy(to, part->at, (size_t)part->count * element_bytes);
	return to + (size_t)part->count * element_bytes;
}

/* Writes a number of any floating-point type as 8 bytes: a trace can hold IEEE 754 of 4 or 8. */
STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_double(unsigned char *to, double value)
{
	return strata_lttng_put(to, &value, sizeof(value));
}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_USER_LTTNG_PAYLOAD_H */
