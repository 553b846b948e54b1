/* SPDX-License-Identifier: MIT */
/* other_provider.h - an event of a class that another provider has; needs all_fields.h before it. */
/* clang-format off */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER compat_other

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./other_provider.h"

#if !defined(COMPAT_OTHER_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPAT_OTHER_PROVIDER_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(compat_all, pair, compat_other, borrowed,
				    LTTNG_UST_TP_ARGS(int, first, const char *, second))

#endif /* COMPAT_OTHER_PROVIDER_H */

#include <lttng/tracepoint-event.h>
