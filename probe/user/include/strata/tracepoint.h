/* SPDX-License-Identifier: MIT */
/*
 * tracepoint.h - tracepoints for C11 and C++14. This is the header to include.
 *
 *   #include <strata/tracepoint.h>
 *
 *   STRATA_TRACE(shop, order_paid, INFO, strata_int(number, order->number),
 *                strata_string(customer, order->customer));
 *
 * is a statement. While nobody traces shop:order_paid it costs five bytes of code that do nothing; its
 * expressions are evaluated, once, only while somebody does. Link with -lstrata.
 *
 * Provider, event and field names are identifiers, "provider:event" has at most 255 bytes; an event has
 * at most 32 fields. Levels, from the most severe on:
 *   EMERG ALERT CRIT ERR WARNING NOTICE INFO DEBUG_SYSTEM DEBUG_PROGRAM DEBUG_PROCESS DEBUG_MODULE
 *   DEBUG_UNIT DEBUG_FUNCTION DEBUG_LINE DEBUG
 *
 * Fields, in the order in which they are recorded:
 *   strata_int(name, value)                    any integer or enumeration; width and sign are its type's
 *   strata_hex  strata_oct  strata_bin         the same, shown to another base
 *   strata_net(name, value)  strata_net_hex    an integer in network byte order
 *   strata_bool(name, value)                   a truth value
 *   strata_float(name, value)                  float or double
 *   strata_pointer(name, pointer)              an address
 *   strata_enum(name, enumeration, value)      an integer with labels, see STRATA_ENUM
 *   strata_string(name, string)                const char *; a null pointer is "(null)"
 *   strata_text(name, pointer, N)              N bytes of text, or fewer up to a NUL; N is a constant
 *   strata_array(name, pointer, N)             N integers, floats or doubles; N is a constant
 *   strata_array_hex(name, pointer, N)         integers, shown to base 16
 *   strata_sequence(name, pointer, count)      count of them, any number
 *   strata_sequence_hex(name, pointer, count)
 *   strata_text_sequence(name, pointer, bytes) so many bytes of text
 *   strata_blob(name, pointer, bytes)          so many bytes of anything
 * What a null pointer points to is zeros; a sequence of it is empty. A pointer with a comma outside of
 * parentheses needs parentheses.
 *
 * Events with the same fields share a class, and an event that is declared can be asked for:
 *   STRATA_CLASS(transfer, (int fd, size_t bytes), strata_int(fd, fd), strata_int(bytes, bytes));
 *   STRATA_EVENT(shop, sent, INFO, transfer);        at file or namespace scope, also in a header
 *   STRATA_EVENT(shop, received, INFO, transfer);
 *   ...
 *   STRATA_TRACE_EVENT(shop, sent, fd, bytes);       arguments as of a function, evaluated when it is on
 *   if (STRATA_ENABLED(shop, sent)) ...              is anybody tracing it?
 *
 * A span of time, from this line to where the block around it is left, however that happens:
 *   STRATA_SPAN(shop, checkout, INFO, strata_int(items, count));
 * are two events, shop:checkout_begin with the fields and shop:checkout_end, which `strata export --to perfetto`
 * shows as one slice. What longjmp() leaves, and in C without -fexceptions an exception, has no end.
 *
 * Enumerations, at file or namespace scope:
 *   STRATA_ENUM(colour, strata_label(RED, 0), strata_label_range(WARM, 1, 5), strata_label_auto(LAST));
 *
 * As printf():
 *   strata_tracef("%d of %s", count, what);          strata_tracef:event, field msg
 *   strata_tracelog(WARNING, "%m");                  strata_tracelog:WARNING, field msg
 *
 * A mistake is an error of the compiler, whose text begins with "strata:". For a span without braces that is behind another
 * one, C compilers have words of their own.
 */
#ifndef STRATA_TRACEPOINT_H
#define STRATA_TRACEPOINT_H

#include <strata/user/enumeration.h>
#include <strata/user/event.h>
#include <strata/user/fields.h>
#include <strata/user/format.h>
#include <strata/user/site.h>
#include <strata/user/span.h>

/* Adds a comma unless nothing follows it: gcc and clang can do that in all their standards. */
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif

/* Makes a field whose name is only made a string, so that a macro of the same name is not expanded. */
#define strata_int(name, ...)                                   \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, 0, 10, STRATA_USER_NULL, __VA_ARGS__)
#define strata_hex(name, ...)                                   \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, 0, 16, STRATA_USER_NULL, __VA_ARGS__)
#define strata_oct(name, ...)                                   \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, 0, 8, STRATA_USER_NULL, __VA_ARGS__)
#define strata_bin(name, ...)                                   \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, 0, 2, STRATA_USER_NULL, __VA_ARGS__)
#define strata_net(name, ...)                                   \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, STRATA_ABI_USER_FIELD_NETWORK, 10, STRATA_USER_NULL, __VA_ARGS__)
#define strata_net_hex(name, ...)                               \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, STRATA_ABI_USER_FIELD_NETWORK, 16, STRATA_USER_NULL, __VA_ARGS__)
#define strata_bool(name, ...)                                  \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _boolean, STRATA_ABI_USER_FIELD_BOOL, 10, STRATA_USER_NULL, __VA_ARGS__)
#define strata_float(name, ...)                                 \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _real, 0, 10, STRATA_USER_NULL, __VA_ARGS__)
#define strata_pointer(name, ...)                               \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _address, 0, 16, STRATA_USER_NULL, __VA_ARGS__)
#define strata_enum(name, ...)                                    \
	STRATA_USER_LABELLED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_scalar, #name, _integer, 0, 10, &strata_enumeration_##__VA_ARGS__)
#define strata_string(name, ...)                                \
	STRATA_USER_VALUED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_string, #name, __VA_ARGS__)
#define strata_text(name, ...)                                   \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_text, #name, __VA_ARGS__)
#define strata_array(name, ...)                                  \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_array, #name, _number, 0, 10, __VA_ARGS__)
#define strata_array_hex(name, ...)                              \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_array, #name, _number, 0, 16, __VA_ARGS__)
#define strata_sequence(name, ...)                               \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_sequence, #name, _number, 0, 10, __VA_ARGS__)
#define strata_sequence_hex(name, ...)                           \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_sequence, #name, _number, 0, 16, __VA_ARGS__)
#define strata_text_sequence(name, ...)                          \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_sequence, #name, _text, 0, 10, __VA_ARGS__)
#define strata_blob(name, ...)                                   \
	STRATA_USER_COUNTED(STRATA_USER_GIVEN(~, ##__VA_ARGS__)) \
	(_sequence, #name, _blob, 0, 16, __VA_ARGS__)

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif /* STRATA_TRACEPOINT_H */
