/* SPDX-License-Identifier: MIT */
/* enumeration.h - the labels of enumerations: STRATA_ENUM(name, label...), see tracepoint.h. */
#ifndef STRATA_USER_ENUMERATION_H
#define STRATA_USER_ENUMERATION_H

#include <strata/user/object.h>
#include <strata/user/types.h>

#define STRATA_USER_RANGE_TEXT "strata: the range of a label ends below its begin"

#ifdef __cplusplus

extern "C++" {
namespace strata_user
{
template <int64_t From, int64_t To> struct range {
	static_assert(From <= To, STRATA_USER_RANGE_TEXT);
	static constexpr int64_t end = To;
};
} // namespace strata_user
}
/* Before C++17 there are no inline variables, so each file has a variable of its own, as in C. */
#if __cplusplus >= 201703L
#define STRATA_USER_CONSTANT inline constexpr __attribute__((unused, visibility("hidden")))
#else
#define STRATA_USER_CONSTANT static constexpr __attribute__((unused))
#endif
#define STRATA_USER_RANGE_END(from, to) \
	(::strata_user::range<STRATA_USER_CAST(int64_t, from), STRATA_USER_CAST(int64_t, to)>::end)

#else

#define STRATA_USER_CONSTANT static const __attribute__((unused))
#define STRATA_USER_RANGE_END(from, to)                                                 \
	(int64_t)(to) + 0 * (int64_t)sizeof(struct {                                    \
				_Static_assert((from) <= (to), STRATA_USER_RANGE_TEXT); \
				char none;                                              \
			})

#endif

#define STRATA_USER_LABEL(...) \
	{                      \
		__VA_ARGS__    \
	}
#define strata_label(name, value)                                  \
	STRATA_USER_LABEL(#name, STRATA_USER_CAST(int64_t, value), \
			  STRATA_USER_CAST(int64_t, value), 0)
#define strata_label_range(name, from, to)                                                         \
	STRATA_USER_LABEL(#name, STRATA_USER_CAST(int64_t, from), STRATA_USER_RANGE_END(from, to), \
			  0)
#define strata_label_auto(name) STRATA_USER_LABEL(#name, 0, 0, 1)

#define STRATA_ENUM(enumeration, ...)                                                              \
	STRATA_USER_CONSTANT struct strata_label strata_labels_of_##enumeration[] = {              \
		__VA_ARGS__                                                                        \
	};                                                                                         \
	STRATA_USER_CONSTANT struct strata_enumeration strata_enumeration_##enumeration = {        \
		#enumeration, strata_labels_of_##enumeration,                                      \
		sizeof(strata_labels_of_##enumeration) / sizeof(strata_labels_of_##enumeration[0]) \
	}

#endif /* STRATA_USER_ENUMERATION_H */
