// SPDX-License-Identifier: MIT
// lttng_where.c - events in functions, and in functions that were inlined into others: where they are is known by
// debug information only.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

static inline __attribute__((always_inline)) void inner(int n)
{
	lttng_ust_tracepoint(interop, small, n, 1);
}

static inline __attribute__((always_inline)) void outer(int n)
{
	lttng_ust_tracepoint(interop, small, n, 2);
	inner(n + 1);
}

__attribute__((noinline)) static void apart(int n)
{
	lttng_ust_tracepoint(interop, small, n, 3);
	outer(n);
}

int main(void)
{
	for (int n = 0; n < 3; n++) {
		apart(n);
		inner(n);
	}
	return 0;
}
