/* SPDX-License-Identifier: MIT */
/* all_fields.h - a provider as LTTng-UST 2.13 has them, with each kind of field; the prefixed spelling. */
/* clang-format off */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER compat_all

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./all_fields.h"

#if !defined(COMPAT_ALL_FIELDS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPAT_ALL_FIELDS_H

#include <lttng/tracepoint.h>

/* Guarded apart, since a second reading of this header is to make the macros only. */
#ifndef COMPAT_ALL_FIELDS_TYPES
#define COMPAT_ALL_FIELDS_TYPES
struct compat_point {
	int x;
	unsigned char tag[4];
};

enum compat_colour { COMPAT_RED = -1, COMPAT_GREEN = 7 };
#endif

LTTNG_UST_TRACEPOINT_EVENT(compat_all, integers,
	LTTNG_UST_TP_ARGS(int8_t, i8, uint8_t, u8, int16_t, i16, uint16_t, u16, int32_t, i32,
			  uint32_t, u32, int64_t, i64, uint64_t, u64, bool, flag, const void *, p),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, i8)
		lttng_ust_field_integer(uint8_t, u8, u8)
		lttng_ust_field_integer(int16_t, i16, i16)
		lttng_ust_field_integer(uint16_t, u16, u16)
		lttng_ust_field_integer(int32_t, i32, i32)
		lttng_ust_field_integer(uint32_t, u32, u32)
		lttng_ust_field_integer(int64_t, i64, i64)
		lttng_ust_field_integer_hex(uint64_t, u64, u64)
		lttng_ust_field_integer(bool, flag, flag)
		lttng_ust_field_integer_hex(const void *, p, p)
		lttng_ust_field_integer(long long, sum, i8 + i16 + i32)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, network,
	LTTNG_UST_TP_ARGS(uint16_t, port, uint32_t, address, const uint16_t *, ports),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_network(uint16_t, port, port)
		lttng_ust_field_integer_network_hex(uint32_t, address, address)
		lttng_ust_field_array_network(uint16_t, two, ports, 2)
		lttng_ust_field_array_network_hex(uint16_t, two_hex, ports, 2)
		lttng_ust_field_sequence_network(uint16_t, some, ports, uint8_t, 3)
		lttng_ust_field_sequence_network_hex(uint16_t, some_hex, ports, uint16_t, 1)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, floats,
	LTTNG_UST_TP_ARGS(float, f, double, d),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_float(float, f, f)
		lttng_ust_field_float(double, d, d)
		lttng_ust_field_float(double, widened, f)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, texts,
	LTTNG_UST_TP_ARGS(const char *, s, const char *, none, size_t, n),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(s, s)
		lttng_ust_field_string(none, none)
		lttng_ust_field_array_text(char, fixed, s, 10)
		lttng_ust_field_sequence_text(char, some, s, size_t, n)
		lttng_ust_field_string(last, "end")
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, arrays,
	LTTNG_UST_TP_ARGS(const long *, values, const struct compat_point *, point, unsigned int, n),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_array(long, three, values, 3)
		lttng_ust_field_array_hex(unsigned char, tag, point->tag, 4)
		lttng_ust_field_sequence(long, some, values, unsigned int, n)
		lttng_ust_field_sequence_hex(unsigned char, head, point->tag, uint64_t, n - 1)
		lttng_ust_field_sequence(int, nothing, &point->x, uint8_t, 0)
		lttng_ust_field_integer(int, x, point->x)
	)
)

LTTNG_UST_TRACEPOINT_ENUM(compat_all, colours,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("RED", COMPAT_RED)
		lttng_ust_field_enum_range("PALE", 2, 4)
		lttng_ust_field_enum_auto("NEXT")
		lttng_ust_field_enum_value("GREEN", COMPAT_GREEN)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, enums,
	LTTNG_UST_TP_ARGS(enum compat_colour, colour, int, other),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_enum(compat_all, colours, int, colour, colour)
		lttng_ust_field_enum(compat_all, colours, int8_t, small, other)
	)
)

/* The fields that are not written must not cost anything: their expressions have effects. */
LTTNG_UST_TRACEPOINT_EVENT(compat_all, nowrite,
	LTTNG_UST_TP_ARGS(int *, counter, const char *, s, long *, values, int, unused),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_nowrite(int, a, ++*counter)
		lttng_ust_field_float_nowrite(double, b, *counter)
		lttng_ust_field_string_nowrite(c, s)
		lttng_ust_field_enum_nowrite(compat_all, colours, int, d, *counter)
		lttng_ust_field_array_nowrite(long, e, values, 2)
		lttng_ust_field_array_nowrite_hex(long, f, values, 2)
		lttng_ust_field_array_network_nowrite(long, g, values, 2)
		lttng_ust_field_array_network_nowrite_hex(long, h, values, 2)
		lttng_ust_field_array_text_nowrite(char, i, s, 2)
		lttng_ust_field_sequence_nowrite(long, j, values, int, 2)
		lttng_ust_field_sequence_nowrite_hex(long, k, values, int, 2)
		lttng_ust_field_sequence_network_nowrite(long, l, values, int, 2)
		lttng_ust_field_sequence_network_nowrite_hex(long, m, values, int, 2)
		lttng_ust_field_sequence_text_nowrite(char, n, s, int, 2)
		lttng_ust_field_unused(unused)
		lttng_ust_field_integer(int, counter, *counter)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(compat_all, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(compat_all, only_void, LTTNG_UST_TP_ARGS(void),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, answer, 42)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(compat_all, only_void, LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG)

LTTNG_UST_TRACEPOINT_EVENT_CLASS(compat_all, pair,
	LTTNG_UST_TP_ARGS(int, first, const char *, second),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, first, first)
		lttng_ust_field_string(second, second)
	)
)

LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(compat_all, pair, compat_all, begin_pair,
				    LTTNG_UST_TP_ARGS(int, first, const char *, second))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(compat_all, pair, compat_all, end_pair,
				    LTTNG_UST_TP_ARGS(int, first, const char *, second))
LTTNG_UST_TRACEPOINT_LOGLEVEL(compat_all, end_pair, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(compat_all, end_pair, "http://example.com/pair?end")

#endif /* COMPAT_ALL_FIELDS_H */

#include <lttng/tracepoint-event.h>
