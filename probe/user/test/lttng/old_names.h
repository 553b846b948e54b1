/* SPDX-License-Identifier: MIT */
/* old_names.h - a provider in the spelling without prefixes, with its names behind macros of its own. */
/* clang-format off */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER compat_old

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./old_names.h"

#if !defined(COMPAT_OLD_NAMES_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define COMPAT_OLD_NAMES_H

#include <lttng/tracepoint.h>

TRACEPOINT_ENUM(compat_old, steps,
	TP_ENUM_VALUES(
		ctf_enum_auto("ZERO")
		ctf_enum_auto("ONE")
		ctf_enum_range("TENS", 10, 19)
		ctf_enum_value("HUNDRED", 100)
	)
)

TRACEPOINT_EVENT(TRACEPOINT_PROVIDER, everything,
	TP_ARGS(int, n, const char *, text, const short *, values, double, d),
	TP_FIELDS(
		ctf_integer(int, n, n)
		ctf_integer_hex(unsigned int, n_hex, (unsigned int)n)
		ctf_integer_network(uint16_t, net, (uint16_t)n)
		ctf_integer_network_hex(uint16_t, net_hex, (uint16_t)n)
		ctf_float(double, d, d)
		ctf_string(text, text)
		ctf_enum(compat_old, steps, unsigned char, step, (unsigned char)n)
		ctf_array(short, a, values, 2)
		ctf_array_hex(short, a_hex, values, 2)
		ctf_array_network(short, a_net, values, 1)
		ctf_array_network_hex(short, a_net_hex, values, 1)
		ctf_array_text(char, a_text, text, 4)
		ctf_sequence(short, s, values, int, 2)
		ctf_sequence_hex(short, s_hex, values, long, 1)
		ctf_sequence_network(short, s_net, values, uint8_t, 1)
		ctf_sequence_network_hex(short, s_net_hex, values, uint8_t, 1)
		ctf_sequence_text(char, s_text, text, unsigned char, 2)
		ctf_unused(d)
	)
)
TRACEPOINT_LOGLEVEL(TRACEPOINT_PROVIDER, everything, TRACE_INFO)
TRACEPOINT_MODEL_EMF_URI(compat_old, everything, "http://example.com/everything")

TRACEPOINT_EVENT(compat_old, nothing_written,
	TP_ARGS(int, n, const char *, text, const short *, values, double, d),
	TP_FIELDS(
		ctf_integer_nowrite(int, a, n)
		ctf_float_nowrite(double, b, d)
		ctf_string_nowrite(c, text)
		ctf_enum_nowrite(compat_old, steps, int, e, n)
		ctf_array_nowrite(short, f, values, 2)
		ctf_array_nowrite_hex(short, g, values, 2)
		ctf_array_network_nowrite(short, h, values, 2)
		ctf_array_network_nowrite_hex(short, i, values, 2)
		ctf_array_text_nowrite(char, j, text, 2)
		ctf_sequence_nowrite(short, k, values, int, 2)
		ctf_sequence_nowrite_hex(short, l, values, int, 2)
		ctf_sequence_network_nowrite(short, m, values, int, 2)
		ctf_sequence_network_nowrite_hex(short, n, values, int, 2)
		ctf_sequence_text_nowrite(char, o, text, int, 2)
	)
)

#ifdef COMPAT_OTHER_ARGUMENTS
#define COMPAT_OLD_TYPE double
#else
#define COMPAT_OLD_TYPE unsigned long
#endif

TRACEPOINT_EVENT_CLASS(compat_old, one_number,
	TP_ARGS(COMPAT_OLD_TYPE, value),
	TP_FIELDS(ctf_integer(unsigned long, value, (unsigned long)value))
)

#define COMPAT_OLD_NUMBER(name) \
	TRACEPOINT_EVENT_INSTANCE(compat_old, one_number, name, TP_ARGS(COMPAT_OLD_TYPE, value))

COMPAT_OLD_NUMBER(first_number)
COMPAT_OLD_NUMBER(second_number)
TRACEPOINT_LOGLEVEL(compat_old, second_number, TRACE_DEBUG_FUNCTION)

TRACEPOINT_EVENT(compat_old, no_argument, TP_ARGS(), TP_FIELDS())

#endif /* COMPAT_OLD_NAMES_H */

#include <lttng/tracepoint-event.h>
