/* SPDX-License-Identifier: MIT */
/* format.h - strata_tracef() and strata_tracelog(): text as of printf(), see tracepoint.h. */
#ifndef STRATA_USER_FORMAT_H
#define STRATA_USER_FORMAT_H

#include <errno.h>
#include <strata/user/enumeration.h>
#include <strata/user/event.h>

STRATA_USER_CONSTANT struct strata_field strata_fields_of_format[] = { STRATA_USER_FIELD(
	"msg", STRATA_USER_NULL, 0, STRATA_ABI_USER_STRING, 0, 0, 0, 10, 0) };

#define strata_tracef(...) \
	STRATA_USER_FORMAT("strata_tracef", "event", strata_level_DEBUG, __VA_ARGS__)
#define strata_tracelog(level, ...) \
	STRATA_USER_FORMAT("strata_tracelog", #level, strata_level_##level, __VA_ARGS__)

#define STRATA_USER_FORMAT(provider, event, level, ...)                          \
	do {                                                                     \
		STRATA_USER_NAME_ASSERT(provider, event, level)                  \
		STRATA_USER_DEFINE_OF(provider, event, STRATA_USER_LEVEL(level), \
				      strata_fields_of_format, 1)                \
		if (STRATA_USER_IS_ON(STRATA_USER_THIS_OF))                      \
			strata_user_format(&STRATA_USER_THIS_OF, __VA_ARGS__);   \
	} while (0)

#ifdef __cplusplus
extern "C++" {
#endif

/* End the text in @payload, of @bytes with its NUL at most, and record it. */
STRATA_USER_INLINE void strata_user_record_text(struct strata_tracepoint *tracepoint,
						unsigned char *payload, int length, uint32_t bytes)
{
	uint32_t used = length < 0 ? 0 : STRATA_USER_CAST(uint32_t, length);

	if (used >= bytes)
		used = bytes - 1;

	for (uint32_t i = 0; i < used; i++) {
		if (!payload[i])
			payload[i] = STRATA_USER_INNER_NUL;
	}
	__builtin_memset(payload + used, 0, 1 + STRATA_USER_TAILROOM);
	strata_user_record(tracepoint, payload, used + 1);
}

/**
 * strata_user_format() - record a formatted text; empty if it cannot be formatted.
 *
 * What the arguments point to may change meanwhile: the second formatting of a long text may give
 * another length than the first, and is cut at that one.
 */
STRATA_USER_FUNCTION __attribute__((format(printf, 2, 3))) void
strata_user_format(struct strata_tracepoint *tracepoint, const char *format, ...)
{
	unsigned char stack[STRATA_USER_HEADROOM + STRATA_USER_STACK_BYTES + STRATA_USER_TAILROOM]
		__attribute__((aligned(8)));
	unsigned char *payload = stack + STRATA_USER_HEADROOM;
	const int saved_errno = errno;
	__builtin_va_list arguments;
	int length;

	__builtin_va_start(arguments, format);
	length = __builtin_vsnprintf(STRATA_USER_ADDRESS(char *, payload), STRATA_USER_STACK_BYTES,
				     format, arguments);
	__builtin_va_end(arguments);
	if (length < STRATA_USER_STACK_BYTES) {
		strata_user_record_text(tracepoint, payload, length, STRATA_USER_STACK_BYTES);
	} else {
		const uint32_t bytes = STRATA_USER_CAST(uint32_t, length) + 1;

		payload = strata_user_stage(tracepoint, bytes);
		if (payload) {
			errno = saved_errno; /* for %m */
			__builtin_va_start(arguments, format);
			length = __builtin_vsnprintf(STRATA_USER_ADDRESS(char *, payload), bytes,
						     format, arguments);
			__builtin_va_end(arguments);
			strata_user_record_text(tracepoint, payload, length, bytes);
			strata_user_unstage(payload, bytes);
		}
	}
	errno = saved_errno;
}

#ifdef __cplusplus
} /* extern "C++" */
#endif

#endif /* STRATA_USER_FORMAT_H */
