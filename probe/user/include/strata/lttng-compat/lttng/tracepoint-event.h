/* SPDX-License-Identifier: MIT */
/*
 * tracepoint-event.h - included at the end of a provider's header, outside of its guard. Where
 * LTTNG_UST_TRACEPOINT_CREATE_PROBES is defined it makes the probes, from several readings of the header,
 * LTTNG_UST_TRACEPOINT_INCLUDE. While that happens the switch is off, so that there is no recursion;
 * afterwards it is on again, for the next provider's header.
 */
#include "tracepoint.h"

#if LTTNG_UST_COMPAT_API(0) && defined(TRACEPOINT_CREATE_PROBES) && \
	!defined(LTTNG_UST_TRACEPOINT_CREATE_PROBES)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#endif

#ifdef LTTNG_UST_TRACEPOINT_CREATE_PROBES
#undef LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ

#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_HEADER_MULTI_READ
#if defined(TRACEPOINT_INCLUDE) && !defined(LTTNG_UST_TRACEPOINT_INCLUDE)
#define LTTNG_UST_TRACEPOINT_INCLUDE TRACEPOINT_INCLUDE
#endif
#if defined(TRACEPOINT_PROVIDER) && !defined(LTTNG_UST_TRACEPOINT_PROVIDER)
#define LTTNG_UST_TRACEPOINT_PROVIDER TRACEPOINT_PROVIDER
#endif
#endif

#include "ust-tracepoint-event.h"
#include "ust-tracepoint-event-reset.h"

#undef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_HEADER_MULTI_READ
#undef TRACEPOINT_INCLUDE
#endif
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES

#endif /* LTTNG_UST_TRACEPOINT_CREATE_PROBES */
