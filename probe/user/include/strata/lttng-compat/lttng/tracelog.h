/* SPDX-License-Identifier: MIT */
/*
 * tracelog.h - LTTng-UST's lttng_ust_tracelog(level, format, ...): a message in printf()'s way with where
 * it comes from, the event lttng_ust_tracelog:LEVEL. LEVEL is an LTTNG_UST_TRACEPOINT_LOGLEVEL_*, or its
 * TRACE_*. The arguments are evaluated only while it is on.
 */
#ifndef STRATA_LTTNG_COMPAT_TRACELOG_H
#define STRATA_LTTNG_COMPAT_TRACELOG_H

#pragma GCC system_header

#include <strata/user/lttng_printf.h>

#include "tracepoint.h"

#define STRATA_LTTNG_TRACELOG_ARGUMENTS                                                          \
	const char *, file, int, line, const char *, func, const char *, msg, unsigned int, len, \
		void *, ip

static __attribute__((unused)) void
strata_lttng_probe_tracelog(struct strata_tracepoint *strata_lttng_point, const char *file,
			    int line, const char *func, const char *msg, unsigned int len, void *ip)
{
	struct strata_lttng_place place = { file, func, line };

	(void)ip;
	strata_lttng_printf(strata_lttng_point, &place, "%.*s", (int)len, msg);
}

static const struct strata_field strata_lttng_fields_of_tracelog[] = {
	{ "line",
	  0,
	  0,
	  STRATA_ABI_USER_INTEGER,
	  0,
	  sizeof(int),
	  STRATA_ABI_USER_FIELD_SIGNED,
	  10,
	  0,
	  { 0, 0 } },
	STRATA_LTTNG_FIELD_STRING("file"),
	STRATA_LTTNG_FIELD_STRING("func"),
	STRATA_LTTNG_FIELD_MESSAGE,
};

#define STRATA_LTTNG_TRACELOG_LEVELS(what)                                                         \
	what(LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG, 0) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT, 1)  \
		what(LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT,                                           \
		     2) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR,                                    \
			     3) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING,                        \
				     4) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,                 \
					     5) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, 6)        \
			what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM,                           \
			     7) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,                  \
				     8) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS, 9)       \
				what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE,                   \
				     10) what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT, 11)        \
					what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION, 12)     \
						what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE, 13) \
							what(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG,  \
							     14)

#define STRATA_LTTNG_TRACELOG_DECLARE(level, n) \
	STRATA_LTTNG_DECLARE(lttng_ust_tracelog, level, STRATA_LTTNG_TRACELOG_ARGUMENTS)
#define STRATA_LTTNG_TRACELOG_NUMBER(level, n) n,
#define STRATA_LTTNG_TRACELOG_PROBE(level, n)                 \
	{ #level,                                             \
	  STRATA_LTTNG_TEXT(STRATA_LTTNG_TRACELOG_ARGUMENTS), \
	  &strata_lttng_event_lttng_ust_tracelog___##level,   \
	  strata_lttng_fields_of_tracelog,                    \
	  (void (*)(void)) & strata_lttng_probe_tracelog,     \
	  &strata_lttng_levels_of_tracelog[n],                \
	  "lttng/tracelog.h",                                 \
	  0,                                                  \
	  4 },

/* The header declares no switches of its unit: the probes are below. */
#pragma push_macro("STRATA_LTTNG_NEED")
#undef STRATA_LTTNG_NEED
#define STRATA_LTTNG_NEED(provider, event)
STRATA_LTTNG_TRACELOG_LEVELS(STRATA_LTTNG_TRACELOG_DECLARE)
#pragma pop_macro("STRATA_LTTNG_NEED")

static const int strata_lttng_levels_of_tracelog[] = { STRATA_LTTNG_TRACELOG_LEVELS(
	STRATA_LTTNG_TRACELOG_NUMBER) };
static const struct strata_lttng_probe strata_lttng_probes_of_tracelog[] = {
	STRATA_LTTNG_TRACELOG_LEVELS(STRATA_LTTNG_TRACELOG_PROBE)
};
static const struct strata_lttng_provider strata_lttng_table_of_tracelog = {
	"lttng_ust_tracelog",	strata_lttng_probes_of_tracelog, 15,
	strata_object_register, strata_object_unregister,
};
static const struct strata_lttng_provider *const strata_lttng_listed_tracelog STRATA_LTTNG_LISTED =
	&strata_lttng_table_of_tracelog;

#define STRATA_LTTNG_TRACELOG(function, level, fmt, ...)                                           \
	do {                                                                                       \
		if (lttng_ust_tracepoint_enabled(lttng_ust_tracelog, level)) {                     \
			const struct strata_lttng_place strata_lttng_place = { __FILE__, __func__, \
									       __LINE__ };         \
                                                                                                   \
			function(&strata_lttng_event_lttng_ust_tracelog___##level.point,           \
				 &strata_lttng_place, fmt, ##__VA_ARGS__);                         \
		}                                                                                  \
	} while (0)

/* Expands the arguments once more, so that TRACE_* is replaced by its number. */
#define lttng_ust_tracelog(level, fmt, ...) \
	STRATA_LTTNG_TRACELOG(strata_lttng_printf, level, fmt, ##__VA_ARGS__)
#define lttng_ust_vtracelog(level, fmt, ap) \
	STRATA_LTTNG_TRACELOG(strata_lttng_vprintf, level, fmt, ap)

#if LTTNG_UST_COMPAT_API(0)
#define tracelog  lttng_ust_tracelog
#define vtracelog lttng_ust_vtracelog
#endif

#endif /* STRATA_LTTNG_COMPAT_TRACELOG_H */
