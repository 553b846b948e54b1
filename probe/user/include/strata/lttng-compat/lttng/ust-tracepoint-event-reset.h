/* SPDX-License-Identifier: MIT */
/*
 * ust-tracepoint-event-reset.h - what the definition macros give to the users of a provider's header.
 * Read again after the probes have been made.
 */
#undef STRATA_LTTNG_PASS_ENUM
#undef STRATA_LTTNG_PASS_CLASS
#undef STRATA_LTTNG_PASS_INSTANCE
#undef STRATA_LTTNG_PASS_LOGLEVEL

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args) \
	STRATA_LTTNG_DECLARE(provider, name, STRATA_LTTNG_LIST(args))
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)
