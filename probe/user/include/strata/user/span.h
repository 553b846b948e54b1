/* SPDX-License-Identifier: MIT */
/*
 * span.h - two tracepoints of one line, where a block is entered at that line and where it is left: see tracepoint.h.
 *
 * Both sites are where the span begins; where it ends, the code looks at a variable of the block, which compilers keep
 * in no register while both are off. So a span that began before it was switched on has no end without a begin.
 */
#ifndef STRATA_USER_SPAN_H
#define STRATA_USER_SPAN_H

#include <strata/user/enumeration.h>
#include <strata/user/event.h>

#ifdef __cplusplus
extern "C++" {
#endif

STRATA_USER_CONSTANT struct strata_field strata_fields_of_span_end[] = { STRATA_USER_FIELD_END };

STRATA_USER_FUNCTION void strata_user_span_end(struct strata_tracepoint *tracepoint)
{
	/* The event may have been switched off since the span began. */
	if (__atomic_load_n(STRATA_USER_ENABLED(*tracepoint), __ATOMIC_RELAXED)) {
		unsigned char memory[STRATA_USER_HEADROOM + STRATA_USER_TAILROOM]
			__attribute__((aligned(8)));

		__builtin_memset(memory + STRATA_USER_HEADROOM, 0, STRATA_USER_TAILROOM);
		strata_user_record(tracepoint, memory + STRATA_USER_HEADROOM, 0);
	}
}

#ifdef __cplusplus

namespace strata_user
{
struct __attribute__((visibility("hidden"))) span {
	strata_tracepoint *end = nullptr;

	span() = default;
	span(const span &) = delete;
	span &operator=(const span &) = delete;
	__attribute__((always_inline)) ~span()
	{
		if (__builtin_expect(end != nullptr, 0))
			strata_user_span_end(end);
	}
};
} // namespace strata_user
} /* extern "C++" */

#define STRATA_USER_SPAN_VARIABLE(variable) ::strata_user::span variable

#else

struct strata_user_span {
	struct strata_tracepoint *end;
};

STRATA_USER_INLINE void strata_user_span_leave(struct strata_user_span *span)
{
	if (__builtin_expect(span->end != STRATA_USER_NULL, 0))
		strata_user_span_end(span->end);
}

#define STRATA_USER_SPAN_VARIABLE(variable) \
	struct strata_user_span variable    \
		__attribute__((cleanup(strata_user_span_leave))) = { STRATA_USER_NULL }

#endif

/*
 * Declares a type in the block. If a span is the body of an "if" without braces, only this declaration is, and it does not
 * hold for what follows: there the name is of an incomplete type in C++, and in C of the type that is declared here, or
 * in a block around.
 */
#ifdef __cplusplus
extern "C++" {
namespace strata_user
{
template <class T, class = void> struct is_complete {
	static constexpr bool value = false;
};
template <class T> struct is_complete<T, decltype(void(sizeof(T)))> {
	static constexpr bool value = true;
};
} // namespace strata_user
}
#define STRATA_USER_SPAN_BLOCK(name) \
	struct name {                \
		char member;         \
	}
#define STRATA_USER_IN_SPAN_BLOCK(name) (::strata_user::is_complete<struct name>::value)
#else
typedef struct strata_user_span_block strata_user_no_span_block;
#define STRATA_USER_SPAN_BLOCK(name) struct strata_user_span_block
#define STRATA_USER_IN_SPAN_BLOCK(name) \
	(!STRATA_USER_SAME(struct strata_user_span_block *, strata_user_no_span_block *))
#endif

/*
 * Records a span as STRATA_TRACE() records an event. The variable's name has the line in it, since
 * spans of one name may be nested.
 */
#define STRATA_SPAN(provider, event, ...)                                            \
	STRATA_USER_SPAN(#provider, #event,                                          \
			 STRATA_USER_SPAN_NAME(strata_span_needs_braces_, __LINE__), \
			 STRATA_USER_SPAN_NAME(strata_user_span_block_, __LINE__),   \
			 strata_level_##__VA_ARGS__)
#define STRATA_USER_SPAN_NAME(name, line)  STRATA_USER_SPAN_NAME_(name, line)
#define STRATA_USER_SPAN_NAME_(name, line) name##line

/*
 * Records the begin first: if computing a field's value throws an exception, neither end is recorded, and no begin
 * lacks its end.
 */
#define STRATA_USER_SPAN(provider, event, variable, block, ...)                            \
	STRATA_USER_SPAN_BLOCK(block);                                                     \
	STRATA_USER_ASSERT(STRATA_USER_IN_SPAN_BLOCK(block),                               \
			   "strata: span " provider ":" event                              \
			   ": it needs braces around it, as in: if (...) { "               \
			   "STRATA_SPAN(...); }");                                         \
	STRATA_USER_SPAN_VARIABLE(variable);                                               \
	STRATA_USER_TRACE(provider, event "_begin", STRATA_USER_SPAN_BEGINS, __VA_ARGS__); \
	do {                                                                               \
		STRATA_USER_DEFINE_OF(provider, event "_end",                              \
				      STRATA_USER_LEVEL(STRATA_USER_HEAD(__VA_ARGS__)) |   \
					      STRATA_USER_SPAN_ENDS,                       \
				      strata_fields_of_span_end, 0)                        \
		if (STRATA_USER_IS_ON(STRATA_USER_THIS_OF))                                \
			variable.end = &STRATA_USER_THIS_OF;                               \
	} while (0)

#endif /* STRATA_USER_SPAN_H */
