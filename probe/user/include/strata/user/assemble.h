/* SPDX-License-Identifier: MIT */
/*
 * assemble.h - copy an event's values into a payload, and hand it to libstrata.
 *
 * Two ways. Few bytes: the call site stores the fields one behind the other into memory of a constant size; what has
 * no fixed size as long as there is room. Otherwise the call site lists the fields' values as parts, and
 * strata_user_assemble() sizes, copies and records them: on its own stack, or in staged memory.
 *
 * What a pointer points to may change at any time, by another thread: lengths are taken once, and what a
 * reader relies on (a string has one NUL, at its end) is made so in the private copy.
 */
#ifndef STRATA_USER_ASSEMBLE_H
#define STRATA_USER_ASSEMBLE_H

#include <errno.h>
#include <strata/user/copy.h>
#include <strata/user/object.h>
#include <strata/user/types.h>

/* Payloads up to this size are stored by the call site [byte]. */
#define STRATA_USER_INLINE_BYTES 256
/* Payloads up to this size are put together on the stack [byte]. */
#define STRATA_USER_STACK_BYTES 1000
/* Constant sizes up to this one are copied by the call site itself, without a call [byte]. */
#define STRATA_USER_SHORT_BYTES 32
/* The text that is recorded for a null pointer, and the letter for a NUL inside a string. */
#define STRATA_USER_NULL_STRING "(null)"
#define STRATA_USER_INNER_NUL	'?'

#define STRATA_USER_INLINE static inline __attribute__((always_inline, unused))

/*
 * Casts a pointer to memory that another thread may write. It is read by one copy only, so volatile
 * means nothing any more.
 */
#define STRATA_USER_DATA(type, pointer) \
	STRATA_USER_ADDRESS(const type *, STRATA_USER_ADDRESS(uintptr_t, pointer))

/* Values of strata_user_part.kind */
#define STRATA_USER_PART_VALUE	  0u /* .size bytes of .from.value */
#define STRATA_USER_PART_STRING	  1u /* .from.data up to a NUL; .count: its length, once taken */
#define STRATA_USER_PART_ARRAY	  2u /* .count elements of .size bytes */
#define STRATA_USER_PART_TEXT	  3u /* up to .count bytes of text, as .count bytes */
#define STRATA_USER_PART_SEQUENCE 4u /* as ARRAY, behind a length of 4 bytes */

/* The value of one field, before it is copied. */
struct strata_user_part {
	union {
		const volatile void *data;
		unsigned char value[8];
	} from;
	uint64_t count;
	uint32_t size;
	uint32_t kind;
};

#ifdef __cplusplus
extern "C++" {
#endif

/* strata_user_put_*() - store one value of constant size at @to; return where the next one goes. */
STRATA_USER_INLINE unsigned char *strata_user_put(unsigned char *to, const void *value,
						  uint64_t bytes)
{
	__builtin_memcpy(to, value, bytes);
	return to + bytes;
}

/* Copies @bytes bytes from @from, or as many zeros for a null pointer. */
STRATA_USER_FUNCTION void strata_user_copy(unsigned char *to, const volatile void *from,
					   uint64_t bytes)
{
	if (from)
		__builtin_memcpy(to, STRATA_USER_DATA(void, from), bytes);
	else
		__builtin_memset(to, 0, bytes);
}

/* Copies @length bytes of a text, and replaces NULs in the copy: another thread may have shortened the text. */
STRATA_USER_INLINE void strata_user_copy_letters(unsigned char *to, const unsigned char *from,
						 uint64_t length)
{
	uint64_t zeros = strata_user_copy_seen(to, from, length);

	for (uint64_t i = 0; zeros && i < length; i++) {
		if (!to[i])
			to[i] = STRATA_USER_INNER_NUL;
	}
}

/* Copies a text like strncpy(): bytes after a NUL stay private. */
STRATA_USER_FUNCTION void strata_user_copy_text(unsigned char *to, const volatile void *from,
						uint64_t bytes)
{
	const unsigned char *text = STRATA_USER_DATA(unsigned char, from);
	const void *end = text ? __builtin_memchr(text, 0, bytes) : STRATA_USER_NULL;
	uint64_t used = text ? bytes : 0;

	if (end)
		used = STRATA_USER_ADDRESS(uintptr_t, end) - STRATA_USER_ADDRESS(uintptr_t, text);
	if (used)
		strata_user_copy_letters(to, text, used);
	if (used < bytes)
		__builtin_memset(to + used, 0, bytes - used);
}

STRATA_USER_INLINE unsigned char *strata_user_put_array(unsigned char *to,
							const volatile void *from, uint64_t bytes)
{
	if (!__builtin_constant_p(bytes) || bytes > STRATA_USER_SHORT_BYTES)
		strata_user_copy(to, from, bytes);
	else if (from)
		__builtin_memcpy(to, STRATA_USER_DATA(void, from), bytes);
	else
		__builtin_memset(to, 0, bytes);
	return to + bytes;
}

STRATA_USER_INLINE unsigned char *strata_user_put_text(unsigned char *to, const volatile void *from,
						       uint64_t bytes)
{
	strata_user_copy_text(to, from, bytes);
	return to + bytes;
}

/* strata_user_part_*() - describe one value; return the next part. */
STRATA_USER_INLINE struct strata_user_part *strata_user_part_value(struct strata_user_part *part,
								   const void *value, uint32_t size)
{
	/* All eight bytes are copied into the payload; the next field overwrites those that are too many. */
	__builtin_memset(part->from.value, 0, sizeof(part->from.value));
	__builtin_memcpy(part->from.value, value, size);
	part->count = 1;
	part->size = size;
	part->kind = STRATA_USER_PART_VALUE;
	return part + 1;
}

STRATA_USER_INLINE struct strata_user_part *strata_user_part_data(struct strata_user_part *part,
								  uint32_t kind,
								  const volatile void *data,
								  uint64_t count, uint32_t size)
{
	part->from.data = data;
	part->count = count;
	part->size = size;
	part->kind = kind;
	return part + 1;
}

/* Returns the size of a part in the payload [byte]; UINT64_MAX if the part is impossible. */
STRATA_USER_INLINE uint64_t strata_user_part_bytes(struct strata_user_part *part)
{
	uint64_t bytes;

	switch (part->kind) {
	case STRATA_USER_PART_VALUE:
		return part->size;
	case STRATA_USER_PART_STRING:
		if (!part->from.data)
			part->from.data = STRATA_USER_NULL_STRING;
		part->count = __builtin_strlen(STRATA_USER_DATA(char, part->from.data));
		return part->count + 1;
	case STRATA_USER_PART_SEQUENCE:
		if (!part->from.data)
			part->count = 0;
		if (__builtin_mul_overflow(part->count, part->size, &bytes) || bytes > UINT32_MAX)
			return UINT64_MAX;
		return bytes + sizeof(uint32_t);
	default:
		return part->count * part->size; /* constants, asserted to be small */
	}
}

STRATA_USER_INLINE unsigned char *strata_user_put_string(unsigned char *to,
							 const volatile void *from, uint64_t length)
{
	strata_user_copy_letters(to, STRATA_USER_DATA(unsigned char, from), length);
	to[length] = 0;
	return to + length + 1;
}

STRATA_USER_INLINE void strata_user_put_parts(unsigned char *to,
					      const struct strata_user_part *parts, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		const struct strata_user_part *part = &parts[i];
		uint32_t count = STRATA_USER_CAST(uint32_t, part->count);

		switch (part->kind) {
		case STRATA_USER_PART_VALUE:
			__builtin_memcpy(to, part->from.value, sizeof(part->from.value));
			to += part->size;
			break;
		case STRATA_USER_PART_STRING:
			to = strata_user_put_string(to, part->from.data, part->count);
			break;
		case STRATA_USER_PART_TEXT:
			to = strata_user_put_text(to, part->from.data, part->count);
			break;
		case STRATA_USER_PART_SEQUENCE:
			to = strata_user_put(to, &count, sizeof(count));
			if (count)
				to = strata_user_put_array(to, part->from.data,
							   part->count * part->size);
			break;
		default:
			to = strata_user_put_array(to, part->from.data, part->count * part->size);
		}
	}
	/*
	 * The last word of the record is copied as a whole, so its unused bytes are set to zero: nothing private may
	 * be in them.
	 */
	__builtin_memset(to, 0, STRATA_USER_TAILROOM);
}

/* More than UINT32_MAX is more than any memory: libstrata counts it, and gives none. */
STRATA_USER_FUNCTION void strata_user_assemble_staged(struct strata_tracepoint *tracepoint,
						      const struct strata_user_part *parts,
						      uint32_t nr, uint64_t bytes)
{
	const int saved_errno = errno;
	unsigned char *payload = strata_user_stage(tracepoint, bytes);

	if (payload && bytes <= UINT32_MAX) {
		strata_user_put_parts(payload, parts, nr);
		strata_user_record(tracepoint, payload, STRATA_USER_CAST(uint32_t, bytes));
	}
	if (payload)
		strata_user_unstage(payload, bytes);
	errno = saved_errno;
}

#ifdef STRATA_USER_HAS_COPY_STRING

/*
 * strata_user_add_*() - store values as strata_user_put_*() do, but not beyond @end; NULL: there is no room. Up to 16
 * bytes after the value may be written. Not const: a compiler without optimisation would warn of memory that nobody
 * has written.
 */
STRATA_USER_INLINE unsigned char *strata_user_add_string(unsigned char *to, unsigned char *end,
							 const volatile void *from)
{
	const volatile void *text = from ? from : STRATA_USER_NULL_STRING;
	uint64_t bytes = 0;

	if (to < end)
		bytes = strata_user_copy_string(to, STRATA_USER_DATA(unsigned char, text),
						STRATA_USER_CAST(uint64_t, end - to));
	return bytes ? to + bytes : STRATA_USER_NULL;
}

STRATA_USER_FUNCTION unsigned char *strata_user_add_sequence(unsigned char *to,
							     const unsigned char *end,
							     const volatile void *from,
							     uint64_t count, uint64_t size)
{
	uint32_t length = from ? STRATA_USER_CAST(uint32_t, count) : 0;
	uint64_t bytes = length * size, room;

	if (to >= end)
		return STRATA_USER_NULL;
	room = STRATA_USER_CAST(uint64_t, end - to);
	/* A count above the room is refused, since its product may have overflowed. */
	if (room < sizeof(length) || (from && count > room) || bytes > room - sizeof(length))
		return STRATA_USER_NULL;
	to = strata_user_put(to, &length, sizeof(length));
	if (bytes)
		strata_user_copy_bytes(to, STRATA_USER_DATA(unsigned char, from), bytes);
	return to + bytes;
}

/*
 * Puts together a payload of at most @room bytes, without measuring it before. Returns its size, or UINT64_MAX if it
 * is larger.
 */
STRATA_USER_INLINE uint64_t strata_user_put_small(unsigned char *payload,
						  const struct strata_user_part *parts, uint32_t nr,
						  uint64_t room)
{
	unsigned char *to = payload;

	for (uint32_t i = 0; i < nr; i++) {
		const struct strata_user_part *part = &parts[i];
		const volatile void *data = part->from.data;
		uint64_t bytes = part->count * part->size;
		uint32_t count = STRATA_USER_CAST(uint32_t, part->count);

		if (part->kind == STRATA_USER_PART_VALUE) {
			__builtin_memcpy(to, part->from.value, sizeof(part->from.value));
			bytes = part->size;
		} else if (part->kind == STRATA_USER_PART_STRING) {
			if (!data)
				data = STRATA_USER_NULL_STRING;
			bytes = strata_user_copy_string(to, STRATA_USER_DATA(unsigned char, data),
							room);
			if (!bytes)
				return UINT64_MAX;
		} else {
			/* A count above the room is refused, since its product may have overflowed. */
			if (part->count > room || bytes + sizeof(count) > room)
				return UINT64_MAX;
			if (part->kind == STRATA_USER_PART_SEQUENCE) {
				count = data ? count : 0;
				bytes = data ? bytes : 0;
				to = strata_user_put(to, &count, sizeof(count));
				room -= sizeof(count);
			}
			if (part->kind == STRATA_USER_PART_TEXT)
				strata_user_copy_text(to, data, bytes);
			else if (bytes)
				strata_user_copy(to, data, bytes);
		}
		/* Values are few, and their eight bytes have room behind the payload. */
		if (bytes > room)
			return UINT64_MAX;
		to += bytes;
		room -= bytes;
	}
	/*
	 * The last word of the record is copied as a whole, so its unused bytes are set to zero: nothing private may
	 * be in them.
	 */
	__builtin_memset(to, 0, STRATA_USER_TAILROOM);
	return STRATA_USER_ADDRESS(uintptr_t, to) - STRATA_USER_ADDRESS(uintptr_t, payload);
}

#else
#define strata_user_put_small(payload, parts, nr, room)	     UINT64_MAX
#define strata_user_add_string(to, end, from)		     STRATA_USER_NULL
#define strata_user_add_sequence(to, end, from, count, size) STRATA_USER_NULL
#endif

/* Room after a payload on the stack, which copies of whole vectors may overwrite [byte]. */
#define STRATA_USER_STACK_SLACK 16

/**
 * strata_user_assemble() - record one event with the values @parts.
 *
 * Context: any thread or signal handler.
 */
STRATA_USER_FUNCTION void strata_user_assemble(struct strata_tracepoint *tracepoint,
					       struct strata_user_part *parts, uint32_t nr)
{
	unsigned char stack[STRATA_USER_HEADROOM + STRATA_USER_STACK_BYTES + STRATA_USER_STACK_SLACK]
		__attribute__((aligned(8)));
	unsigned char *payload = stack + STRATA_USER_HEADROOM;
	uint64_t bytes;

	if (__builtin_expect(tracepoint->filtered, 0) && strata_user_wants &&
	    !strata_user_wants(tracepoint, parts, nr))
		return;
	bytes = strata_user_put_small(payload, parts, nr, STRATA_USER_STACK_BYTES);
	if (bytes == UINT64_MAX) {
		bytes = 0;
		for (uint32_t i = 0; i < nr; i++) {
			if (__builtin_add_overflow(bytes, strata_user_part_bytes(&parts[i]),
						   &bytes) ||
			    bytes > UINT32_MAX) {
				bytes = UINT64_MAX;
				break;
			}
		}
		if (bytes > STRATA_USER_STACK_BYTES) {
			strata_user_assemble_staged(tracepoint, parts, nr, bytes);
			return;
		}
		strata_user_put_parts(payload, parts, nr);
	}
	strata_user_record(tracepoint, payload, STRATA_USER_CAST(uint32_t, bytes));
}

#ifdef __cplusplus
} /* extern "C++" */
#endif

#endif /* STRATA_USER_ASSEMBLE_H */
