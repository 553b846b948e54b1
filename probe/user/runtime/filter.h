/* SPDX-License-Identifier: MIT */
/*
 * filter.h - a session's filter (strata/abi/filter.h) is checked, and the values of an event's fields are found in its
 * payload; filter_bind.h and filter_test.h ask it. No call and no memory but the caller's, so that a program and a test run the same code.
 *
 * What is read is private to the process: its copy of the filter, checked; its tracepoints, which are its own
 * constants; the payload, which its site has assembled. All offsets are compared with the payload's size even so.
 */
#ifndef STRATA_RUNTIME_FILTER_H
#define STRATA_RUNTIME_FILTER_H

#include <strata/abi/filter.h>
#include <strata/abi/rule.h>
#include <strata/user/object.h>

#ifndef STRATA_FILTER_INLINE
#define STRATA_FILTER_INLINE static inline __attribute__((always_inline, unused))
#endif
#define STRATA_FILTER_FUNCTION static __attribute__((unused))

#include "filter_words.h"

/* The thread and the CPU of an event, from functions of the includer. 0 is a thread that is not known. */
__attribute__((visibility("hidden"))) int32_t strata_filter_thread(void);
__attribute__((visibility("hidden"))) uint32_t strata_filter_cpu(void);
/* A context that is a number; or the bytes of a name in @text. @of: strata_filter_contexts.of. */
__attribute__((visibility("hidden"))) uint64_t strata_filter_ask_context(const void *of,
									 uint32_t nr, char *text);

/* The contexts of the session's records, as bits (bit 0: the thread), and the object that has their values. */
struct strata_filter_contexts {
	uint32_t has;
	const void *of;
	uint64_t duration; /* of the span, if there is STRATA_FILTER_DURATION [ns] */
};

#define STRATA_FILTER_NO_FIELD 0xffffu

struct strata_filter_value {
	enum {
		STRATA_FILTER_ABSENT,
		STRATA_FILTER_SIGNED,
		STRATA_FILTER_UNSIGNED,
		STRATA_FILTER_REAL,
		STRATA_FILTER_TEXT,
		STRATA_FILTER_THERE /* and equal to nothing */
	} kind;
	uint64_t bits; /* SIGNED, UNSIGNED */
	double real;
	const char *text;
	uint64_t text_bytes;
};

STRATA_FILTER_INLINE const struct strata_abi_filter_test *
strata_filter_tests(const struct strata_abi_filter *filter)
{
	return (const struct strata_abi_filter_test *)(const void *)(filter + 1);
}

STRATA_FILTER_INLINE const char *strata_filter_text(const struct strata_abi_filter *filter,
						    const struct strata_abi_filter_term *term)
{
	return (const char *)filter + term->text;
}

/* ---- checking ---- */

STRATA_FILTER_FUNCTION int strata_filter_term_ok(const struct strata_abi_filter *filter,
						 const struct strata_abi_filter_term *term,
						 int is_pattern)
{
	if (!is_pattern &&
	    (term->subject < STRATA_ABI_FILTER_NAME || term->subject > STRATA_ABI_FILTER_CONTEXT))
		return 0;
	return term->text_bytes <= STRATA_ABI_FILTER_TEXT_MAX && term->text <= filter->bytes &&
	       term->text_bytes <= filter->bytes - term->text;
}

STRATA_FILTER_FUNCTION int strata_filter_target_ok(uint32_t target, uint32_t from, uint32_t nr)
{
	return (target > from && target < nr) || target == STRATA_ABI_FILTER_PASS ||
	       target == STRATA_ABI_FILTER_REJECT;
}

/* Returns whether this private copy of @bytes bytes is a valid filter. */
STRATA_FILTER_FUNCTION int strata_filter_check(const struct strata_abi_filter *filter,
					       uint32_t bytes)
{
	const struct strata_abi_filter_test *test;
	uint32_t i;

	if (bytes < sizeof(*filter) || filter->magic != STRATA_ABI_FILTER_MAGIC ||
	    filter->version != STRATA_ABI_FILTER_VERSION || filter->bytes != bytes ||
	    !filter->nr_tests || filter->nr_tests > STRATA_ABI_FILTER_TESTS_MAX ||
	    filter->nr_tests > (bytes - sizeof(*filter)) / sizeof(*test))
		return 0;
	for (i = 0; i < filter->nr_tests; i++) {
		test = &strata_filter_tests(filter)[i];
		if (test->kind < STRATA_ABI_FILTER_NUMBER || test->kind > STRATA_ABI_FILTER_PAIR ||
		    test->op > STRATA_ABI_FILTER_GREATER_OR_EQUAL ||
		    test->flags & ~STRATA_ABI_FILTER_NEGATED ||
		    !strata_filter_target_ok(test->yes, i, filter->nr_tests) ||
		    !strata_filter_target_ok(test->no, i, filter->nr_tests) ||
		    !strata_filter_term_ok(filter, &test->left, 0) ||
		    !strata_filter_term_ok(filter, &test->right,
					   test->kind != STRATA_ABI_FILTER_PAIR))
			return 0;
	}
	return 1;
}

/* ---- fields ---- */

/* The field of this name, or NO_FIELD. */
STRATA_FILTER_FUNCTION uint16_t strata_filter_find(const struct strata_abi_filter *filter,
						   const struct strata_abi_filter_term *term,
						   const struct strata_tracepoint *tracepoint)
{
	const char *wanted = strata_filter_text(filter, term);
	uint16_t i;
	uint32_t n;

	if (term->subject != STRATA_ABI_FILTER_FIELD && term->subject != STRATA_ABI_FILTER_PAYLOAD)
		return STRATA_FILTER_NO_FIELD;
	for (i = 0; i < tracepoint->nr_fields; i++) {
		const char *name = tracepoint->fields[i].name;

		for (n = 0; n < term->text_bytes && name[n] && name[n] == wanted[n]; n++)
			;
		if (n == term->text_bytes && !name[n])
			return i;
	}
	return STRATA_FILTER_NO_FIELD;
}

/* Returns the number of the context that a term names. */
STRATA_FILTER_FUNCTION uint32_t strata_filter_find_context(
	const struct strata_abi_filter *filter, const struct strata_abi_filter_term *term,
	const struct strata_filter_contexts *contexts)
{
	const char *wanted = strata_filter_text(filter, term), *name;
	uint32_t bits = contexts->has, nr, n;

	if ((term->subject != STRATA_ABI_FILTER_FIELD &&
	     term->subject != STRATA_ABI_FILTER_CONTEXT) ||
	    term->index != STRATA_ABI_FILTER_WHOLE || !term->text_bytes)
		return STRATA_FILTER_NO_CONTEXT;
	for (; bits; bits &= bits - 1) {
		nr = (uint32_t)__builtin_ctz(bits);
		name = strata_filter_context_name(nr);
		for (n = 0; n < term->text_bytes && name[n] && name[n] == wanted[n]; n++)
			;
		if (n == term->text_bytes && !name[n])
			return nr;
	}
	return strata_filter_find_word(wanted, term->text_bytes);
}

STRATA_FILTER_INLINE uint64_t strata_filter_load(const unsigned char *at, uint32_t bytes,
						 int is_swapped)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (bytes) {
	case 1:
		return *at;
	case 2:
		__builtin_memcpy(&two, at, 2);
		return is_swapped ? __builtin_bswap16(two) : two;
	case 4:
		__builtin_memcpy(&four, at, 4);
		return is_swapped ? __builtin_bswap32(four) : four;
	default:
		__builtin_memcpy(&eight, at, 8);
		return is_swapped ? __builtin_bswap64(eight) : eight;
	}
}

STRATA_FILTER_INLINE int strata_filter_is_swapped(const struct strata_field *field)
{
	return field->flags & STRATA_ABI_USER_FIELD_NETWORK &&
	       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

STRATA_FILTER_INLINE int strata_filter_is_number(const struct strata_field *field)
{
	return field->type == STRATA_ABI_USER_INTEGER || field->type == STRATA_ABI_USER_FLOAT;
}

/* Returns the field's size if it is the same in all records, otherwise 0. */
STRATA_FILTER_FUNCTION uint64_t strata_filter_fixed_bytes(const struct strata_field *field)
{
	switch (field->type) {
	case STRATA_ABI_USER_INTEGER:
	case STRATA_ABI_USER_FLOAT:
		return field->bytes;
	case STRATA_ABI_USER_ARRAY:
		return (uint64_t)field->count *
		       (field->element == STRATA_ABI_USER_TEXT ? 1 : field->bytes);
	default:
		return 0;
	}
}

/* Returns the offset of field @wanted; @bytes if the payload has no such field. */
STRATA_FILTER_FUNCTION uint64_t strata_filter_locate(const struct strata_tracepoint *tracepoint,
						     uint16_t wanted, const unsigned char *payload,
						     uint64_t bytes)
{
	uint64_t at = 0, n;
	uint16_t i;

	for (i = 0; i < wanted; i++) {
		const struct strata_field *field = &tracepoint->fields[i];

		if (field->type == STRATA_ABI_USER_STRING) {
			while (at < bytes && payload[at])
				at++;
			at++;
		} else if (field->type == STRATA_ABI_USER_SEQUENCE) {
			if (field->length_bytes > bytes - at)
				return bytes;
			n = strata_filter_load(payload + at, field->length_bytes, 0);
			at += field->length_bytes;
			if (n > bytes)
				return bytes;
			at += n * (field->element == STRATA_ABI_USER_TEXT ? 1 : field->bytes);
		} else {
			at += strata_filter_fixed_bytes(field);
		}
		if (at >= bytes)
			return bytes;
	}
	return at;
}

STRATA_FILTER_FUNCTION void strata_filter_number(struct strata_filter_value *value,
						 const struct strata_field *field, uint8_t type,
						 const unsigned char *at)
{
	uint64_t bits = strata_filter_load(at, field->bytes, strata_filter_is_swapped(field));
	const uint32_t shift = 64 - 8 * (uint32_t)field->bytes;
	uint32_t half = (uint32_t)bits;
	float single;

	if (type == STRATA_ABI_USER_FLOAT) {
		value->kind = STRATA_FILTER_REAL;
		if (field->bytes == 4) {
			__builtin_memcpy(&single, &half, 4);
			value->real = (double)single;
		} else {
			__builtin_memcpy(&value->real, &bits, 8);
		}
	} else if (field->flags & STRATA_ABI_USER_FIELD_SIGNED) {
		value->kind = STRATA_FILTER_SIGNED;
		value->bits = (uint64_t)((int64_t)(bits << shift) >> shift);
	} else {
		value->kind = STRATA_FILTER_UNSIGNED;
		value->bits = bits;
	}
}

STRATA_FILTER_FUNCTION void strata_filter_letters(struct strata_filter_value *value,
						  const unsigned char *at, uint64_t bytes)
{
	value->kind = STRATA_FILTER_TEXT;
	value->text = (const char *)at;
	for (value->text_bytes = 0; value->text_bytes < bytes && at[value->text_bytes];)
		value->text_bytes++;
}

/* Reads the value of a context. Numbers are unsigned but for the thread and the process. */
STRATA_FILTER_FUNCTION void strata_filter_context(struct strata_filter_value *value, uint32_t nr,
						  const struct strata_filter_contexts *contexts,
						  char name[STRATA_ABI_USER_NAME_MAX + 1])
{
	if (nr == STRATA_ABI_USER_CTX_PROCNAME || nr == STRATA_ABI_USER_CTX_THREADNAME) {
		strata_filter_ask_context(contexts->of, nr, name);
		strata_filter_letters(value, (const unsigned char *)name,
				      STRATA_ABI_USER_COMM_BYTES);
		return;
	}
	value->kind = nr <= STRATA_ABI_USER_CTX_VPID ? STRATA_FILTER_SIGNED :
						       STRATA_FILTER_UNSIGNED;
	if (nr == STRATA_FILTER_DURATION)
		value->bits = contexts->duration;
	else
		value->bits = nr ? strata_filter_ask_context(contexts->of, nr, NULL) :
				   (uint64_t)(int64_t)strata_filter_thread();
}

/* The value of a field, or of one of its elements. */
STRATA_FILTER_FUNCTION void strata_filter_field(struct strata_filter_value *value,
						const struct strata_tracepoint *tracepoint,
						uint16_t nr, uint64_t index,
						const unsigned char *payload, uint64_t bytes)
{
	const struct strata_field *field = &tracepoint->fields[nr];
	uint64_t at = strata_filter_locate(tracepoint, nr, payload, bytes), count = field->count;
	const int is_whole = index == STRATA_ABI_FILTER_WHOLE;
	const int is_text = field->element == STRATA_ABI_USER_TEXT;

	value->kind = STRATA_FILTER_ABSENT;
	if (field->type == STRATA_ABI_USER_INTEGER || field->type == STRATA_ABI_USER_FLOAT) {
		if (is_whole && field->bytes <= bytes - at)
			strata_filter_number(value, field, field->type, payload + at);
		return;
	}
	if (field->type == STRATA_ABI_USER_STRING) {
		if (is_whole)
			strata_filter_letters(value, payload + at, bytes - at);
		return;
	}
	if (field->type == STRATA_ABI_USER_SEQUENCE) {
		if (field->length_bytes > bytes - at)
			return;
		count = strata_filter_load(payload + at, field->length_bytes, 0);
		at += field->length_bytes;
	}
	if (is_whole && is_text)
		strata_filter_letters(value, payload + at, count < bytes - at ? count : bytes - at);
	else if (is_whole)
		value->kind = STRATA_FILTER_THERE;
	else if (!is_text && index < count && index < bytes &&
		 index * field->bytes + field->bytes <= bytes - at)
		strata_filter_number(value, field, field->element,
				     payload + at + index * field->bytes);
}

STRATA_FILTER_INLINE uint8_t strata_filter_level(const struct strata_tracepoint *tracepoint)
{
	return tracepoint->level & (uint8_t)~STRATA_USER_SPAN_ROLE;
}

/* Reads the value of a term for one event. @name: room for "provider:name". */
STRATA_FILTER_FUNCTION void
strata_filter_term(struct strata_filter_value *value, const struct strata_abi_filter *filter,
		   const struct strata_abi_filter_term *term, uint16_t field,
		   const struct strata_filter_contexts *contexts,
		   const struct strata_tracepoint *tracepoint, const unsigned char *payload,
		   uint64_t bytes, char name[STRATA_ABI_USER_NAME_MAX + 1])
{
	const char *parts[3] = { tracepoint->provider, *tracepoint->provider ? ":" : "",
				 tracepoint->name };
	uint32_t n = 0, i, context;

	value->kind = STRATA_FILTER_ABSENT;
	if (term->subject == STRATA_ABI_FILTER_NAME) {
		for (i = 0; i < 3; i++)
			for (; *parts[i] && n < STRATA_ABI_USER_NAME_MAX; parts[i]++)
				name[n++] = *parts[i];
		strata_filter_letters(value, (const unsigned char *)name, n);
	} else if (term->subject == STRATA_ABI_FILTER_LOGLEVEL) {
		value->kind = STRATA_FILTER_UNSIGNED;
		value->bits = strata_filter_level(tracepoint);
	} else if (term->subject == STRATA_ABI_FILTER_CPU) {
		value->kind = STRATA_FILTER_UNSIGNED;
		value->bits = strata_filter_cpu();
	} else if (field != STRATA_FILTER_NO_FIELD) {
		strata_filter_field(value, tracepoint, field, term->index, payload, bytes);
	} else {
		context = strata_filter_find_context(filter, term, contexts);
		if (context != STRATA_FILTER_NO_CONTEXT)
			strata_filter_context(value, context, contexts, name);
	}
	if (!term->mask || value->kind == STRATA_FILTER_ABSENT)
		return;
	if (value->kind != STRATA_FILTER_SIGNED && value->kind != STRATA_FILTER_UNSIGNED) {
		value->kind = STRATA_FILTER_ABSENT;
		return;
	}
	value->kind = STRATA_FILTER_UNSIGNED;
	value->bits &= term->mask;
}

#endif /* STRATA_RUNTIME_FILTER_H */
