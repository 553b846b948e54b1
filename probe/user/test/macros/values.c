/* SPDX-License-Identifier: MIT */
/* values.c - every kind of field, at its limits, as a reader of the record sees it. C and C++. */
#include "capture.h"
#include "shared.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum season {
	SPRING,
	SUMMER
};
struct bits {
	unsigned int three : 3;
	int seventeen : 17;
	unsigned int whole;
};

static int calls;

static int count_call(int value)
{
	calls++;
	return value;
}

/* Names that are macros too: a field, an event and a level are not expanded. */
#undef linux
#define DEBUG  please, do not
#define linux  please, do not
#define volume please, do not
#define scalar please, do not
#define array  please, do not
#define text   please, do not

static void event_with_no_fields_records_nothing_but_itself(void)
{
	for (int round = 0; round < 3; round++) {
		capture_switch("app", "none", round == 1);
		STRATA_TRACE(app, none, EMERG);
	}
	expect("app:none[0]\n");
}

static void integers_at_their_limits_keep_width_and_sign(void)
{
	capture_switch("app", "integers", 1);
	for (int round = 0; round < 2; round++) {
		const bool high = round;

		STRATA_TRACE(app, integers, ALERT,
			     strata_int(i8, (int8_t)(high ? INT8_MAX : INT8_MIN)),
			     strata_int(u8, (uint8_t)(high ? UINT8_MAX : 0)),
			     strata_int(i16, (int16_t)(high ? INT16_MAX : INT16_MIN)),
			     strata_int(u16, (uint16_t)(high ? UINT16_MAX : 0)),
			     strata_int(i32, high ? INT32_MAX : INT32_MIN),
			     strata_int(u32, high ? UINT32_MAX : 0u),
			     strata_int(i64, high ? INT64_MAX : INT64_MIN),
			     strata_int(u64, high ? UINT64_MAX : UINT64_C(0)),
			     strata_int(truth, high), strata_int(letter, (char)(high ? 'z' : 'a')));
	}
	expect("app:integers[1] i8=-128 u8=0 i16=-32768 u16=0 i32=-2147483648 u32=0 "
	       "i64=-9223372036854775808 u64=0 truth=0 letter=97\n"
	       "app:integers[1] i8=127 u8=255 i16=32767 u16=65535 i32=2147483647 u32=4294967295 "
	       "i64=9223372036854775807 u64=18446744073709551615 truth=1 letter=122\n");
	check(capture_find("app", "integers")->fields[0].bytes == 1);
	check(capture_find("app", "integers")->fields[9].bytes == 1);
	check(!capture_find("app", "integers")->fields[9].name[6]);
}

static void integers_to_other_bases_are_the_same_bytes(void)
{
	const uint8_t network[4] = { 0x12, 0x34, 0x56, 0x78 };
	uint16_t net16;
	uint32_t net32;

	memcpy(&net16, network, 2);
	memcpy(&net32, network, 4);
	capture_switch("app", "bases", 1);
	STRATA_TRACE(app, bases, CRIT, strata_hex(hex, 0xdeadbeefu),
		     strata_oct(oct, (uint16_t)0755), strata_bin(bin, (uint8_t)5),
		     strata_net(port, net16), strata_net_hex(address, net32));
	expect("app:bases[2] hex=0xdeadbeef oct=0755 bin=0b00000101 port=4660 address=0x12345678\n");
}

static void values_of_other_types_are_numbers(void)
{
	struct bits bits = { 5, -3, 0 };
	enum season season = SUMMER;
	const volatile short quiet = -2;
	int numbers[2] = { 7, 8 };
	int *const pointer = numbers;

	capture_switch("app", "types", 1);
	STRATA_TRACE(app, types, ERR, strata_int(three, bits.three),
		     strata_int(seventeen, bits.seventeen), strata_int(season, season),
		     strata_int(quiet, quiet), strata_int(second, numbers[1]),
		     strata_bool(yes, 256), strata_bool(no, 0), strata_bool(truth, true),
		     strata_pointer(null, (void *)0), strata_int(comma, ((void)0, pointer[0])),
		     strata_int(condition, quiet < 0 ? 1 : 2), strata_pointer(same, numbers));
	{
		char line[400];

		snprintf(
			line, sizeof(line),
			"app:types[3] three=5 seventeen=-3 season=1 quiet=-2 second=8 yes=true no=false "
			"truth=true null=0x0 comma=7 condition=1 same=0x%llx\n",
			(unsigned long long)(uintptr_t)numbers);
		expect(line);
	}
}

static void floats_keep_their_width(void)
{
	const float single = 0.25f;

	capture_switch("app", "floats", 1);
	STRATA_TRACE(app, floats, WARNING, strata_float(single, single),
		     strata_float(real, DBL_MAX), strata_float(sum, single + 1));
	expect("app:floats[4] single=0.25 real=1.79769e+308 sum=1.25\n");
	check(capture_find("app", "floats")->fields[0].bytes == 4);
	check(capture_find("app", "floats")->fields[1].bytes == 8);
}

static void strings_end_with_one_nul(void)
{
	char buffer[8] = "buffer";
	const char *null = NULL;

	capture_switch("app", "strings", 1);
	STRATA_TRACE(app, strings, NOTICE, strata_string(literal, "a, b"),
		     strata_string(buffer, buffer), strata_string(null, null),
		     strata_string(empty, ""), strata_int(after, 1));
	expect("app:strings[5] literal=\"a, b\" buffer=\"buffer\" null=\"(null)\" empty=\"\" after=1\n");
}

static void text_of_constant_size_hides_what_is_behind_a_nul(void)
{
	const char secret[8] = { 'a', 'b', 0, 's', 'e', 'c', 'r', 't' };
	const unsigned char full[3] = { 'x', 'y', 'z' };
	const char *null = NULL;

	capture_switch("app", "text", 1);
	for (int i = 0; i < 2; i++) {
		if (i)
			STRATA_TRACE(app, text, INFO, strata_text(secret, secret, 8),
				     strata_text(full, full, 3), strata_text(null, null, 4));
		else
			STRATA_TRACE(app, text, INFO, strata_text(secret, secret, sizeof(secret)),
				     strata_text(full, full, 3), strata_text(null, null, 4),
				     strata_string(way, "parts"));
	}
	expect("app:text[6] secret='ab' full='xyz' null='' way=\"parts\"\n"
	       "app:text[6] secret='ab' full='xyz' null=''\n");
}

static void arrays_and_sequences_have_their_pointers_element_type(void)
{
	const int8_t bytes[3] = { -1, 0, 1 };
	uint64_t words[2] = { 1, UINT64_MAX };
	const double reals[2] = { 0.5, -2 };
	const float *null = NULL;
	volatile uint16_t quiet[2] = { 10, 11 };

	capture_switch("app", "arrays", 1);
	STRATA_TRACE(app, arrays, DEBUG_SYSTEM, strata_array(bytes, bytes, 3),
		     strata_array_hex(words, words, 2), strata_array(reals, &reals[0], 2),
		     strata_array(null, null, 2), strata_array(quiet, quiet, 2));
	expect("app:arrays[7] bytes=[-1,0,1] words=[0x1,0xffffffffffffffff] reals=[0.5,-2] null=[0,0] "
	       "quiet=[10,11]\n");

	capture_switch("app", "sequences", 1);
	STRATA_TRACE(app, sequences, DEBUG_PROGRAM, strata_sequence(bytes, bytes, 2),
		     strata_sequence_hex(words, words + 1, (char)1),
		     strata_sequence(reals, reals, 2u), strata_sequence(null, null, 2),
		     strata_sequence(none, quiet, 0), strata_text_sequence(letters, "letters", 3),
		     strata_blob(raw, (void *)words, 2), strata_blob(nothing, null, 5),
		     strata_int(after, 'x'));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RAW "[0x1,0x0]"
#else
#define RAW "[0x0,0x0]"
#endif
	expect("app:sequences[8] bytes=[-1,0] words=[0xffffffffffffffff] reals=[0.5,-2] null=[] none=[] "
	       "letters='let' raw=" RAW " nothing=[] after=120\n");
}

static void enumerations_have_labels_and_ranges(void)
{
	capture_switch("app", "colours", 1);
	for (int i = -1; i < 9; i += 2)
		STRATA_TRACE(app, colours, DEBUG_PROCESS, strata_enum(c, colour, (short)i));
	STRATA_TRACE(app, colours, DEBUG_PROCESS, strata_enum(c, colour, (uint8_t)6));
	expect("app:colours[9] c=colour:BLUE(-1)\napp:colours[9] c=colour:WARM(1)\n"
	       "app:colours[9] c=colour:WARM(3)\napp:colours[9] c=colour:WARM(5)\n"
	       "app:colours[9] c=colour:LAST(7)\napp:colours[9] c=colour:NEXT(6)\n");
}

static void expressions_are_evaluated_once_and_only_when_on(void)
{
	int i = 0;

	for (int round = 0; round < 4; round++) {
		capture_switch("app", "once", round & 1);
		STRATA_TRACE(app, once, DEBUG_MODULE, strata_int(i, i++),
			     strata_int(call, count_call(5)),
			     strata_string(s, (count_call(0), "s")),
			     strata_sequence(q, (count_call(0), "q"), count_call(1)));
	}
	check(i == 2 && calls == 8);
	expect("app:once[10] i=0 call=5 s=\"s\" q=[113]\napp:once[10] i=1 call=5 s=\"s\" q=[113]\n");
	capture_switch("app", "once", 0);
}

static void names_that_are_macros_are_not_expanded(void)
{
	capture_switch("linux", "volume", 1);
	STRATA_TRACE(linux, volume, DEBUG, strata_int(linux, 1), strata_int(DEBUG, 2),
		     strata_string(volume, "3"), strata_int(int, 4), strata_int(errno, 5));
	expect("linux:volume[14] linux=1 DEBUG=2 volume=\"3\" int=4 errno=5\n");
}

#define FOUR(a, b, c, d) \
	strata_int(a, 1), strata_int(b, (uint8_t)2), strata_int(c, (int64_t)3), strata_hex(d, 4)

static int spanned(int way)
{
	STRATA_SPAN(app, spanned, INFO, strata_int(way, way));
	if (way == 1)
		return 1; /* early */
	for (int i = 0; i < 2; i++) {
		STRATA_SPAN(app, inner, NOTICE);
		if (i || way == 2)
			break;
	}
	if (way == 3) {
		STRATA_SPAN(app, spanned, INFO, strata_int(way, -way));
		goto out;
	}
out:
	return 0;
}

static void span_ends_where_its_block_is_left(void)
{
	for (int round = 0; round < 3; round++) {
		for (int half = 0; half < 2; half++) {
			capture_switch("app", half ? "spanned_end" : "spanned_begin", round == 1);
			capture_switch("app", half ? "inner_end" : "inner_begin", round == 1);
		}
		check(spanned(1));
		expect(round == 1 ? "app:spanned_begin[6] way=1\napp:spanned_end[6]\n" : "");
		spanned(2);
		expect(round == 1 ?
			       "app:spanned_begin[6] way=2\napp:inner_begin[5]\napp:inner_end[5]\n"
			       "app:spanned_end[6]\n" :
			       "");
		spanned(3);
		expect(round == 1 ?
			       "app:spanned_begin[6] way=3\napp:inner_begin[5]\napp:inner_end[5]\n"
			       "app:inner_begin[5]\napp:inner_end[5]\n"
			       "app:spanned_begin[6] way=-3\napp:spanned_end[6]\napp:spanned_end[6]\n" :
			       "");
	}
}

static void span_switched_in_between_has_no_end_without_begin(void)
{
	{
		STRATA_SPAN(app, half, INFO);
		capture_switch("app", "half_begin", 1);
		capture_switch("app", "half_end", 1);
	}
	expect("");
	for (int round = 0; round < 2; round++) {
		STRATA_SPAN(app, linux, INFO, strata_int(volume, round));
		capture_switch("app", "linux_begin", !round);
		capture_switch("app", "linux_end", !round);
	}
	/* The second one ended when it was off. */
	expect("app:linux_begin[6] volume=1\n");
}

static void thirty_two_fields_are_possible(void)
{
	capture_switch("app", "wide", 1);
	STRATA_TRACE(app, wide, DEBUG_UNIT, FOUR(a0, a1, a2, a3), FOUR(a4, a5, a6, a7),
		     FOUR(b0, b1, b2, b3), FOUR(b4, b5, b6, b7), FOUR(c0, c1, c2, c3),
		     FOUR(c4, c5, c6, c7), FOUR(d0, d1, d2, d3), FOUR(d4, d5, d6, d7));
	expect("app:wide[11] a0=1 a1=2 a2=3 a3=0x4 a4=1 a5=2 a6=3 a7=0x4 b0=1 b1=2 b2=3 b3=0x4 "
	       "b4=1 b5=2 b6=3 b7=0x4 c0=1 c1=2 c2=3 c3=0x4 c4=1 c5=2 c6=3 c7=0x4 d0=1 d1=2 d2=3 d3=0x4 "
	       "d4=1 d5=2 d6=3 d7=0x4\n");
}

static void statement_fits_wherever_one_does(void)
{
	capture_switch("app", "left", 1);
	capture_switch("app", "right", 1);
	for (int i = 0; i < 2; i++)
		if (i)
			STRATA_TRACE(app, left, INFO, strata_int(i, i));
		else
			STRATA_TRACE(app, right, INFO, strata_int(i, i));
	switch (calls) {
	case 0:
		STRATA_TRACE(app, left, INFO);
		break;
	default:
		/* clang-format off */
		STRATA_TRACE(app, left, INFO); STRATA_TRACE(app, right, INFO); STRATA_TRACE(app, left, INFO);
		/* clang-format on */
	}
	expect("app:right[6] i=0\napp:left[6] i=1\napp:left[6]\napp:right[6]\napp:left[6]\n");
}

static void events_of_a_class_share_its_fields(void)
{
	const uint16_t ports[] = { 80, 443 };

	check(!STRATA_ENABLED(app, sent) && !STRATA_ENABLED(app, received));
	STRATA_TRACE_EVENT(app, sent, count_call(3), "never", ports, 2, 1);
	check(calls == 8);
	capture_switch("app", "sent", 1);
	check(STRATA_ENABLED(app, sent) && !STRATA_ENABLED(app, received));
	if (STRATA_ENABLED(app, sent))
		STRATA_TRACE_EVENT(app, sent, count_call(3), "/etc", ports, 2, 1.5f);
	STRATA_TRACE_EVENT(app, received, count_call(3), "never", ports, 2, 1);
	check(calls == 9);
	capture_switch("app", "sent", 0);
	capture_switch("app", "received", 1);
	STRATA_TRACE_EVENT(app, received, -1, NULL, ports, 0, 0);
	expect("app:sent[5] fd=3 path=\"/etc\" ports=[80,443] ratio=1.5 first=[0x50,0x1bb] some=true "
	       "where=0x0 short_path='/et' colour=colour:WARM(3) raw=[0x2f,0x65] double_n=4\n"
	       "app:received[13] fd=-1 path=\"(null)\" ports=[] ratio=0 first=[0x50,0x1bb] some=false "
	       "where=0x0 short_path='' colour=colour:BLUE(-1) raw=[] double_n=0\n");
	check(capture_find("app", "received")->nr_fields == 11);
	check(capture_find("app", "sent")->nr_fields == 11);
	check(capture_find("app", "sent")->fields[8].bytes == 1);
	capture_switch("app", "received", 0);
}

static void header_of_two_units_has_a_site_in_each(void)
{
	capture_switch("app", "in_header", 1);
	in_header(1);
	other_unit(2);
	expect("app:in_header[6] n=1\napp:in_header[6] n=2\n");
	check(!other_unit_enabled());
	check(capture_switch("app", "sent", 1) >= 3);
	check(other_unit_enabled());
	other_unit(3);
	expect("app:in_header[6] n=3\napp:sent[5] fd=3 path=\"other\" ports=[1] ratio=0.5 "
	       "first=[0x1,0x2] some=true where=0x0 short_path='oth' colour=colour:WARM(3) "
	       "raw=[0x6f,0x74] double_n=2\n");
}

static void where_it_stands_is_known(void)
{
	const int line = __LINE__ + 2;

	STRATA_TRACE(app, here, INFO, strata_int(a, 1), strata_string(b, ""));
	check(capture_find("app", "here")->line == (uint32_t)line);
	check(strstr(capture_find("app", "here")->file, "values.c") != NULL);
	check(capture_find("app", "here")->nr_fields == 2);
	check(!strcmp(capture_find("app", "here")->fields[1].name, "b"));
}

int main(void)
{
	event_with_no_fields_records_nothing_but_itself();
	integers_at_their_limits_keep_width_and_sign();
	integers_to_other_bases_are_the_same_bytes();
	values_of_other_types_are_numbers();
	floats_keep_their_width();
	strings_end_with_one_nul();
	text_of_constant_size_hides_what_is_behind_a_nul();
	arrays_and_sequences_have_their_pointers_element_type();
	enumerations_have_labels_and_ranges();
	expressions_are_evaluated_once_and_only_when_on();
	names_that_are_macros_are_not_expanded();
	span_ends_where_its_block_is_left();
	span_switched_in_between_has_no_end_without_begin();
	thirty_two_fields_are_possible();
	statement_fits_wherever_one_does();
	events_of_a_class_share_its_fields();
	header_of_two_units_has_a_site_in_each();
	where_it_stands_is_known();
	puts("values: passed");
	return 0;
}
