/* SPDX-License-Identifier: MIT */
/*
 * ust-tracepoint-fields.h - the field macros, in both spellings, and what they expand to in each part of
 * ust-tracepoint-event.h. Read again for each part, with STRATA_LTTNG_PART defined.
 *
 *   STRATA_LTTNG_INTEGER(type, item, source, flags, base)
 *   STRATA_LTTNG_ENUMERATION(provider, name, type, item, source)
 *   STRATA_LTTNG_FLOAT(type, item, source)
 *   STRATA_LTTNG_STRING(item, source)
 *   STRATA_LTTNG_ARRAY(type, item, source, flags, base, length)
 *   STRATA_LTTNG_ARRAY_TEXT(type, item, source, length)
 *   STRATA_LTTNG_SEQUENCE(type, item, source, flags, base, length_type, length)
 *   STRATA_LTTNG_SEQUENCE_TEXT(type, item, source, length_type, length)
 *   STRATA_LTTNG_UNUSED(source)        of "unused" and "nowrite": never evaluated
 *   STRATA_LTTNG_LABEL(text, from, to, automatic)
 */
#ifndef STRATA_LTTNG_COMPAT_UST_TRACEPOINT_FIELDS_H
#define STRATA_LTTNG_COMPAT_UST_TRACEPOINT_FIELDS_H

#include <strata/abi/user.h>

#ifdef __cplusplus
#include <type_traits>
#endif

#include "ust-api-compat.h"

#define LTTNG_UST_TP_FIELDS(...)      __VA_ARGS__
#define LTTNG_UST_TP_ENUM_VALUES(...) __VA_ARGS__

#define lttng_ust_field_enum_value(string, value)      STRATA_LTTNG_LABEL(string, value, value, 0)
#define lttng_ust_field_enum_range(string, start, end) STRATA_LTTNG_LABEL(string, start, end, 0)
#define lttng_ust_field_enum_auto(string)	       STRATA_LTTNG_LABEL(string, 0, 0, 1)

#define lttng_ust_field_integer(type, item, src)     STRATA_LTTNG_INTEGER(type, item, src, 0, 10)
#define lttng_ust_field_integer_hex(type, item, src) STRATA_LTTNG_INTEGER(type, item, src, 0, 16)
#define lttng_ust_field_integer_network(type, item, src) \
	STRATA_LTTNG_INTEGER(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 10)
#define lttng_ust_field_integer_network_hex(type, item, src) \
	STRATA_LTTNG_INTEGER(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 16)
#define lttng_ust_field_float(type, item, src) STRATA_LTTNG_FLOAT(type, item, src)
#define lttng_ust_field_string(item, src)      STRATA_LTTNG_STRING(item, src)
#define lttng_ust_field_enum(provider, name, type, item, src) \
	STRATA_LTTNG_ENUMERATION(provider, name, type, item, src)
#define lttng_ust_field_array(type, item, src, length) \
	STRATA_LTTNG_ARRAY(type, item, src, 0, 10, length)
#define lttng_ust_field_array_hex(type, item, src, length) \
	STRATA_LTTNG_ARRAY(type, item, src, 0, 16, length)
#define lttng_ust_field_array_network(type, item, src, length) \
	STRATA_LTTNG_ARRAY(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 10, length)
#define lttng_ust_field_array_network_hex(type, item, src, length) \
	STRATA_LTTNG_ARRAY(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 16, length)
#define lttng_ust_field_array_text(type, item, src, length) \
	STRATA_LTTNG_ARRAY_TEXT(type, item, src, length)
#define lttng_ust_field_sequence(type, item, src, length_type, src_length) \
	STRATA_LTTNG_SEQUENCE(type, item, src, 0, 10, length_type, src_length)
#define lttng_ust_field_sequence_hex(type, item, src, length_type, src_length) \
	STRATA_LTTNG_SEQUENCE(type, item, src, 0, 16, length_type, src_length)
#define lttng_ust_field_sequence_network(type, item, src, length_type, src_length)             \
	STRATA_LTTNG_SEQUENCE(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 10, length_type, \
			      src_length)
#define lttng_ust_field_sequence_network_hex(type, item, src, length_type, src_length)         \
	STRATA_LTTNG_SEQUENCE(type, item, src, STRATA_ABI_USER_FIELD_NETWORK, 16, length_type, \
			      src_length)
#define lttng_ust_field_sequence_text(type, item, src, length_type, src_length) \
	STRATA_LTTNG_SEQUENCE_TEXT(type, item, src, length_type, src_length)
#define lttng_ust_field_unused(src) STRATA_LTTNG_UNUSED(src)

#define lttng_ust_field_integer_nowrite(type, item, src)		   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_float_nowrite(type, item, src)			   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_string_nowrite(item, src)			   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_enum_nowrite(provider, name, type, item, src)	   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_array_nowrite(type, item, src, length)		   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_array_nowrite_hex(type, item, src, length)	   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_array_network_nowrite(type, item, src, length)	   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_array_network_nowrite_hex(type, item, src, length) STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_array_text_nowrite(type, item, src, length)	   STRATA_LTTNG_UNUSED(src)
#define lttng_ust_field_sequence_nowrite(type, item, src, length_type, src_length) \
	STRATA_LTTNG_UNUSED(src) STRATA_LTTNG_UNUSED(src_length)
#define lttng_ust_field_sequence_nowrite_hex(type, item, src, length_type, src_length) \
	STRATA_LTTNG_UNUSED(src) STRATA_LTTNG_UNUSED(src_length)
#define lttng_ust_field_sequence_network_nowrite(type, item, src, length_type, src_length) \
	STRATA_LTTNG_UNUSED(src) STRATA_LTTNG_UNUSED(src_length)
#define lttng_ust_field_sequence_network_nowrite_hex(type, item, src, length_type, src_length) \
	STRATA_LTTNG_UNUSED(src) STRATA_LTTNG_UNUSED(src_length)
#define lttng_ust_field_sequence_text_nowrite(type, item, src, length_type, src_length) \
	STRATA_LTTNG_UNUSED(src) STRATA_LTTNG_UNUSED(src_length)
#define lttng_ust_field_unused_nowrite(src) STRATA_LTTNG_UNUSED(src)

#if LTTNG_UST_COMPAT_API(0)
#define TP_FIELDS			 LTTNG_UST_TP_FIELDS
#define TP_ENUM_VALUES			 LTTNG_UST_TP_ENUM_VALUES
#define ctf_enum_value			 lttng_ust_field_enum_value
#define ctf_enum_range			 lttng_ust_field_enum_range
#define ctf_enum_auto			 lttng_ust_field_enum_auto
#define ctf_integer			 lttng_ust_field_integer
#define ctf_integer_hex			 lttng_ust_field_integer_hex
#define ctf_integer_network		 lttng_ust_field_integer_network
#define ctf_integer_network_hex		 lttng_ust_field_integer_network_hex
#define ctf_integer_nowrite		 lttng_ust_field_integer_nowrite
#define ctf_float			 lttng_ust_field_float
#define ctf_float_nowrite		 lttng_ust_field_float_nowrite
#define ctf_string			 lttng_ust_field_string
#define ctf_string_nowrite		 lttng_ust_field_string_nowrite
#define ctf_enum			 lttng_ust_field_enum
#define ctf_enum_nowrite		 lttng_ust_field_enum_nowrite
#define ctf_array			 lttng_ust_field_array
#define ctf_array_hex			 lttng_ust_field_array_hex
#define ctf_array_network		 lttng_ust_field_array_network
#define ctf_array_network_hex		 lttng_ust_field_array_network_hex
#define ctf_array_text			 lttng_ust_field_array_text
#define ctf_array_nowrite		 lttng_ust_field_array_nowrite
#define ctf_array_nowrite_hex		 lttng_ust_field_array_nowrite_hex
#define ctf_array_network_nowrite	 lttng_ust_field_array_network_nowrite
#define ctf_array_network_nowrite_hex	 lttng_ust_field_array_network_nowrite_hex
#define ctf_array_text_nowrite		 lttng_ust_field_array_text_nowrite
#define ctf_sequence			 lttng_ust_field_sequence
#define ctf_sequence_hex		 lttng_ust_field_sequence_hex
#define ctf_sequence_network		 lttng_ust_field_sequence_network
#define ctf_sequence_network_hex	 lttng_ust_field_sequence_network_hex
#define ctf_sequence_text		 lttng_ust_field_sequence_text
#define ctf_sequence_nowrite		 lttng_ust_field_sequence_nowrite
#define ctf_sequence_nowrite_hex	 lttng_ust_field_sequence_nowrite_hex
#define ctf_sequence_network_nowrite	 lttng_ust_field_sequence_network_nowrite
#define ctf_sequence_network_nowrite_hex lttng_ust_field_sequence_network_nowrite_hex
#define ctf_sequence_text_nowrite	 lttng_ust_field_sequence_text_nowrite
#define ctf_unused			 lttng_ust_field_unused
#define ctf_unused_nowrite		 lttng_ust_field_unused_nowrite
#endif

/* ---- types: pointers are unsigned integers, enumerations what they are stored as ---- */

#ifdef __cplusplus
template <typename type, bool = std::is_enum<type>::value>
struct strata_lttng_is_signed : std::is_signed<type> {
};
template <typename type>
struct strata_lttng_is_signed<type, true>
    : std::is_signed<typename std::underlying_type<type>::type> {
};
#define STRATA_LTTNG_SIGNED(type)   strata_lttng_is_signed<type>::value
#define STRATA_LTTNG_FLOATING(type) std::is_floating_point<type>::value
#else
/* Class 5 is that of pointers. */
#define STRATA_LTTNG_SIGNED(type) (__builtin_classify_type((type)0) == 5 ? 0 : ((type)-1 < (type)1))
#define STRATA_LTTNG_FLOATING(type)                    \
	(__builtin_types_compatible_p(type, float) ||  \
	 __builtin_types_compatible_p(type, double) || \
	 __builtin_types_compatible_p(type, long double))
#endif

#define STRATA_LTTNG_POWER(n) ((n) == 1 || (n) == 2 || (n) == 4 || (n) == 8)

/* Floating-point elements have no sign or base. */
#define STRATA_LTTNG_ELEMENT(type) \
	(STRATA_LTTNG_FLOATING(type) ? STRATA_ABI_USER_FLOAT : STRATA_ABI_USER_INTEGER)
#define STRATA_LTTNG_FLAGS(type, flags)                                                  \
	(uint8_t)((flags) | (STRATA_LTTNG_SIGNED(type) && !STRATA_LTTNG_FLOATING(type) ? \
				     STRATA_ABI_USER_FIELD_SIGNED :                      \
				     0))

#endif /* STRATA_LTTNG_COMPAT_UST_TRACEPOINT_FIELDS_H */

#ifdef STRATA_LTTNG_PART

#undef STRATA_LTTNG_PASS_ENUM
#undef STRATA_LTTNG_PASS_CLASS
#undef STRATA_LTTNG_PASS_INSTANCE
#undef STRATA_LTTNG_PASS_LOGLEVEL
#undef STRATA_LTTNG_LABEL
#undef STRATA_LTTNG_INTEGER
#undef STRATA_LTTNG_ENUMERATION
#undef STRATA_LTTNG_FLOAT
#undef STRATA_LTTNG_STRING
#undef STRATA_LTTNG_ARRAY
#undef STRATA_LTTNG_ARRAY_TEXT
#undef STRATA_LTTNG_SEQUENCE
#undef STRATA_LTTNG_SEQUENCE_TEXT
#undef STRATA_LTTNG_UNUSED

#if STRATA_LTTNG_PART == 1
#define STRATA_LTTNG_LABEL(text, from, to, automatic) \
	{ text, (int64_t)(from), (int64_t)(to), automatic },

#elif STRATA_LTTNG_PART == 2
#define STRATA_LTTNG_INTEGER(type, item, source, flags, base) \
	{ #item,                                              \
	  0,                                                  \
	  0,                                                  \
	  STRATA_ABI_USER_INTEGER,                            \
	  0,                                                  \
	  (uint8_t)sizeof(type),                              \
	  STRATA_LTTNG_FLAGS(type, flags),                    \
	  base,                                               \
	  0,                                                  \
	  { 0, 0 } },
#define STRATA_LTTNG_ENUMERATION(provider, name, type, item, source) \
	{ #item,                                                     \
	  &strata_lttng_enum_##provider##___##name,                  \
	  0,                                                         \
	  STRATA_ABI_USER_INTEGER,                                   \
	  0,                                                         \
	  (uint8_t)sizeof(type),                                     \
	  STRATA_LTTNG_FLAGS(type, 0),                               \
	  10,                                                        \
	  0,                                                         \
	  { 0, 0 } },
#define STRATA_LTTNG_FLOAT(type, item, source) \
	{ #item, 0, 0, STRATA_ABI_USER_FLOAT, 0, sizeof(type) == 4 ? 4 : 8, 0, 10, 0, { 0, 0 } },
#define STRATA_LTTNG_STRING(item, source) \
	{ #item, 0, 0, STRATA_ABI_USER_STRING, 0, 1, 0, 10, 0, { 0, 0 } },
#define STRATA_LTTNG_ARRAY(type, item, source, flags, base, length) \
	{ #item,                                                    \
	  0,                                                        \
	  (uint32_t)(length),                                       \
	  STRATA_ABI_USER_ARRAY,                                    \
	  STRATA_LTTNG_ELEMENT(type),                               \
	  (uint8_t)sizeof(type),                                    \
	  STRATA_LTTNG_FLAGS(type, flags),                          \
	  base,                                                     \
	  0,                                                        \
	  { 0, 0 } },
#define STRATA_LTTNG_ARRAY_TEXT(type, item, source, length)                                          \
	{ #item, 0,	  (uint32_t)(length), STRATA_ABI_USER_ARRAY, STRATA_ABI_USER_TEXT, 1, 0, 10, \
	  0,	 { 0, 0 } },
#define STRATA_LTTNG_SEQUENCE(type, item, source, flags, base, length_type, length) \
	{ #item,                                                                    \
	  0,                                                                        \
	  0,                                                                        \
	  STRATA_ABI_USER_SEQUENCE,                                                 \
	  STRATA_LTTNG_ELEMENT(type),                                               \
	  (uint8_t)sizeof(type),                                                    \
	  STRATA_LTTNG_FLAGS(type, flags),                                          \
	  base,                                                                     \
	  (uint8_t)sizeof(length_type),                                             \
	  { 0, 0 } },
#define STRATA_LTTNG_SEQUENCE_TEXT(type, item, source, length_type, length) \
	{ #item, 0, 0,	STRATA_ABI_USER_SEQUENCE,     STRATA_ABI_USER_TEXT, \
	  1,	 0, 10, (uint8_t)sizeof(length_type), { 0, 0 } },
#define STRATA_LTTNG_UNUSED(source)

#elif STRATA_LTTNG_PART == 3
#define STRATA_LTTNG_UNUSED(source) (void)sizeof((source), 0);
#define STRATA_LTTNG_INTEGER(type, item, source, flags, base)                      \
	STRATA_LTTNG_ASSERT(STRATA_LTTNG_POWER(sizeof(type)),                      \
			    "field " #item ": an integer has 1, 2, 4 or 8 bytes"); \
	strata_lttng_bytes = strata_lttng_sum(strata_lttng_bytes, sizeof(type));
#define STRATA_LTTNG_ENUMERATION(provider, name, type, item, source) \
	STRATA_LTTNG_INTEGER(type, item, source, 0, 10)
#define STRATA_LTTNG_FLOAT(type, item, source)                                                  \
	STRATA_LTTNG_ASSERT(sizeof(type) >= 4, "field " #item ": a float has 4 bytes or more"); \
	strata_lttng_bytes = strata_lttng_sum(strata_lttng_bytes, sizeof(type) == 4 ? 4 : 8);
#define STRATA_LTTNG_STRING(item, source)                                                         \
	strata_lttng_bytes = strata_lttng_measure_string(strata_lttng_part++, strata_lttng_bytes, \
							 (source), strata_lttng_stack);
#define STRATA_LTTNG_ARRAY(type, item, source, flags, base, length)                \
	STRATA_LTTNG_ASSERT(STRATA_LTTNG_POWER(sizeof(type)),                      \
			    "field " #item ": an element has 1, 2, 4 or 8 bytes"); \
	strata_lttng_bytes =                                                       \
		strata_lttng_sum(strata_lttng_bytes, sizeof(type) * (uint32_t)(length));
#define STRATA_LTTNG_ARRAY_TEXT(type, item, source, length)                       \
	STRATA_LTTNG_ASSERT(sizeof(type) == 1,                                    \
			    "field " #item ": the elements of a text are bytes"); \
	strata_lttng_bytes = strata_lttng_sum(strata_lttng_bytes, (uint32_t)(length));
#define STRATA_LTTNG_SEQUENCE(type, item, source, flags, base, length_type, length)         \
	STRATA_LTTNG_ASSERT(STRATA_LTTNG_POWER(sizeof(type)) &&                             \
				    STRATA_LTTNG_POWER(sizeof(length_type)),                \
			    "field " #item ": element and length have 1, 2, 4 or 8 bytes"); \
	strata_lttng_bytes = strata_lttng_measure_sequence(                                 \
		strata_lttng_part++, strata_lttng_bytes, (const void *)(source),            \
		(uint64_t)(length), sizeof(type), (unsigned int)sizeof(length_type));
#define STRATA_LTTNG_SEQUENCE_TEXT(type, item, source, length_type, length)       \
	STRATA_LTTNG_ASSERT(sizeof(type) == 1,                                    \
			    "field " #item ": the elements of a text are bytes"); \
	STRATA_LTTNG_SEQUENCE(type, item, source, 0, 10, length_type, length)

#elif STRATA_LTTNG_PART == 4
#define STRATA_LTTNG_UNUSED(source)
#define STRATA_LTTNG_INTEGER(type, item, source, flags, base)                            \
	{                                                                                \
		type strata_lttng_value = (source);                                      \
		strata_lttng_at = strata_lttng_put(strata_lttng_at, &strata_lttng_value, \
						   sizeof(strata_lttng_value));          \
	}
#define STRATA_LTTNG_ENUMERATION(provider, name, type, item, source) \
	STRATA_LTTNG_INTEGER(type, item, source, 0, 10)
#define STRATA_LTTNG_FLOAT(type, item, source)                                              \
	{                                                                                   \
		type strata_lttng_value = (source);                                         \
		strata_lttng_at =                                                           \
			sizeof(type) == 4 ?                                                 \
				strata_lttng_put(strata_lttng_at, &strata_lttng_value, 4) : \
				strata_lttng_put_double(strata_lttng_at,                    \
							(double)strata_lttng_value);        \
	}
#define STRATA_LTTNG_STRING(item, source) \
	strata_lttng_at = strata_lttng_put_string(strata_lttng_at, strata_lttng_part++);
#define STRATA_LTTNG_ARRAY(type, item, source, flags, base, length)                       \
	strata_lttng_at = strata_lttng_put_array(strata_lttng_at, (const void *)(source), \
						 sizeof(type) * (uint32_t)(length));
#define STRATA_LTTNG_ARRAY_TEXT(type, item, source, length)                              \
	strata_lttng_at = strata_lttng_put_text(strata_lttng_at, (const void *)(source), \
						(uint32_t)(length));
#define STRATA_LTTNG_SEQUENCE(type, item, source, flags, base, length_type, length)          \
	strata_lttng_at = strata_lttng_put_length(strata_lttng_at, strata_lttng_part->count, \
						  (unsigned int)sizeof(length_type));        \
	strata_lttng_at =                                                                    \
		strata_lttng_put_elements(strata_lttng_at, strata_lttng_part++, sizeof(type));
#define STRATA_LTTNG_SEQUENCE_TEXT(type, item, source, length_type, length)                  \
	strata_lttng_at = strata_lttng_put_length(strata_lttng_at, strata_lttng_part->count, \
						  (unsigned int)sizeof(length_type));        \
	strata_lttng_at = strata_lttng_put_text(strata_lttng_at, strata_lttng_part->at,      \
						(size_t)strata_lttng_part->count);           \
	strata_lttng_part++;
#endif

#undef STRATA_LTTNG_PART
#endif
