/* SPDX-License-Identifier: MIT */
/* print_filter.c - print the layout of strata/abi/filter.h: abi/golden/filter.txt is its output. */
#include "layout.h"

#include <strata/abi/filter.h>

static void constants(void)
{
	CONSTANT(STRATA_ABI_FILTER_MAGIC);
	CONSTANT(STRATA_ABI_FILTER_BYTES);
	CONSTANT(STRATA_ABI_FILTER_TEXT_MAX);
	CONSTANT(STRATA_ABI_FILTER_TESTS_MAX);
	CONSTANT(STRATA_ABI_FILTER_PASS);
	CONSTANT(STRATA_ABI_FILTER_REJECT);
	CONSTANT(STRATA_ABI_FILTER_NUMBER);
	CONSTANT(STRATA_ABI_FILTER_TEXT);
	CONSTANT(STRATA_ABI_FILTER_HAS);
	CONSTANT(STRATA_ABI_FILTER_PAIR);
	CONSTANT(STRATA_ABI_FILTER_EQUAL);
	CONSTANT(STRATA_ABI_FILTER_NOT_EQUAL);
	CONSTANT(STRATA_ABI_FILTER_LESS);
	CONSTANT(STRATA_ABI_FILTER_LESS_OR_EQUAL);
	CONSTANT(STRATA_ABI_FILTER_GREATER);
	CONSTANT(STRATA_ABI_FILTER_GREATER_OR_EQUAL);
	CONSTANT(STRATA_ABI_FILTER_NEGATED);
	CONSTANT(STRATA_ABI_FILTER_NAME);
	CONSTANT(STRATA_ABI_FILTER_LOGLEVEL);
	CONSTANT(STRATA_ABI_FILTER_CPU);
	CONSTANT(STRATA_ABI_FILTER_FIELD);
	CONSTANT(STRATA_ABI_FILTER_PAYLOAD);
	CONSTANT(STRATA_ABI_FILTER_CONTEXT);
	CONSTANT(STRATA_ABI_FILTER_WHOLE);
}

int main(void)
{
	TITLE("filter.h");
	printf("version %u\n", STRATA_ABI_FILTER_VERSION);
	constants();
	STRUCT(strata_abi_filter_term);
	FIELD(strata_abi_filter_term, subject);
	FIELD(strata_abi_filter_term, text_bytes);
	FIELD(strata_abi_filter_term, text);
	FIELD(strata_abi_filter_term, index);
	FIELD(strata_abi_filter_term, mask);
	END(strata_abi_filter_term);
	STRUCT(strata_abi_filter_test);
	FIELD(strata_abi_filter_test, kind);
	FIELD(strata_abi_filter_test, op);
	FIELD(strata_abi_filter_test, flags);
	FIELD(strata_abi_filter_test, yes);
	FIELD(strata_abi_filter_test, no);
	FIELD(strata_abi_filter_test, left);
	FIELD(strata_abi_filter_test, right);
	FIELD(strata_abi_filter_test, least);
	FIELD(strata_abi_filter_test, greatest);
	FIELD(strata_abi_filter_test, from);
	FIELD(strata_abi_filter_test, to);
	FIELD(strata_abi_filter_test, low);
	FIELD(strata_abi_filter_test, high);
	END(strata_abi_filter_test);
	STRUCT(strata_abi_filter);
	FIELD(strata_abi_filter, magic);
	FIELD(strata_abi_filter, version);
	FIELD(strata_abi_filter, bytes);
	FIELD(strata_abi_filter, nr_tests);
	END(strata_abi_filter);
	return status;
}
