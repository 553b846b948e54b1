/* SPDX-License-Identifier: MIT */
/* event.h - tracepoints of one statement, and classes and declared events: see tracepoint.h. */
#ifndef STRATA_USER_EVENT_H
#define STRATA_USER_EVENT_H

#include <strata/user/fields.h>
#include <strata/user/unique.h>

/*
 * Up to version 16, clang takes all jumps of the assembler code of a function to lead to all labels of
 * the function, and refuses those past a variable that has to be cleaned up. So each jump gets a
 * function of its own: a template; or in C an inlined one, which needs an optimiser to see a constant.
 */
#if defined(__clang__) && __clang_major__ < 17 && !defined(__cplusplus)
#ifdef __OPTIMIZE__
#define STRATA_USER_SITE_IN_FUNCTION
#elif !defined(STRATA_USER_FLAG_IN_MEMORY)
#define STRATA_USER_FLAG_IN_MEMORY
#endif
#endif

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif
#include <strata/user/site.h>
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

#define STRATA_USER_TRACEPOINT(provider, event, level, fields, nr)                               \
	{                                                                                        \
		&strata_user_off, STRATA_USER_NULL, provider, event, __FILE__, fields, __LINE__, \
			STRATA_USER_CAST(uint16_t, nr), STRATA_USER_CAST(uint8_t, level), 0,     \
			STRATA_USER_NULL                                                         \
	}

/* Puts names into a message without quotes, which gcc would show as \'. */
#define STRATA_USER_NAME_ASSERT(provider, event, level)                                        \
	STRATA_USER_IDENTIFIER_ASSERT("provider", provider);                                   \
	STRATA_USER_IDENTIFIER_ASSERT("event", event);                                         \
	STRATA_USER_ASSERT(sizeof(provider ":" event) <= STRATA_ABI_USER_NAME_MAX + 1,         \
			   "strata: tracepoint " provider ":" event                            \
			   ": its name has more than 255 bytes");                              \
	STRATA_USER_ASSERT(                                                                    \
		STRATA_USER_LEVEL_KNOWN(level),                                                \
		"strata: tracepoint " provider ":" event                                       \
		": there is no such level: " STRATA_USER_STRING(                               \
			level) "; take EMERG ALERT CRIT ERR WARNING NOTICE INFO DEBUG_SYSTEM " \
			       "DEBUG_PROGRAM DEBUG_PROCESS DEBUG_MODULE DEBUG_UNIT "          \
			       "DEBUG_FUNCTION DEBUG_LINE or DEBUG");
#define STRATA_USER_FIELDS_ASSERT(what, ...)                                         \
	STRATA_USER_ASSERT(STRATA_USER_COUNT(__VA_ARGS__) <= STRATA_USER_FIELDS_MAX, \
			   "strata: " what ": it has more than 32 fields");

/*
 * STRATA_USER_DEFINE(provider, event, level, list...) - the tracepoint STRATA_USER_THIS, in a block,
 * after the passes TYPES and CODES. STRATA_USER_DEFINE_OF() is one with an array of fields.
 *
 * C++: not a static variable of the function, which in an inline one would be reached through the global
 * offset table, and no assembler could name it; but a hidden member of a template of a local type.
 */
#ifdef __cplusplus

extern "C++" {
namespace strata_user
{
template <unsigned Nr> struct field_list {
	strata_field list[Nr];
};
#if __cplusplus >= 201703L
template <class Tag> struct __attribute__((visibility("hidden"))) holder {
	static constexpr auto fields = Tag::fields();
	static inline strata_tracepoint tracepoint = Tag::tracepoint(fields.list);
};
template <class Tag> struct __attribute__((visibility("hidden"))) holder_of {
	static inline strata_tracepoint tracepoint = Tag::tracepoint();
};
#else
template <class Tag> struct __attribute__((visibility("hidden"))) holder {
	static constexpr decltype(Tag::fields()) fields = Tag::fields();
	static strata_tracepoint tracepoint;
};
template <class Tag> constexpr decltype(Tag::fields()) holder<Tag>::fields;
template <class Tag>
strata_tracepoint holder<Tag>::tracepoint = Tag::tracepoint(holder::fields.list);
template <class Tag> struct __attribute__((visibility("hidden"))) holder_of {
	static strata_tracepoint tracepoint;
};
template <class Tag> strata_tracepoint holder_of<Tag>::tracepoint = Tag::tracepoint();
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
template <strata_tracepoint &Tracepoint>
inline __attribute__((always_inline, visibility("hidden"))) bool is_on()
{
	return strata_user_sessions(Tracepoint) != 0;
}
#pragma GCC diagnostic pop
} // namespace strata_user
}

#define STRATA_USER_IS_ON(tracepoint) __builtin_expect(::strata_user::is_on<tracepoint>(), 0)
#define STRATA_USER_THIS	      ::strata_user::holder<strata_user_tag>::tracepoint
#define STRATA_USER_THIS_OF	      ::strata_user::holder_of<strata_user_tag>::tracepoint
#define STRATA_USER_DEFINE(provider, event, level, ...)                                        \
	struct strata_user_tag {                                                               \
		static constexpr ::strata_user::field_list<STRATA_USER_COUNT(__VA_ARGS__) + 1> \
		fields()                                                                       \
		{                                                                              \
			return { { STRATA_USER_FOREACH(STRATA_USER_DESCRIBE, strata_code,      \
						       __VA_ARGS__) STRATA_USER_FIELD_END } }; \
		}                                                                              \
		static constexpr strata_tracepoint tracepoint(const strata_field *list)        \
		{                                                                              \
			return STRATA_USER_TRACEPOINT(provider, event, level, list,            \
						      STRATA_USER_COUNT(__VA_ARGS__));         \
		}                                                                              \
	};
#define STRATA_USER_DEFINE_OF(provider, event, level, fields, nr)                          \
	struct strata_user_tag {                                                           \
		static constexpr strata_tracepoint tracepoint()                            \
		{                                                                          \
			return STRATA_USER_TRACEPOINT(provider, event, level, fields, nr); \
		}                                                                          \
	};
#if __cplusplus >= 201703L
#define STRATA_USER_VARIABLE inline __attribute__((unused, visibility("hidden")))
#else
/*
 * Makes one variable for all files of a program or library. gcc accepts no static variable as a template's argument.
 */
#define STRATA_USER_VARIABLE __attribute__((weak, unused, visibility("hidden")))
#endif

#else

#ifdef STRATA_USER_SITE_IN_FUNCTION
STRATA_USER_INLINE _Bool strata_user_is_on(struct strata_tracepoint *tracepoint)
{
	return strata_user_sessions(*tracepoint) != 0;
}
#define STRATA_USER_IS_ON(tracepoint) __builtin_expect(strata_user_is_on(&(tracepoint)), 0)
#else
#define STRATA_USER_IS_ON(tracepoint) strata_user_sessions(tracepoint)
#endif
#define STRATA_USER_THIS    strata_user_this
#define STRATA_USER_THIS_OF strata_user_this
#define STRATA_USER_DEFINE(provider, event, level, ...)                                  \
	static const struct strata_field strata_user_fields[] = { STRATA_USER_FOREACH(   \
		STRATA_USER_DESCRIBE, strata_code, __VA_ARGS__) STRATA_USER_FIELD_END }; \
	STRATA_USER_DEFINE_OF(provider, event, level, strata_user_fields,                \
			      STRATA_USER_COUNT(__VA_ARGS__))
#define STRATA_USER_DEFINE_OF(provider, event, level, fields, nr) \
	static struct strata_tracepoint strata_user_this =        \
		STRATA_USER_TRACEPOINT(provider, event, level, fields, nr);
#define STRATA_USER_VARIABLE static __attribute__((unused))

#endif

/* The level is pasted and the names are made strings before macros with the same names could be expanded. */
#define STRATA_TRACE(provider, event, ...) \
	STRATA_USER_TRACE(#provider, #event, 0, strata_level_##__VA_ARGS__)

/* Records an event of one statement. The role of the event is 0 or STRATA_USER_SPAN_BEGINS. */
#define STRATA_USER_TRACE(provider, event, role, ...)                                         \
	do {                                                                                  \
		STRATA_USER_NAME_ASSERT(provider, event, STRATA_USER_HEAD(__VA_ARGS__))       \
		STRATA_USER_FIELDS_ASSERT("tracepoint " provider ":" event, __VA_ARGS__)      \
		STRATA_USER_UNIQUE_ASSERT(__VA_ARGS__)                                        \
		STRATA_USER_FOREACH(STRATA_USER_TYPES, ~, __VA_ARGS__)                        \
		STRATA_USER_FOREACH(STRATA_USER_CODES, strata_code, __VA_ARGS__)              \
		STRATA_USER_DEFINE(provider, event,                                           \
				   STRATA_USER_LEVEL(STRATA_USER_HEAD(__VA_ARGS__)) | (role), \
				   __VA_ARGS__)                                               \
		if (STRATA_USER_IS_ON(STRATA_USER_THIS)) {                                    \
			STRATA_USER_WRITE(&STRATA_USER_THIS, __VA_ARGS__)                     \
		}                                                                             \
	} while (0)

/*
 * Defines a class of events.
 *
 * The field expressions name the arguments, which have a scope only in a function; but what
 * describes the fields must be a constant outside of it. So a type code is asked for bit by bit: a
 * function type with the same arguments, and behind them a pointer to 1 + bit characters, is or is not
 * the same type as one with a pointer to two.
 */
#define STRATA_CLASS(class, arguments, ...)                                            \
	STRATA_USER_CLASS_(#class, strata_class_##class, strata_code_of_class_##class, \
			   strata_fields_of_class_##class, arguments, ~, __VA_ARGS__)

#define STRATA_USER_CLASS_(name, function, code, fields, arguments, ...)                       \
	STRATA_USER_FIELDS_ASSERT("class " name, __VA_ARGS__)                                  \
	STRATA_USER_FUNCTION __attribute__((unused)) void function(                            \
		struct strata_tracepoint *strata_user_tracepoint, STRATA_USER_OPEN arguments){ \
		STRATA_USER_UNIQUE_ASSERT(__VA_ARGS__)                                         \
			STRATA_USER_FOREACH(STRATA_USER_TYPES, ~, __VA_ARGS__)                 \
				STRATA_USER_WRITE(strata_user_tracepoint, __VA_ARGS__)         \
	} STRATA_USER_FOREACH(STRATA_USER_ASK, (code, arguments), __VA_ARGS__)                 \
		STRATA_USER_CONSTANT struct strata_field fields[] = { STRATA_USER_FOREACH(     \
			STRATA_USER_DESCRIBE, code, __VA_ARGS__) STRATA_USER_FIELD_END }

#define STRATA_USER_ASK_scalar(context, id, name, kind, flags, base, enumeration, ...) \
	STRATA_USER_ASK(STRATA_USER_OPEN context, id, STRATA_USER_CODE##kind(__VA_ARGS__))
#define STRATA_USER_ASK_string(context, id, name, ...)
#define STRATA_USER_ASK_array(context, id, name, kind, flags, base, pointer, ...) \
	STRATA_USER_ASK(STRATA_USER_OPEN context, id, STRATA_USER_CODE##kind(pointer))
#define STRATA_USER_ASK_text(context, id, name, ...)
#define STRATA_USER_ASK_sequence(context, id, name, kind, flags, base, pointer, ...) \
	STRATA_USER_ASK(STRATA_USER_OPEN context, id, STRATA_USER_CODE##kind(pointer))

#define STRATA_USER_ASK(...) STRATA_USER_ASK_(__VA_ARGS__)
#define STRATA_USER_ASK_(prefix, arguments, id, ...)                          \
	enum {                                                                \
		prefix##id = STRATA_USER_ASK_BIT(0, arguments, __VA_ARGS__) | \
			     STRATA_USER_ASK_BIT(1, arguments, __VA_ARGS__) | \
			     STRATA_USER_ASK_BIT(2, arguments, __VA_ARGS__) | \
			     STRATA_USER_ASK_BIT(3, arguments, __VA_ARGS__)   \
	};
#define STRATA_USER_ASK_BIT(bit, arguments, ...)                           \
	(STRATA_USER_SAME(void(STRATA_USER_OPEN arguments,                 \
			       char(*)[1 + (((__VA_ARGS__) >> bit) & 1)]), \
			  void(STRATA_USER_OPEN arguments, char(*)[2]))    \
	 << bit)

#define STRATA_EVENT(provider, event, level, class)                                   \
	STRATA_USER_EVENT(#provider, #event, strata_event_##event##_of_##provider,    \
			  strata_write_##event##_of_##provider, strata_level_##level, \
			  strata_class_##class, strata_fields_of_class_##class)

#define STRATA_USER_EVENT(provider, event, identifier, function, level, class_function, fields) \
	STRATA_USER_NAME_ASSERT(provider, event, level)                                         \
	STRATA_USER_CONSTANT __typeof__(&class_function) function = &class_function;            \
	STRATA_USER_VARIABLE struct strata_tracepoint identifier =                              \
		STRATA_USER_TRACEPOINT(provider, event, STRATA_USER_LEVEL(level), fields,       \
				       sizeof(fields) / sizeof(fields[0]) - 1)

#define STRATA_TRACE_EVENT(provider, event, ...)                                     \
	do {                                                                         \
		if (STRATA_USER_IS_ON(strata_event_##event##_of_##provider))         \
			strata_write_##event##_of_##provider(                        \
				&strata_event_##event##_of_##provider, __VA_ARGS__); \
	} while (0)

#define STRATA_ENABLED(provider, event) \
	(STRATA_USER_IS_ON(strata_event_##event##_of_##provider) != 0)

#endif /* STRATA_USER_EVENT_H */
