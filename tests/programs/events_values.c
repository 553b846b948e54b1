/* SPDX-License-Identifier: MIT */
/*
 * events_values.c - classes made at run time with every type and shape, extreme values, from values and from payloads. A
 * comment "//=" holds what babeltrace2 shows of the event at this place, in this order. C11 and C++14.
 *
 *   events_values [late]: registers all once more than it records
 */
#include <float.h>
#include <stdint.h>
#include <strata/events.h>

#include "count.h"

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(*(array))))

static uint64_t emitted;
static struct strata_provider *provider;

static struct strata_event *make(const char *name, uint32_t level,
				 const struct strata_event_field *fields, uint32_t nr)
{
	const struct strata_event_class made = STRATA_EVENT_CLASS(name, level, fields, nr);
	struct strata_event *event;
	char why[200] = "";

	if (strata_event_register(provider, &made, &event, why, sizeof(why))) {
		fprintf(stderr, "%s: %s\n", name, why);
		_exit(97);
	}
	return event;
}

static void record(struct strata_event *event, const union strata_value *values, uint32_t nr)
{
	test_must(!strata_event_record(event, values, nr));
	emitted += (uint64_t)strata_event_is_on(event);
}

static void record_payload(struct strata_event *event, const void *payload, uint32_t bytes)
{
	test_must(!strata_event_record_payload(event, payload, bytes));
	emitted += (uint64_t)strata_event_is_on(event);
}

/* What cannot be recorded is refused where somebody records the class. */
static void refused(struct strata_event *event, const void *payload, uint32_t bytes)
{
	test_must(strata_event_record_payload(event, payload, bytes) ==
		  (strata_event_is_on(event) ? -EINVAL : 0));
}

static void numbers(void)
{
	static const struct strata_event_field fields[] = {
		STRATA_FIELD("i8", STRATA_I8),	 STRATA_FIELD("u8", STRATA_U8),
		STRATA_FIELD("i16", STRATA_I16), STRATA_FIELD("u16", STRATA_U16),
		STRATA_FIELD("i32", STRATA_I32), STRATA_FIELD("u32", STRATA_U32),
		STRATA_FIELD("i64", STRATA_I64), STRATA_FIELD("u64", STRATA_U64),
	};
	static const struct strata_event_field bases[] = {
		{ "hex", NULL, 0, STRATA_U32, STRATA_SCALAR, 16, 0 },
		{ "oct", NULL, 0, STRATA_U16, STRATA_SCALAR, 8, 0 },
		{ "bin", NULL, 0, STRATA_U8, STRATA_SCALAR, 2, 0 },
		STRATA_FIELD_HEX("address", STRATA_U64),
	};
	static const struct strata_event_field word = STRATA_FIELD("number", STRATA_I64);
	static const struct strata_event_field mixed[] = {
		STRATA_FIELD("yes", STRATA_BOOL),  STRATA_FIELD("much", STRATA_BOOL),
		STRATA_FIELD("no", STRATA_BOOL),   STRATA_FIELD("quarter", STRATA_F32),
		STRATA_FIELD("third", STRATA_F64), STRATA_FIELD("last", STRATA_U8),
	};
	struct strata_event *all = make("all", STRATA_ALERT, fields, COUNT(fields));

	//= events:none: { }
	record(make("none", STRATA_EMERG, NULL, 0), NULL, 0);
	{
		const union strata_value values[] = {
			strata_value_int(INT8_MIN),  strata_value_uint(0),
			strata_value_int(INT16_MIN), strata_value_uint(0),
			strata_value_int(INT32_MIN), strata_value_uint(0),
			strata_value_int(INT64_MIN), strata_value_uint(0),
		};
		//= events:all: { i8 = -128, u8 = 0, i16 = -32768, u16 = 0, i32 = -2147483648, u32 = 0, i64 = -9223372036854775808, u64 = 0 }
		record(all, values, COUNT(values));
	}
	{
		const union strata_value values[] = {
			strata_value_int(INT8_MAX),  strata_value_uint(UINT8_MAX),
			strata_value_int(INT16_MAX), strata_value_uint(UINT16_MAX),
			strata_value_int(INT32_MAX), strata_value_uint(UINT32_MAX),
			strata_value_int(INT64_MAX), strata_value_uint(UINT64_MAX),
		};
		//= events:all: { i8 = 127, u8 = 255, i16 = 32767, u16 = 65535, i32 = 2147483647, u32 = 4294967295, i64 = 9223372036854775807, u64 = 18446744073709551615 }
		record(all, values, COUNT(values));
	}
	{
		/* Only the low bytes are taken. */
		const union strata_value values[] = {
			strata_value_uint(0x1ff), strata_value_uint(0x1ff), strata_value_int(-1),
			strata_value_int(-1),	  strata_value_int(-1),	    strata_value_int(-1),
			strata_value_int(-1),	  strata_value_int(-1),
		};
		//= events:all: { i8 = -1, u8 = 255, i16 = -1, u16 = 65535, i32 = -1, u32 = 4294967295, i64 = -1, u64 = 18446744073709551615 }
		record(all, values, COUNT(values));
	}
	{
		const union strata_value values[] = {
			strata_value_uint(0xdeadbeef),
			strata_value_uint(0755),
			strata_value_uint(5),
			strata_value_uint(UINT64_MAX),
		};
		//= events:bases: { hex = 0xDEADBEEF, oct = 0755, bin = 0b00000101, address = 0xFFFFFFFFFFFFFFFF }
		record(make("bases", STRATA_ERR, bases, COUNT(bases)), values, COUNT(values));
	}
	{
		const union strata_value value = strata_value_int(-42);
		//= events:word: { number = -42 }
		record(make("word", STRATA_CRIT, &word, 1), &value, 1);
	}
	{
		const union strata_value values[] = {
			strata_value_uint(1),	  strata_value_uint(256),     strata_value_uint(0),
			strata_value_float(0.25), strata_value_float(1. / 3), strata_value_uint(7),
		};
		//= events:mixed: { yes = 1, much = 1, no = 0, quarter = 0.25, third = 0.333333, last = 7 }
		record(make("mixed", STRATA_INFO, mixed, COUNT(mixed)), values, COUNT(values));
	}
}

static void labels(void)
{
	static const struct strata_event_label colours[] = { { "RED", 0, 0 },
							     { "WARM", 1, 5 },
							     { "NEGATIVE", -7, -7 } };
	static const struct strata_event_enumeration colour = { "colour", colours, 3 };
	static const struct strata_event_enumeration unnamed = { NULL, colours, 2 };
	static const struct strata_event_field fields[] = {
		STRATA_FIELD_ENUM("a", STRATA_I32, &colour),
		STRATA_FIELD_ENUM("b", STRATA_U8, &unnamed),
		STRATA_FIELD_ENUM("c", STRATA_I64, &colour),
		STRATA_FIELD_ENUM("d", STRATA_I16, &colour),
	};
	const union strata_value values[] = { strata_value_int(0), strata_value_int(5),
					      strata_value_int(-7), strata_value_int(99) };

	//= events:labels: { a = ( "RED" : container = 0 ), b = ( "WARM" : container = 5 ), c = ( "NEGATIVE" : container = -7 ), d = ( <unknown> : container = 99 ) }
	record(make("labels", STRATA_DEBUG, fields, COUNT(fields)), values, COUNT(values));
}

static void texts(void)
{
	static const struct strata_event_field fields[] = {
		STRATA_FIELD("empty", STRATA_STRING),
		STRATA_FIELD("null", STRATA_STRING),
		STRATA_FIELD("quotes", STRATA_STRING),
		STRATA_FIELD_ARRAY("hidden", STRATA_CHAR, 8),
		STRATA_FIELD_SEQUENCE("part", STRATA_CHAR),
		STRATA_FIELD("number", STRATA_U16),
	};
	static const struct strata_event_field text = STRATA_FIELD("text", STRATA_STRING);
	static char longest[5001];
	const char secret[8] = { 'a', 'b', 0, 's', 'e', 'c', 'r', 't' };
	const union strata_value values[] = {
		strata_value_data(""),		strata_value_data(NULL),
		strata_value_data("\"q\"\t\\"), strata_value_data(secret),
		strata_value_data(secret),	strata_value_uint(2),
		strata_value_uint(1000),
	};
	union strata_value value;

	//= events:texts: { empty = "", null = "(null)", quotes = "\"q\"\t\\", hidden = "ab", _part_length = 2, part = "ab", number = 1000 }
	record(make("texts", STRATA_INFO, fields, COUNT(fields)), values, COUNT(values));
	memset(longest, 'x', 5000);
	value = strata_value_data(longest);
	//= events:longest: { text = "x*5000" }
	record(make("longest", STRATA_INFO, &text, 1), &value, 1);
}

static void elements(void)
{
	static const struct strata_event_field fields[] = {
		STRATA_FIELD_ARRAY("three", STRATA_I32, 3),
		STRATA_FIELD_ARRAY("zeros", STRATA_F32, 2),
		STRATA_FIELD_SEQUENCE("reals", STRATA_F64),
		STRATA_FIELD_SEQUENCE("none", STRATA_U8),
		{ "bytes", NULL, 0, STRATA_U8, STRATA_SEQUENCE, 16, 0 },
	};
	static const struct strata_event_field many_fields[] = {
		STRATA_FIELD("before", STRATA_U8),
		STRATA_FIELD_SEQUENCE("numbers", STRATA_U64),
	};
	static uint64_t many[10000];
	const int32_t three[3] = { INT32_MIN, 0, INT32_MAX };
	const double reals[2] = { -0.5, DBL_MAX };
	const uint8_t bytes[4] = { 0, 1, 254, 255 };
	const union strata_value values[] = {
		strata_value_data(three), strata_value_data(NULL), strata_value_data(reals),
		strata_value_uint(2),	  strata_value_data(NULL), strata_value_uint(7),
		strata_value_data(bytes), strata_value_uint(4),
	};
	union strata_value large[3];
	struct strata_event *event = make("many", STRATA_INFO, many_fields, 2);
	unsigned char payload[80];
	uint32_t i, length = 1;

	//= events:elements: { three = [ [0] = -2147483648, [1] = 0, [2] = 2147483647 ], zeros = [ [0] = 0, [1] = 0 ], _reals_length = 2, reals = [ [0] = -0.5, [1] = 1.79769e+308 ], _none_length = 0, none = [ ], _bytes_length = 4, bytes = [ [0] = 0x0, [1] = 0x1, [2] = 0xFE, [3] = 0xFF ] }
	record(make("elements", STRATA_INFO, fields, COUNT(fields)), values, COUNT(values));
	for (i = 0; i < 10000; i++)
		many[i] = i;
	large[0] = strata_value_uint(9);
	large[1] = strata_value_data(many);
	large[2] = strata_value_uint(10000);
	//= events:many: { before = 9, _numbers_length = 10000, numbers = [0..9999] }
	record(event, large, 3);
	/* The same from a payload: what is not what the fields say is refused, and nothing of it is recorded. */
	payload[0] = 8;
	memcpy(payload + 1, &length, 4);
	memcpy(payload + 5, &many[77], 8);
	//= events:many: { before = 8, _numbers_length = 1, numbers = [ [0] = 77 ] }
	record_payload(event, payload, 13);
	for (i = 0; i < sizeof(payload); i++)
		if (i != 13)
			refused(event, payload, i);
	length = UINT32_MAX;
	memcpy(payload + 1, &length, 4);
	refused(event, payload, 13);
	{
		/* A large one: the length and 1,000 elements behind one byte. */
		static unsigned char big[1 + 4 + 8 * 10000];

		length = 10000;
		big[0] = 7;
		memcpy(big + 1, &length, 4);
		memcpy(big + 5, many, sizeof(many));
		//= events:many: { before = 7, _numbers_length = 10000, numbers = [0..9999] }
		record_payload(event, big, sizeof(big));
		refused(event, big, sizeof(big) - 1);
	}
}

static void payloads(void)
{
	static const struct strata_event_field word = STRATA_FIELD("number", STRATA_U64);
	static const struct strata_event_field fields[] = { STRATA_FIELD("a", STRATA_U8),
							    STRATA_FIELD("b", STRATA_U16) };
	static const struct strata_event_field strings[] = {
		STRATA_FIELD("first", STRATA_STRING), STRATA_FIELD("second", STRATA_STRING)
	};
	struct strata_event *pair = make("pair", STRATA_INFO, fields, 2);
	struct strata_event *two = make("two", STRATA_INFO, strings, 2);
	const uint64_t number = UINT64_C(0x8000000000000001);
	const unsigned char bytes[3] = { 1, 2, 2 };
	const union strata_value value = strata_value_uint(1);

	//= events:payload: { number = 9223372036854775809 }
	record_payload(make("payload", STRATA_INFO, &word, 1), &number, 8);
	//= events:pair: { a = 1, b = 514 }
	record_payload(pair, bytes, 3);
	//= events:two: { first = "ab", second = "" }
	record_payload(two, "ab\0", 4);
	refused(pair, bytes, 2);
	refused(two, "ab\0", 3);
	refused(two, "ab\0\0", 5);
	refused(two, "", 0);
	test_must(strata_event_record(pair, &value, 1) == (strata_event_is_on(pair) ? -EINVAL : 0));
}

static void spans(void)
{
	static const struct strata_event_field field = STRATA_FIELD("items", STRATA_I32);
	const struct strata_event_class made =
		STRATA_EVENT_CLASS("checkout", STRATA_INFO, &field, 1);
	const union strata_value three = strata_value_int(3);
	struct strata_span *span, *keyed;
	struct strata_event_class other = made;
	int span_on, keyed_on;

	other.name = "upload";
	test_must(!strata_span_register(provider, &made, 0, &span, NULL, 0));
	test_must(!strata_span_register(provider, &other, STRATA_SPAN_KEYED, &keyed, NULL, 0));
	span_on = *strata_span_enabled(span) != 0;
	keyed_on = *strata_span_enabled(keyed) != 0;
	//= events:checkout_begin: { items = 3 }
	test_must(strata_span_begin(span, &three, 1) == span_on);
	//= events:checkout_end: { }
	test_must(!strata_span_end(span));
	//= events:upload_begin: { span_key = 0x10, items = 3 }
	test_must(strata_span_begin_key(keyed, 16, &three, 1) == keyed_on);
	//= events:upload_end: { span_key = 0x10 }
	test_must(!strata_span_end_key(keyed, 16));
	emitted += 2 * (uint64_t)span_on + 2 * (uint64_t)keyed_on;
	test_must(strata_span_begin(keyed, &three, 1) == (keyed_on ? -EINVAL : 0));
	test_must(strata_span_begin_key(span, 1, &three, 1) == (span_on ? -EINVAL : 0));
	test_must(strata_span_begin(span, &three, 2) == (span_on ? -EINVAL : 0));
	test_must(strata_span_new_key() != strata_span_new_key() && strata_span_new_key());
	strata_span_unregister(span);
	test_must(strata_span_begin(span, &three, 1) == 0);
}

int main(void)
{
	test_must(strata_events_version() >= STRATA_EVENTS_VERSION);
	test_must(!strata_provider_register("events", &provider, NULL, 0));
	numbers();
	labels();
	texts();
	elements();
	payloads();
	spans();
	test_count("events_values", emitted);
	return 0;
}
