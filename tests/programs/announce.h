/* SPDX-License-Identifier: MIT */
/*
 * announce.h - what programs that attack a tracer do as libstrata does it: announce themselves at its sockets,
 * with descriptors of their choice, and find the memory that they share with it.
 */
#ifndef STRATA_TESTS_ANNOUNCE_H
#define STRATA_TESTS_ANNOUNCE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <strata/abi/user.h>

/* As many as the kernel takes in one message. */
enum {
	ANNOUNCE_FDS_MAX = 253
};

/* One announcement on the connection @to. Returns 0 or an errno. */
static inline int announce_on(int to, const int *fds, size_t n)
{
	struct strata_abi_user_announcement text = { STRATA_ABI_USER_MAGIC, STRATA_ABI_USER_VERSION,
						     (uint32_t)getpid() };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(ANNOUNCE_FDS_MAX * sizeof(int))];
	} ancillary;
	struct iovec part = { &text, sizeof(text) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = ancillary.bytes };
	struct cmsghdr *head;

	memset(&ancillary, 0, sizeof(ancillary));
	message.msg_controllen = CMSG_SPACE(n * sizeof(int));
	head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(head), fds, n * sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* A connection to the socket @path; -1 and errno if there is none. */
static inline int announce_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), code;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (to >= 0 && connect(to, (struct sockaddr *)&address, sizeof(address))) {
		code = errno;
		close(to);
		errno = code;
		return -1;
	}
	return to;
}

/* To each tracer that listens, @messages times: each on a connection of its own, as tracers take one of each. */
static inline void announce_to_all(long messages, const int *fds, size_t n)
{
	DIR *folder = opendir(STRATA_ABI_USER_SOCKETS_ROOT);
	struct dirent *entry;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	long i;
	int to;

	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), STRATA_ABI_USER_SOCKETS_ROOT "/%.60s", entry->d_name);
		for (i = 0; i < messages; i++) {
			to = announce_connect(path);
			if (to < 0)
				continue;
			announce_on(to, fds, n);
			close(to);
		}
	}
	if (folder)
		closedir(folder);
}

/* A descriptor of the memory that this process shares, opened anew: the program itself has no name for it. -1: none. */
static inline int announce_own_memory(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	char path[300], link[128];
	int memfd = -1;
	ssize_t n;

	while (folder && memfd < 0 && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.200s", entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, "/memfd:" STRATA_ABI_USER_MEMFD " (deleted)"))
			memfd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (folder)
		closedir(folder);
	return memfd;
}

#endif
