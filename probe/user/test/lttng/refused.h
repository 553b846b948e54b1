/* SPDX-License-Identifier: MIT */
/* refused.h - a provider with one mistake, number MISTAKE; "expected:" is in the error. */
/* clang-format off */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER compat_refused

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./refused.h"

#if !defined(COMPAT_REFUSED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPAT_REFUSED_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT_CLASS(compat_refused, a_class, LTTNG_UST_TP_ARGS(int, x),
				 LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, x, x)))

#if MISTAKE == 0
/* The class alone is right. */
#elif MISTAKE == 1
/* expected: strata_lttng_TRACEPOINT_PROVIDER_is_compat_another */
LTTNG_UST_TRACEPOINT_EVENT(compat_another, event, LTTNG_UST_TP_ARGS(void), LTTNG_UST_TP_FIELDS())
#elif MISTAKE == 2
/* expected: the name is too long, at most 255 bytes with the colon */
LTTNG_UST_TRACEPOINT_EVENT(compat_refused,
			   COMPAT_LONG_NAME, /* -D: 255 bytes with provider and colon are right */
			   LTTNG_UST_TP_ARGS(void), LTTNG_UST_TP_FIELDS())
#elif MISTAKE == 3
/* expected: strata_lttng_arguments_of_class_compat_refused___a_class */
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(compat_refused, a_class, compat_refused, event,
				    LTTNG_UST_TP_ARGS(const char *, x))
#elif MISTAKE == 4
/* expected: field x: an integer has 1, 2, 4 or 8 bytes */
LTTNG_UST_TRACEPOINT_EVENT(compat_refused, event, LTTNG_UST_TP_ARGS(int, x),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(__int128, x, x)))
#elif MISTAKE == 5
/* expected: field x: the elements of a text are bytes */
LTTNG_UST_TRACEPOINT_EVENT(compat_refused, event, LTTNG_UST_TP_ARGS(const int *, x),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_array_text(int, x, x, 4)))
#elif MISTAKE == 6
/* expected: redefinition of */
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(compat_refused, a_class, compat_refused, event,
				    LTTNG_UST_TP_ARGS(int, x))
LTTNG_UST_TRACEPOINT_LOGLEVEL(compat_refused, event, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
LTTNG_UST_TRACEPOINT_LOGLEVEL(compat_refused, event, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)
#elif MISTAKE == 7
/* expected: field x: an element has 1, 2, 4 or 8 bytes */
LTTNG_UST_TRACEPOINT_EVENT(compat_refused, event, LTTNG_UST_TP_ARGS(const __int128 *, x),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_array(__int128, x, x, 4)))
#elif MISTAKE == 8
/* expected: strata_lttng_enum_compat_refused___unknown */
LTTNG_UST_TRACEPOINT_EVENT(compat_refused, event, LTTNG_UST_TP_ARGS(int, x),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(compat_refused, unknown, int, x, x)))
#endif

#endif /* COMPAT_REFUSED_H */

#include <lttng/tracepoint-event.h>
