/* SPDX-License-Identifier: MIT */
/* sizes_strata.c - events of any size, by Strata. */
#include <strata/tracepoint.h>

#include "sizes.h"

static const char text[4096];

void emit_sizes(unsigned long n, unsigned bytes)
{
	for (; n; n--)
		STRATA_TRACE(bench, sized, INFO, strata_text_sequence(text, text, bytes));
}
