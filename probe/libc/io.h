/* SPDX-License-Identifier: MIT */
/* io.h - record functions of libc that open, move bytes and close: two events each, of the provider io. */
#ifndef STRATA_LIBC_IO_H
#define STRATA_LIBC_IO_H

#include "events.h"
#include "replaced_function.h"

#define WANTS(event)                                                                              \
	__builtin_expect((STRATA_ENABLED(io, event##_begin) | STRATA_ENABLED(io, event##_end)) && \
				 !strata_libc_is_own(STRATA_LIBC_CALLER),                         \
			 0)

/* errno of a result that is an error. */
#define ERROR(result) ((result) < 0 ? errno : 0)

/* Returns whether the kernel has read the path. A path that it has not read may be unreadable. */
__attribute__((unused)) static int is_read(int result, int error)
{
	switch (result < 0 ? error : 0) {
	case 0:
	case ENOENT:
	case EACCES:
	case ENOTDIR:
	case ELOOP:
	case EISDIR:
	case EEXIST:
	case EPERM:
	case EROFS:
	case ETXTBSY:
	case ENXIO:
	case ENODEV:
	case EBUSY:
		return 1;
	default:
		return 0;
	}
}

/*
 * @before is done first; the event's begin has @said and the caller, its end @ended; what the function gets is behind
 * these.
 */
#define OPEN(...) __VA_ARGS__
#define RECORDS(type, event, name, parameters, before, said, ended, ...)              \
	STRATA_LIBC_EXPORT type name parameters;                                      \
	STRATA_LIBC_NEXT_IS(name)                                                     \
	STRATA_LIBC_EXPORT type name parameters                                       \
	{                                                                             \
		type result;                                                          \
                                                                                      \
		if (!WANTS(event))                                                    \
			return STRATA_LIBC_NEXT(name)(__VA_ARGS__);                   \
		before;                                                               \
		STRATA_TRACE_EVENT(io, event##_begin, OPEN said, STRATA_LIBC_CALLER); \
		result = STRATA_LIBC_NEXT(name)(__VA_ARGS__);                         \
		STRATA_TRACE_EVENT(io, event##_end, OPEN ended);                      \
		return result;                                                        \
	}
#define CALLS(type, event, name, parameters, said, ...) \
	RECORDS(type, event, name, parameters, , said, (result, ERROR(result)), __VA_ARGS__)

#endif /* STRATA_LIBC_IO_H */
