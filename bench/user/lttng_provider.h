/* SPDX-License-Identifier: MIT */
/* lttng_provider.h - the same events for LTTng-UST 2.13. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_provider.h"

#if !defined(BENCH_USER_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_USER_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, u64, LTTNG_UST_TP_ARGS(uint64_t, x),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, x)))

LTTNG_UST_TRACEPOINT_EVENT(bench, string, LTTNG_UST_TP_ARGS(const char *, s),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, s)))

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(
	bench, ten, LTTNG_UST_TP_ARGS(uint64_t, x),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, x)
			    lttng_ust_field_integer(uint32_t, b, (uint32_t)x)
			    lttng_ust_field_integer(uint16_t, c, (uint16_t)x)
			    lttng_ust_field_integer(uint8_t, d, (uint8_t)x)
			    lttng_ust_field_integer(int64_t, e, (int64_t)x)
			    lttng_ust_field_integer(int32_t, f, (int32_t)x)
			    lttng_ust_field_integer_hex(uint64_t, g, x)
			    lttng_ust_field_float(double, h, (double)(int64_t)x)
			    lttng_ust_field_integer(uint32_t, i, (uint32_t)(x >> 32))
			    lttng_ust_field_integer(uint64_t, j, x)))

LTTNG_UST_TRACEPOINT_EVENT(
	bench, pair, LTTNG_UST_TP_ARGS(int, i, const char *, s),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, i) lttng_ust_field_string(text, s)))

LTTNG_UST_TRACEPOINT_ENUM(
	bench, colour,
	LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("RED", 0) lttng_ust_field_enum_value("GREEN", 1)
				 lttng_ust_field_enum_range("OTHER", 2, 7)))

LTTNG_UST_TRACEPOINT_EVENT(
	bench, enums, LTTNG_UST_TP_ARGS(int, i),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(bench, colour, int, a, i)
			    lttng_ust_field_enum(bench, colour, int, b, i)
			    lttng_ust_field_enum(bench, colour, int, c, i)
			    lttng_ust_field_enum(bench, colour, int, d, i)
			    lttng_ust_field_enum(bench, colour, int, e, i)
			    lttng_ust_field_enum(bench, colour, int, f, i)
			    lttng_ust_field_enum(bench, colour, int, g, i)))

LTTNG_UST_TRACEPOINT_EVENT(
	bench, twelve, LTTNG_UST_TP_ARGS(uint64_t, x, const uint32_t *, array, const char *, s),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, x)
			    lttng_ust_field_integer(int, b, (int)x)
			    lttng_ust_field_integer_hex(long, c, (long)x)
			    lttng_ust_field_float(double, d, (double)(int64_t)x)
			    lttng_ust_field_array(uint32_t, e, array, 4)
			    lttng_ust_field_array_text(char, f, s, 16)
			    lttng_ust_field_sequence(uint32_t, g, array, uint32_t, x & 7)
			    lttng_ust_field_sequence_text(char, h, s, uint16_t, 12)
			    lttng_ust_field_string(i, s)
			    lttng_ust_field_string(j, s + 8)
			    lttng_ust_field_string(k, s + 20)
			    lttng_ust_field_integer(uint8_t, l, (uint8_t)x)))
/* clang-format on */

#endif /* BENCH_USER_LTTNG_PROVIDER_H */

#include <lttng/tracepoint-event.h>
