/* SPDX-License-Identifier: MIT */
/*
 * io.c - calls of libc that open, connect, read, write and close. What libc calls of itself is not seen: read() in fread().
 *
 * Cancellation points stay some: who is cancelled leaves the call without an end.
 */
#define STRATA_LIBC_IO
/* These are libc's functions, and not what headers make of them. */
#undef _FORTIFY_SOURCE

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "events.h"
#include "next.h"

#define WANTS(event)                                                                              \
	__builtin_expect((STRATA_ENABLED(io, event##_begin) | STRATA_ENABLED(io, event##_end)) && \
				 !strata_libc_is_own(STRATA_LIBC_CALLER),                         \
			 0)

/* errno of a result that is an error. */
#define ERROR(result) ((result) < 0 ? errno : 0)

/* Has the kernel read the path? Only then is it one. */
static int is_read(int result, int error)
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

/* ---- open ---- */

/* Whether there is a mode behind the flags. */
#define HAS_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

#define OPEN_BODY(name, path, flags, ...)                                              \
	int result;                                                                    \
                                                                                       \
	if (!WANTS(open))                                                              \
		return STRATA_LIBC_NEXT(name)(__VA_ARGS__);                            \
	STRATA_TRACE_EVENT(io, open_begin, flags, STRATA_LIBC_CALLER);                 \
	result = STRATA_LIBC_NEXT(name)(__VA_ARGS__);                                  \
	STRATA_TRACE_EVENT(io, open_end, is_read(result, errno) ? path : NULL, result, \
			   ERROR(result));                                             \
	return result

#define MODE_OF(flags)                       \
	mode_t mode = 0;                     \
                                             \
	if (HAS_MODE(flags)) {               \
		va_list list;                \
                                             \
		va_start(list, flags);       \
		mode = va_arg(list, mode_t); \
		va_end(list);                \
	}

#define OPENS(name)                                                   \
	STRATA_LIBC_NEXT_IS(name)                                     \
	STRATA_LIBC_EXPORT int name(const char *path, int flags, ...) \
	{                                                             \
		MODE_OF(flags)                                        \
		OPEN_BODY(name, path, flags, path, flags, mode);      \
	}
#define OPENS_AT(name)                                                           \
	STRATA_LIBC_NEXT_IS(name)                                                \
	STRATA_LIBC_EXPORT int name(int dirfd, const char *path, int flags, ...) \
	{                                                                        \
		MODE_OF(flags)                                                   \
		OPEN_BODY(name, path, flags, dirfd, path, flags, mode);          \
	}
#define OPENS_2(name)                                             \
	STRATA_LIBC_EXPORT int name(const char *path, int flags); \
	STRATA_LIBC_NEXT_IS(name)                                 \
	STRATA_LIBC_EXPORT int name(const char *path, int flags)  \
	{                                                         \
		OPEN_BODY(name, path, flags, path, flags);        \
	}
#define OPENS_AT_2(name)                                                     \
	STRATA_LIBC_EXPORT int name(int dirfd, const char *path, int flags); \
	STRATA_LIBC_NEXT_IS(name)                                            \
	STRATA_LIBC_EXPORT int name(int dirfd, const char *path, int flags)  \
	{                                                                    \
		OPEN_BODY(name, path, flags, dirfd, path, flags);            \
	}
#define CREATS(name)                                                             \
	STRATA_LIBC_NEXT_IS(name)                                                \
	STRATA_LIBC_EXPORT int name(const char *path, mode_t mode)               \
	{                                                                        \
		OPEN_BODY(name, path, O_CREAT | O_WRONLY | O_TRUNC, path, mode); \
	}

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
OPENS_2(__open_2)
OPENS_2(__open64_2)
OPENS_AT_2(__openat_2)
OPENS_AT_2(__openat64_2)
CREATS(creat)
CREATS(creat64)

/* ---- read, write, close ---- */

/* What the event's begin has is @said, and the caller; what the function gets is behind it. */
#define SAID(...) __VA_ARGS__, STRATA_LIBC_CALLER
#define CALLS(type, event, name, parameters, said, ...)                     \
	STRATA_LIBC_EXPORT type name parameters;                            \
	STRATA_LIBC_NEXT_IS(name)                                           \
	STRATA_LIBC_EXPORT type name parameters                             \
	{                                                                   \
		type result;                                                \
                                                                            \
		if (!WANTS(event))                                          \
			return STRATA_LIBC_NEXT(name)(__VA_ARGS__);         \
		STRATA_TRACE_EVENT(io, event##_begin, said);                \
		result = STRATA_LIBC_NEXT(name)(__VA_ARGS__);               \
		STRATA_TRACE_EVENT(io, event##_end, result, ERROR(result)); \
		return result;                                              \
	}
#define MOVES(event, name, parameters, ...) \
	CALLS(ssize_t, event, name, parameters, SAID(fd, size), __VA_ARGS__)
#define VECTORS(event, name, parameters, ...) \
	CALLS(ssize_t, event, name, parameters, SAID(fd, n), __VA_ARGS__)
#define PACKETS(event, name, parameters, ...) \
	CALLS(ssize_t, event, name, parameters, SAID(fd, size, flags), __VA_ARGS__)

MOVES(read, read, (int fd, void *to, size_t size), fd, to, size)
MOVES(read, __read_chk, (int fd, void *to, size_t size, size_t room), fd, to, size, room)
MOVES(read, pread, (int fd, void *to, size_t size, off_t at), fd, to, size, at)
MOVES(read, pread64, (int fd, void *to, size_t size, off64_t at), fd, to, size, at)
MOVES(read, __pread_chk, (int fd, void *to, size_t size, off_t at, size_t room), fd, to, size, at,
      room)
MOVES(read, __pread64_chk, (int fd, void *to, size_t size, off64_t at, size_t room), fd, to, size,
      at, room)
MOVES(write, write, (int fd, const void *from, size_t size), fd, from, size)
MOVES(write, pwrite, (int fd, const void *from, size_t size, off_t at), fd, from, size, at)
MOVES(write, pwrite64, (int fd, const void *from, size_t size, off64_t at), fd, from, size, at)

VECTORS(readv, readv, (int fd, const struct iovec *to, int n), fd, to, n)
VECTORS(readv, preadv, (int fd, const struct iovec *to, int n, off_t at), fd, to, n, at)
VECTORS(readv, preadv64, (int fd, const struct iovec *to, int n, off64_t at), fd, to, n, at)
VECTORS(readv, preadv2, (int fd, const struct iovec *to, int n, off_t at, int flags), fd, to, n, at,
	flags)
VECTORS(readv, preadv64v2, (int fd, const struct iovec *to, int n, off64_t at, int flags), fd, to,
	n, at, flags)
VECTORS(writev, writev, (int fd, const struct iovec *from, int n), fd, from, n)
VECTORS(writev, pwritev, (int fd, const struct iovec *from, int n, off_t at), fd, from, n, at)
VECTORS(writev, pwritev64, (int fd, const struct iovec *from, int n, off64_t at), fd, from, n, at)
VECTORS(writev, pwritev2, (int fd, const struct iovec *from, int n, off_t at, int flags), fd, from,
	n, at, flags)
VECTORS(writev, pwritev64v2, (int fd, const struct iovec *from, int n, off64_t at, int flags), fd,
	from, n, at, flags)

CALLS(int, close, close, (int fd), SAID(fd), fd)

/* ---- sockets ---- */

PACKETS(send, send, (int fd, const void *from, size_t size, int flags), fd, from, size, flags)
PACKETS(recv, recv, (int fd, void *to, size_t size, int flags), fd, to, size, flags)
PACKETS(recv, __recv_chk, (int fd, void *to, size_t size, size_t room, int flags), fd, to, size,
	room, flags)
PACKETS(send, sendto,
	(int fd, const void *from, size_t size, int flags, __CONST_SOCKADDR_ARG whom,
	 socklen_t bytes),
	fd, from, size, flags, whom, bytes)
PACKETS(recv, recvfrom,
	(int fd, void *restrict to, size_t size, int flags, __SOCKADDR_ARG who,
	 socklen_t *restrict bytes),
	fd, to, size, flags, who, bytes)
PACKETS(recv, __recvfrom_chk,
	(int fd, void *restrict to, size_t size, size_t room, int flags, __SOCKADDR_ARG who,
	 socklen_t *restrict bytes),
	fd, to, size, room, flags, who, bytes)
CALLS(ssize_t, sendmsg, sendmsg, (int fd, const struct msghdr *from, int flags), SAID(fd, flags),
      fd, from, flags)
CALLS(ssize_t, recvmsg, recvmsg, (int fd, struct msghdr *to, int flags), SAID(fd, flags), fd, to,
      flags)
CALLS(int, connect, connect, (int fd, __CONST_SOCKADDR_ARG whom, socklen_t bytes), SAID(fd), fd,
      whom, bytes)
CALLS(int, accept, accept, (int fd, __SOCKADDR_ARG who, socklen_t *restrict bytes), SAID(fd), fd,
      who, bytes)
CALLS(int, accept, accept4, (int fd, __SOCKADDR_ARG who, socklen_t *restrict bytes, int flags),
      SAID(fd), fd, who, bytes, flags)

/* ---- stdio ---- */

#define FOPENS(name)                                                                           \
	STRATA_LIBC_NEXT_IS(name)                                                              \
	STRATA_LIBC_EXPORT FILE *name(const char *path, const char *mode)                      \
	{                                                                                      \
		FILE *file;                                                                    \
		int saved;                                                                     \
                                                                                               \
		if (!WANTS(fopen))                                                             \
			return STRATA_LIBC_NEXT(name)(path, mode);                             \
		STRATA_TRACE_EVENT(io, fopen_begin, STRATA_LIBC_CALLER);                       \
		file = STRATA_LIBC_NEXT(name)(path, mode);                                     \
		saved = errno;                                                                 \
		STRATA_TRACE_EVENT(io, fopen_end, is_read(file ? 0 : -1, saved) ? path : NULL, \
				   is_read(file ? 0 : -1, saved) ? mode : NULL, file,          \
				   file ? fileno(file) : -1, file ? 0 : saved);                \
		errno = saved;                                                                 \
		return file;                                                                   \
	}

FOPENS(fopen)
FOPENS(fopen64)

#define FMOVES(event, name, parameters, ...)                                                  \
	STRATA_LIBC_EXPORT size_t name parameters;                                            \
	STRATA_LIBC_NEXT_IS(name)                                                             \
	STRATA_LIBC_EXPORT size_t name parameters                                             \
	{                                                                                     \
		size_t result;                                                                \
                                                                                              \
		if (!WANTS(event))                                                            \
			return STRATA_LIBC_NEXT(name)(__VA_ARGS__);                           \
		STRATA_TRACE_EVENT(io, event##_begin, file, size, nmemb, STRATA_LIBC_CALLER); \
		result = STRATA_LIBC_NEXT(name)(__VA_ARGS__);                                 \
		STRATA_TRACE_EVENT(io, event##_end, (ssize_t)result,                          \
				   result < nmemb && ferror(file) ? errno : 0);               \
		return result;                                                                \
	}

FMOVES(fread, fread, (void *to, size_t size, size_t nmemb, FILE *file), to, size, nmemb, file)
FMOVES(fread, __fread_chk, (void *to, size_t room, size_t size, size_t nmemb, FILE *file), to, room,
       size, nmemb, file)
FMOVES(fwrite, fwrite, (const void *from, size_t size, size_t nmemb, FILE *file), from, size, nmemb,
       file)

/* Headers have macros of these names. */
#undef fread_unlocked
#undef fwrite_unlocked

FMOVES(fread, fread_unlocked, (void *to, size_t size, size_t nmemb, FILE *file), to, size, nmemb,
       file)
FMOVES(fread, __fread_unlocked_chk, (void *to, size_t room, size_t size, size_t nmemb, FILE *file),
       to, room, size, nmemb, file)
FMOVES(fwrite, fwrite_unlocked, (const void *from, size_t size, size_t nmemb, FILE *file), from,
       size, nmemb, file)

STRATA_LIBC_NEXT_IS(fclose)

STRATA_LIBC_EXPORT int fclose(FILE *file)
{
	int result;

	if (!WANTS(fclose))
		return STRATA_LIBC_NEXT(fclose)(file);
	STRATA_TRACE_EVENT(io, fclose_begin, file, STRATA_LIBC_CALLER);
	result = STRATA_LIBC_NEXT(fclose)(file);
	STRATA_TRACE_EVENT(io, fclose_end, result, ERROR(result));
	return result;
}

__attribute__((constructor)) static void begin(void)
{
	strata_libc_find_own();
}
