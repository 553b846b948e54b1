/* SPDX-License-Identifier: MIT */
/*
 * filter_bind.h - a checked filter (filter.h) is bound to a tracepoint: what is certain of all its events, as a comparison with
 * its name, is no test any more, and a comparison of an integer, or of a text's first bytes, at a fixed place is one
 * load. All other tests are made field by field.
 */
#ifndef STRATA_RUNTIME_FILTER_BIND_H
#define STRATA_RUNTIME_FILTER_BIND_H

#include "filter_compare.h"

/* Values of strata_filter_bound.kind */
#define STRATA_FILTER_WORD	0u /* one load decides */
#define STRATA_FILTER_BEGINNING 1u /* text: one load can say that it is another one */
#define STRATA_FILTER_SLOW	2u
#define STRATA_FILTER_HOLDS	3u /* for certain */
#define STRATA_FILTER_HOLDS_NOT 4u

/* Values of strata_filter_bound.ends: how a text's end is compared. */
#define STRATA_FILTER_ENDS	  1u /* nothing */
#define STRATA_FILTER_ENDS_BY_ANY 2u /* a '*', and nothing behind it */

/*
 * A test of one tracepoint. WORD, BEGINNING: of eight bytes from .offset, those of .mask, moved up by .shift, are one of
 * .first..first + width; what is behind the field is moved out or masked. Differences are taken modulo 2^64, so that
 * the sign of a number plays no part.
 */
struct strata_filter_bound {
	uint64_t mask;
	uint64_t first;
	uint64_t width;
	uint32_t offset;
	uint8_t bytes; /* that must be there */
	uint8_t shift;
	uint8_t kind;
	uint8_t negated;
	uint16_t yes;
	uint16_t no;
	uint16_t test;	      /* its number in the filter */
	uint16_t field;	      /* of .left, or NO_FIELD */
	uint16_t right_field; /* of .right */
	uint8_t part_kind; /* asked of values that are not put together: they have no place yet */
	uint8_t ends;	   /* BEGINNING: what is behind the letters of the pattern */
	uint16_t letters;  /* so many it begins with */
	uint8_t reserved[2];
};

struct strata_filter_program {
	uint32_t nr; /* 0: .passes says it of all events */
	uint32_t passes;
	struct strata_filter_bound test[];
};

/* The filter that is applied, and the event that it is applied to. */
struct strata_filter_event {
	const struct strata_abi_filter *filter;
	const struct strata_tracepoint *tracepoint;
	const unsigned char *payload;
	uint64_t bytes;
	struct strata_filter_contexts contexts;
};

/* ---- tests ---- */

STRATA_FILTER_FUNCTION int strata_filter_number_test(const struct strata_abi_filter_test *test,
						     const struct strata_filter_value *value)
{
	switch (value->kind) {
	case STRATA_FILTER_SIGNED:
		return (int64_t)value->bits >= test->least &&
		       (int64_t)value->bits <= test->greatest;
	case STRATA_FILTER_UNSIGNED:
		return value->bits >= test->from && value->bits <= test->to;
	case STRATA_FILTER_REAL:
		return value->real >= test->low && value->real <= test->high;
	default:
		return -1;
	}
}

/* Makes a test that needs more than one load. Returns 1 if it holds, and 0 if it does not, or if nothing is known about it. */
STRATA_FILTER_FUNCTION __attribute__((noinline)) int
strata_filter_slow(const struct strata_filter_event *event, const struct strata_filter_bound *bound)
{
	const struct strata_abi_filter *filter = event->filter;
	const struct strata_abi_filter_test *test = &strata_filter_tests(filter)[bound->test];
	const char *pattern = strata_filter_text(filter, &test->right);
	const char *end = pattern + test->right.text_bytes;
	char name[2][STRATA_ABI_USER_NAME_MAX + 1];
	struct strata_filter_value left, right;
	int holds = -1;

	strata_filter_term(&left, filter, &test->left, bound->field, &event->contexts,
			   event->tracepoint, event->payload, event->bytes, name[0]);
	switch (test->kind) {
	case STRATA_ABI_FILTER_NUMBER:
		holds = strata_filter_number_test(test, &left);
		break;
	case STRATA_ABI_FILTER_HAS:
		holds = left.kind != STRATA_FILTER_ABSENT;
		break;
	case STRATA_ABI_FILTER_PAIR:
		strata_filter_term(&right, filter, &test->right, bound->right_field,
				   &event->contexts, event->tracepoint, event->payload,
				   event->bytes, name[1]);
		holds = strata_filter_pair(test->op, &left, &right);
		break;
	default:
		if (left.kind == STRATA_FILTER_TEXT)
			holds = strata_abi_glob(pattern, end, left.text,
						left.text + left.text_bytes);
		else if (strata_filter_is_integer(&left) &&
			 bound->field != STRATA_FILTER_NO_FIELD && !test->left.mask &&
			 test->left.index == STRATA_ABI_FILTER_WHOLE)
			holds = strata_filter_label(&event->tracepoint->fields[bound->field], &left,
						    pattern, end);
	}
	return holds >= 0 && holds != bound->negated;
}

/* ---- binding ---- */

/* Returns whether the term has the same value in all events of the tracepoint. */
STRATA_FILTER_FUNCTION int strata_filter_is_certain(const struct strata_abi_filter *filter,
						    const struct strata_abi_filter_term *term,
						    uint16_t field,
						    const struct strata_filter_contexts *contexts)
{
	if (term->subject == STRATA_ABI_FILTER_NAME || term->subject == STRATA_ABI_FILTER_LOGLEVEL)
		return 1;
	return term->subject != STRATA_ABI_FILTER_CPU && field == STRATA_FILTER_NO_FIELD &&
	       strata_filter_find_context(filter, term, contexts) == STRATA_FILTER_NO_CONTEXT;
}

/*
 * Returns whether the field is of a kind of which the test can know nothing: it is no number, and
 * the test is one of numbers; or a number without labels, and the test is one of texts. Such a test
 * does not hold, even if it is negated.
 */
STRATA_FILTER_FUNCTION int strata_filter_never(const struct strata_abi_filter_test *test,
					       uint16_t nr,
					       const struct strata_tracepoint *tracepoint)
{
	const struct strata_field *field = &tracepoint->fields[nr];
	int is_number;

	if (nr == STRATA_FILTER_NO_FIELD || test->left.index != STRATA_ABI_FILTER_WHOLE)
		return 0;
	is_number = strata_filter_is_number(field);
	return (test->kind == STRATA_ABI_FILTER_NUMBER && !is_number) ||
	       (test->kind == STRATA_ABI_FILTER_TEXT && is_number && !field->enumeration);
}

/* Returns the offset of a field, if it is the same in all records; else UINT64_MAX. */
STRATA_FILTER_FUNCTION uint64_t strata_filter_place(const struct strata_tracepoint *tracepoint,
						    uint16_t nr)
{
	uint64_t at = 0, bytes;
	uint16_t i;

	for (i = 0; i < nr; i++) {
		bytes = strata_filter_fixed_bytes(&tracepoint->fields[i]);
		if (!bytes || bytes > INT32_MAX || at + bytes > INT32_MAX)
			return UINT64_MAX;
		at += bytes;
	}
	return at;
}

/* Binds a test of an integer to one word, if the test is for one range of integers. */
STRATA_FILTER_FUNCTION void strata_filter_bind_integer(struct strata_filter_bound *bound,
						       const struct strata_abi_filter_test *test,
						       const struct strata_field *field)
{
	const uint32_t shift = 64 - 8 * (uint32_t)field->bytes;
	const uint64_t most = UINT64_MAX >> shift;
	uint64_t first, last;
	int is_empty;

	if (field->flags & STRATA_ABI_USER_FIELD_SIGNED && !test->left.mask) {
		const int64_t high = (int64_t)(most >> 1), low = -high - 1;
		const int64_t least = test->least > low ? test->least : low;
		const int64_t greatest = test->greatest < high ? test->greatest : high;

		is_empty = least > greatest;
		first = (uint64_t)least;
		last = (uint64_t)greatest;
	} else {
		first = test->from;
		last = test->to < most ? test->to : most;
		is_empty = first > last;
		/* The bits of a sign above the field's. */
		if (test->left.mask > most)
			return;
	}
	if (is_empty) {
		bound->kind = bound->negated ? STRATA_FILTER_HOLDS : STRATA_FILTER_HOLDS_NOT;
		return;
	}
	bound->bytes = field->bytes;
	bound->shift = (uint8_t)shift;
	bound->mask = test->left.mask ? test->left.mask : UINT64_MAX;
	bound->first = first << shift;
	bound->width = (last - first) << shift;
	bound->kind = STRATA_FILTER_WORD;
}

/* Returns 1 for a character of a pattern that stands for itself. */
STRATA_FILTER_FUNCTION int strata_filter_is_letter(char c)
{
	return c && c != '*' && c != '?' && c != '\\';
}

/*
 * Text by its first eight bytes. Up to seven letters, and the NUL behind them, are all there is of a short one; of a
 * pattern, or of a longer one, the letters in front of '*' and the like can say that it is another. What is behind a
 * NUL does not count: the pattern has none there.
 */
STRATA_FILTER_FUNCTION void strata_filter_bind_text(struct strata_filter_bound *bound,
						    const char *pattern, uint32_t bytes)
{
	unsigned char word[8] = { 0 };
	uint32_t n = 0, letters = 0;
	int is_all;

	while (n < bytes && n < 8 && strata_filter_is_letter(pattern[n])) {
		word[n] = (unsigned char)pattern[n];
		n++;
	}
	while (letters < bytes && strata_filter_is_letter(pattern[letters]))
		letters++;
	bound->letters = (uint16_t)letters;
	if (letters == bytes)
		bound->ends = STRATA_FILTER_ENDS;
	else if (letters + 1 == bytes && pattern[letters] == '*')
		bound->ends = STRATA_FILTER_ENDS_BY_ANY;
	is_all = n == bytes && n < 8;
	if (n < bytes && !pattern[n])
		return;
	bound->bytes = 1;
	bound->shift = 0;
	bound->mask = n + (uint32_t)is_all == 8 ? UINT64_MAX :
						  (UINT64_C(1) << 8 * (n + (uint32_t)is_all)) - 1;
	__builtin_memcpy(&bound->first, word, 8);
	bound->width = 0;
	bound->kind = STRATA_FILTER_BEGINNING;
	if (is_all || (n + 1 == bytes && pattern[n] == '*'))
		bound->kind = STRATA_FILTER_WORD;
}

/* Makes a test that one load can decide, if the filter's test is such a test. */
STRATA_FILTER_FUNCTION void strata_filter_bind_word(struct strata_filter_bound *bound,
						    const struct strata_abi_filter *filter,
						    const struct strata_abi_filter_test *test,
						    const struct strata_tracepoint *tracepoint)
{
	const struct strata_field *field = &tracepoint->fields[bound->field];
	uint64_t offset;

	if (bound->field == STRATA_FILTER_NO_FIELD || test->left.index != STRATA_ABI_FILTER_WHOLE ||
	    __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
		return;
	if (test->kind == STRATA_ABI_FILTER_NUMBER && field->type == STRATA_ABI_USER_INTEGER &&
	    !strata_filter_is_swapped(field))
		strata_filter_bind_integer(bound, test, field);
	else if (test->kind == STRATA_ABI_FILTER_TEXT && field->type == STRATA_ABI_USER_STRING &&
		 !test->left.mask)
		strata_filter_bind_text(bound, strata_filter_text(filter, &test->right),
					test->right.text_bytes);
	bound->part_kind = bound->kind;
	offset = strata_filter_place(tracepoint, bound->field);
	if (offset != UINT64_MAX)
		bound->offset = (uint32_t)offset;
	else if (bound->kind < STRATA_FILTER_SLOW)
		bound->kind = STRATA_FILTER_SLOW;
}

/* Binds test @nr of a filter to one tracepoint. The tests that follow it are the filter's. */
STRATA_FILTER_FUNCTION void strata_filter_bind_test(struct strata_filter_bound *bound,
						    const struct strata_filter_event *event,
						    uint16_t nr)
{
	const struct strata_abi_filter *filter = event->filter;
	const struct strata_abi_filter_test *test = &strata_filter_tests(filter)[nr];

	__builtin_memset(bound, 0, sizeof(*bound));
	bound->kind = STRATA_FILTER_SLOW;
	bound->part_kind = STRATA_FILTER_SLOW;
	bound->negated = !!(test->flags & STRATA_ABI_FILTER_NEGATED);
	bound->yes = test->yes;
	bound->no = test->no;
	bound->test = nr;
	bound->field = strata_filter_find(filter, &test->left, event->tracepoint);
	bound->right_field = test->kind == STRATA_ABI_FILTER_PAIR ?
				     strata_filter_find(filter, &test->right, event->tracepoint) :
				     STRATA_FILTER_NO_FIELD;
	if (strata_filter_never(test, bound->field, event->tracepoint))
		bound->kind = STRATA_FILTER_HOLDS_NOT;
	else if (strata_filter_is_certain(filter, &test->left, bound->field, &event->contexts) &&
		 (test->kind != STRATA_ABI_FILTER_PAIR ||
		  strata_filter_is_certain(filter, &test->right, bound->right_field,
					   &event->contexts)))
		/* This test looks at no data of the event, so it is made now. */
		bound->kind = (uint8_t)(strata_filter_slow(event, bound) ? STRATA_FILTER_HOLDS :
									   STRATA_FILTER_HOLDS_NOT);
	else
		strata_filter_bind_word(bound, filter, test, event->tracepoint);
}

/* Returns the greatest number of bytes that a program of this filter takes. */
STRATA_FILTER_INLINE uint64_t strata_filter_program_bytes(const struct strata_abi_filter *filter)
{
	return sizeof(struct strata_filter_program) +
	       filter->nr_tests * sizeof(struct strata_filter_bound);
}

/*
 * The filter for the event's tracepoint; its payload is not looked at. @program has room for all tests. Tests that
 * are certain are left out.
 */
STRATA_FILTER_FUNCTION void strata_filter_bind(struct strata_filter_program *program,
					       const struct strata_filter_event *event)
{
	uint16_t leads[STRATA_ABI_FILTER_TESTS_MAX]; /* to a test, in the end */
	uint16_t number[STRATA_ABI_FILTER_TESTS_MAX];
	const uint16_t nr = (uint16_t)event->filter->nr_tests;
	struct strata_filter_bound *bound;
	uint32_t kept = 0;
	uint16_t i, at;

	/* A filter without tests selects all. */
	leads[0] = STRATA_ABI_FILTER_PASS;
	for (i = nr; i-- > 0;) {
		bound = &program->test[i];
		strata_filter_bind_test(bound, event, i);
		bound->yes = bound->yes < nr ? leads[bound->yes] : bound->yes;
		bound->no = bound->no < nr ? leads[bound->no] : bound->no;
		leads[i] = bound->kind == STRATA_FILTER_HOLDS	  ? bound->yes :
			   bound->kind == STRATA_FILTER_HOLDS_NOT ? bound->no :
			   bound->yes == bound->no		  ? bound->yes :
								    i;
	}
	program->passes = leads[0] == STRATA_ABI_FILTER_PASS;
	/* Moves the remaining tests up, in their order. */
	for (i = leads[0]; i < nr; i++) {
		if (leads[i] != i)
			continue;
		number[i] = (uint16_t)kept;
		program->test[kept++] = program->test[i];
	}
	for (at = 0; at < kept; at++) {
		bound = &program->test[at];
		bound->yes = bound->yes < nr ? number[bound->yes] : bound->yes;
		bound->no = bound->no < nr ? number[bound->no] : bound->no;
	}
	program->nr = kept;
}

#endif /* STRATA_RUNTIME_FILTER_BIND_H */
