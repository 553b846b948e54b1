/* SPDX-License-Identifier: MIT */
/*
 * events_refused.c - everything that strata/events.h refuses: by which code, and with a sentence that no terminal obeys.
 * Nothing of it reaches the trace; the one event behind it does.
 */
#include <strata/events.h>

#include "count.h"

static struct strata_provider *provider;
static unsigned refusals;

/* The sentence names the culprit by @word, and has no control character. */
static void check_why(const char *why, const char *word)
{
	const unsigned char *at;

	if (!strstr(why, word)) {
		fprintf(stderr, "'%s' does not say '%s'\n", why, word);
		_exit(97);
	}
	for (at = (const unsigned char *)why; *at; at++)
		test_must(*at >= ' ' && *at != 127);
	refusals++;
}

static void refused(const struct strata_event_class *made, int code, const char *word)
{
	struct strata_event *event = (struct strata_event *)&event;
	char why[300] = "";
	int found = strata_event_register(provider, made, &event, why, sizeof(why));

	if (found != code)
		fprintf(stderr, "%s: %d, wanted %d\n", word, found, code);
	test_must(found == code && !event);
	check_why(why, word);
	/* Nobody needs to ask why, and little room is enough. */
	test_must(strata_event_register(provider, made, &event, NULL, 0) == code);
	test_must(strata_event_register(provider, made, &event, why, 1) == code && !why[0]);
}

static void refused_name(const char *name, const char *word)
{
	const struct strata_event_field field = STRATA_FIELD(name, STRATA_U8);
	const struct strata_event_class by_name = STRATA_EVENT_CLASS(name, STRATA_INFO, NULL, 0);
	const struct strata_event_class by_field = STRATA_EVENT_CLASS("f", STRATA_INFO, &field, 1);
	struct strata_provider *other = (struct strata_provider *)&other;
	char why[300] = "";

	refused(&by_name, -EINVAL, word);
	refused(&by_field, -EINVAL, word);
	test_must(strata_provider_register(name, &other, why, sizeof(why)) == -EINVAL && !other);
	check_why(why, word);
}

static void names(void)
{
	char *large = (char *)malloc((1 << 20) + 1), longest[256];

	test_must(large != NULL);
	memset(large, 'x', 1 << 20);
	large[1 << 20] = 0;
	refused_name(large, "more than");
	free(large);
	memset(longest, 'y', 255);
	longest[255] = 0;
	{
		/* A name of 255 bytes is too long behind "refused:". */
		const struct strata_event_class made =
			STRATA_EVENT_CLASS(longest, STRATA_INFO, NULL, 0);

		refused(&made, -EINVAL, "more than 247 bytes");
	}
	refused_name(NULL, "no name");
	refused_name("", "no name");
	refused_name("a\nb", "U+000A");
	refused_name("\x1b[2J", "U+001B");
	refused_name("a\x7f", "U+007F");
	refused_name("a\xc2\x9b", "U+009B");
	refused_name("\xff", "not UTF-8 at byte 0");
	refused_name("ab\xc3", "not UTF-8 at byte 2");
	refused_name("\xc0\xaf", "not UTF-8");
	refused_name("\xed\xa0\x80", "not UTF-8");
	refused_name("\xf4\x90\x80\x80", "not UTF-8");
	{
		struct strata_provider *other;
		char why[300] = "";

		test_must(strata_provider_register("a:b", &other, why, sizeof(why)) == -EINVAL);
		check_why(why, "':'");
	}
}

static void fields(void)
{
	static const struct strata_event_label backwards = { "B", 2, 1 }, plain = { "P", 1, 2 },
					       control = { "\t", 1, 2 };
	const struct strata_event_enumeration reversed = { "e", &backwards, 1 },
					      ok = { "e", &plain, 1 }, none = { "e", NULL, 0 },
					      many = { "e", &plain, 4097 },
					      bad = { "e", &control, 1 },
					      bad_name = { "\r", &plain, 1 };
	const struct {
		struct strata_event_field field;
		const char *word;
	} wrong[] = {
		{ { "f", NULL, 0, 0, 0, 0, 0 }, "type 0" },
		{ { "f", NULL, 0, 14, 0, 0, 0 }, "type 14" },
		{ { "f", NULL, 0, 255, 0, 0, 0 }, "type 255" },
		{ { "f", NULL, 0, STRATA_U8, 3, 0, 0 }, "shape 3" },
		{ { "f", NULL, 0, STRATA_U8, 0, 3, 0 }, "base 3" },
		{ { "f", NULL, 0, STRATA_U8, 0, 0, 1 }, "reserved" },
		{ { "f", NULL, 0, STRATA_CHAR, 0, 0, 0 }, "STRATA_CHAR" },
		{ { "f", NULL, 1, STRATA_STRING, STRATA_ARRAY, 0, 0 }, "STRATA_STRING" },
		{ { "f", NULL, 1, STRATA_BOOL, STRATA_SEQUENCE, 0, 0 }, "STRATA_BOOL" },
		{ { "f", NULL, 0, STRATA_U8, STRATA_ARRAY, 0, 0 }, "0 elements" },
		{ { "f", NULL, 131073, STRATA_U64, STRATA_ARRAY, 0, 0 }, "131073 elements" },
		{ { "f", NULL, UINT32_MAX, STRATA_U8, STRATA_ARRAY, 0, 0 }, "elements" },
		{ { "f", &ok, 0, STRATA_F64, 0, 0, 0 }, "not one integer" },
		{ { "f", &ok, 2, STRATA_U8, STRATA_ARRAY, 0, 0 }, "not one integer" },
		{ { "f", &none, 0, STRATA_U8, 0, 0, 0 }, "0 labels" },
		{ { "f", &many, 0, STRATA_U8, 0, 0, 0 }, "4097 labels" },
		{ { "f", &reversed, 0, STRATA_U8, 0, 0, 0 }, "2 to 1" },
		{ { "f", &bad, 0, STRATA_U8, 0, 0, 0 }, "U+0009" },
		{ { "f", &bad_name, 0, STRATA_U8, 0, 0, 0 }, "U+000D" },
	};
	const struct strata_event_field twice[] = { STRATA_FIELD("one", STRATA_U8),
						    STRATA_FIELD("two", STRATA_U8),
						    STRATA_FIELD("one", STRATA_STRING) };
	struct strata_event_class made = STRATA_EVENT_CLASS("bad", STRATA_INFO, twice, 3);
	size_t i;

	refused(&made, -EINVAL, "two fields 'one'");
	made.nr_fields = 65;
	refused(&made, -EINVAL, "65 fields");
	made.fields = NULL;
	made.nr_fields = 1;
	refused(&made, -EINVAL, "no address");
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		made.fields = &wrong[i].field;
		refused(&made, -EINVAL, wrong[i].word);
	}
}

/* A caller that was compiled with other structures than the library's. */
static void versions(void)
{
	struct {
		struct strata_event_class made;
		uint64_t more;
	} later = { STRATA_EVENT_CLASS("later", STRATA_INFO, NULL, 0), 0 };
	struct {
		struct strata_event_field field;
		uint64_t more;
	} later_fields[2] = { { STRATA_FIELD("a", STRATA_U8), 0 },
			      { STRATA_FIELD("b", STRATA_U8), 0 } };
	struct strata_event *event;

	later.made.bytes = sizeof(later);
	later.made.field_bytes = sizeof(*later_fields);
	later.made.fields = &later_fields[0].field;
	later.made.nr_fields = 2;
	test_must(!strata_event_register(provider, &later.made, &event, NULL, 0) && event);
	strata_event_unregister(event);
	later.more = 1;
	refused(&later.made, -E2BIG, "newer version");
	later.more = 0;
	later_fields[1].more = 1;
	refused(&later.made, -E2BIG, "field 2");
	later.made.bytes = 8;
	refused(&later.made, -EINVAL, "8 and");
	later.made.bytes = 1 << 20;
	refused(&later.made, -EINVAL, "1048576");
	later.made.bytes = sizeof(later);
	later.made.field_bytes = 4;
	refused(&later.made, -EINVAL, "structures");
}

static void spans(void)
{
	struct strata_event_field key[64] = { STRATA_FIELD("span_key", STRATA_U8) };
	struct strata_event_class made = STRATA_EVENT_CLASS("s", STRATA_INFO, key, 1);
	struct strata_span *span;
	char why[300] = "", name[300], names[64][8];
	unsigned i;

	test_must(strata_span_register(provider, &made, STRATA_SPAN_KEYED, &span, why,
				       sizeof(why)) == -EINVAL &&
		  !span);
	check_why(why, "two fields 'span_key'");
	test_must(strata_span_register(provider, &made, 2, &span, why, sizeof(why)) == -EINVAL);
	check_why(why, "flags");
	/* Long enough for itself, and not for "_begin". */
	memset(name, 'n', 245);
	name[245] = 0;
	made.name = name;
	made.nr_fields = 0;
	test_must(strata_span_register(provider, &made, 0, &span, why, sizeof(why)) == -EINVAL);
	check_why(why, "more than");
	made.name = "full";
	for (i = 0; i < 64; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		key[i] = (struct strata_event_field)STRATA_FIELD(names[i], STRATA_U8);
	}
	made.nr_fields = 64;
	test_must(strata_span_register(provider, &made, STRATA_SPAN_KEYED, &span, why,
				       sizeof(why)) == -EINVAL);
	check_why(why, "64 fields");
}

/* No handle is none of the program's troubles. */
static void nothing(void)
{
	struct strata_event *event;
	struct strata_span *span;
	const struct strata_event_class made = STRATA_EVENT_CLASS("e", STRATA_INFO, NULL, 0);

	test_must(!strata_event_is_on(NULL) && !*strata_span_enabled(NULL));
	test_must(!strata_event_record(NULL, NULL, 3) && !strata_event_record_payload(NULL, "", 9));
	test_must(!strata_span_begin(NULL, NULL, 0) && !strata_span_end(NULL));
	test_must(!strata_span_begin_key(NULL, 1, NULL, 0) && !strata_span_end_key(NULL, 1));
	strata_event_unregister(NULL);
	strata_span_unregister(NULL);
	strata_provider_unregister(NULL);
	test_must(strata_event_register(NULL, &made, &event, NULL, 0) == -EINVAL && !event);
	test_must(strata_span_register(NULL, &made, 0, &span, NULL, 0) == -EINVAL && !span);
}

/* The same class is one handle, another one of its name is refused, and each is given back as often as it was taken. */
static void duplicates(void)
{
	const struct strata_event_field number = STRATA_FIELD("number", STRATA_U32),
					text = STRATA_FIELD("number", STRATA_STRING);
	struct strata_event_class made = STRATA_EVENT_CLASS("last", STRATA_INFO, &number, 1);
	struct strata_event *first, *second;
	struct strata_provider *again;
	const union strata_value value = strata_value_uint(1);

	test_must(!strata_provider_register("refused", &again, NULL, 0) && again == provider);
	strata_provider_unregister(again);
	test_must(!strata_event_register(provider, &made, &first, NULL, 0));
	test_must(!strata_event_register(provider, &made, &second, NULL, 0) && first == second);
	made.fields = &text;
	refused(&made, -EEXIST, "refused:last");
	made.fields = &number;
	made.level = STRATA_DEBUG;
	refused(&made, -EEXIST, "level");
	made.level = STRATA_INFO;
	test_must(strata_event_is_on(first));
	strata_event_unregister(second);
	test_must(strata_event_is_on(first));
	test_must(!strata_event_record(first, &value, 1));
	strata_event_unregister(first);
	test_must(!strata_event_is_on(first));
	test_must(!strata_event_record(first, &value, 1));
	/* A class that is no longer there leaves its name to another one; and comes back as it was. */
	made.fields = &text;
	test_must(!strata_event_register(provider, &made, &second, NULL, 0) && first != second);
	strata_event_unregister(second);
	made.fields = &number;
	test_must(!strata_event_register(provider, &made, &second, NULL, 0) && first == second);
	test_must(strata_event_is_on(first) && !strata_event_record(first, &value, 1));
	strata_provider_unregister(provider);
	test_must(!strata_event_is_on(first) && !strata_event_record(first, &value, 1));
}

int main(void)
{
	test_must(!strata_provider_register("refused", &provider, NULL, 0));
	names();
	fields();
	versions();
	spans();
	nothing();
	duplicates();
	printf("%u refusals\n", refusals);
	test_count("events_refused", 2);
	return 0;
}
