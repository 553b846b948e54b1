/* SPDX-License-Identifier: MIT */
/*
 * attack_socket.c - both ends of a socket on which programs announce themselves, in wrong hands.
 *
 *   attack_socket plant PATH          listen at PATH; prints "ready", and "received" for each descriptor
 *   attack_socket send PATH WAY       announce this process at PATH with a descriptor of the kind WAY;
 *                                     prints "ready" and waits for SIGTERM. 3: may not connect; 4: the
 *                                     kernel has none of that kind
 *   attack_socket ways                the kinds
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "announce.h"

static struct sockaddr_un address;

static int a_pipe(int end)
{
	int fds[2];

	return pipe(fds) ? -1 : fds[end];
}

static int memory_of_another(void)
{
	/* The memory of another process that is traced, which this user may open. */
	DIR *folder = opendir("/proc");
	struct dirent *process;

	while (folder && (process = readdir(folder))) {
		char path[512], target[64];
		int fd;

		if (atoi(process->d_name) <= 0 || atoi(process->d_name) == getpid())
			continue;
		for (fd = 0; fd < 64; fd++) {
			ssize_t n;

			snprintf(path, sizeof(path), "/proc/%s/fd/%d", process->d_name, fd);
			n = readlink(path, target, sizeof(target) - 1);
			if (n <= 0)
				continue;
			target[n] = 0;
			if (!strncmp(target, "/memfd:strata ", 14))
				return open(path, O_RDWR);
		}
	}
	errno = ENOENT;
	return -1;
}

static int descriptor(const char *way)
{
	sigset_t none;
	int fd, fds[2];

	sigemptyset(&none);
	if (!strcmp(way, "socket"))
		return socket(AF_INET, SOCK_STREAM, 0);
	if (!strcmp(way, "socketpair"))
		return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) ? -1 : fds[0];
	if (!strcmp(way, "pipe-read"))
		return a_pipe(0);
	if (!strcmp(way, "pipe-write"))
		return a_pipe(1);
	if (!strcmp(way, "eventfd"))
		return eventfd(0, 0);
	if (!strcmp(way, "epoll"))
		return epoll_create1(0);
	if (!strcmp(way, "timerfd"))
		return timerfd_create(CLOCK_MONOTONIC, 0);
	if (!strcmp(way, "signalfd"))
		return signalfd(-1, &none, 0);
	if (!strcmp(way, "inotify"))
		return inotify_init1(0);
	if (!strcmp(way, "userfaultfd"))
		return (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	if (!strcmp(way, "pidfd"))
		return (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (!strcmp(way, "null"))
		return open("/dev/null", O_RDWR);
	if (!strcmp(way, "zero"))
		return open("/dev/zero", O_RDWR);
	if (!strcmp(way, "tty"))
		return open("/dev/ptmx", O_RDWR | O_NOCTTY);
	if (!strcmp(way, "fuse"))
		return open("/dev/fuse", O_RDWR);
	if (!strcmp(way, "directory"))
		return open("/", O_RDONLY | O_DIRECTORY);
	if (!strcmp(way, "mem"))
		return open("/proc/self/mem", O_RDWR);
	if (!strcmp(way, "maps"))
		return open("/proc/self/maps", O_RDONLY);
	if (!strcmp(way, "path"))
		return open("/proc/self/exe", O_PATH);
	if (!strcmp(way, "file"))
		return open("/proc/self/exe", O_RDONLY);
	if (!strcmp(way, "namespace"))
		return open("/proc/self/ns/pid", O_RDONLY);
	if (!strcmp(way, "secret"))
		return (int)syscall(447 /* memfd_secret */, 0);
	if (!strcmp(way, "huge")) {
		fd = memfd_create(STRATA_ABI_USER_MEMFD, MFD_HUGETLB | MFD_ALLOW_SEALING);
		return fd >= 0 && ftruncate(fd, 2 << 20) ? -1 : fd;
	}
	if (!strcmp(way, "unsealed")) {
		fd = memfd_create(STRATA_ABI_USER_MEMFD, MFD_ALLOW_SEALING);
		return fd >= 0 && ftruncate(fd, 8 << 20) ? -1 : fd;
	}
	if (!strcmp(way, "read-only")) {
		char path[64];

		fd = memfd_create(STRATA_ABI_USER_MEMFD, MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, 8 << 20))
			return -1;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		return open(path, O_RDONLY);
	}
	if (!strcmp(way, "endless")) {
		fd = memfd_create(STRATA_ABI_USER_MEMFD, MFD_ALLOW_SEALING);
		return fd >= 0 && ftruncate(fd, INT64_MAX & ~4095LL) ? -1 : fd;
	}
	if (!strcmp(way, "others"))
		return memory_of_another();
	if (!strcmp(way, "itself")) {
		/* The connection itself, once more: closed only with the last message that has it. */
		fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)))
			return -1;
		return fd;
	}
	if (!strcmp(way, "io_uring")) {
		struct io_uring_params parameters;

		memset(&parameters, 0, sizeof(parameters));
		return (int)syscall(SYS_io_uring_setup, 1, &parameters);
	}
	if (!strcmp(way, "bpf")) {
		union bpf_attr map;

		memset(&map, 0, sizeof(map));
		map.map_type = BPF_MAP_TYPE_ARRAY;
		map.key_size = 4;
		map.value_size = 8;
		map.max_entries = 1;
		return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	}
	fprintf(stderr, "attack_socket: no way '%s'\n", way);
	exit(2);
}

static const char *const ways[] = {
	"socket",    "socketpair", "pipe-read", "pipe-write",  "eventfd",  "epoll",
	"timerfd",   "signalfd",   "inotify",	"userfaultfd", "pidfd",	   "null",
	"zero",	     "tty",	   "fuse",	"directory",   "mem",	   "maps",
	"path",	     "file",	   "namespace", "secret",      "huge",	   "unsealed",
	"read-only", "endless",	   "others",	"itself",      "io_uring", "bpf"
};

static void plant(void)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), one;

	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 16)) {
		perror("attack_socket: plant");
		exit(2);
	}
	if (chmod(address.sun_path, 0777))
		exit(2);
	puts("ready");
	fflush(stdout);
	while ((one = accept(listener, NULL, NULL)) >= 0) {
		char text[256], control[256];
		struct iovec part = { text, sizeof(text) };
		struct msghdr message = { .msg_iov = &part,
					  .msg_iovlen = 1,
					  .msg_control = control,
					  .msg_controllen = sizeof(control) };

		if (recvmsg(one, &message, 0) > 0) {
			puts(CMSG_FIRSTHDR(&message) ? "received" : "message");
			fflush(stdout);
		}
		close(one);
	}
}

static int announce(int fd)
{
	int to = announce_connect(address.sun_path), code;

	if (to < 0)
		return errno;
	code = announce_on(to, &fd, 1);
	if (code) {
		/* Some kinds the kernel passes to nobody. */
		fprintf(stderr, "sendmsg: %s\n", strerror(code));
		exit(4);
	}
	close(to);
	return 0;
}

int main(int argc, char **argv)
{
	size_t i;
	int fd, code;

	if (argc > 1 && !strcmp(argv[1], "ways")) {
		for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
			puts(ways[i]);
		return 0;
	}
	if (argc < 3 || strlen(argv[2]) >= sizeof(address.sun_path))
		return 2;
	address.sun_family = AF_UNIX;
	strcpy(address.sun_path, argv[2]);
	if (!strcmp(argv[1], "plant")) {
		plant();
		return 2;
	}
	if (argc < 4)
		return 2;
	fd = descriptor(argv[3]);
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
		return 4;
	}
	code = announce(fd);
	if (code) {
		fprintf(stderr, "%s: %s\n", argv[3], strerror(code));
		return 3;
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
