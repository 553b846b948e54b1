/* SPDX-License-Identifier: MIT */
/*
 * values.h - every kind of field with extreme values, for values.c and values.cc. A comment "//=" holds what
 * babeltrace2 shows of the event at this place: the test compares them line by line, in this order.
 */
#include <strata/tracepoint.h>

#include <float.h>
#include <limits.h>
#include <math.h>

#include "count.h"

STRATA_ENUM(colour, strata_label(RED, 0), strata_label_range(WARM, 1, 5), strata_label_auto(LAST),
	    strata_label(NEGATIVE, -7));
STRATA_ENUM(distance, strata_label_range(NEAR, INT64_MIN, 0), strata_label(FAR, INT64_MAX));
/* Labels that a field's type has no values for, and such that are above those of an int64_t. */
STRATA_ENUM(mask, strata_label(NONE, 0), strata_label(ALL, 0xffffffffu),
	    strata_label(MINUS_ONE, -1), strata_label(TOP, UINT64_MAX),
	    strata_label_range(SMALL, 1, 1000));
enum state {
	IDLE,
	BUSY = 4000000
};
STRATA_CLASS(pair, (int left, const char *right), strata_int(left, left),
	     strata_string(right, right));
STRATA_EVENT(values, first_pair, INFO, pair);
STRATA_EVENT(values, second_pair, DEBUG_LINE, pair);

#define VALUES_EVENTS 26

static void values_integers(void)
{
	//= values:none: { }
	STRATA_TRACE(values, none, EMERG);
	//= values:least: { i8 = -128, u8 = 0, i16 = -32768, u16 = 0, i32 = -2147483648, u32 = 0, i64 = -9223372036854775808, u64 = 0 }
	STRATA_TRACE(values, least, ALERT, strata_int(i8, (int8_t)INT8_MIN),
		     strata_int(u8, (uint8_t)0), strata_int(i16, (int16_t)INT16_MIN),
		     strata_int(u16, (uint16_t)0), strata_int(i32, INT32_MIN), strata_int(u32, 0u),
		     strata_int(i64, INT64_MIN), strata_int(u64, UINT64_C(0)));
	//= values:most: { i8 = 127, u8 = 255, i16 = 32767, u16 = 65535, i32 = 2147483647, u32 = 4294967295, i64 = 9223372036854775807, u64 = 18446744073709551615 }
	STRATA_TRACE(values, most, CRIT, strata_int(i8, (int8_t)INT8_MAX),
		     strata_int(u8, (uint8_t)UINT8_MAX), strata_int(i16, (int16_t)INT16_MAX),
		     strata_int(u16, (uint16_t)UINT16_MAX), strata_int(i32, INT32_MAX),
		     strata_int(u32, UINT32_MAX), strata_int(i64, INT64_MAX),
		     strata_int(u64, UINT64_MAX));
	//= values:bases: { hex = 0xDEADBEEF, oct = 0755, bin = 0b00000101, hex64 = 0xFFFFFFFFFFFFFFFF, hex8 = 0x0, negative = 0xFF }
	STRATA_TRACE(values, bases, ERR, strata_hex(hex, 0xdeadbeefu),
		     strata_oct(oct, (uint16_t)0755), strata_bin(bin, (uint8_t)5),
		     strata_hex(hex64, UINT64_MAX), strata_hex(hex8, (uint8_t)0),
		     strata_hex(negative, (int8_t)-1));
	//= values:network: { port = 8080, address = 0x7F000001, large = 1311768467463790320 }
	STRATA_TRACE(values, network, WARNING, strata_net(port, __builtin_bswap16(8080)),
		     strata_net_hex(address, __builtin_bswap32(0x7f000001u)),
		     strata_net(large, __builtin_bswap64(UINT64_C(0x123456789abcdef0))));
	//= values:truth: { yes = 1, no = 0, much = 1 }
	STRATA_TRACE(values, truth, NOTICE, strata_bool(yes, 1 == 1), strata_bool(no, 0),
		     strata_bool(much, 256));
	//= values:address: { null = 0x0, top = 0xFFFFFFFFFFFFFFFF }
	STRATA_TRACE(values, address, INFO, strata_pointer(null, (void *)0),
		     strata_pointer(top, (void *)UINTPTR_MAX));
}

static void values_floats(void)
{
	const double zero = 0.0;

	//= values:floats: { quarter = 0.25, least = -3.40282e+38, tiny = 1.4013e-45 }
	STRATA_TRACE(values, floats, INFO, strata_float(quarter, 0.25f),
		     strata_float(least, -FLT_MAX), strata_float(tiny, FLT_TRUE_MIN));
	//= values:doubles: { most = 1.79769e+308, tiny = 4.94066e-324, minus_zero = -0, infinite = inf, third = 0.333333 }
	STRATA_TRACE(values, doubles, INFO, strata_float(most, DBL_MAX),
		     strata_float(tiny, DBL_TRUE_MIN), strata_float(minus_zero, -zero),
		     strata_float(infinite, HUGE_VAL), strata_float(third, 1.0 / 3));
}

static void values_enumerations(void)
{
	const enum state busy = BUSY;

	//= values:labels: { zero = ( "RED" : container = 0 ), low = ( "WARM" : container = 1 ), high = ( "WARM" : container = 5 ), next = ( "LAST" : container = 6 ) }
	STRATA_TRACE(values, labels, INFO, strata_enum(zero, colour, 0),
		     strata_enum(low, colour, 1), strata_enum(high, colour, 5),
		     strata_enum(next, colour, 6));
	//= values:more_labels: { negative = ( "NEGATIVE" : container = -7 ), far = ( "FAR" : container = 9223372036854775807 ), none = ( <unknown> : container = 99 ), state = 4000000 }
	STRATA_TRACE(values, more_labels, INFO, strata_enum(negative, colour, -7),
		     strata_enum(far, distance, INT64_MAX), strata_enum(none, colour, 99),
		     strata_int(state, busy));
	//= values:masks: { byte = ( "SMALL" : container = 255 ), word = ( "ALL" : container = 4294967295 ), signed = ( "MINUS_ONE", "TOP" : container = -1 ), none = ( "NONE" : container = 0 ) }
	STRATA_TRACE(values, masks, INFO, strata_enum(byte, mask, (uint8_t)255),
		     strata_enum(word, mask, UINT32_MAX), strata_enum(signed, mask, -1),
		     strata_enum(none, mask, (uint64_t)0));
}

static void values_text(void)
{
	const char *null = NULL, *quotes = "\"quoted\" \\ and\ttab, {braces}";
	const char secret[8] = { 'a', 'b', 0, 's', 'e', 'c', 'r', 't' };
	static char longest[5001];

	//= values:strings: { empty = "", null = "(null)", quotes = "\"quoted\" \\ and\ttab, {braces}", high = "\xC3\xA9\xFF" }
	STRATA_TRACE(values, strings, INFO, strata_string(empty, ""), strata_string(null, null),
		     strata_string(quotes, quotes), strata_string(high, "\xc3\xa9\xff"));
	//= values:text: { hidden = "ab", full = "xyz", null = "" }
	STRATA_TRACE(values, text, INFO, strata_text(hidden, secret, 8),
		     strata_text(full, "xyz", 3), strata_text(null, null, 4));
	//= values:text_sequence: { _part_length = 2, part = "ab", _none_length = 0, none = "" }
	STRATA_TRACE(values, text_sequence, INFO, strata_text_sequence(part, secret, 2),
		     strata_text_sequence(none, null, 5));
	memset(longest, 'x', 5000);
	//= values:longest: { text = "x*5000" }
	STRATA_TRACE(values, longest, INFO, strata_string(text, longest));
}

static void values_arrays(void)
{
	const int32_t numbers[3] = { INT32_MIN, 0, INT32_MAX };
	const uint8_t bytes[4] = { 0, 1, 254, 255 };
	const double reals[2] = { -0.5, DBL_MAX };
	const float *null = NULL;
	static uint64_t many[10000];
	unsigned i;

	//= values:arrays: { numbers = [ [0] = -2147483648, [1] = 0, [2] = 2147483647 ], hex = [ [0] = 0x0, [1] = 0x1, [2] = 0xFE, [3] = 0xFF ], reals = [ [0] = -0.5, [1] = 1.79769e+308 ], null = [ [0] = 0, [1] = 0 ] }
	STRATA_TRACE(values, arrays, INFO, strata_array(numbers, numbers, 3),
		     strata_array_hex(hex, bytes, 4), strata_array(reals, reals, 2),
		     strata_array(null, null, 2));
	//= values:sequences: { _numbers_length = 2, numbers = [ [0] = -2147483648, [1] = 0 ], _empty_length = 0, empty = [ ], _null_length = 0, null = [ ], _blob_length = 4, blob = [ [0] = 0x0, [1] = 0x1, [2] = 0xFE, [3] = 0xFF ] }
	STRATA_TRACE(values, sequences, INFO, strata_sequence(numbers, numbers, 2),
		     strata_sequence(empty, bytes, 0), strata_sequence(null, null, 7),
		     strata_blob(blob, bytes, 4));
	for (i = 0; i < 10000; i++)
		many[i] = i;
	//= values:many: { _numbers_length = 10000, numbers = [0..9999] }
	STRATA_TRACE(values, many, INFO, strata_sequence(numbers, many, 10000));
}

static void values_others(void)
{
	int calls = 0;

	//= values:first_pair: { left = -1, right = "one" }
	STRATA_TRACE_EVENT(values, first_pair, -1, "one");
	//= values:second_pair: { left = 2, right = "two" }
	STRATA_TRACE_EVENT(values, second_pair, 2, "two");
	//= values:once: { calls = 1 }
	STRATA_TRACE(values, once, INFO, strata_int(calls, ++calls));
	//= values:never: { calls = 1 }
	STRATA_TRACE(values, never, INFO, strata_int(calls, calls));
	//= strata_tracef:event: { msg = "5 of strings, 0.50" }
	strata_tracef("%d of %s, %.2f", 5, "strings", 0.5);
	errno = ENOENT;
	//= strata_tracelog:WARNING: { msg = "No such file or directory" }
	strata_tracelog(WARNING, "%m");
	//= values:wide: { a0 = 0, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, a8 = 8, a9 = 9, b0 = 10, b1 = 11, b2 = 12, b3 = 13, b4 = 14, b5 = 15, b6 = 16, b7 = 17, b8 = 18, b9 = 19, c0 = 20, c1 = 21, c2 = 22, c3 = 23, c4 = 24, c5 = 25, c6 = 26, c7 = 27, c8 = 28, c9 = 29, d0 = 30, d1 = "end" }
	STRATA_TRACE(values, wide, DEBUG, strata_int(a0, 0), strata_int(a1, 1), strata_int(a2, 2),
		     strata_int(a3, 3), strata_int(a4, 4), strata_int(a5, 5), strata_int(a6, 6),
		     strata_int(a7, 7), strata_int(a8, 8), strata_int(a9, 9), strata_int(b0, 10),
		     strata_int(b1, 11), strata_int(b2, 12), strata_int(b3, 13), strata_int(b4, 14),
		     strata_int(b5, 15), strata_int(b6, 16), strata_int(b7, 17), strata_int(b8, 18),
		     strata_int(b9, 19), strata_int(c0, 20), strata_int(c1, 21), strata_int(c2, 22),
		     strata_int(c3, 23), strata_int(c4, 24), strata_int(c5, 25), strata_int(c6, 26),
		     strata_int(c7, 27), strata_int(c8, 28), strata_int(c9, 29), strata_int(d0, 30),
		     strata_string(d1, "end"));
}

static int values_all(void)
{
	values_integers();
	values_floats();
	values_enumerations();
	values_text();
	values_arrays();
	values_others();
	test_count("values", VALUES_EVENTS);
	return 0;
}
