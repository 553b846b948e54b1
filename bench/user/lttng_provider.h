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
/* clang-format on */

#endif /* BENCH_USER_LTTNG_PROVIDER_H */

#include <lttng/tracepoint-event.h>
