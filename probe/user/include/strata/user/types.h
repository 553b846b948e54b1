/* SPDX-License-Identifier: MIT */
/*
 * types.h - what the tracepoint macros ask of an expression's type, in C and in C++, without evaluating
 * the expression: is it an integer, how wide, has it a sign.
 *
 * A type code is what a record's reader must know of an integer or floating-point number, in four bits:
 * bits 0 and 1: log2 of its bytes, bit 2: has a sign, bit 3: floating-point.
 */
#ifndef STRATA_USER_TYPES_H
#define STRATA_USER_TYPES_H

#include <stdint.h>

#define STRATA_USER_CODE_SIGNED 4
#define STRATA_USER_CODE_FLOAT	8

/* The code of an unsigned integer of so many bytes. */
#define STRATA_USER_CODE_UNSIGNED(bytes) \
	((bytes) == 1 ? 0 : (bytes) == 2 ? 1 : (bytes) == 4 ? 2 : 3)

/* The ASCII characters that no identifier contains. Bytes above ASCII may be part of a letter. */
#define STRATA_USER_NOT_IN_NAMES " !\"#%&'()*+,-./:;<=>?@[\\]^`{|}~"

#define STRATA_USER_NO_IDENTIFIER \
	"its name is no identifier: write letters, digits and underscores, without quotes"

#ifdef __cplusplus

#if __cplusplus < 201402L
#error "strata: tracepoints need C++14 or later (-std=c++14), or C11"
#endif

extern "C++" {
#include <type_traits>

namespace strata_user
{
template <class T> using value = std::remove_cv_t<std::decay_t<T>>;
template <class T> using element = std::remove_cv_t<std::remove_pointer_t<std::decay_t<T>>>;

/* Gives `void` and types without a size the size 0, which no type of a record has. */
template <class T, bool has_size> struct size_of {
	static constexpr unsigned value = unsigned(sizeof(T));
};
template <class T> struct size_of<T, false> {
	static constexpr unsigned value = 0;
};
template <class T> constexpr unsigned size()
{
	return size_of < T, !std::is_void<T>::value && !std::is_function<T>::value > ::value;
}

template <class T>
constexpr bool is_integer = size<T>() <= 8 &&
			    (std::is_integral<T>::value || std::is_enum<T>::value);
template <class T>
constexpr bool is_float = std::is_same<T, float>::value || std::is_same<T, double>::value;
template <class T>
constexpr bool is_pointer = std::is_pointer<T>::value || std::is_null_pointer<T>::value;

template <class T, bool is_enum = std::is_enum<T>::value> struct number {
	static constexpr bool has_sign = std::is_signed<T>::value;
};
template <class T> struct number<T, true> {
	static constexpr bool has_sign = std::is_signed<std::underlying_type_t<T>>::value;
};

template <class T>
constexpr int code = STRATA_USER_CODE_UNSIGNED(size<T>()) |
		     (is_float<T> ? STRATA_USER_CODE_FLOAT :
				    (number<T>::has_sign ? STRATA_USER_CODE_SIGNED : 0));

constexpr bool is_identifier(const char *name)
{
	for (; *name; name++) {
		/* g++ takes no other character for constant here. */
		if (!(*name & 0x80) && __builtin_strchr(STRATA_USER_NOT_IN_NAMES, *name))
			return false;
	}
	return true;
}
} // namespace strata_user
}

#define STRATA_USER_ASSERT(condition, text)	   static_assert(condition, text)
#define STRATA_USER_ASSERT_FOLDED(condition, text) static_assert(condition, text)

#define STRATA_USER_NULL nullptr

/* Casts of numbers, and to and from pointers, in a form that -Wold-style-cast accepts. */
#define STRATA_USER_CAST(type, ...)    static_cast<type>(__VA_ARGS__)
#define STRATA_USER_ADDRESS(type, ...) reinterpret_cast<type>(__VA_ARGS__)

/* The type of an expression's value: arrays are pointers, and nothing is const. */
#define STRATA_USER_TYPE(...)	 ::strata_user::value<__typeof__(((void)0, (__VA_ARGS__)))>
#define STRATA_USER_ELEMENT(...) ::strata_user::element<__typeof__(((void)0, (__VA_ARGS__)))>

#define STRATA_USER_SAME(a, b)		 (std::is_same<a, b>::value)
#define STRATA_USER_IS_INTEGER(type)	 (::strata_user::is_integer<type>)
#define STRATA_USER_IS_FLOAT(type)	 (::strata_user::is_float<type>)
#define STRATA_USER_IS_POINTER(type)	 (::strata_user::is_pointer<type>)
#define STRATA_USER_CODE(...)		 (::strata_user::code<__VA_ARGS__>)
#define STRATA_USER_STORED(type)	 type
#define STRATA_USER_TO_STORED(type, ...) (__VA_ARGS__)

#else

#define STRATA_USER_ASSERT(condition, text)	   _Static_assert(condition, text)
/* Asserts what is constant only for a compiler that folds calls of its own functions. */
#define STRATA_USER_ASSERT_FOLDED(condition, text) __extension__ _Static_assert(condition, text)

#define STRATA_USER_NULL ((void *)0)

#define STRATA_USER_CAST(type, ...)    ((type)(__VA_ARGS__))
#define STRATA_USER_ADDRESS(type, ...) ((type)(__VA_ARGS__))

/* The comma makes a value of the expression: arrays are pointers, a bit-field has a type. */
#define STRATA_USER_TYPE(...)	       __typeof__(((void)0, (__VA_ARGS__)))
#define STRATA_USER_ELEMENT(...)       __typeof__(*(__VA_ARGS__))

#define STRATA_USER_SAME(a, b)	   __builtin_types_compatible_p(a, b)
#define STRATA_USER_IS_FLOAT(type) (STRATA_USER_SAME(type, float) || STRATA_USER_SAME(type, double))

/*
 * The class of a type in gcc's <typeclass.h>: 1 to 4 are integers of all kinds, 5 pointers. Void
 * and floats count as pointers.
 */
#define STRATA_USER_CLASS(type)                                                                    \
	__builtin_classify_type(                                                                   \
		*__builtin_choose_expr(STRATA_USER_SAME(type, void) || STRATA_USER_IS_FLOAT(type), \
				       (char **)0, (type *)0))

#define STRATA_USER_IS_INTEGER(type) \
	(STRATA_USER_CLASS(type) >= 1 && STRATA_USER_CLASS(type) <= 4 && sizeof(type) <= 8)
#define STRATA_USER_IS_POINTER(type) (!STRATA_USER_IS_FLOAT(type) && STRATA_USER_CLASS(type) == 5)

/*
 * True if a number's type has a sign. An integer constant expression even for a floating-point
 * type.
 */
#define STRATA_USER_HAS_SIGN(...)                                   \
	__builtin_choose_expr(STRATA_USER_IS_FLOAT(__VA_ARGS__), 1, \
			      (__VA_ARGS__)-1 < (__VA_ARGS__)1)
#define STRATA_USER_CODE(...)                                           \
	(STRATA_USER_CODE_UNSIGNED(sizeof(__VA_ARGS__)) |               \
	 (STRATA_USER_IS_FLOAT(__VA_ARGS__) ? STRATA_USER_CODE_FLOAT :  \
	  STRATA_USER_HAS_SIGN(__VA_ARGS__) ? STRATA_USER_CODE_SIGNED : \
					      0))

#define STRATA_USER_TO_STORED(type, ...) ((type)(__VA_ARGS__))

/* The standard type of the same size. gcc gives the value of a bit-field a type with as many bits as the field. */
#define STRATA_USER_STORED(type)                                                      \
	__typeof__(__builtin_choose_expr(                                             \
		STRATA_USER_IS_FLOAT(type), (type)0,                                  \
		__builtin_choose_expr(                                                \
			STRATA_USER_HAS_SIGN(type),                                   \
			STRATA_USER_OF_SIZE(type, int8_t, int16_t, int32_t, int64_t), \
			STRATA_USER_OF_SIZE(type, uint8_t, uint16_t, uint32_t, uint64_t))))
#define STRATA_USER_OF_SIZE(type, one, two, four, eight)                                     \
	__builtin_choose_expr(sizeof(type) == 1, (one)0,                                     \
			      __builtin_choose_expr(sizeof(type) == 2, (two)0,               \
						    __builtin_choose_expr(sizeof(type) == 4, \
									  (four)0, (eight)0)))

#endif

/*
 * Asserts that a name, which the preprocessor has made a string, is an identifier. @what: of what, such as "field". In
 * C, clang takes no pointer into a string for constant, but looks for a character in one for this attribute.
 */
#ifdef __cplusplus
#define STRATA_USER_IDENTIFIER_ASSERT(what, name)              \
	STRATA_USER_ASSERT(::strata_user::is_identifier(name), \
			   "strata: " what " " name ": " STRATA_USER_NO_IDENTIFIER)
#elif !defined(__clang__)
#define STRATA_USER_IDENTIFIER_ASSERT(what, name)                                      \
	STRATA_USER_ASSERT_FOLDED(__builtin_strcspn(name, STRATA_USER_NOT_IN_NAMES) == \
					  sizeof(name) - 1,                            \
				  "strata: " what " " name ": " STRATA_USER_NO_IDENTIFIER)
#else
#define STRATA_USER_HAS(name, character) __builtin_strchr(name, character) ||
#define STRATA_USER_HAS_4(name, a, b, c, d) \
	STRATA_USER_HAS(name, a)            \
	STRATA_USER_HAS(name, b) STRATA_USER_HAS(name, c) STRATA_USER_HAS(name, d)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
static __inline__ char strata_user_is_identifier(const char *name) __attribute__((
	unused,
	diagnose_if(STRATA_USER_HAS_4(name, ' ', '!', '"', '#') STRATA_USER_HAS_4(
			    name, '%', '&', '\'', '(') STRATA_USER_HAS_4(name, ')', '*', '+', ',')
			    STRATA_USER_HAS_4(name, '-', '.', '/',
					      ':') STRATA_USER_HAS_4(name, ';', '<', '=', '>')
				    STRATA_USER_HAS_4(name, '?', '@', '[', '\\')
					    STRATA_USER_HAS_4(name, ']', '^', '`', '{')
						    STRATA_USER_HAS_4(name, '|', '}', '~', '~') 0,
		    "strata: " STRATA_USER_NO_IDENTIFIER, "error")));
#pragma clang diagnostic pop
#define STRATA_USER_IDENTIFIER_ASSERT(what, name) \
	STRATA_USER_ASSERT(sizeof(strata_user_is_identifier(name)) == 1, what)
#endif

#define STRATA_USER_IS_STRING(type) \
	(STRATA_USER_SAME(type, char *) || STRATA_USER_SAME(type, const char *))
#define STRATA_USER_IS_NUMBER(type) (STRATA_USER_IS_INTEGER(type) || STRATA_USER_IS_FLOAT(type))

#endif /* STRATA_USER_TYPES_H */
