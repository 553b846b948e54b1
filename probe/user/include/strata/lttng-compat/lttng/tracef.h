/* SPDX-License-Identifier: MIT */
/*
 * tracef.h - LTTng-UST's lttng_ust_tracef(format, ...): a message in printf()'s way, the event
 * lttng_ust_tracef:event. The arguments are evaluated only while it is on.
 */
#ifndef STRATA_LTTNG_COMPAT_TRACEF_H
#define STRATA_LTTNG_COMPAT_TRACEF_H

#pragma GCC system_header

#include <strata/user/lttng_printf.h>

#include "tracepoint.h"

/* The header declares no switches of its unit: the probe is below. */
#pragma push_macro("STRATA_LTTNG_NEED")
#undef STRATA_LTTNG_NEED
#define STRATA_LTTNG_NEED(provider, event)
STRATA_LTTNG_DECLARE(lttng_ust_tracef, event, const char *, msg, unsigned int, len, void *, ip)
#pragma pop_macro("STRATA_LTTNG_NEED")

static __attribute__((unused)) void
strata_lttng_probe_tracef(struct strata_tracepoint *strata_lttng_point, const char *msg,
			  unsigned int len, void *ip)
{
	(void)ip;
	strata_lttng_printf(strata_lttng_point, 0, "%.*s", (int)len, msg);
}

static const int strata_lttng_level_of_tracef = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG;
static const struct strata_field strata_lttng_fields_of_tracef[] = { STRATA_LTTNG_FIELD_MESSAGE };
static const struct strata_lttng_probe strata_lttng_probes_of_tracef[] = {
	{ "event", STRATA_LTTNG_TEXT(const char *, msg, unsigned int, len, void *, ip),
	  &strata_lttng_event_lttng_ust_tracef___event, strata_lttng_fields_of_tracef,
	  (void (*)(void)) & strata_lttng_probe_tracef, &strata_lttng_level_of_tracef,
	  "lttng/tracef.h", 0, 1 },
};
static const struct strata_lttng_provider strata_lttng_table_of_tracef = {
	"lttng_ust_tracef",	strata_lttng_probes_of_tracef, 1,
	strata_object_register, strata_object_unregister,
};
static const struct strata_lttng_provider *const strata_lttng_listed_tracef STRATA_LTTNG_LISTED =
	&strata_lttng_table_of_tracef;

#define lttng_ust_tracef(fmt, ...)                                                                 \
	do {                                                                                       \
		if (lttng_ust_tracepoint_enabled(lttng_ust_tracef, event))                         \
			strata_lttng_printf(&strata_lttng_event_lttng_ust_tracef___event.point, 0, \
					    fmt, ##__VA_ARGS__);                                   \
	} while (0)

#define lttng_ust_vtracef(fmt, ap)                                                               \
	do {                                                                                     \
		if (lttng_ust_tracepoint_enabled(lttng_ust_tracef, event))                       \
			strata_lttng_vprintf(&strata_lttng_event_lttng_ust_tracef___event.point, \
					     0, fmt, ap);                                        \
	} while (0)

#if LTTNG_UST_COMPAT_API(0)
#define tracef	lttng_ust_tracef
#define vtracef lttng_ust_vtracef
#endif

#endif /* STRATA_LTTNG_COMPAT_TRACEF_H */
