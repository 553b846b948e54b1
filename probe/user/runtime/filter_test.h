/* SPDX-License-Identifier: MIT */
/*
 * filter_test.h - a filter that was bound to a tracepoint (filter_bind.h) is asked of each of its events. One that could not be, since
 * there was no memory for it, is asked all the same, test by test.
 */
#ifndef STRATA_RUNTIME_FILTER_TEST_H
#define STRATA_RUNTIME_FILTER_TEST_H

#include <strata/user/assemble.h>

#include "filter_bind.h"

/* A further result of strata_filter_word_holds(), besides 0 and 1 */
#define STRATA_FILTER_UNDECIDED 2u

/* Returns whether the value in the first bytes of @word is in the test's range. */
STRATA_FILTER_INLINE uint32_t strata_filter_is_in(const struct strata_filter_bound *bound,
						  uint64_t word)
{
	return ((word & bound->mask) << bound->shift) - bound->first <= bound->width;
}

/*
 * Returns whether the test holds, as far as one load shows. The STRATA_USER_TAILROOM bytes after a payload may be
 * read.
 */
STRATA_FILTER_INLINE uint32_t strata_filter_word_holds(const struct strata_filter_bound *bound,
						       const unsigned char *payload, uint64_t bytes)
{
	uint64_t word;
	uint32_t is_in;

	if (__builtin_expect(bound->kind >= STRATA_FILTER_SLOW, 0))
		return bound->kind == STRATA_FILTER_HOLDS     ? 1 :
		       bound->kind == STRATA_FILTER_HOLDS_NOT ? 0 :
								STRATA_FILTER_UNDECIDED;
	if (__builtin_expect(bound->offset + bound->bytes > bytes, 0))
		return 0;
	__builtin_memcpy(&word, payload + bound->offset, 8);
	is_in = strata_filter_is_in(bound, word);
	if (__builtin_expect(bound->kind & is_in, 0)) /* BEGINNING */
		return STRATA_FILTER_UNDECIDED;
	return is_in ^ bound->negated;
}

STRATA_FILTER_FUNCTION int strata_filter_bound_holds(const struct strata_filter_event *event,
						     const struct strata_filter_bound *bound)
{
	const uint32_t holds = strata_filter_word_holds(bound, event->payload, event->bytes);

	return holds == STRATA_FILTER_UNDECIDED ? strata_filter_slow(event, bound) : (int)holds;
}

/*
 * Returns whether a test of kind BEGINNING holds for a text whose first bytes, up to 8, are known
 * to be the pattern's. @text ends with a NUL, or at @bytes; it is read up to the end of its page.
 * UNDECIDED: not only letters, and perhaps a '*' at the end, are in the pattern; or there are no
 * more @bytes than letters.
 */
STRATA_FILTER_FUNCTION __attribute__((noinline)) uint32_t
strata_filter_whole_text(const struct strata_abi_filter *filter,
			 const struct strata_filter_bound *bound, const unsigned char *text,
			 uint64_t bytes)
{
	const char *pattern =
		strata_filter_text(filter, &strata_filter_tests(filter)[bound->test].right);
	const uint32_t nr = bound->letters;
	uint32_t i = nr < 8 ? nr : 8;
	uint64_t word, wanted;

	if (!bound->ends || nr >= bytes)
		return STRATA_FILTER_UNDECIDED;
	/* Letters are never NUL, so a word that differs ends the text, or is another text. */
	for (; i + 8 <= nr && ((uintptr_t)(text + i) & 4095) <= 4088; i += 8) {
		__builtin_memcpy(&word, text + i, 8);
		__builtin_memcpy(&wanted, pattern + i, 8);
		if (word != wanted)
			return bound->negated;
	}
	for (; i < nr; i++)
		if (text[i] != (unsigned char)pattern[i])
			return bound->negated;
	return (bound->ends == STRATA_FILTER_ENDS_BY_ANY || !text[nr]) ^ bound->negated;
}

/*
 * Asks a filter about a payload in memory. Returns 1 if it selects the event, 0 if not, and
 * UNDECIDED if strata_filter_ask() is to be called. @filter: the filter of which @program was
 * bound.
 */
STRATA_FILTER_INLINE uint32_t strata_filter_ask_words(const struct strata_abi_filter *filter,
						      const struct strata_filter_program *program,
						      const unsigned char *payload, uint64_t bytes)
{
	const uint32_t nr = program->nr;
	uint32_t at = 0, holds;

	if (__builtin_expect(!nr, 0))
		return program->passes;
	do {
		const struct strata_filter_bound *bound = &program->test[at];

		holds = strata_filter_word_holds(bound, payload, bytes);
		if (__builtin_expect(holds == STRATA_FILTER_UNDECIDED, 0)) {
			if (bound->kind == STRATA_FILTER_BEGINNING)
				holds = strata_filter_whole_text(filter, bound,
								 payload + bound->offset,
								 bytes - bound->offset);
			if (holds == STRATA_FILTER_UNDECIDED)
				return STRATA_FILTER_UNDECIDED;
		}
		at = holds ? bound->yes : bound->no;
	} while (__builtin_expect(at < nr, 0));
	return at == STRATA_ABI_FILTER_PASS;
}

/*
 * Applies the filter to a payload of eight bytes, which is @word. UNDECIDED: the payload in memory
 * may decide.
 */
STRATA_FILTER_INLINE uint32_t strata_filter_ask_word(const struct strata_filter_program *program,
						     uint64_t word)
{
	const uint32_t nr = program->nr;
	uint32_t at = 0, holds;

	if (__builtin_expect(!nr, 0))
		return program->passes;
	do {
		const struct strata_filter_bound *bound = &program->test[at];
		const uint64_t from = word >> (bound->offset % 8 * 8);

		if (__builtin_expect(bound->kind != STRATA_FILTER_WORD, 0) ||
		    __builtin_expect(bound->offset + bound->bytes > sizeof(word), 0))
			return STRATA_FILTER_UNDECIDED;
		holds = strata_filter_is_in(bound, from) ^ bound->negated;
		at = holds ? bound->yes : bound->no;
	} while (__builtin_expect(at < nr, 0));
	return at == STRATA_ABI_FILTER_PASS;
}

/*
 * The first bytes of a value that is not put together; what is behind a text's NUL is anything. Returns 0 if it is no
 * single number or text. A text is read up to the end of its page, not of what it is in.
 */
STRATA_FILTER_INLINE int strata_filter_part_word(const struct strata_user_part *part,
						 uint64_t *word)
{
	const unsigned char *text;
	unsigned char bytes[8] = { 0 };
	uint32_t i;

	if (part->kind == STRATA_USER_PART_VALUE) {
		__builtin_memcpy(word, part->from.value, 8);
		return 1;
	}
	if (part->kind != STRATA_USER_PART_STRING || !part->from.data)
		return 0;
	text = (const unsigned char *)(uintptr_t)part->from.data;
	if (__builtin_expect(((uintptr_t)text & 4095) <= 4088, 1)) {
		__builtin_memcpy(word, text, 8);
		return 1;
	}
	for (i = 0; i < 8 && text[i]; i++)
		bytes[i] = text[i];
	__builtin_memcpy(word, bytes, 8);
	return 1;
}

/*
 * Applies a filter to values that are not assembled yet, one part for each field. Returns what
 * strata_filter_ask_words() returns.
 */
STRATA_FILTER_INLINE uint32_t strata_filter_ask_parts(const struct strata_abi_filter *filter,
						      const struct strata_filter_program *program,
						      const struct strata_user_part *parts)
{
	const uint32_t nr = program->nr;
	uint32_t at = 0, is_in, holds;
	uint64_t word;

	if (__builtin_expect(!nr, 0))
		return program->passes;
	do {
		const struct strata_filter_bound *bound = &program->test[at];

		if (bound->part_kind >= STRATA_FILTER_SLOW ||
		    !strata_filter_part_word(&parts[bound->field], &word))
			return STRATA_FILTER_UNDECIDED;
		is_in = strata_filter_is_in(bound, word);
		holds = is_in ^ bound->negated;
		if (bound->part_kind & is_in) /* BEGINNING */
			holds = strata_filter_whole_text(
				filter, bound,
				(const unsigned char *)(uintptr_t)parts[bound->field].from.data,
				UINT64_MAX);
		if (holds == STRATA_FILTER_UNDECIDED)
			return STRATA_FILTER_UNDECIDED;
		at = holds ? bound->yes : bound->no;
	} while (at < nr);
	return at == STRATA_ABI_FILTER_PASS;
}

STRATA_FILTER_FUNCTION int strata_filter_ask(const struct strata_filter_program *program,
					     const struct strata_filter_event *event)
{
	uint32_t at = 0;

	if (!program->nr)
		return (int)program->passes;
	do {
		const struct strata_filter_bound *bound = &program->test[at];

		at = strata_filter_bound_holds(event, bound) ? bound->yes : bound->no;
	} while (at < program->nr);
	return at == STRATA_ABI_FILTER_PASS;
}

/* Applies a filter for which there is no program: each test is bound when it is made. */
STRATA_FILTER_FUNCTION int strata_filter_ask_unbound(const struct strata_filter_event *event)
{
	struct strata_filter_bound bound;
	uint32_t at = 0;

	do {
		strata_filter_bind_test(&bound, event, (uint16_t)at);
		at = strata_filter_bound_holds(event, &bound) ? bound.yes : bound.no;
	} while (at < event->filter->nr_tests);
	return at == STRATA_ABI_FILTER_PASS;
}

#endif /* STRATA_RUNTIME_FILTER_TEST_H */
