/* SPDX-License-Identifier: MIT */
/*
 * address.h - socket addresses as text, of memory that may be anything: no byte is read that the kernel has not read or
 * written, of a copy of at most 128 bytes, as the kernel takes them.
 *
 *   127.0.0.1:80  [::1]:80  /run/socket  @abstract  PID (netlink)  CID:PORT (vsock)
 *
 * Of a path, bytes that are not printable ASCII, and '\', are "\xHH". What is cut off, or of another family: no text.
 */
#ifndef STRATA_LIBC_ADDRESS_H
#define STRATA_LIBC_ADDRESS_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

struct strata_libc_address {
	unsigned short family; /* AF_UNSPEC: there is none */
	char text[4 * sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
};

/*
 * Returns whether the number at @at can be read. The kernel reads what is to change a signal mask before it finds
 * that -1 is no way to change one.
 */
static int strata_libc_is_readable(const socklen_t *at)
{
	const uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;
	int saved = errno, is_readable;

	if ((uintptr_t)at % sizeof(*at))
		return 0;
	is_readable = syscall(SYS_rt_sigprocmask, -1, word, NULL, 8) < 0 && errno == EINVAL;
	errno = saved;
	return is_readable;
}

/*
 * Returns how many bytes fit at @who, before the kernel writes an address there; 0 if the size cannot be known.
 */
static socklen_t strata_libc_room(const void *who, const socklen_t *bytes)
{
	return who && bytes && strata_libc_is_readable(bytes) ? *bytes : 0;
}

/*
 * Returns whether the kernel has read the address, judging by the call's error. These errors come behind it. EPERM
 * and EACCES may be a seccomp filter's, before it.
 */
static int strata_libc_is_address_read(ssize_t result, int error)
{
	switch (result < 0 ? error : 0) {
	case 0:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
	case EAGAIN:
	case EALREADY:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case EINPROGRESS:
	case EINTR:
	case EISCONN:
	case EMSGSIZE:
	case ENETUNREACH:
	case ENOBUFS:
	case ENOENT:
	case EPIPE:
	case EPROTOTYPE:
	case ETIMEDOUT:
		return 1;
	default:
		return 0;
	}
}

static char *strata_libc_put_number(char *to, uint32_t number)
{
	if (number >= 10)
		to = strata_libc_put_number(to, number / 10);
	*to++ = (char)('0' + number % 10);
	return to;
}

static char *strata_libc_put_path(char *to, const unsigned char *path, size_t bytes)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t i;

	for (i = 0; i < bytes; i++) {
		if (path[i] > ' ' - 1 && path[i] < 127 && path[i] != '\\') {
			*to++ = (char)path[i];
			continue;
		}
		*to++ = '\\';
		*to++ = 'x';
		*to++ = digits[path[i] >> 4];
		*to++ = digits[path[i] & 15];
	}
	return to;
}

/* A whole address of @bytes as text. A handler of a signal may be here: no locale, nothing allocated. */
static void strata_libc_put_address(char *to, const struct sockaddr_storage *from, size_t bytes)
{
	const struct sockaddr_in *inet = (const void *)from;
	const struct sockaddr_in6 *inet6 = (const void *)from;
	const struct sockaddr_un *local = (const void *)from;
	const struct sockaddr_nl *netlink = (const void *)from;
	const struct sockaddr_vm *vsock = (const void *)from;
	char host[INET6_ADDRSTRLEN];

	if (from->ss_family == AF_INET && bytes >= sizeof(*inet) &&
	    inet_ntop(AF_INET, &inet->sin_addr, host, sizeof(host))) {
		to = stpcpy(to, host);
		*to++ = ':';
		to = strata_libc_put_number(to, ntohs(inet->sin_port));
	} else if (from->ss_family == AF_INET6 && bytes >= sizeof(*inet6) &&
		   inet_ntop(AF_INET6, &inet6->sin6_addr, host, sizeof(host))) {
		*to++ = '[';
		to = stpcpy(to, host);
		if (inet6->sin6_scope_id) {
			*to++ = '%';
			to = strata_libc_put_number(to, inet6->sin6_scope_id);
		}
		*to++ = ']';
		*to++ = ':';
		to = strata_libc_put_number(to, ntohs(inet6->sin6_port));
	} else if (from->ss_family == AF_UNIX && bytes > offsetof(struct sockaddr_un, sun_path)) {
		const unsigned char *path = (const unsigned char *)local->sun_path;
		size_t length = bytes - offsetof(struct sockaddr_un, sun_path);

		length = length < sizeof(local->sun_path) ? length : sizeof(local->sun_path);
		if (path[0]) {
			to = strata_libc_put_path(to, path, strnlen((const char *)path, length));
		} else {
			*to++ = '@';
			to = strata_libc_put_path(to, path + 1, length - 1);
		}
	} else if (from->ss_family == AF_NETLINK && bytes >= sizeof(*netlink)) {
		to = strata_libc_put_number(to, netlink->nl_pid);
	} else if (from->ss_family == AF_VSOCK && bytes >= sizeof(*vsock)) {
		to = strata_libc_put_number(to, vsock->svm_cid);
		*to++ = ':';
		to = strata_libc_put_number(to, vsock->svm_port);
	}
	*to = '\0';
}

/* @room bytes at @address can be read, of an address that has @bytes. Returns @said. */
static const struct strata_libc_address *strata_libc_address(struct strata_libc_address *said,
							     const void *address, size_t room,
							     size_t bytes)
{
	struct sockaddr_storage copy;
	size_t there = room < bytes ? room : bytes;

	said->family = AF_UNSPEC;
	said->text[0] = '\0';
	if (!address || there < sizeof(copy.ss_family))
		return said;
	there = there < sizeof(copy) ? there : sizeof(copy);
	memcpy(&copy, address, there);
	said->family = copy.ss_family;
	if (there == bytes)
		strata_libc_put_address(said->text, &copy, there);
	return said;
}

#endif /* STRATA_LIBC_ADDRESS_H */
