/* SPDX-License-Identifier: MIT */
/*
 * announce.c - hand the memfd to tracers that want to know of new processes, after the sessions were made that they
 * want from the begin. Nothing here waits, but for a moment for the tracer that has started this program where thousands
 * do: one that does not take the message finds the process in /proc.
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
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime.h"

/* Sends that this process has no memory, and why. Returns 0, or the errno of send(). */
static int send_absence(int socket)
{
	const struct strata_abi_user_absence absence = {
		STRATA_ABI_USER_ABSENCE_MAGIC,
		STRATA_ABI_USER_VERSION,
		(uint32_t)strata_runtime.memory_errno,
		strata_runtime.starter.generation,
	};

	return send(socket, &absence, sizeof(absence), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Sends the memory, or a descriptor whose name says why there is none. Returns 0, or the errno of sendmsg(). */
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

	if (strata_runtime.fd < 0)
		return send_absence(socket);
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

/*
 * Returns whether the content of this folder can be trusted: it is root's or our user's, and nobody
 * else may write to it. Not our user's if the kernel does not let that user look into this process
 * either, which has had other rights then.
 */
static int trusted(int folder)
{
	struct stat status;

	return !strata_syscall(SYS_fstat, folder, (long)&status) && S_ISDIR(status.st_mode) &&
	       (status.st_uid == 0 ||
		(status.st_uid == geteuid() &&
		 strata_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == 1)) &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/*
 * Returns whether root or our user listens on the socket. The folder may be another one by now than the one that
 * trusted() saw.
 */
static int trusted_listener(int socket_fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/*
 * How long a program that begins waits for room in the queue of the tracer that started it [us], if more connections
 * arrive than the kernel queues. A program that is not heard, and ends before a search, is not recorded.
 */
#define STRATA_USER_CONNECT_US 20000

/* Connects, and waits for room: the kernel wakes one of those who wait when there is some. Returns 0, or an errno. */
static int connect_patiently(int socket_fd, const struct sockaddr_un *address, socklen_t bytes)
{
	const struct timeval patience = { 0, STRATA_USER_CONNECT_US };
	int tries = 3, code;

	if (setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) ||
	    fcntl(socket_fd, F_SETFL, 0))
		return EAGAIN;
	do
		code = connect(socket_fd, (const struct sockaddr *)address, bytes) ? errno : 0;
	while (code == EINTR && --tries);
	return code;
}

/* Returns a socket that is connected to the tracer that listens there, if it may be trusted; else a negative errno. */
static int connect_to(const struct sockaddr_un *address, socklen_t bytes, int is_patient)
{
	int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code;

	if (socket_fd < 0)
		return -errno;
	code = connect(socket_fd, (const struct sockaddr *)address, bytes) ? errno : 0;
	if (code == EAGAIN && is_patient)
		code = connect_patiently(socket_fd, address, bytes);
	if (!code && !trusted_listener(socket_fd))
		code = EPERM;
	if (!code)
		return socket_fd;
	close(socket_fd);
	return -code;
}

/* Fills in the address of a socket with this path. Returns 0 if the path is too long. */
static int at_path(struct sockaddr_un *address, const char *folder, const char *name)
{
	int n;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	n = snprintf(address->sun_path, sizeof(address->sun_path), "%s%s%s", folder,
		     *folder ? "/" : "", name);
	return n >= 0 && (size_t)n < sizeof(address->sun_path);
}

/* Fills in an abstract address. Returns its length. */
static socklen_t at_name(struct sockaddr_un *address, const char *name)
{
	size_t n = strlen(name);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* The byte before an abstract name is 0. */
	if (n >= sizeof(address->sun_path))
		n = sizeof(address->sun_path) - 1;
	memcpy(address->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/*
 * Connects to the tracer that has started this program, by the names of its sockets. Returns the
 * connected socket, or a negative errno.
 */
static int connect_to_starter(const struct strata_user_starter *starter)
{
	struct sockaddr_un address;
	int by_path = -ENOENT, by_name;

	if (*starter->path && at_path(&address, "", starter->path)) {
		by_path = connect_to(&address, sizeof(address), 1);
		if (by_path >= 0)
			return by_path;
	}
	if (!*starter->name)
		return by_path;
	by_name = connect_to(&address, at_name(&address, starter->name), 1);
	/* The name is unknown in this network namespace, so the error of the path tells more. */
	return by_name == -ECONNREFUSED ? by_path : by_name;
}

/*
 * Finds the tracer that has started this program. Returns 0, or the errno of the last attempt to reach it; ESRCH if
 * no tracer has started this program.
 */
int strata_starter_find(struct strata_user_way *way)
{
	const struct strata_user_starter *starter = &strata_runtime.starter;

	way->is_connected = 0;
	way->is_told = 0;
	way->socket = starter->socket;
	if (starter->socket < 0)
		return ESRCH;
	if (strata_memory_is(starter->socket, starter->inode))
		return 0;
	way->socket = connect_to_starter(starter);
	if (way->socket >= 0) {
		way->is_connected = 1;
		return 0;
	}
	return -way->socket;
}

/*
 * Announces this process to the tracer that has started it, and closes the connection. Returns 0 if the tracer that
 * started this program has gone, or was never there; 1 otherwise.
 */
int strata_announce_to_starter(struct strata_user_way *way)
{
	int code = ENOTSOCK, other;

	if (way->is_told)
		return 1;
	if (way->socket >= 0) {
		code = send_memfd(way->socket);
		/* The queue of that socket is full. Connections by other names have queues of their own. */
		if (code == EAGAIN && !way->is_connected) {
			other = connect_to_starter(&strata_runtime.starter);
			if (other >= 0) {
				send_memfd(other);
				close(other);
			}
		}
	}
	if (way->is_connected)
		close(way->socket);
	way->socket = -1;
	way->is_connected = 0;
	return code != EPIPE && code != ECONNRESET && code != ECONNREFUSED && code != ENOTSOCK;
}

/* Reads up to @most bytes of @fd, and adds a NUL. Returns 0 if there are more, or none. */
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
 * Makes the session that a file beside the socket @name requests, if the owner of the folder owns the file. Returns
 * its slot, or -1: nothing is wanted, or it could not be made, and the tracer does it when it hears of us.
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
		if (!strata_syscall(SYS_fstat, fd, (long)&status) &&
		    !strata_syscall(SYS_fstat, folder, (long)&of_folder) &&
		    S_ISREG(status.st_mode) && status.st_uid == of_folder.st_uid &&
		    !(status.st_mode & (S_IWGRP | S_IWOTH)) && read_text(fd, text, most) &&
		    strata_environment_request_of(text, &request))
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

/*
 * Finds the listening sockets in a folder. Uses the system call, since opendir() allocates, and
 * this may run in a signal handler (after fork). @but: the path of a socket that is passed over.
 */
static void find_in(const char *folder, const char *but, struct strata_user_listeners *listeners,
		    strata_user_request_fn *make, void *context)
{
	_Alignas(8) char entries[2048];
	struct sockaddr_un address;
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
			if (!at_path(&address, folder, entry->name) ||
			    !strcmp(address.sun_path, but))
				continue;
			socket_fd = connect_to(&address, sizeof(address), 0);
			if (socket_fd < 0)
				continue;
			listeners->of[listeners->nr].socket = socket_fd;
			/* A socket without a listener requests no session. */
			listeners->of[listeners->nr++].slot =
				make ? make_wanted(fd, entry->name, make, context) : -1;
		}
	close(fd);
}

/*
 * Connects to all listening tracers, except the one that started this program if it @knows_starter. With @make, makes
 * the sessions that they request from the begin, before any tracer knows this process' memory.
 */
void strata_listeners_find(struct strata_user_listeners *listeners, int knows_starter,
			   strata_user_request_fn *make, void *context)
{
	const char *but = knows_starter ? strata_runtime.starter.path : "";
	char folder[64];

	listeners->nr = 0;
	find_in(STRATA_ABI_USER_SOCKETS_ROOT, but, listeners, make, context);
	if (getauxval(AT_SECURE) || !geteuid())
		return;
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_USER, (unsigned)geteuid());
	find_in(folder, but, listeners, make, context);
	snprintf(folder, sizeof(folder), STRATA_ABI_USER_SOCKETS_TMP, (unsigned)geteuid());
	find_in(folder, but, listeners, make, context);
}

/*
 * Announces this process to the listeners that were found. A tracer that cannot be told finds this process in /proc.
 */
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
