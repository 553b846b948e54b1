/* SPDX-License-Identifier: MIT */
/* unique.h - asserts that no two fields of an event have the same name. */
#ifndef STRATA_USER_UNIQUE_H
#define STRATA_USER_UNIQUE_H

#include <strata/user/foreach.h>
#include <strata/user/types.h>

/* Expands to the name of a field, as a string; what is no field has the name "". */
#define STRATA_USER_NAME_OF(field) \
	STRATA_USER_PASTE(STRATA_USER_NAME_OF_, STRATA_USER_IN_PARENS(field))(field)
#define STRATA_USER_NAME_OF_0(field) ""
#define STRATA_USER_NAME_OF_1(field) STRATA_USER_SECOND field

/* Asserts it for each field of a list and those after it. */
#define STRATA_USER_UNIQUE_ASSERT(...) \
	STRATA_USER_PASTE(STRATA_USER_UNIQUE_, STRATA_USER_COUNT(__VA_ARGS__))(__VA_ARGS__, ~)
#define STRATA_USER_UNIQUE_IF(name, others)                                        \
	STRATA_USER_ASSERT_FOLDED((sizeof(name) == 1 || (1 others)),               \
				  "strata: field " name ": the event has another " \
				  "field of this name");

#define STRATA_USER_UNIQUE_33(h, ...)
#define STRATA_USER_UNIQUE_0(h, ...)
#define STRATA_USER_UNIQUE_1(h, ...)
#define STRATA_USER_UNIQUE_2(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_1(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_1(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_3(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_2(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_2(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_4(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_3(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_3(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_5(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_4(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_4(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_6(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_5(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_5(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_7(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_6(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_6(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_8(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_7(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_7(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_9(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_8(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_8(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_10(h, f, ...)                                                 \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                    \
			      STRATA_USER_OTHERS_9(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_9(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_11(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_10(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_10(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_12(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_11(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_11(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_13(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_12(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_12(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_14(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_13(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_13(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_15(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_14(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_14(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_16(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_15(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_15(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_17(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_16(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_16(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_18(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_17(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_17(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_19(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_18(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_18(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_20(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_19(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_19(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_21(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_20(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_20(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_22(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_21(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_21(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_23(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_22(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_22(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_24(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_23(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_23(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_25(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_24(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_24(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_26(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_25(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_25(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_27(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_26(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_26(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_28(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_27(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_27(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_29(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_28(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_28(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_30(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_29(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_29(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_31(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_30(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_30(h, __VA_ARGS__)
#define STRATA_USER_UNIQUE_32(h, f, ...)                                                  \
	STRATA_USER_UNIQUE_IF(STRATA_USER_NAME_OF(f),                                     \
			      STRATA_USER_OTHERS_31(STRATA_USER_NAME_OF(f), __VA_ARGS__)) \
	STRATA_USER_UNIQUE_31(h, __VA_ARGS__)

/* Expands to "&& the name is another one" for each field of a list. */
#define STRATA_USER_DIFFERS(name, f)	&&__builtin_strcmp(name, STRATA_USER_NAME_OF(f))
#define STRATA_USER_OTHERS_1(n, f, ...) STRATA_USER_DIFFERS(n, f)
#define STRATA_USER_OTHERS_2(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_1(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_3(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_2(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_4(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_3(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_5(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_4(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_6(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_5(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_7(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_6(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_8(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_7(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_9(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_8(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_10(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_9(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_11(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_10(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_12(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_11(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_13(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_12(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_14(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_13(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_15(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_14(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_16(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_15(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_17(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_16(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_18(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_17(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_19(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_18(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_20(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_19(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_21(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_20(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_22(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_21(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_23(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_22(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_24(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_23(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_25(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_24(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_26(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_25(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_27(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_26(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_28(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_27(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_29(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_28(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_30(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_29(n, __VA_ARGS__)
#define STRATA_USER_OTHERS_31(n, f, ...) \
	STRATA_USER_DIFFERS(n, f) STRATA_USER_OTHERS_30(n, __VA_ARGS__)

#endif /* STRATA_USER_UNIQUE_H */
