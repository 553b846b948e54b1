/* SPDX-License-Identifier: MIT */
/*
 * tracepoint.h - LTTng-UST 2.13's tracepoint definitions and call sites, recorded by Strata.
 *
 * A provider's header is read once by its users: each event gets a struct strata_lttng_event and a
 * function that calls the probe. Where LTTNG_UST_TRACEPOINT_CREATE_PROBES is defined,
 * <lttng/tracepoint-event.h> reads it again, several times, and makes the probes.
 *
 * The definition macros always expand to STRATA_LTTNG_PASS_*, which each reading redefines:
 *
 *   STRATA_LTTNG_PASS_ENUM(provider, name, values)
 *   STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)
 *   STRATA_LTTNG_PASS_INSTANCE(class's provider, class, provider, name, args)
 *   STRATA_LTTNG_PASS_LOGLEVEL(provider, name, level)
 *
 * Of LTTng's switches, these have nothing to decide here: TP_SESSION_CHECK and TP_IP_PARAM (an argument
 * that the fields do not name is not recorded), LTTNG_UST_TRACEPOINT_HIDDEN_DEFINITION (events are always
 * hidden in their object). Model URIs are accepted and not recorded.
 */
#ifndef STRATA_LTTNG_COMPAT_TRACEPOINT_H
#define STRATA_LTTNG_COMPAT_TRACEPOINT_H

#pragma GCC system_header

/* Headers that LTTng's header includes, and which a provider's header may therefore use. */
#include <assert.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <strata/user/lttng_arguments.h>
#include <strata/user/lttng_site.h>

#include "ust-api-compat.h"
#include "ust-version.h"

#if defined(__cplusplus) && __cplusplus <= 199711L
#error "LTTng tracepoints and providers need C++11 or later. Compile with -std=c++11."
#endif

#ifdef __cplusplus
#define STRATA_LTTNG_C_BEGIN	      extern "C" {
#define STRATA_LTTNG_C_END	      }
#define STRATA_LTTNG_ASSERT(ok, text) static_assert(ok, text)
#else
#define STRATA_LTTNG_C_BEGIN
#define STRATA_LTTNG_C_END
#define STRATA_LTTNG_ASSERT(ok, text) __extension__ _Static_assert(ok, text)
#endif

#define LTTNG_UST_TRACEPOINT_NAME_LEN_MAX 256

/* ---- call sites ---- */

#define lttng_ust_tracepoint_enabled(provider, name) strata_lttng_test_##provider##___##name()

/*
 * Records an event of which the caller has not tested whether it is on. Tests that itself, with no
 * instruction in the dormant code's way.
 */
#define lttng_ust_do_tracepoint(provider, name, ...)                    \
	(strata_lttng_look_##provider##___##name() ?                    \
		 strata_lttng_call_##provider##___##name(__VA_ARGS__) : \
		 (void)0)

#define STRATA_LTTNG_CALL(provider, name, ...) strata_lttng_call_##provider##___##name(__VA_ARGS__)

#define lttng_ust_tracepoint(provider, name, ...)                       \
	do {                                                            \
		if (lttng_ust_tracepoint_enabled(provider, name))       \
			STRATA_LTTNG_CALL(provider, name, __VA_ARGS__); \
	} while (0)

#define LTTNG_UST_TP_ARGS(...) __VA_ARGS__

/*
 * Does nothing here. In LTTng it keeps destructors from unregistering tracepoints, and there are no such
 * destructors here.
 */
static inline __attribute__((unused)) void tracepoint_disable_destructors(void)
{
}

/* ---- definitions ---- */

#define LTTNG_UST_TRACEPOINT_ENUM(provider, name, values) \
	STRATA_LTTNG_PASS_ENUM(provider, name, STRATA_LTTNG_LIST(values))

#define LTTNG_UST_TRACEPOINT_EVENT(provider, name, args, fields)         \
	STRATA_LTTNG_PASS_CLASS(provider, name, STRATA_LTTNG_LIST(args), \
				STRATA_LTTNG_LIST(fields))               \
	STRATA_LTTNG_PASS_INSTANCE(provider, name, provider, name, STRATA_LTTNG_LIST(args))

#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields) \
	STRATA_LTTNG_PASS_CLASS(provider, name, STRATA_LTTNG_LIST(args), STRATA_LTTNG_LIST(fields))

#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, template_name, provider, name, \
					    args)                                             \
	STRATA_LTTNG_PASS_INSTANCE(template_provider, template_name, provider, name,          \
				   STRATA_LTTNG_LIST(args))

#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, name, loglevel) \
	STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)

#define LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(provider, name, uri)

enum {
	LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG = 0,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT = 1,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT = 2,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR = 3,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING = 4,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE = 5,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO = 6,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM = 7,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM = 8,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS = 9,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE = 10,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT = 11,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION = 12,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE = 13,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG = 14
};

/*
 * Declares the functions of an event for its call sites. They are always inlined: a probe is called
 * with the arguments as the call site has them, converted to the types of TP_ARGS.
 */
#define STRATA_LTTNG_DECLARE(provider, event, ...)                                                \
	STRATA_LTTNG_ASSERT(sizeof(#provider) + sizeof(#event) <=                                 \
				    LTTNG_UST_TRACEPOINT_NAME_LEN_MAX,                            \
			    "tracepoint " #provider ":" #event                                    \
			    ": the name is too long, at most 255 bytes with the colon");          \
	STRATA_LTTNG_C_BEGIN                                                                      \
	STRATA_LTTNG_NEED(provider, event)                                                        \
	extern const struct strata_site                                                           \
		__start_strata_lttng_sites_##provider##___##event[] STRATA_LTTNG_HIDDEN;          \
	extern const struct strata_site                                                           \
		__stop_strata_lttng_sites_##provider##___##event[] STRATA_LTTNG_HIDDEN;           \
	extern struct strata_lttng_event strata_lttng_event_##provider##___##event                \
		STRATA_LTTNG_HIDDEN;                                                              \
	struct strata_lttng_event strata_lttng_event_##provider##___##event = {                   \
		{ &strata_lttng_event_##provider##___##event.off, 0, #provider, #event, 0, 0, 0,  \
		  0, 0, 0, 0 },                                                                   \
		STRATA_LTTNG_TEXT(__VA_ARGS__),                                                   \
		{ STRATA_USER_OBJECT_VERSION, 0,                                                  \
		  __start_strata_lttng_sites_##provider##___##event,                              \
		  __stop_strata_lttng_sites_##provider##___##event, 0, 0, 0 },                    \
		0,                                                                                \
		0,                                                                                \
		0                                                                                 \
	};                                                                                        \
	STRATA_LTTNG_C_END                                                                        \
	static inline __attribute__((always_inline,                                               \
				     unused)) int strata_lttng_test_##provider##___##event(void)  \
	{                                                                                         \
		STRATA_LTTNG_TEST(strata_lttng_event_##provider##___##event,                      \
				  "strata_lttng_sites_" #provider "___" #event)                   \
	}                                                                                         \
	static inline __attribute__((always_inline,                                               \
				     unused)) int strata_lttng_look_##provider##___##event(void)  \
	{                                                                                         \
		STRATA_LTTNG_LOOK(strata_lttng_event_##provider##___##event,                      \
				  "strata_lttng_sites_" #provider "___" #event)                   \
	}                                                                                         \
	static inline __attribute__((always_inline, unused)) void                                 \
		strata_lttng_call_##provider##___##event(STRATA_LTTNG_PARAMETERS(__VA_ARGS__))    \
	{                                                                                         \
		struct strata_lttng_event *strata_lttng_event =                                   \
			&strata_lttng_event_##provider##___##event;                               \
		void (*strata_lttng_probe)(void) =                                                \
			__atomic_load_n(&strata_lttng_event->call, __ATOMIC_ACQUIRE);             \
                                                                                                  \
		if (strata_lttng_probe)                                                           \
			((void (*)(struct strata_tracepoint *                                     \
				   STRATA_LTTNG_MORE_PARAMETERS(__VA_ARGS__)))                    \
				 strata_lttng_probe)(                                             \
				&strata_lttng_event->point STRATA_LTTNG_MORE_NAMES(__VA_ARGS__)); \
	}

#include "ust-tracepoint-event-reset.h"

/* ---- the spellings without the prefix ---- */

#if LTTNG_UST_COMPAT_API(0)
#define tracepoint	   lttng_ust_tracepoint
#define do_tracepoint	   lttng_ust_do_tracepoint
#define tracepoint_enabled lttng_ust_tracepoint_enabled

#define TP_ARGS			 LTTNG_UST_TP_ARGS
#define TRACEPOINT_ENUM		 LTTNG_UST_TRACEPOINT_ENUM
#define TRACEPOINT_EVENT	 LTTNG_UST_TRACEPOINT_EVENT
#define TRACEPOINT_EVENT_CLASS	 LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define TRACEPOINT_LOGLEVEL	 LTTNG_UST_TRACEPOINT_LOGLEVEL
#define TRACEPOINT_MODEL_EMF_URI LTTNG_UST_TRACEPOINT_MODEL_EMF_URI

/* Class and instance have the same provider here. */
#define TRACEPOINT_EVENT_INSTANCE(provider, template_name, name, args)               \
	LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(provider, template_name, provider, name, \
					    STRATA_LTTNG_LIST(args))

#define TRACE_EMERG	     LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG
#define TRACE_ALERT	     LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT
#define TRACE_CRIT	     LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT
#define TRACE_ERR	     LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR
#define TRACE_WARNING	     LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING
#define TRACE_NOTICE	     LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE
#define TRACE_INFO	     LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO
#define TRACE_DEBUG_SYSTEM   LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM
#define TRACE_DEBUG_PROGRAM  LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM
#define TRACE_DEBUG_PROCESS  LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS
#define TRACE_DEBUG_MODULE   LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE
#define TRACE_DEBUG_UNIT     LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT
#define TRACE_DEBUG_FUNCTION LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION
#define TRACE_DEBUG_LINE     LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE
#define TRACE_DEBUG	     LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG
#endif

#endif /* STRATA_LTTNG_COMPAT_TRACEPOINT_H */

/* ---- switches: they may have changed since this file was last included ---- */

#if LTTNG_UST_COMPAT_API(0)
#if defined(TRACEPOINT_DEFINE) && !defined(LTTNG_UST_TRACEPOINT_DEFINE)
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#if defined(TRACEPOINT_PROBE_DYNAMIC_LINKAGE) && \
	!defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#endif
#endif

#undef STRATA_LTTNG_PROVIDER_VISIBILITY
#ifdef LTTNG_UST_TRACEPOINT_PROVIDER_HIDDEN_DEFINITION
#define STRATA_LTTNG_PROVIDER_VISIBILITY __attribute__((visibility("hidden")))
#else
#define STRATA_LTTNG_PROVIDER_VISIBILITY __attribute__((visibility("default")))
#endif

/*
 * A unit that defines tracepoints needs the probes linked, from an archive too, unless it says that
 * they come later.
 */
#undef STRATA_LTTNG_NEED
#if defined(LTTNG_UST_TRACEPOINT_DEFINE) && !defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define STRATA_LTTNG_NEED(provider, event)                                            \
	extern int strata_lttng_wanted_##provider##___##event __asm__(                \
		"strata_lttng_provider_" #provider) STRATA_LTTNG_PROVIDER_VISIBILITY; \
	static int *const strata_lttng_need_##provider##___##event                    \
		__attribute__((used)) = &strata_lttng_wanted_##provider##___##event;
#else
#define STRATA_LTTNG_NEED(provider, event)
#endif
