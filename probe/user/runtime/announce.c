/* SPDX-License-Identifier: MIT */
/*
 * announce.c - hand the memfd to tracers that want to know of new processes, after the sessions were made that they
 * want from the begin. Nothing here waits: a tracer that does not take the message finds the process in /proc.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
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

/* A socket that is connected to the tracer that listens there, if it may be trusted; else -1. */
static int connect_to(const char *folder, const char *name)
{
	struct sockaddr_un address;
	int socket_fd, n;

	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -1;
	socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (socket_fd < 0)
		return -1;
	if (!connect(socket_fd, (struct sockaddr *)&address, sizeof(address)) &&
	    trusted_listener(socket_fd))
		return socket_fd;
	close(socket_fd);
	return -1;
}

/* Up to @most bytes of @fd, and a NUL. Returns 0 if there are more, or none. */
static int read_text(int fd, char *text, size_t most)
{
	size_t nr = 0;
	long n;

	while (nr <= most && (n = strata_syscall(SYS_read, fd, text + nr, most + 1 - nr)) > 0)
		nr += (size_t)n;
	if (!nr || nr > most)
		return 0;
	text[nr] = '\0';
	return 1;
}

/*
 * Make the session that is wanted in the file beside the socket @name, which is the folder's owner's. Returns its slot,
 * or -1: nothing is wanted, or it could not be made, and the tracer does it when it hears of us.
 */
static int make_wanted(int folder, const char *name, strata_user_request_fn *make, void *context)
{
	const size_t most = STRATA_ABI_USER_REQUEST_BYTES;
	struct strata_user_request request;
	struct stat status, of_folder;
	char path[NAME_MAX + 1], *text;
	size_t n = strlen(name), end = strlen(STRATA_ABI_USER_SOCKET_END);
	int fd, slot = -1;

	if (n <= end || strcmp(name + n - end, STRATA_ABI_USER_SOCKET_END) ||
	    n - end + sizeof(STRATA_ABI_USER_REQUEST) > sizeof(path))
		return -1;
	memcpy(path, name, n - end);
	strcpy(path + n - end, STRATA_ABI_USER_REQUEST);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	text = (char *)strata_mmap(NULL, most + 2, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (text != MAP_FAILED) {
		if (!fstat(fd, &status) && !fstat(folder, &of_folder) && S_ISREG(status.st_mode) &&
		    status.st_uid == of_folder.st_uid && !(status.st_mode & (S_IWGRP | S_IWOTH)) &&
		    read_text(fd, text, most) && strata_environment_request_of(text, &request))
			slot = make(&request, context);
		strata_munmap(text, most + 2);
	}
	close(fd);
	return slot;
}

struct directory_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short bytes;
	unsigned char type;
	char name[];
};

/* By the system call: opendir() allocates, and this may run in a signal handler (after fork). */
static void find_in(const char *folder, struct strata_user_listeners *listeners,
		    strata_user_request_fn *make, void *context)
{
	_Alignas(8) char entries[2048];
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), socket_fd;
	long n, at;

	if (fd < 0)
		return;
	while (trusted(fd) &&
	       (n = strata_syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (at = 0; at < n;) {
			const struct directory_entry *entry =
				(const struct directory_entry *)(void *)(entries + at);

			at += entry->bytes;
			if (entry->type != DT_SOCK || listeners->nr == STRATA_USER_LISTENERS_MAX)
				continue;
			socket_fd = connect_to(folder, entry->name);
			if (socket_fd < 0)
				continue;
			listeners->of[listeners->nr].socket = socket_fd;
			/* What is not listened to any more wants nothing. */
			listeners->of[listeners->nr++].slot =
				make ? make_wanted(fd, entry->name, make, context) : -1;
		}
	close(fd);
}

/*
 * Connect to all tracers that listen; with @make, make the sessions that they want from the begin, before anybody
 * knows this process' memory.
 */
void strata_listeners_find(struct strata_user_listeners *listeners, strata_user_request_fn *make,
			   void *context)
{
	char folder[64];

	listeners->nr = 0;
	find_in(STRATA_ABI_USER_SOCKETS_ROOT, listeners, make, context);
	if (getauxval(AT_SECURE) || !geteuid())
		return;
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_USER, (unsigned)geteuid());
	find_in(folder, listeners, make, context);
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_TMP, (unsigned)geteuid());
	find_in(folder, listeners, make, context);
}

/* Tell those who were found. Whom nobody can tell, finds this process in /proc. */
void strata_announce_to_listeners(struct strata_user_listeners *listeners)
{
	int i;

	for (i = 0; i < listeners->nr; i++) {
		if (send_memfd(listeners->of[i].socket) && listeners->of[i].slot >= 0)
			strata_session_free((uint32_t)listeners->of[i].slot);
		close(listeners->of[i].socket);
	}
	listeners->nr = 0;
}
