/* SPDX-License-Identifier: MIT */
/*
 * foreach.h - preprocessor tools of the tracepoint macros: count and visit up to 32 fields, and look up
 * a log level. No macro here is called with an empty variable argument: ISO C11 has none.
 *
 * A list of fields has one more element in front, which is not visited; so it is never empty. A field is
 * a tuple (_shape, "name", ...), made by the macros of fields.h.
 */
#ifndef STRATA_USER_FOREACH_H
#define STRATA_USER_FOREACH_H

#define STRATA_USER_FIELDS_MAX 32

#define STRATA_USER_OPEN(...)			__VA_ARGS__
#define STRATA_USER_STRING(...)			STRATA_USER_STRING_(__VA_ARGS__)
#define STRATA_USER_STRING_(...)		#__VA_ARGS__
#define STRATA_USER_PASTE(a, b)			STRATA_USER_PASTE_(a, b)
#define STRATA_USER_PASTE_(a, b)		a##b
#define STRATA_USER_SECOND(...)			STRATA_USER_SECOND_(__VA_ARGS__)
#define STRATA_USER_SECOND_(first, second, ...) second

/* Expands to 1 if the argument is in parentheses, and to 0 for anything else. */
#define STRATA_USER_IN_PARENS(x) STRATA_USER_SECOND(STRATA_USER_PARENS x, 0, ~)
#define STRATA_USER_PARENS(...)	 ~, 1

/*
 * Values of log levels. An unknown level stays an identifier, which strata_level_known() tells from
 * a number.
 */
#define strata_level_EMERG	       (0)
#define strata_level_ALERT	       (1)
#define strata_level_CRIT	       (2)
#define strata_level_ERR	       (3)
#define strata_level_WARNING	       (4)
#define strata_level_NOTICE	       (5)
#define strata_level_INFO	       (6)
#define strata_level_DEBUG_SYSTEM      (7)
#define strata_level_DEBUG_PROGRAM     (8)
#define strata_level_DEBUG_PROCESS     (9)
#define strata_level_DEBUG_MODULE      (10)
#define strata_level_DEBUG_UNIT	       (11)
#define strata_level_DEBUG_FUNCTION    (12)
#define strata_level_DEBUG_LINE	       (13)
#define strata_level_DEBUG	       (14)
#define STRATA_USER_LEVEL_KNOWN(level) STRATA_USER_IN_PARENS(level)
#define STRATA_USER_LEVEL(level) \
	STRATA_USER_PASTE(STRATA_USER_LEVEL_, STRATA_USER_IN_PARENS(level))(level)
#define STRATA_USER_LEVEL_0(level) 0
#define STRATA_USER_LEVEL_1(level) STRATA_USER_OPEN level

/* The first element of a list. */
#define STRATA_USER_HEAD(...)	     STRATA_USER_HEAD_(__VA_ARGS__, ~)
#define STRATA_USER_HEAD_(head, ...) head

/* Fields in a list: 0..32, or 33 for "more" (seen up to 96 of them). */
#define STRATA_USER_COUNT(...)                                                                     \
	STRATA_USER_COUNT_(__VA_ARGS__, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,    \
			   33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, \
			   33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, \
			   33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 32, 31, 30, 29, \
			   28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, \
			   10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, ~)
#define STRATA_USER_COUNT_(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
			   a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, \
			   a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, \
			   a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, \
			   a58, a59, a60, a61, a62, a63, a64, a65, a66, a67, a68, a69, a70, a71, \
			   a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83, a84, a85, \
			   a86, a87, a88, a89, a90, a91, a92, a93, a94, a95, a96, count, ...)    \
	count

/* Expands to the number of arguments after the first, of up to 62: 0, 1, or 2 for more. */
#define STRATA_USER_GIVEN(...)                                                                     \
	STRATA_USER_GIVEN_(__VA_ARGS__, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,   \
			   2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, \
			   2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0, ~)
#define STRATA_USER_GIVEN_(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
			   a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, \
			   a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, \
			   a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, \
			   a58, a59, a60, a61, a62, given, ...)                                  \
	given

/*
 * STRATA_USER_FOREACH(visit, context, list...) - STRATA_USER_CALL(visit, context, id, field) for each field,
 * with nothing between them. With more than 32 fields: nothing, an assertion says so elsewhere.
 */
#define STRATA_USER_FOREACH(visit, context, ...)                                \
	STRATA_USER_PASTE(STRATA_USER_FOREACH_, STRATA_USER_COUNT(__VA_ARGS__)) \
	(visit, context, __VA_ARGS__, ~)

/*
 * Calls visit##shape(context, id, "name", ...) for one field, whose macro has expanded to what is in
 * parentheses.
 */
#define STRATA_USER_CALL(visit, context, id, field) \
	STRATA_USER_CALL_IF(STRATA_USER_IN_PARENS(field), visit, context, id, field)
#define STRATA_USER_CALL_IF(is, visit, context, id, field) \
	STRATA_USER_CALL_IF_(is, visit, context, id, field)
#define STRATA_USER_CALL_IF_(is, visit, context, id, field) \
	STRATA_USER_CALL_IF_##is(visit, context, id, field)
#define STRATA_USER_CALL_IF_1(visit, context, id, field) \
	STRATA_USER_CALL_(visit, context, id, STRATA_USER_FIELD_OF field)
#define STRATA_USER_CALL_IF_0(visit, context, id, field) \
	visit##_lacking(                                 \
		context, id, #field,                     \
		"there is no such kind of field; those that there are stand in strata/tracepoint.h")
#define STRATA_USER_FIELD_OF(...) __VA_ARGS__
#define STRATA_USER_CALL_(visit, context, id, ...) \
	STRATA_USER_CALL_SHAPE(visit, context, id, __VA_ARGS__)
#define STRATA_USER_CALL_SHAPE(visit, context, id, shape, ...) \
	visit##shape(context, id, __VA_ARGS__)

#define STRATA_USER_FOREACH_33(v, c, h, ...)
#define STRATA_USER_FOREACH_0(v, c, h, ...)
#define STRATA_USER_FOREACH_1(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_1, f) STRATA_USER_FOREACH_0(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_2(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_2, f) STRATA_USER_FOREACH_1(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_3(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_3, f) STRATA_USER_FOREACH_2(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_4(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_4, f) STRATA_USER_FOREACH_3(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_5(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_5, f) STRATA_USER_FOREACH_4(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_6(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_6, f) STRATA_USER_FOREACH_5(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_7(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_7, f) STRATA_USER_FOREACH_6(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_8(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_8, f) STRATA_USER_FOREACH_7(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_9(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_9, f) STRATA_USER_FOREACH_8(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_10(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_10, f) STRATA_USER_FOREACH_9(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_11(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_11, f) STRATA_USER_FOREACH_10(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_12(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_12, f) STRATA_USER_FOREACH_11(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_13(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_13, f) STRATA_USER_FOREACH_12(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_14(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_14, f) STRATA_USER_FOREACH_13(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_15(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_15, f) STRATA_USER_FOREACH_14(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_16(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_16, f) STRATA_USER_FOREACH_15(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_17(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_17, f) STRATA_USER_FOREACH_16(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_18(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_18, f) STRATA_USER_FOREACH_17(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_19(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_19, f) STRATA_USER_FOREACH_18(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_20(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_20, f) STRATA_USER_FOREACH_19(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_21(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_21, f) STRATA_USER_FOREACH_20(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_22(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_22, f) STRATA_USER_FOREACH_21(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_23(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_23, f) STRATA_USER_FOREACH_22(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_24(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_24, f) STRATA_USER_FOREACH_23(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_25(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_25, f) STRATA_USER_FOREACH_24(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_26(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_26, f) STRATA_USER_FOREACH_25(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_27(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_27, f) STRATA_USER_FOREACH_26(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_28(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_28, f) STRATA_USER_FOREACH_27(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_29(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_29, f) STRATA_USER_FOREACH_28(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_30(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_30, f) STRATA_USER_FOREACH_29(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_31(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_31, f) STRATA_USER_FOREACH_30(v, c, h, __VA_ARGS__)
#define STRATA_USER_FOREACH_32(v, c, h, f, ...) \
	STRATA_USER_CALL(v, c, _of_32, f) STRATA_USER_FOREACH_31(v, c, h, __VA_ARGS__)

#endif /* STRATA_USER_FOREACH_H */
