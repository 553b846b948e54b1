/* SPDX-License-Identifier: MIT */
/*
 * io.c - calls of libc that open, connect, read, write and close; streams are stdio.c's. What libc calls of itself is not
 * seen: read() in fread().
 *
 * Cancellation points stay some: who is cancelled leaves the call without an end.
 */
#define STRATA_LIBC_IO
/* These must be libc's functions, and not the replacements that headers define. */
#undef _FORTIFY_SOURCE

#include <fcntl.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io.h"

/* ---- open ---- */

/* True if open() has a mode after its flags. */
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

#define MOVES(event, name, parameters, ...) \
	CALLS(ssize_t, event, name, parameters, (fd, size), __VA_ARGS__)
#define VECTORS(event, name, parameters, ...) \
	CALLS(ssize_t, event, name, parameters, (fd, n), __VA_ARGS__)

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

CALLS(int, close, close, (int fd), (fd), fd)

/* ---- sockets ---- */

/*
 * Defines a function that sends to the address @whom of @size bytes, or receives from it. @said_ is the address as
 * text.
 */
#define SENDS(type, event, name, parameters, said, whom, size, ...)                            \
	RECORDS(type, event, name, parameters, struct strata_libc_address said_, said,         \
		(result, ERROR(result),                                                        \
		 strata_libc_address(&said_,                                                   \
				     strata_libc_is_address_read(result, errno) ? whom : NULL, \
				     size, size)),                                             \
		__VA_ARGS__)
#define RECEIVES(type, event, name, parameters, said, whom, size, ...)           \
	RECORDS(type, event, name, parameters, struct strata_libc_address said_; \
		const socklen_t room_ = strata_libc_room(whom, size), said,      \
		(result, ERROR(result),                                          \
		 strata_libc_address(&said_, result < 0 ? NULL : whom, room_,    \
				     result >= 0 && room_ ? *(size) : 0)),       \
		__VA_ARGS__)
static const struct strata_libc_address no_address;
#define PACKETS(event, name, parameters, ...)                          \
	RECORDS(ssize_t, event, name, parameters, , (fd, size, flags), \
		(result, ERROR(result), &no_address), __VA_ARGS__)

PACKETS(send, send, (int fd, const void *from, size_t size, int flags), fd, from, size, flags)
PACKETS(recv, recv, (int fd, void *to, size_t size, int flags), fd, to, size, flags)
PACKETS(recv, __recv_chk, (int fd, void *to, size_t size, size_t room, int flags), fd, to, size,
	room, flags)
SENDS(ssize_t, send, sendto,
      (int fd, const void *from, size_t size, int flags, __CONST_SOCKADDR_ARG whom,
       socklen_t bytes),
      (fd, size, flags), whom.__sockaddr__, bytes, fd, from, size, flags, whom, bytes)
RECEIVES(ssize_t, recv, recvfrom,
	 (int fd, void *restrict to, size_t size, int flags, __SOCKADDR_ARG who,
	  socklen_t *restrict bytes),
	 (fd, size, flags), who.__sockaddr__, bytes, fd, to, size, flags, who, bytes)
RECEIVES(ssize_t, recv, __recvfrom_chk,
	 (int fd, void *restrict to, size_t size, size_t room, int flags, __SOCKADDR_ARG who,
	  socklen_t *restrict bytes),
	 (fd, size, flags), who.__sockaddr__, bytes, fd, to, size, room, flags, who, bytes)
CALLS(ssize_t, sendmsg, sendmsg, (int fd, const struct msghdr *from, int flags), (fd, flags), fd,
      from, flags)
CALLS(ssize_t, recvmsg, recvmsg, (int fd, struct msghdr *to, int flags), (fd, flags), fd, to, flags)
SENDS(int, connect, connect, (int fd, __CONST_SOCKADDR_ARG whom, socklen_t bytes), (fd),
      whom.__sockaddr__, bytes, fd, whom, bytes)
RECEIVES(int, accept, accept, (int fd, __SOCKADDR_ARG who, socklen_t *restrict bytes), (fd),
	 who.__sockaddr__, bytes, fd, who, bytes)
RECEIVES(int, accept, accept4, (int fd, __SOCKADDR_ARG who, socklen_t *restrict bytes, int flags),
	 (fd), who.__sockaddr__, bytes, fd, who, bytes, flags)

/* Returns the bytes of the messages that were moved, which the kernel has written into them. */
static size_t bytes_of(const struct mmsghdr *messages, int nr)
{
	size_t bytes = 0;

	while (nr-- > 0)
		bytes += messages[nr].msg_len;
	return bytes;
}

#define MANY(event, name, parameters, messages, ...)            \
	RECORDS(int, event, name, parameters, , (fd, n, flags), \
		(result, ERROR(result), bytes_of(messages, result)), __VA_ARGS__)

MANY(sendmmsg, sendmmsg, (int fd, struct mmsghdr *from, unsigned int n, int flags), from, fd, from,
     n, flags)
MANY(recvmmsg, recvmmsg,
     (int fd, struct mmsghdr *to, unsigned int n, int flags, struct timespec *until), to, fd, to, n,
     flags, until)

__attribute__((constructor)) static void begin(void)
{
	strata_libc_find_own();
}
