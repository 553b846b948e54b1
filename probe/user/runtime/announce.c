/* SPDX-License-Identifier: MIT */
/*
 * announce.c - hand the memfd to tracers that want to know of new processes. Nothing here waits: a
 * tracer that does not take the message finds the process in /proc.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime.h"

/* Returns 0, or the errno of sendmsg(). */
static int send_memfd(int socket)
{
	struct strata_abi_user_announcement announcement = {
		STRATA_ABI_USER_MAGIC,
		STRATA_ABI_USER_VERSION,
		(uint32_t)getpid(),
	};
	struct iovec text = { &announcement, sizeof(announcement) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message;
	struct cmsghdr *part;

	memset(&control, 0, sizeof(control));
	memset(&message, 0, sizeof(message));
	message.msg_iov = &text;
	message.msg_iovlen = 1;
	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	part = CMSG_FIRSTHDR(&message);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &strata_runtime.fd, sizeof(int));
	return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Returns 0 if the tracer that started this program has gone, or was never there; 1 otherwise. */
int strata_announce_to_starter(void)
{
	int code;

	/* A process without memory has a descriptor whose name says why. */
	if (strata_runtime.fd < 0)
		return 0;
	if (!strata_memory_is(strata_runtime.socket, strata_runtime.socket_inode))
		return 0;
	code = send_memfd(strata_runtime.socket);
	return code != EPIPE && code != ECONNRESET && code != ECONNREFUSED && code != ENOTSOCK;
}

/*
 * May we trust what is in this folder? Root's is, and our user's, if nobody else may write to it. Not its
 * user's if the kernel would not let that user look into this process either: it has had other rights.
 */
static int trusted(int folder)
{
	struct stat status;

	return !fstat(folder, &status) && S_ISDIR(status.st_mode) &&
	       (status.st_uid == 0 ||
		(status.st_uid == geteuid() &&
		 strata_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == 1)) &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* Is it root who listens there, or our user? The folder may be another one by now than what trusted() saw. */
static int trusted_listener(int socket_fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

static void announce_to(const char *folder, const char *name)
{
	struct sockaddr_un address;
	int socket_fd, n;

	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return;
	socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (socket_fd < 0)
		return;
	if (!connect(socket_fd, (struct sockaddr *)&address, sizeof(address)) &&
	    trusted_listener(socket_fd))
		send_memfd(socket_fd);
	close(socket_fd);
}

struct directory_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short bytes;
	unsigned char type;
	char name[];
};

/* By the system call: opendir() allocates, and this may run in a signal handler (after fork). */
static void announce_in(const char *folder)
{
	_Alignas(8) char entries[2048];
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	long n, at;

	if (fd < 0)
		return;
	while (trusted(fd) &&
	       (n = strata_syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (at = 0; at < n;) {
			const struct directory_entry *entry =
				(const struct directory_entry *)(void *)(entries + at);

			if (entry->type == DT_SOCK)
				announce_to(folder, entry->name);
			at += entry->bytes;
		}
	close(fd);
}

void strata_announce_to_listeners(void)
{
	char folder[64];

	announce_in(STRATA_ABI_USER_SOCKETS_ROOT);
	if (getauxval(AT_SECURE) || !geteuid())
		return;
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_USER, (unsigned)geteuid());
	announce_in(folder);
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_TMP, (unsigned)geteuid());
	announce_in(folder);
}
