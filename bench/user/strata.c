/* SPDX-License-Identifier: MIT */
/* strata.c - the loops with Strata's tracepoints. */
#include <strata/tracepoint.h>

#define TRACE_U64(x)	STRATA_TRACE(bench, u64, INFO, strata_int(value, x))
#define TRACE_STRING(s) STRATA_TRACE(bench, string, INFO, strata_string(text, s))
#define TRACE_TEN(x)                                                                               \
	STRATA_TRACE(bench, ten, INFO, strata_int(a, (uint64_t)(x)), strata_int(b, (uint32_t)(x)), \
		     strata_int(c, (uint16_t)(x)), strata_int(d, (uint8_t)(x)),                    \
		     strata_int(e, (int64_t)(x)), strata_int(f, (int32_t)(x)),                     \
		     strata_hex(g, (uint64_t)(x)), strata_float(h, (double)(int64_t)(x)),          \
		     strata_int(i, (uint32_t)((x) >> 32)), strata_int(j, (uint64_t)(x)))

#include "loops.h"

int main(int argc, char **argv)
{
	return run_loops(argc, argv, "user: what does an event cost the traced thread? (Strata)");
}
