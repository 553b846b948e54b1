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

#define TRACE_PAIR(i, s) \
	STRATA_TRACE(bench, pair, INFO, strata_int(number, i), strata_string(text, s))
#define TRACE_ENUMS(x)                                                                           \
	STRATA_TRACE(bench, enums, INFO, strata_enum(a, colour, (int)((x)&7)),                   \
		     strata_enum(b, colour, (int)((x)&7)), strata_enum(c, colour, (int)((x)&7)), \
		     strata_enum(d, colour, (int)((x)&7)), strata_enum(e, colour, (int)((x)&7)), \
		     strata_enum(f, colour, (int)((x)&7)), strata_enum(g, colour, (int)((x)&7)))
#define TRACE_TWELVE(x, array, s)                                                                \
	STRATA_TRACE(bench, twelve, INFO, strata_int(a, (uint64_t)(x)), strata_int(b, (int)(x)), \
		     strata_hex(c, (long)(x)), strata_float(d, (double)(int64_t)(x)),            \
		     strata_array(e, array, 4), strata_text(f, s, 16),                           \
		     strata_sequence(g, array, (x)&7), strata_text_sequence(h, s, 12),           \
		     strata_string(i, s), strata_string(j, (s) + 8), strata_string(k, (s) + 20), \
		     strata_int(l, (uint8_t)(x)))

STRATA_ENUM(colour, strata_label(RED, 0), strata_label(GREEN, 1), strata_label_range(OTHER, 2, 7));

#include "loops.h"

int main(int argc, char **argv)
{
	return run_loops(argc, argv, "user: what does an event cost the traced thread? (Strata)");
}
