/* SPDX-License-Identifier: MIT */
/* sizes_provider.h - an event of any size for LTTng-UST 2.13. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "sizes_provider.h"

#if !defined(BENCH_REPORT_SIZES_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_REPORT_SIZES_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, sized, LTTNG_UST_TP_ARGS(const char *, text, unsigned, bytes),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence_text(char, text, text,
									     uint16_t, bytes)))

#endif /* BENCH_REPORT_SIZES_PROVIDER_H */

#include <lttng/tracepoint-event.h>
