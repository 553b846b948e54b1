/* SPDX-License-Identifier: MIT */
/*
 * filter_compare.h - how a filter compares values (filter.h): as the numbers that they are, by the rules of the language
 * (crates/strata-filter, evaluate.rs). Nothing is wrapped or rounded before.
 */
#ifndef STRATA_RUNTIME_FILTER_COMPARE_H
#define STRATA_RUNTIME_FILTER_COMPARE_H

#include "filter.h"

/* -1, 0, 1: less, equal, greater; 2: neither, one is no number. */
STRATA_FILTER_FUNCTION int strata_filter_order_reals(double left, double right)
{
	return left < right ? -1 : left > right ? 1 : left == right ? 0 : 2;
}

/* Exactly, though a real has not all integers of 64 bits. */
STRATA_FILTER_FUNCTION int strata_filter_order_real(const struct strata_filter_value *integer,
						    double real)
{
	const int is_signed = integer->kind == STRATA_FILTER_SIGNED;
	double fraction;
	uint64_t whole;
	int64_t value;

	if (real != real)
		return 2;
	if (is_signed && (int64_t)integer->bits < 0) {
		if (real >= 0)
			return -1;
		if (real < -0x1p63)
			return 1;
		/* The conversion rounds towards zero, so the fraction that is cut off is below. */
		value = (int64_t)real;
		fraction = (double)value - real;
		if ((int64_t)integer->bits != value)
			return (int64_t)integer->bits < value ? -1 : 1;
		return fraction > 0 ? 1 : 0;
	}
	if (real < 0)
		return 1;
	if (real >= 0x1p64)
		return -1;
	whole = (uint64_t)real;
	fraction = real - (double)whole;
	if (integer->bits != whole)
		return integer->bits < whole ? -1 : 1;
	return fraction > 0 ? -1 : 0;
}

STRATA_FILTER_FUNCTION int strata_filter_order_integers(const struct strata_filter_value *left,
							const struct strata_filter_value *right)
{
	const int left_below = left->kind == STRATA_FILTER_SIGNED && (int64_t)left->bits < 0;
	const int right_below = right->kind == STRATA_FILTER_SIGNED && (int64_t)right->bits < 0;

	if (left_below != right_below)
		return left_below ? -1 : 1;
	/*
	 * Both numbers have the same sign. In two's complement, the lesser of two negative ones is
	 * also the lesser without a sign.
	 */
	return left->bits < right->bits ? -1 : left->bits > right->bits;
}

STRATA_FILTER_INLINE int strata_filter_is_integer(const struct strata_filter_value *value)
{
	return value->kind == STRATA_FILTER_SIGNED || value->kind == STRATA_FILTER_UNSIGNED;
}

/* Returns whether the operator @op holds for two values that compare as @order. */
STRATA_FILTER_FUNCTION int strata_filter_holds(uint8_t op, int order)
{
	switch (op) {
	case STRATA_ABI_FILTER_EQUAL:
		return order == 0;
	case STRATA_ABI_FILTER_NOT_EQUAL:
		return order != 0;
	case STRATA_ABI_FILTER_LESS:
		return order == -1;
	case STRATA_ABI_FILTER_LESS_OR_EQUAL:
		return order == -1 || order == 0;
	case STRATA_ABI_FILTER_GREATER:
		return order == 1;
	default:
		return order == 1 || order == 0;
	}
}

/* Compares two values by an operator. Returns 1 if @op holds, 0 if not, and -1 if that is unknown. */
STRATA_FILTER_FUNCTION int strata_filter_pair(uint8_t op, const struct strata_filter_value *left,
					      const struct strata_filter_value *right)
{
	const int left_is_integer = strata_filter_is_integer(left);
	const int right_is_integer = strata_filter_is_integer(right);
	uint64_t n = 0;
	int order;

	if (left->kind == STRATA_FILTER_TEXT && right->kind == STRATA_FILTER_TEXT) {
		if (op > STRATA_ABI_FILTER_NOT_EQUAL)
			return -1;
		while (n < left->text_bytes && n < right->text_bytes &&
		       left->text[n] == right->text[n])
			n++;
		return (n == left->text_bytes && n == right->text_bytes) ==
		       (op == STRATA_ABI_FILTER_EQUAL);
	}
	if ((!left_is_integer && left->kind != STRATA_FILTER_REAL) ||
	    (!right_is_integer && right->kind != STRATA_FILTER_REAL))
		return -1;
	if (left_is_integer && right_is_integer) {
		order = strata_filter_order_integers(left, right);
	} else if (left_is_integer) {
		order = strata_filter_order_real(left, right->real);
	} else if (right_is_integer) {
		order = strata_filter_order_real(right, left->real);
		order = order == 2 ? 2 : -order;
	} else {
		order = strata_filter_order_reals(left->real, right->real);
	}
	return strata_filter_holds(op, order);
}

/* Returns whether one of the value's labels matches the pattern. -1: the value has no labels. */
STRATA_FILTER_FUNCTION int strata_filter_label(const struct strata_field *field,
					       const struct strata_filter_value *value,
					       const char *pattern, const char *pattern_end)
{
	const struct strata_enumeration *e = field->enumeration;
	const int is_signed = field->flags & STRATA_ABI_USER_FIELD_SIGNED;
	const int is_wide = field->bytes == 8;
	int64_t next = 0, low = 0, high;
	int found = -1;
	uint32_t i;

	if (!e)
		return -1;
	high = is_wide ? INT64_MAX : (INT64_C(1) << (8 * field->bytes - !!is_signed)) - 1;
	if (is_signed)
		low = -high - 1;
	for (i = 0; i < e->nr_labels; i++) {
		const struct strata_label *label = &e->labels[i];
		int64_t from = label->automatic ? next : label->from;
		int64_t to = label->automatic ? next : label->to;
		const char *end = label->label;

		next = (int64_t)((uint64_t)to + 1);
		/* 64 unsigned bits are labelled by their pattern; of others, what they can be. */
		if (is_wide && !is_signed) {
			found = found < 0 ? 0 : found;
			if (value->bits < (uint64_t)from || value->bits > (uint64_t)to)
				continue;
		} else {
			if (from > high || to < low)
				continue;
			found = found < 0 ? 0 : found;
			if ((int64_t)value->bits < from || (int64_t)value->bits > to)
				continue;
		}
		while (*end)
			end++;
		if (strata_abi_glob(pattern, pattern_end, label->label, end))
			found = 1;
	}
	return found;
}

#endif /* STRATA_RUNTIME_FILTER_COMPARE_H */
