/* SPDX-License-Identifier: MIT */
/*
 * lttng_printf.h - records of lttng_ust_tracef() and lttng_ust_tracelog(). The probes are in each object
 * that uses them, since every program has its own.
 */
#ifndef STRATA_USER_LTTNG_PRINTF_H
#define STRATA_USER_LTTNG_PRINTF_H

#pragma GCC system_header

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include <strata/user/lttng_event.h>
#include <strata/user/lttng_payload.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The fields in front of the message: tracelog's line, file and function. */
struct strata_lttng_place {
	const char *file;
	const char *function;
	int line;
};

STRATA_LTTNG_INLINE unsigned char *strata_lttng_put_place(unsigned char *to,
							  const struct strata_lttng_place *place)
{
	if (!place)
		return to;
	to = strata_lttng_put(to, &place->line, sizeof(place->line));
	to = strata_lttng_put(to, place->file, strlen(place->file) + 1);
	return strata_lttng_put(to, place->function, strlen(place->function) + 1);
}

/*
 * The message is a text sequence with a length of 4 bytes. It is formatted where it goes: first into the
 * stack, and if it is longer than the room there, again into memory of its length. vsnprintf() writes a
 * NUL behind it, which the payload's tail has room for.
 */
static __attribute__((noinline, cold, unused)) void
strata_lttng_vprintf(struct strata_tracepoint *tracepoint, const struct strata_lttng_place *place,
		     const char *format, va_list arguments)
{
	unsigned char stack[STRATA_LTTNG_STACK], *payload = stack + STRATA_USER_HEADROOM, *at;
	uint64_t before = 4, room;
	va_list again;
	int length, saved = errno;

	if (place)
		before += sizeof(place->line) + strlen(place->file) + strlen(place->function) + 2;
	room = before < STRATA_LTTNG_STACK_BYTES ? STRATA_LTTNG_STACK_BYTES - before : 0;
	va_copy(again, arguments);
	length = vsnprintf(room ? (char *)payload + before : 0, (size_t)(room ? room + 1 : 0),
			   format, arguments);
	if (length < 0) {
		/* A format that fails is counted as a discarded record. */
		strata_user_stage(tracepoint, STRATA_LTTNG_TOO_LARGE);
	} else {
		uint64_t text = (uint64_t)length;

		if (text > room)
			payload = strata_user_stage(tracepoint, before + text);
		if (payload) {
			at = strata_lttng_put_place(payload, place);
			if (text > room) {
				errno = saved; /* for %m */
				length = vsnprintf((char *)at + 4, (size_t)text + 1, format, again);
				length = length < 0		 ? 0 :
					 (uint64_t)length > text ? (int)text :
								   length;
			}
			at = strata_lttng_put_length(at, (uint64_t)length, 4);
			memset(at + length, 0, STRATA_USER_TAILROOM);
			strata_user_record(tracepoint, payload,
					   (uint32_t)(at - payload) + (uint32_t)length);
			if (text > room)
				strata_user_unstage(payload, before + text);
		}
	}
	va_end(again);
	errno = saved;
}

__attribute__((noinline, cold, unused, format(printf, 3, 4))) static void
strata_lttng_printf(struct strata_tracepoint *tracepoint, const struct strata_lttng_place *place,
		    const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	strata_lttng_vprintf(tracepoint, place, format, arguments);
	va_end(arguments);
}

/* Fields that tracef() and tracelog() have in common. */
#define STRATA_LTTNG_FIELD_STRING(name)                             \
	{                                                           \
		name, 0, 0, STRATA_ABI_USER_STRING, 0, 1, 0, 10, 0, \
		{                                                   \
			0, 0                                        \
		}                                                   \
	}
#define STRATA_LTTNG_FIELD_MESSAGE                                                        \
	{                                                                                 \
		"msg", 0, 0, STRATA_ABI_USER_SEQUENCE, STRATA_ABI_USER_TEXT, 1, 0, 10, 4, \
		{                                                                         \
			0, 0                                                              \
		}                                                                         \
	}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_USER_LTTNG_PRINTF_H */
