/* SPDX-License-Identifier: MIT */
/* events.c - the loops with classes that are made at run time: the fields of strata.c, recorded from values. */
#include <strata/events.h>

/* Tests whether it is on, as a program does, and records fields of these values. */
#define RECORD(event, ...)                                                                    \
	do {                                                                                  \
		if (strata_event_is_on(event)) {                                              \
			const union strata_value values[] = { __VA_ARGS__ };                  \
			strata_event_record(event, values, sizeof(values) / sizeof(*values)); \
		}                                                                             \
	} while (0)
#define UINT(x)                    \
	{                          \
		.u = (uint64_t)(x) \
	}
#define TEXT(s)             \
	{                   \
		.data = (s) \
	}
#define DATA(p, nr) { .data = (p) }, UINT(nr)

#define TRACE_U64(x)	 RECORD(u64, UINT(x))
#define TRACE_STRING(s)	 RECORD(string, TEXT(s))
#define TRACE_PAIR(i, s) RECORD(pair, UINT(i), TEXT(s))
#define TRACE_TEN(x)                                                               \
	RECORD(ten, UINT(x), UINT(x), UINT(x), UINT(x), UINT(x), UINT(x), UINT(x), \
	       { .f = (double)(int64_t)(x) }, UINT((x) >> 32), UINT(x))
#define TRACE_ENUMS(x)                                                                 \
	RECORD(enums, UINT((x)&7), UINT((x)&7), UINT((x)&7), UINT((x)&7), UINT((x)&7), \
	       UINT((x)&7), UINT((x)&7))
#define TRACE_TWELVE(x, array, s)                                                                \
	RECORD(twelve, UINT(x), UINT(x), UINT(x), { .f = (double)(int64_t)(x) }, TEXT(array),    \
	       TEXT(s), DATA(array, (x)&7), DATA(s, 12), TEXT(s), TEXT((s) + 8), TEXT((s) + 20), \
	       UINT(x))

static struct strata_event *u64, *string, *ten, *pair, *enums, *twelve;

#include "loops.h"

static struct strata_event *make(struct strata_provider *bench, const char *name,
				 const struct strata_event_field *fields, uint32_t nr)
{
	const struct strata_event_class made = STRATA_EVENT_CLASS(name, STRATA_INFO, fields, nr);
	struct strata_event *event;
	char why[200];

	if (!strata_event_register(bench, &made, &event, why, sizeof(why)))
		return event;
	fprintf(stderr, "%s\n", why);
	exit(2);
}

#define MAKE(event, ...)                                                               \
	do {                                                                           \
		static const struct strata_event_field fields[] = { __VA_ARGS__ };     \
		event = make(bench, #event, fields, sizeof(fields) / sizeof(*fields)); \
	} while (0)

int main(int argc, char **argv)
{
	static const struct strata_event_label labels[] = { { "RED", 0, 0 },
							    { "GREEN", 1, 1 },
							    { "OTHER", 2, 7 } };
	static const struct strata_event_enumeration colour = { "colour", labels, 3 };
	struct strata_provider *bench;

	if (strata_provider_register("bench", &bench, NULL, 0))
		return 2;
	MAKE(u64, STRATA_FIELD("value", STRATA_U64));
	MAKE(string, STRATA_FIELD("text", STRATA_STRING));
	MAKE(ten, STRATA_FIELD("a", STRATA_U64), STRATA_FIELD("b", STRATA_U32),
	     STRATA_FIELD("c", STRATA_U16), STRATA_FIELD("d", STRATA_U8),
	     STRATA_FIELD("e", STRATA_I64), STRATA_FIELD("f", STRATA_I32),
	     STRATA_FIELD_HEX("g", STRATA_U64), STRATA_FIELD("h", STRATA_F64),
	     STRATA_FIELD("i", STRATA_U32), STRATA_FIELD("j", STRATA_U64));
	MAKE(pair, STRATA_FIELD("number", STRATA_I32), STRATA_FIELD("text", STRATA_STRING));
	MAKE(enums, STRATA_FIELD_ENUM("a", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("b", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("c", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("d", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("e", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("f", STRATA_I32, &colour),
	     STRATA_FIELD_ENUM("g", STRATA_I32, &colour));
	MAKE(twelve, STRATA_FIELD("a", STRATA_U64), STRATA_FIELD("b", STRATA_I32),
	     STRATA_FIELD_HEX("c", STRATA_I64), STRATA_FIELD("d", STRATA_F64),
	     STRATA_FIELD_ARRAY("e", STRATA_U32, 4), STRATA_FIELD_ARRAY("f", STRATA_CHAR, 16),
	     STRATA_FIELD_SEQUENCE("g", STRATA_U32), STRATA_FIELD_SEQUENCE("h", STRATA_CHAR),
	     STRATA_FIELD("i", STRATA_STRING), STRATA_FIELD("j", STRATA_STRING),
	     STRATA_FIELD("k", STRATA_STRING), STRATA_FIELD("l", STRATA_U8));
	return run_loops(argc, argv,
			 "user: what does an event of a class made at run time cost? (Strata)");
}
