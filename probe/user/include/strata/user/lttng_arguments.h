/* SPDX-License-Identifier: MIT */
/*
 * lttng_arguments.h - from the pairs of TP_ARGS(type, name, type, name, ...) to parameter lists.
 *
 *   STRATA_LTTNG_PARAMETERS(int, a, char, b)       int a, char b       void where there are none
 *   STRATA_LTTNG_MORE_PARAMETERS(int, a, char, b)  , int a, char b
 *   STRATA_LTTNG_MORE_NAMES(int, a, char, b)       , a, b
 *
 * No argument at all counts as one empty one (as it must in -std=c99), and so does "void".
 */
#ifndef STRATA_USER_LTTNG_ARGUMENTS_H
#define STRATA_USER_LTTNG_ARGUMENTS_H

#pragma GCC system_header

#define STRATA_LTTNG_PASTE_(a, b) a##b
#define STRATA_LTTNG_PASTE(a, b)  STRATA_LTTNG_PASTE_(a, b)
#define STRATA_LTTNG_TEXT_(...)	  #__VA_ARGS__
#define STRATA_LTTNG_TEXT(...)	  STRATA_LTTNG_TEXT_(__VA_ARGS__)
#define STRATA_LTTNG_LIST(...)	  __VA_ARGS__

#define STRATA_LTTNG_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, \
			    a17, a18, a19, a20, n, ...)                                            \
	n
#define STRATA_LTTNG_COUNT(...)                                                                   \
	STRATA_LTTNG_COUNT_(__VA_ARGS__, 20, odd, 18, odd, 16, odd, 14, odd, 12, odd, 10, odd, 8, \
			    odd, 6, odd, 4, odd, 2, 0, 0)

#define STRATA_LTTNG_PARAMETERS(...) \
	STRATA_LTTNG_PASTE(STRATA_LTTNG_P, STRATA_LTTNG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define STRATA_LTTNG_P0(none)	    void
#define STRATA_LTTNG_P2(t, n)	    t n
#define STRATA_LTTNG_P4(t, n, ...)  t n, STRATA_LTTNG_P2(__VA_ARGS__)
#define STRATA_LTTNG_P6(t, n, ...)  t n, STRATA_LTTNG_P4(__VA_ARGS__)
#define STRATA_LTTNG_P8(t, n, ...)  t n, STRATA_LTTNG_P6(__VA_ARGS__)
#define STRATA_LTTNG_P10(t, n, ...) t n, STRATA_LTTNG_P8(__VA_ARGS__)
#define STRATA_LTTNG_P12(t, n, ...) t n, STRATA_LTTNG_P10(__VA_ARGS__)
#define STRATA_LTTNG_P14(t, n, ...) t n, STRATA_LTTNG_P12(__VA_ARGS__)
#define STRATA_LTTNG_P16(t, n, ...) t n, STRATA_LTTNG_P14(__VA_ARGS__)
#define STRATA_LTTNG_P18(t, n, ...) t n, STRATA_LTTNG_P16(__VA_ARGS__)
#define STRATA_LTTNG_P20(t, n, ...) t n, STRATA_LTTNG_P18(__VA_ARGS__)

#define STRATA_LTTNG_MORE_PARAMETERS(...) \
	STRATA_LTTNG_PASTE(STRATA_LTTNG_M, STRATA_LTTNG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define STRATA_LTTNG_M0(none)
#define STRATA_LTTNG_M2(...)  , STRATA_LTTNG_P2(__VA_ARGS__)
#define STRATA_LTTNG_M4(...)  , STRATA_LTTNG_P4(__VA_ARGS__)
#define STRATA_LTTNG_M6(...)  , STRATA_LTTNG_P6(__VA_ARGS__)
#define STRATA_LTTNG_M8(...)  , STRATA_LTTNG_P8(__VA_ARGS__)
#define STRATA_LTTNG_M10(...) , STRATA_LTTNG_P10(__VA_ARGS__)
#define STRATA_LTTNG_M12(...) , STRATA_LTTNG_P12(__VA_ARGS__)
#define STRATA_LTTNG_M14(...) , STRATA_LTTNG_P14(__VA_ARGS__)
#define STRATA_LTTNG_M16(...) , STRATA_LTTNG_P16(__VA_ARGS__)
#define STRATA_LTTNG_M18(...) , STRATA_LTTNG_P18(__VA_ARGS__)
#define STRATA_LTTNG_M20(...) , STRATA_LTTNG_P20(__VA_ARGS__)

#define STRATA_LTTNG_MORE_NAMES(...) \
	STRATA_LTTNG_PASTE(STRATA_LTTNG_N, STRATA_LTTNG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define STRATA_LTTNG_N0(none)
#define STRATA_LTTNG_N2(t, n)	    , n
#define STRATA_LTTNG_N4(t, n, ...)  , n STRATA_LTTNG_N2(__VA_ARGS__)
#define STRATA_LTTNG_N6(t, n, ...)  , n STRATA_LTTNG_N4(__VA_ARGS__)
#define STRATA_LTTNG_N8(t, n, ...)  , n STRATA_LTTNG_N6(__VA_ARGS__)
#define STRATA_LTTNG_N10(t, n, ...) , n STRATA_LTTNG_N8(__VA_ARGS__)
#define STRATA_LTTNG_N12(t, n, ...) , n STRATA_LTTNG_N10(__VA_ARGS__)
#define STRATA_LTTNG_N14(t, n, ...) , n STRATA_LTTNG_N12(__VA_ARGS__)
#define STRATA_LTTNG_N16(t, n, ...) , n STRATA_LTTNG_N14(__VA_ARGS__)
#define STRATA_LTTNG_N18(t, n, ...) , n STRATA_LTTNG_N16(__VA_ARGS__)
#define STRATA_LTTNG_N20(t, n, ...) , n STRATA_LTTNG_N18(__VA_ARGS__)

#endif /* STRATA_USER_LTTNG_ARGUMENTS_H */
