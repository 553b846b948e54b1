/* SPDX-License-Identifier: MIT */
/* cxx_provider.h - what only C++ has: references, scoped enumerations, classes as arguments. */
/* clang-format off */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER compat_cxx

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "cxx_provider.h"

#if !defined(COMPAT_CXX_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPAT_CXX_PROVIDER_H

#include <string>

#include <lttng/tracepoint.h>

#ifndef COMPAT_CXX_TYPES
#define COMPAT_CXX_TYPES
namespace compat
{
enum class colour : short { red = 3, green = 14 };
struct shape {
	std::string name;
	double area;
	int sides[3];
};
}
#endif

LTTNG_UST_TRACEPOINT_ENUM(compat_cxx, colours,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("red", (int)compat::colour::red)
		lttng_ust_field_enum_auto("after_red")
		lttng_ust_field_enum_value("green", (int)compat::colour::green)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	LTTNG_UST_TRACEPOINT_PROVIDER, shape,
	LTTNG_UST_TP_ARGS(const compat::shape &, shape, compat::colour, colour, std::string, copy),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(name, shape.name.c_str())
		lttng_ust_field_float(double, area, shape.area)
		lttng_ust_field_sequence(int, sides, shape.sides, unsigned int, 3)
		lttng_ust_field_enum(compat_cxx, colours, short, colour, (short)colour)
		lttng_ust_field_sequence_text(char, copy, copy.data(), size_t, copy.size())
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(compat_cxx, shape, LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)

LTTNG_UST_TRACEPOINT_EVENT(compat_cxx, step, LTTNG_UST_TP_ARGS(int, n),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, n)))

#endif /* COMPAT_CXX_PROVIDER_H */

#include <lttng/tracepoint-event.h>
