/* SPDX-License-Identifier: MIT */
/* lttng_provider.h - a provider with every kind of field that LTTng-UST 2.13 has, and few of each. */
/* clang-format off */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER interop

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_provider.h"

#if !defined(INTEROP_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define INTEROP_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(interop, small, LTTNG_UST_TP_ARGS(int, thread, unsigned int, n),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, thread, thread)
		lttng_ust_field_integer(unsigned int, n, n)
	)
)

LTTNG_UST_TRACEPOINT_ENUM(interop, kinds,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_auto("ZERO")
		lttng_ust_field_enum_value("ONE", 1)
		lttng_ust_field_enum_range("FEW", 2, 5)
		lttng_ust_field_enum_range("SOME", 4, 9)
		lttng_ust_field_enum_value("NEGATIVE", -1)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(interop, large,
	LTTNG_UST_TP_ARGS(int, n, const char *, text, const uint8_t *, bytes, double, real),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, n)
		lttng_ust_field_integer_hex(uint16_t, hex, n)
		lttng_ust_field_integer_network(uint32_t, network, n)
		lttng_ust_field_integer_network_hex(uint64_t, network_hex, n)
		lttng_ust_field_integer(int64_t, i64, -(int64_t)n * 1000000007)
		lttng_ust_field_float(float, single, (float)real)
		lttng_ust_field_float(double, twofold, real)
		lttng_ust_field_string(text, text)
		lttng_ust_field_array(uint8_t, array, bytes, 4)
		lttng_ust_field_array_hex(uint8_t, array_hex, bytes, 3)
		lttng_ust_field_array_text(char, array_text, text, 5)
		lttng_ust_field_sequence(uint8_t, sequence, bytes, unsigned int, n % 6)
		lttng_ust_field_sequence_hex(uint8_t, sequence_hex, bytes, uint8_t, n % 4)
		lttng_ust_field_sequence_text(char, sequence_text, text, size_t, n % 5 + 1)
		lttng_ust_field_enum(interop, kinds, int, kind, n % 12 - 1)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(interop, network,
	LTTNG_UST_TP_ARGS(int, n, const uint16_t *, words),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_array_network(uint16_t, array, words, 3)
		lttng_ust_field_array_network_hex(uint16_t, array_hex, words, 2)
		lttng_ust_field_sequence_network(uint16_t, sequence, words, uint16_t, n % 4)
		lttng_ust_field_sequence_network_hex(uint16_t, sequence_hex, words, uint32_t, n % 3)
		lttng_ust_field_integer_nowrite(int, unwritten, n)
		lttng_ust_field_string_nowrite(unwritten_text, "text")
		lttng_ust_field_unused(n)
		lttng_ust_field_integer(uint64_t, last, ~(uint64_t)n)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(interop, step_begin, LTTNG_UST_TP_ARGS(unsigned int, n),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned int, n, n))
)

LTTNG_UST_TRACEPOINT_EVENT(interop, step_end, LTTNG_UST_TP_ARGS(unsigned int, n),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned int, n, n))
)

LTTNG_UST_TRACEPOINT_EVENT(interop, nothing, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif /* INTEROP_LTTNG_PROVIDER_H */

#include <lttng/tracepoint-event.h>
