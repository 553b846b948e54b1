/* SPDX-License-Identifier: MIT */
/*
 * ust-tracepoint-event.h - Included by tracepoint-event.h only: makes the probes of one provider.
 *
 * The provider's header is read once for each part. ust-tracepoint-fields.h gives the field macros the
 * meaning that a part needs, by STRATA_LTTNG_PART:
 *
 *   1  labels of enumerations
 *   2  descriptions of fields
 *   3  functions that measure a payload
 *   4  functions that make it: the probes
 *   5  levels, checks of arguments
 *   6  the table of probes
 *
 * It is here that the provider's header is included, and not beside our own: "NAME.h" is looked for in
 * this folder first, where only names are that LTTng has, too.
 */
#pragma GCC system_header

#include <strata/user/lttng_payload.h>

#include "ust-tracepoint-fields.h"

/*
 * Silences warnings about parameters and functions that a provider's header has and does not
 * record.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

/* ---- 1: labels ---- */

#define STRATA_LTTNG_PART 1
#include "ust-tracepoint-fields.h"

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)                                           \
	static const struct strata_label strata_lttng_labels_##provider##___##name[] = { values{ \
		0, 0, 0, 0 } };                                                                  \
	static const struct strata_enumeration strata_lttng_enum_##provider##___##name = {       \
		#provider "_" #name, strata_lttng_labels_##provider##___##name,                  \
		(uint32_t)(sizeof(strata_lttng_labels_##provider##___##name) /                   \
				   sizeof(struct strata_label) -                                 \
			   1)                                                                    \
	};
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args)
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- 2: descriptions of fields; the last one is there because no array is empty ---- */

#define STRATA_LTTNG_PART 2
#include "ust-tracepoint-fields.h"

#define STRATA_LTTNG_NR_FIELDS(provider, name) \
	(sizeof(strata_lttng_fields_##provider##___##name) / sizeof(struct strata_field) - 1)

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)                                    \
	static const struct strata_field strata_lttng_fields_##provider##___##name[] = { fields{ \
		0, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0 } } };
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args)
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- 3: measure ---- */

#define STRATA_LTTNG_PART 3
#include "ust-tracepoint-fields.h"

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)                         \
	static inline __attribute__((always_inline))                                  \
	uint64_t strata_lttng_measure_##provider##___##name(                          \
		struct strata_lttng_part *strata_lttng_part,                          \
		unsigned char *strata_lttng_stack STRATA_LTTNG_MORE_PARAMETERS(args)) \
	{                                                                             \
		uint64_t strata_lttng_bytes = 0;                                      \
                                                                                      \
		fields return strata_lttng_bytes;                                     \
	}
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args)
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- 4: make ---- */

#define STRATA_LTTNG_PART 4
#include "ust-tracepoint-fields.h"

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)                                     \
	static inline __attribute__((always_inline)) unsigned char                                \
		*strata_lttng_make_##provider##___##name(                                         \
			unsigned char *strata_lttng_at,                                           \
			const struct strata_lttng_part *strata_lttng_part                         \
				STRATA_LTTNG_MORE_PARAMETERS(args))                               \
	{                                                                                         \
		fields return strata_lttng_at;                                                    \
	}                                                                                         \
	static __attribute__((noinline)) void strata_lttng_probe_##provider##___##name(           \
		struct strata_tracepoint *strata_lttng_tracepoint STRATA_LTTNG_MORE_PARAMETERS(   \
			args))                                                                    \
	{                                                                                         \
		struct strata_lttng_part                                                          \
			strata_lttng_parts[STRATA_LTTNG_NR_FIELDS(provider, name) + 1];           \
		unsigned char strata_lttng_stack[STRATA_LTTNG_STACK];                             \
		uint64_t strata_lttng_bytes = strata_lttng_measure_##provider##___##name(         \
			strata_lttng_parts,                                                       \
			strata_lttng_stack + STRATA_USER_HEADROOM STRATA_LTTNG_MORE_NAMES(args)); \
		unsigned char *strata_lttng_payload = strata_lttng_begin(                         \
			strata_lttng_tracepoint, strata_lttng_stack, strata_lttng_bytes);         \
                                                                                                  \
		if (strata_lttng_payload)                                                         \
			strata_lttng_end(                                                         \
				strata_lttng_tracepoint, strata_lttng_payload,                    \
				strata_lttng_make_##provider##___##name(                          \
					strata_lttng_payload,                                     \
					strata_lttng_parts STRATA_LTTNG_MORE_NAMES(args)),        \
				strata_lttng_bytes);                                              \
	}
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args)
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- 5: levels, which an event may do without; a class and its instances take the same arguments ---- */

#define STRATA_LTTNG_PART 5
#include "ust-tracepoint-fields.h"

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)                                      \
	STRATA_LTTNG_C_BEGIN                                                                       \
	void strata_lttng_arguments_of_class_##provider##___##name(STRATA_LTTNG_PARAMETERS(args)); \
	STRATA_LTTNG_C_END
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args)   \
	STRATA_LTTNG_C_BEGIN                                                           \
	void strata_lttng_arguments_of_class_##class_provider##___##class_name(        \
		STRATA_LTTNG_PARAMETERS(args));                                        \
	extern const int strata_lttng_level_##provider##___##name STRATA_LTTNG_HIDDEN; \
	STRATA_LTTNG_C_END
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)                           \
	STRATA_LTTNG_C_BEGIN                                                           \
	extern const int strata_lttng_level_##provider##___##name STRATA_LTTNG_HIDDEN; \
	const int strata_lttng_level_##provider##___##name = (int)(loglevel);          \
	STRATA_LTTNG_C_END
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- 6: the table ---- */

#define STRATA_LTTNG_PART 6
#include "ust-tracepoint-fields.h"

/* 1, if LTTNG_UST_TRACEPOINT_PROVIDER is the provider that a definition names; else not declared. */
enum {
	STRATA_LTTNG_PASTE(strata_lttng_TRACEPOINT_PROVIDER_is_, LTTNG_UST_TRACEPOINT_PROVIDER) = 1
};

#define STRATA_LTTNG_PASS_ENUM(provider, name, values)
#define STRATA_LTTNG_PASS_CLASS(provider, name, args, fields)
#define STRATA_LTTNG_PASS_INSTANCE(class_provider, class_name, provider, name, args) \
	{ #name,                                                                     \
	  STRATA_LTTNG_TEXT(args),                                                   \
	  &strata_lttng_event_##provider##___##name,                                 \
	  strata_lttng_fields_##class_provider##___##class_name,                     \
	  (void (*)(void)) & strata_lttng_probe_##class_provider##___##class_name,   \
	  &strata_lttng_level_##provider##___##name,                                 \
	  __FILE__,                                                                  \
	  __LINE__,                                                                  \
	  (uint32_t)STRATA_LTTNG_NR_FIELDS(class_provider, class_name) *             \
		  strata_lttng_TRACEPOINT_PROVIDER_is_##provider },
#define STRATA_LTTNG_PASS_LOGLEVEL(provider, name, loglevel)

static const struct strata_lttng_probe STRATA_LTTNG_PASTE(strata_lttng_probes_of_,
							  LTTNG_UST_TRACEPOINT_PROVIDER)[] = {
#include LTTNG_UST_TRACEPOINT_INCLUDE
	{ 0, 0, 0, 0, 0, 0, 0, 0, 0 }
};

static const struct strata_lttng_provider STRATA_LTTNG_PASTE(strata_lttng_table_of_,
							     LTTNG_UST_TRACEPOINT_PROVIDER) = {
	STRATA_LTTNG_TEXT(LTTNG_UST_TRACEPOINT_PROVIDER),
	STRATA_LTTNG_PASTE(strata_lttng_probes_of_, LTTNG_UST_TRACEPOINT_PROVIDER),
	(uint32_t)(sizeof(STRATA_LTTNG_PASTE(strata_lttng_probes_of_,
					     LTTNG_UST_TRACEPOINT_PROVIDER)) /
			   sizeof(struct strata_lttng_probe) -
		   1),
	strata_object_register,
	strata_object_unregister,
};

static const struct strata_lttng_provider *const STRATA_LTTNG_PASTE(strata_lttng_listed_,
								    LTTNG_UST_TRACEPOINT_PROVIDER)
	STRATA_LTTNG_LISTED = &STRATA_LTTNG_PASTE(strata_lttng_table_of_,
						  LTTNG_UST_TRACEPOINT_PROVIDER);

/* Symbols to which units refer that need the probes linked: see STRATA_LTTNG_NEED. */
STRATA_LTTNG_C_BEGIN
extern int STRATA_LTTNG_PASTE(strata_lttng_provider_,
			      LTTNG_UST_TRACEPOINT_PROVIDER) STRATA_LTTNG_PROVIDER_VISIBILITY;
int STRATA_LTTNG_PASTE(strata_lttng_provider_, LTTNG_UST_TRACEPOINT_PROVIDER) = 1;
STRATA_LTTNG_C_END

#pragma GCC diagnostic pop
#undef STRATA_LTTNG_NR_FIELDS
