/* SPDX-License-Identifier: MIT */
/*
 * cases.c - mistakes, and what every compiler must say of them; ../run compiles the file once for each.
 *
 * A case is a comment of one line, "name: text that the compiler's output has to contain", and the one
 * line of code two lines further on, which the output has to point at. Where something is forgotten, that is
 * the only error.
 */
#include <strata/tracepoint.h>

/* The code of a case is one line. */
/* clang-format off */

#define EIGHT(f, b) \
	strata_int(f##b##0, i), strata_int(f##b##1, i), strata_int(f##b##2, i), strata_int(f##b##3, i), \
		strata_int(f##b##4, i), strata_int(f##b##5, i), strata_int(f##b##6, i), strata_int(f##b##7, i)
#define MANY(f) EIGHT(f, a), EIGHT(f, b), EIGHT(f, c), EIGHT(f, d)

STRATA_ENUM(colour, strata_label(RED, 0));
STRATA_CLASS(good, (int n, const char *s), strata_int(n, n), strata_string(s, s));
STRATA_EVENT(app, good, INFO, good);

void mistakes(int i, double real, const char *s, const int *words);

/* class_with_a_wrong_type: strata: field n: its value is not a const char * */
#ifdef class_with_a_wrong_type
STRATA_CLASS(wrong, (int n), strata_string(n, n));
#endif

/* class_with_a_field_given_twice: strata: field same: the event has another field of this name */
#ifdef class_with_a_field_given_twice
STRATA_CLASS(wrong, (int n), strata_int(same, n), strata_int(same, n));
#endif

/* forgotten_value_in_a_class: strata: field n: its value is not given */
#ifdef forgotten_value_in_a_class
STRATA_CLASS(wrong, (int n), strata_int(n), strata_text(t, "abc", 3));
#endif

/* class_with_too_many_fields: strata: class wrong: it has more than 32 fields */
#ifdef class_with_too_many_fields
STRATA_CLASS(wrong, (int i), MANY(f), strata_int(x, i));
#endif

/* event_of_unknown_level: strata: tracepoint app:wrong: there is no such level: strata_level_WORSE */
#ifdef event_of_unknown_level
STRATA_EVENT(app, wrong, WORSE, good);
#endif

/* event_of_no_class: strata_class_nothing */
#ifdef event_of_no_class
STRATA_EVENT(app, wrong, INFO, nothing);
#endif

/* event_declared_twice: strata_event_good_of_app */
#ifdef event_declared_twice
STRATA_EVENT(app, good, INFO, good);
#endif

/* event_in_quotes: its name is no identifier */
#ifdef event_in_quotes
STRATA_EVENT("app", wrong, INFO, good);
#endif

/* event_with_a_dash: its name is no identifier */
#ifdef event_with_a_dash
STRATA_EVENT(app, half-good, INFO, good);
#endif

/* field_of_a_class_in_quotes: its name is no identifier */
#ifdef field_of_a_class_in_quotes
STRATA_CLASS(wrong, (int n), strata_int("n", n));
#endif

/* label_range_backwards: strata: the range of a label ends below its begin */
#ifdef label_range_backwards
STRATA_ENUM(wrong, strata_label(A, 0), strata_label_range(B, 5, 4));
#endif

void mistakes(int i, double real, const char *s, const int *words)
{
	/* Names may have letters of any language. */
	STRATA_TRACE(app, größe, INFO, strata_int(größe, i));

	const unsigned char bytes[4] = "abc";
	const long double longs[1] = { 1 };
	const void *nothing = words;
	struct pair {
		int a, b;
	} structure = { 1, 2 };

	(void)bytes, (void)longs, (void)structure, (void)nothing, (void)s, (void)i, (void)real;
	STRATA_TRACE(app, right, INFO, MANY(f));
	STRATA_TRACE(p12, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn, INFO, strata_float(real, real));

/* forgotten_value: strata: field n: its value is not given */
#ifdef forgotten_value
	STRATA_TRACE(app, wrong, INFO, strata_int(n));
#endif

/* forgotten_value_among_others: strata: field n: its value is not given */
#ifdef forgotten_value_among_others
	STRATA_TRACE(app, wrong, INFO, strata_int(a, i), strata_float(n), strata_string(s, s));
#endif

/* forgotten_string: strata: field n: its value is not given */
#ifdef forgotten_string
	STRATA_TRACE(app, wrong, INFO, strata_string(n));
#endif

/* forgotten_value_of_enum: strata: field n: its value is not given */
#ifdef forgotten_value_of_enum
	STRATA_TRACE(app, wrong, INFO, strata_enum(n, colour));
#endif

/* forgotten_enumeration: strata: field n: its enumeration and value are not given */
#ifdef forgotten_enumeration
	STRATA_TRACE(app, wrong, INFO, strata_enum(n));
#endif

/* forgotten_count: strata: field n: its number of elements is not given */
#ifdef forgotten_count
	STRATA_TRACE(app, wrong, INFO, strata_array(n, words));
#endif

/* forgotten_pointer: strata: field n: its pointer and number of elements are not given */
#ifdef forgotten_pointer
	STRATA_TRACE(app, wrong, INFO, strata_blob(n));
#endif

/* integer_from_string: strata: field n: its value is not an integer */
#ifdef integer_from_string
	STRATA_TRACE(app, wrong, INFO, strata_int(n, s));
#endif

/* integer_from_structure: strata: field n: its value is not an integer */
#ifdef integer_from_structure
	STRATA_TRACE(app, wrong, INFO, strata_int(n, structure));
#endif

/* integer_from_float: strata: field n: its value is not an integer */
#ifdef integer_from_float
	STRATA_TRACE(app, wrong, INFO, strata_int(n, real));
#endif

/* hex_from_pointer: strata: field n: its value is not an integer */
#ifdef hex_from_pointer
	STRATA_TRACE(app, wrong, INFO, strata_hex(n, words));
#endif

/* net_from_float: strata: field n: its value is not an integer */
#ifdef net_from_float
	STRATA_TRACE(app, wrong, INFO, strata_net(n, 1.5f));
#endif

/* integer_of_16_bytes: strata: field n: its value is not an integer of 1, 2, 4 or 8 bytes */
#ifdef integer_of_16_bytes
	STRATA_TRACE(app, wrong, INFO, strata_int(n, (__int128)i));
#endif

/* enum_from_string: strata: field n: its value is not an integer */
#ifdef enum_from_string
	STRATA_TRACE(app, wrong, INFO, strata_enum(n, colour, s));
#endif

/* enum_of_no_enumeration: strata_enumeration_nothing */
#ifdef enum_of_no_enumeration
	STRATA_TRACE(app, wrong, INFO, strata_enum(n, nothing, i));
#endif

/* bool_from_structure: strata: field n: its value is not a truth value */
#ifdef bool_from_structure
	STRATA_TRACE(app, wrong, INFO, strata_bool(n, structure));
#endif

/* bool_from_pointer: strata: field n: its value is not a truth value */
#ifdef bool_from_pointer
	STRATA_TRACE(app, wrong, INFO, strata_bool(n, s));
#endif

/* float_from_integer: strata: field n: its value is not a float or a double */
#ifdef float_from_integer
	STRATA_TRACE(app, wrong, INFO, strata_float(n, i));
#endif

/* float_from_long_double: strata: field n: its value is not a float or a double */
#ifdef float_from_long_double
	STRATA_TRACE(app, wrong, INFO, strata_float(n, 1.5L));
#endif

/* pointer_from_integer: strata: field n: its value is not a pointer */
#ifdef pointer_from_integer
	STRATA_TRACE(app, wrong, INFO, strata_pointer(n, i));
#endif

/* string_from_integer: strata: field n: its value is not a const char * */
#ifdef string_from_integer
	STRATA_TRACE(app, wrong, INFO, strata_string(n, i));
#endif

/* string_from_bytes: strata: field n: its value is not a const char * */
#ifdef string_from_bytes
	STRATA_TRACE(app, wrong, INFO, strata_string(n, bytes));
#endif

/* string_from_wide_string: strata: field n: its value is not a const char * */
#ifdef string_from_wide_string
	STRATA_TRACE(app, wrong, INFO, strata_string(n, L"wide"));
#endif

/* array_from_integer: strata: field n: it is no pointer */
#ifdef array_from_integer
	STRATA_TRACE(app, wrong, INFO, strata_array(n, i, 3));
#endif

/* array_from_void_pointer: strata: field n: its elements are not integers, floats or doubles */
#ifdef array_from_void_pointer
	STRATA_TRACE(app, wrong, INFO, strata_array(n, nothing, 3));
#endif

/* array_of_structures: strata: field n: its elements are not integers, floats or doubles */
#ifdef array_of_structures
	STRATA_TRACE(app, wrong, INFO, strata_array(n, &structure, 1));
#endif

/* array_of_pointers: strata: field n: its elements are not integers, floats or doubles */
#ifdef array_of_pointers
	STRATA_TRACE(app, wrong, INFO, strata_array(n, &s, 1));
#endif

/* array_of_no_elements: strata: field n: its number of elements is not above 0 */
#ifdef array_of_no_elements
	STRATA_TRACE(app, wrong, INFO, strata_array(n, words, 0));
#endif

/* array_of_negative_count: strata: field n: its number of elements is not above 0 */
#ifdef array_of_negative_count
	STRATA_TRACE(app, wrong, INFO, strata_array_hex(n, words, -1));
#endif

/* array_of_too_many_elements: strata: field n: it has more than */
#ifdef array_of_too_many_elements
	STRATA_TRACE(app, wrong, INFO, strata_array(n, words, 0x10000001));
#endif

/* array_of_variable_count: onstant */
#ifdef array_of_variable_count
	STRATA_TRACE(app, wrong, INFO, strata_array(n, words, i));
#endif

/* text_of_no_bytes: strata: field n: its number of elements is not above 0 */
#ifdef text_of_no_bytes
	STRATA_TRACE(app, wrong, INFO, strata_text(n, s, 0));
#endif

/* text_from_integers: strata: field n: its elements are not characters */
#ifdef text_from_integers
	STRATA_TRACE(app, wrong, INFO, strata_text(n, words, 4));
#endif

/* sequence_from_float: strata: field n: it is no pointer */
#ifdef sequence_from_float
	STRATA_TRACE(app, wrong, INFO, strata_sequence(n, real, i));
#endif

/* sequence_of_long_doubles: strata: field n: its elements are not integers, floats or doubles */
#ifdef sequence_of_long_doubles
	STRATA_TRACE(app, wrong, INFO, strata_sequence(n, longs, i));
#endif

/* sequence_of_fractional_count: strata: field n: its number of elements is not an integer */
#ifdef sequence_of_fractional_count
	STRATA_TRACE(app, wrong, INFO, strata_sequence(n, words, real));
#endif

/* text_sequence_of_integers: strata: field n: its elements are not characters */
#ifdef text_sequence_of_integers
	STRATA_TRACE(app, wrong, INFO, strata_text_sequence(n, words, i));
#endif

/* blob_from_integer: strata: field n: it is no pointer */
#ifdef blob_from_integer
	STRATA_TRACE(app, wrong, INFO, strata_blob(n, i, 4));
#endif

/* field_given_twice: strata: field same: the event has another field of this name */
#ifdef field_given_twice
	STRATA_TRACE(app, wrong, INFO, strata_int(same, i), strata_int(other, i), strata_hex(same, i));
#endif

/* value_that_is_no_field: strata: field i: there is no such kind of field */
#ifdef value_that_is_no_field
	STRATA_TRACE(app, wrong, INFO, i);
#endif

/* field_of_no_kind: strata: field strata_double(n, i): there is no such kind of field */
#ifdef field_of_no_kind
	STRATA_TRACE(app, wrong, INFO, strata_double(n, i));
#endif

/* field_with_a_long_name: its name has more than 255 bytes */
#ifdef field_with_a_long_name
	STRATA_TRACE(app, wrong, INFO, strata_int(nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn, i));
#endif

/* event_with_a_long_name: strata: tracepoint app:nnnnnnnnnn */
#ifdef event_with_a_long_name
	STRATA_TRACE(app, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn, INFO);
#endif

/* name_of_256_bytes: : its name has more than 255 bytes */
#ifdef name_of_256_bytes
	STRATA_TRACE(p12, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn, INFO);
#endif

/* level_unknown: strata: tracepoint app:wrong: there is no such level: strata_level_WORSE */
#ifdef level_unknown
	STRATA_TRACE(app, wrong, WORSE);
#endif

/* level_forgotten: strata: tracepoint app:wrong: there is no such level: strata_level_strata_int */
#ifdef level_forgotten
	STRATA_TRACE(app, wrong, strata_int(i, i));
#endif

/* level_of_a_log_unknown: strata: tracepoint strata_tracelog:WORSE: there is no such level */
#ifdef level_of_a_log_unknown
	strata_tracelog(WORSE, "x");
#endif

/* names_in_quotes: its name is no identifier: write letters, digits and underscores, without quotes */
#ifdef names_in_quotes
	STRATA_TRACE("app", "wrong", INFO);
#endif

/* provider_with_a_dash: its name is no identifier */
#ifdef provider_with_a_dash
	STRATA_TRACE(my-app, wrong, INFO);
#endif

/* event_of_two_words: its name is no identifier */
#ifdef event_of_two_words
	STRATA_TRACE(app, order paid, INFO);
#endif

/* event_in_quotes_with_fields: its name is no identifier */
#ifdef event_in_quotes_with_fields
	STRATA_TRACE(app, "wrong", INFO, strata_int(i, i));
#endif

/* span_with_a_dot: its name is no identifier */
#ifdef span_with_a_dot
	STRATA_SPAN(app, wrong.span, INFO);
#endif

/* field_in_quotes: its name is no identifier */
#ifdef field_in_quotes
	STRATA_TRACE(app, wrong, INFO, strata_int("n", i));
#endif

/* field_with_a_dash: its name is no identifier */
#ifdef field_with_a_dash
	STRATA_TRACE(app, wrong, INFO, strata_string(user-name, s));
#endif

/* field_of_an_element: its name is no identifier */
#ifdef field_of_an_element
	STRATA_TRACE(app, wrong, INFO, strata_int(words[0], words[0]));
#endif

/* field_given_twice_among_32: strata: field fa0: the event has another field of this name */
#ifdef field_given_twice_among_32
	STRATA_TRACE(app, wrong, INFO, EIGHT(f, a), EIGHT(f, b), EIGHT(f, c), strata_hex(fa0, i));
#endif

/* span_without_braces: strata: span app:wrong: it needs braces around it, as in: if (...) { STRATA_SPAN(...); } */
#ifdef span_without_braces
	if (i) STRATA_SPAN(app, wrong, INFO, strata_int(i, i));
#endif

/* span_without_braces_in_a_loop: strata: span app:wrong: it needs braces around it */
#ifdef span_without_braces_in_a_loop
	while (i--) STRATA_SPAN(app, wrong, INFO);
#endif

/* fields_33: strata: tracepoint app:wrong: it has more than 32 fields */
#ifdef fields_33
	STRATA_TRACE(app, wrong, INFO, MANY(f), strata_int(x, i));
#endif

/* fields_64: strata: tracepoint app:wrong: it has more than 32 fields */
#ifdef fields_64
	STRATA_TRACE(app, wrong, INFO, MANY(f), MANY(g));
#endif

/* fields_96: strata: tracepoint app:wrong: it has more than 32 fields */
#ifdef fields_96
	STRATA_TRACE(app, wrong, INFO, MANY(f), MANY(g), MANY(h));
#endif

/* format_with_a_wrong_argument: format */
#ifdef format_with_a_wrong_argument
	strata_tracef("%s", i);
#endif

/* event_that_is_not_declared: strata_event_nothing_of_app */
#ifdef event_that_is_not_declared
	STRATA_TRACE_EVENT(app, nothing, 1);
#endif

/* event_with_too_few_arguments: too few arguments */
#ifdef event_with_too_few_arguments
	STRATA_TRACE_EVENT(app, good, 1);
#endif

/* event_with_a_wrong_argument: char */
#ifdef event_with_a_wrong_argument
	STRATA_TRACE_EVENT(app, good, 1, structure);
#endif

}
