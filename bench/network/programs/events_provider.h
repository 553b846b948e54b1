/* SPDX-License-Identifier: MIT */
/* events_provider.h - an event with a text of any length, for LTTng-UST and for Strata's headers of the same names. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER relayed

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "events_provider.h"

#if !defined(BENCH_NETWORK_EVENTS_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_NETWORK_EVENTS_PROVIDER_H

#include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(relayed, text, LTTNG_UST_TP_ARGS(unsigned long, number, const char *, text),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned long, number, number)
						       lttng_ust_field_string(text, text)))
/* clang-format on */

#endif /* BENCH_NETWORK_EVENTS_PROVIDER_H */

#include <lttng/tracepoint-event.h>
