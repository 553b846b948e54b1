/* SPDX-License-Identifier: MIT */
/* sizes_lttng.c - the same events by LTTng-UST. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "sizes_provider.h"

#include "sizes.h"

static const char text[4096];

void emit_sizes(unsigned long n, unsigned bytes)
{
	for (; n; n--)
		lttng_ust_tracepoint(bench, sized, text, bytes);
}
