/* SPDX-License-Identifier: MIT */
/*
 * kernel_calls.c - system calls with structures and texts, as a 64-bit program makes them or, by int $0x80, as
 * a 32-bit one does; says on stdout what a kernel trace must show.
 *
 *   64 DIR, 32 DIR  known calls, a getpgid(MARK) in front of each; one line "NAME|FIELD;FIELD|EXIT FIELD;...|RET"
 *                   for each
 *   probe           exit status 0 if the kernel takes int $0x80, else by SIGSEGV
 *
 * All that calls point to is below 4 GiB.
 */
#include <arpa/inet.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "count.h"
#include "expected.h"

#define MARK	  424242
#define LOW_BYTES 65536u

static int is_wide;
static char *low;
static size_t low_used;

static long call32(long nr, const long a[6])
{
	long ret;

	/* What is below the stack pointer is the compiler's. */
	__asm__ volatile("sub $128, %%rsp\n\tpush %%rbp\n\tmov %k[bp], %%ebp\n\tint $0x80\n\t"
			 "pop %%rbp\n\tadd $128, %%rsp"
			 : "=a"(ret)
			 : "a"(nr), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]),
			   "D"(a[4]), [bp] "r"(a[5])
			 : "memory", "r8", "r9", "r10", "r11", "cc");
	return (int)ret;
}

/* What the kernel returned, errors as it returns them. */
static long call(long wide, long narrow, ...)
{
	long a[6], ret;
	va_list list;
	int i;

	va_start(list, narrow);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	syscall(SYS_getpgid, MARK);
	if (!is_wide)
		return call32(narrow, a);
	ret = syscall(wide, a[0], a[1], a[2], a[3], a[4], a[5]);
	return ret < 0 ? -errno : ret;
}

/* A call that both have, with four arguments. */
#define CALL(name, narrow, a, b, c, d) \
	call(SYS_##name, narrow, (long)(a), (long)(b), (long)(c), (long)(d), 0L, 0L)

static void *copy(const void *from, size_t bytes)
{
	char *to = low + low_used;

	low_used += (bytes + 15) / 16 * 16;
	test_must(low_used <= LOW_BYTES);
	if (from)
		memcpy(to, from, bytes);
	return to;
}

static char *text(const char *from)
{
	return copy(from, strlen(from) + 1);
}

/* As many of the program's longs. */
static void *longs(int n, ...)
{
	char *to = copy(NULL, (size_t)n * 8);
	va_list list;
	int i;

	va_start(list, n);
	for (i = 0; i < n; i++) {
		long value = va_arg(list, long);

		if (is_wide)
			memcpy(to + 8 * i, &value, 8);
		else
			memcpy(to + 4 * i, &value, 4);
	}
	va_end(list);
	return to;
}

/* One of the program's longs. */
static long long_at(const void *at, int i)
{
	int narrow;
	long wide;

	if (is_wide)
		return memcpy(&wide, (const char *)at + 8 * i, 8), wide;
	return memcpy(&narrow, (const char *)at + 4 * i, 4), narrow;
}

static void files(const char *dir)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	char *path = copy(NULL, 300), *other = copy(NULL, 300), *out = copy(NULL, 300);
	char cwd[300];
	long fd, ret;

	snprintf(path, 300, "%s/file", dir);
	snprintf(other, 300, "%s/link", dir);
	fd = CALL(openat, 295, AT_FDCWD, path, O_CREAT | O_RDWR, 0640);
	expect(fd, "openat", "dfd = -100;filename = \"%s\";mode = 0640|", path);
	if (is_wide) {
		ret = CALL(pwrite64, 0, fd, "abc", 3, 3000000000);
		expect(ret, "pwrite64", "fd = %ld;count = 3;pos = 3000000000|", fd);
		ret = CALL(lseek, 0, fd, 5000000001, SEEK_SET, 0);
		expect(ret, "lseek", "fd = %ld;offset = 5000000001|", fd);
	} else {
		ret = CALL(pwrite64, 181, fd, text("abc"), 3, 705032704);
		expect(ret, "pwrite64", "fd = %ld;count = 3;poslo = 705032704;poshi = 0|", fd);
		ret = call(0, 140, fd, 1L, 705032705L, (long)out, (long)SEEK_SET, 0L);
		expect(ret, "_llseek",
		       "fd = %ld;offset_high = 1;offset_low = 705032705|result = 5000000001", fd);
		ret = call(0, 193, (long)path, 7L, 0L, 0L, 0L, 0L);
		expect(ret, "truncate64", "filename = \"%s\";offset_low = 7;offset_high = 0|",
		       path);
	}
	ret = CALL(symlinkat, 304, path, AT_FDCWD, other, 0);
	expect(ret, "symlinkat", "oldname = \"%s\";newdfd = -100;newname = \"%s\"|", path, other);
	ret = CALL(readlinkat, 305, AT_FDCWD, other, out, 300);
	expect(ret, "readlinkat", "dfd = -100;pathname = \"%s\";bufsiz = 300|buf = \"%s\"", other,
	       path);
	ret = CALL(readlinkat, 305, AT_FDCWD, other, out, 4);
	expect(ret, "readlinkat", "bufsiz = 4|buf = \"%.4s\"", path);
	ret = CALL(readlinkat, 305, AT_FDCWD, path, out, 4);
	expect(ret, "readlinkat", "pathname = \"%s\"|buf = \"\"", path);
	test_must(getcwd(cwd, sizeof(cwd)));
	ret = CALL(getcwd, 183, out, 300, 0, 0);
	expect(ret, "getcwd", "size = 300|buf = \"%s\"", cwd);
	ret = CALL(openat2, 437, AT_FDCWD, path, copy(&how, sizeof(how)), sizeof(how));
	expect(ret, "openat2",
	       "filename = \"%s\";how_flags = 0x80000;how_mode = 00;how_resolve = 0x4;usize = 24|",
	       path);
	ret = CALL(utimensat, 320, AT_FDCWD, path, longs(4, 11L, 22L, 33L, 44L), 0);
	expect(ret, "utimensat",
	       "filename = \"%s\";utimes_0_sec = 11;utimes_0_nsec = 22;utimes_1_sec = 33;utimes_1_nsec = 44|",
	       path);
	ret = call(SYS_mount, 21L, (long)text("what"), (long)text("/no/where"),
		   (long)text("no type that is there"), 0L, 0L, 0L);
	expect(ret, "mount",
	       "dev_name = \"what\";dir_name = \"/no/where\";type = \"no type that is there\"|");
	expect(CALL(close, 6, fd, 0, 0, 0), "close", "fd = %ld|", fd);
}

static void descriptors(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = 0x123456789abcdef };
	int *pair = copy(NULL, 8);
	long ret, fd;

	ret = CALL(pipe2, 331, pair, O_CLOEXEC, 0, 0);
	expect(ret, "pipe2", " |fildes_0 = %d;fildes_1 = %d", pair[0], pair[1]);
	fd = CALL(epoll_create1, 329, 0, 0, 0, 0);
	expect(fd, "epoll_create1", " |");
	ret = CALL(epoll_ctl, 255, fd, EPOLL_CTL_ADD, pair[0], copy(&event, sizeof(event)));
	expect(ret, "epoll_ctl",
	       "epfd = %ld;fd = %d;event_events = 0x80000001;event_data = 0x123456789ABCDEF|", fd,
	       pair[0]);
	ret = CALL(socketpair, 360, AF_UNIX, SOCK_STREAM, 0, pair);
	expect(ret, "socketpair", "protocol = 0|usockvec_0 = %d;usockvec_1 = %d", pair[0], pair[1]);
}

/* What poll and its like are asked, and what they say: of a pipe that can be written and not read. */
static void ready(void)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.u64 = 0x123456789abcdef };
	int *pair = copy(NULL, 8), in, out, i;
	fd_set *reads = copy(NULL, sizeof(fd_set)), *writes = copy(NULL, sizeof(fd_set));
	struct pollfd *polled = copy(NULL, 40 * sizeof(*polled));
	struct epoll_event *events = copy(NULL, 8 * sizeof(event));
	long ret, fd;
	int more[4];

	test_must(!pipe(pair));
	in = pair[0];
	/* Far behind in a set. */
	out = fcntl(pair[1], F_DUPFD, 700);
	test_must(out == 700);
	polled[0] = (struct pollfd){ .fd = in, .events = POLLIN };
	polled[1] = (struct pollfd){ .fd = -1, .events = POLLIN | POLLPRI };
	polled[2] = (struct pollfd){ .fd = out, .events = POLLOUT };
	ret = CALL(poll, 168, polled, 3, 0, 0);
	expect(ret, "poll",
	       "ufds_fd = [ [0] = %d, [1] = -1, [2] = 700 ];ufds_events = [ [0] = 0x1, [1] = 0x3, [2] = 0x4 ];"
	       "nfds = 3|_ufds_fd_length = 1, ufds_fd = [ [0] = 700 ];ufds_revents = [ [0] = 0x4 ]",
	       in);
	for (i = 0; i < 40; i++)
		polled[i] = (struct pollfd){ .fd = i == 37 ? out : in, .events = POLLOUT };
	ret = CALL(ppoll, 309, polled, 40, longs(2, 7L, 8L), 0);
	expect(ret, "ppoll",
	       "_ufds_fd_length = 16;[15] = %d ];_ufds_events_length = 16;nfds = 40;tsp_sec = 7;tsp_nsec = 8|"
	       "_ufds_fd_length = 1, ufds_fd = [ [0] = 700 ]",
	       in);
	ret = CALL(poll, 168, 0, 0, 1, 0);
	expect(ret, "poll", "_ufds_fd_length = 0;_ufds_events_length = 0|_ufds_fd_length = 0");
	FD_SET(in, reads);
	FD_SET(out, writes);
	/* None of the first 701. */
	FD_SET(701, writes);
	ret = call(SYS_select, 142L, 701L, (long)reads, (long)writes, 0L, (long)longs(2, 5L, 6L),
		   0L);
	expect(ret, is_wide ? "select" : "_newselect",
	       "n = 701;_inp_length = 1, inp = [ [0] = %d ];_outp_length = 1, outp = [ [0] = 700 ];_exp_length = 0;"
	       "tvp_sec = 5|_inp_length = 0;_outp_length = 1, outp = [ [0] = 700 ]",
	       in);
	ret = call(SYS_pselect6, 308L, 701L, 0L, (long)writes, 0L, (long)longs(2, 1L, 2L), 0L);
	expect(ret, "pselect6",
	       "n = 701;_inp_length = 0;outp = [ [0] = 700 ];tsp_sec = 1;tsp_nsec = 2|outp = [ [0] = 700 ]");
	fd = epoll_create1(0);
	test_must(!epoll_ctl(fd, EPOLL_CTL_ADD, out, &event));
	ret = CALL(epoll_wait, 256, fd, events, 4, 0);
	expect(ret, "epoll_wait",
	       "epfd = %ld;maxevents = 4|_events_events_length = 1, events_events = [ [0] = 0x4 ];"
	       "events_data = [ [0] = 0x123456789ABCDEF ]",
	       fd);
	ret = call(SYS_epoll_pwait, 319L, fd, (long)events, 4L, 0L, 0L, 8L);
	expect(ret, "epoll_pwait", "epfd = %ld|events_data = [ [0] = 0x123456789ABCDEF ]", fd);
	for (i = 0; i < 4; i++) {
		event.data.u64 = 0x500000000 + (uint64_t)i;
		more[i] = dup(out);
		test_must(!epoll_ctl(fd, EPOLL_CTL_ADD, more[i], &event));
	}
	ret = CALL(epoll_wait, 256, fd, events, 3, 0);
	expect(ret, "epoll_wait",
	       "maxevents = 3|events_events = [ [0] = 0x4, [1] = 0x4, [2] = 0x4 ];"
	       "events_data = [ [0] = 0x%llX, [1] = 0x%llX, [2] = 0x%llX ]",
	       (unsigned long long)events[0].data.u64, (unsigned long long)events[1].data.u64,
	       (unsigned long long)events[2].data.u64);
	ret = CALL(epoll_wait, 256, fd, events, 8, 0);
	expect(ret, "epoll_wait",
	       "maxevents = 8|_events_events_length = 5, events_events = [ [0] = 0x4;_events_data_length = 5;"
	       "[0] = 0x%llX;[4] = 0x%llX ]",
	       (unsigned long long)events[0].data.u64, (unsigned long long)events[4].data.u64);
	for (i = 0; i < 4; i++)
		test_must(!close(more[i]));
	test_must(!close(in) && !close(out) && !close(pair[1]));
	ret = CALL(epoll_wait, 256, fd, events, 4, 0);
	expect(ret, "epoll_wait", "epfd = %ld|_events_events_length = 0;_events_data_length = 0",
	       fd);
}

/* Two datagrams at once. */
static void messages(long fd, void *at, long vector, int port)
{
	const long bytes = sizeof(struct sockaddr_in);
	void *both = longs(16, (long)at, bytes, vector, 1L, 0L, 0L, 0L, 0L, (long)at, bytes, vector,
			   1L, 0L, 0L, 0L, 0L);
	long ret = CALL(sendmmsg, 345, fd, both, 2, 0);

	expect(ret, "sendmmsg",
	       "fd = %ld;mmsg_port = %d;mmsg_addr = [ [0] = 127, [1] = 0, [2] = 0, [3] = 1 ];vlen = 2|mmsg_len = 8",
	       fd, port);
	ret = call(SYS_recvmmsg, 337L, fd, (long)both, 2L, (long)MSG_DONTWAIT, 0L, 0L);
	expect(ret, "recvmmsg",
	       "fd = %ld;vlen = 2|container = 2;mmsg_port = %d;mmsg_addr = [ [0] = 127, [1] = 0;mmsg_len = 8",
	       fd, port);
}

static void options(long fd)
{
	unsigned *bytes = copy(NULL, 4);
	int *value = copy(NULL, 64);
	long ret;

	*value = 4;
	ret = call(SYS_setsockopt, 366L, fd, (long)SOL_IP, (long)IP_TOS, (long)value, 4L, 0L);
	expect(ret, "setsockopt",
	       "fd = %ld;optname = 1;_optval_length = 1, optval = [ [0] = 4 ];optlen = 4|", fd);
	/* Of other levels a longer one may be anything. */
	ret = call(SYS_setsockopt, 366L, fd, (long)SOL_IP, (long)IP_ADD_MEMBERSHIP, (long)value, 8L,
		   0L);
	expect(ret, "setsockopt", "fd = %ld;_optval_length = 0;optlen = 8|", fd);
	ret = call(SYS_setsockopt, 366L, fd, (long)SOL_SOCKET, (long)SO_RCVTIMEO,
		   (long)longs(2, 5L, 250000L), is_wide ? 16L : 8L, 0L);
	expect(ret, "setsockopt", "fd = %ld;optval = [ [0] = 5, [1] = %s|", fd,
	       is_wide ? "0, [2] = 250000, [3] = 0 ]" : "250000 ]");
	*bytes = 64;
	ret = call(SYS_getsockopt, 365L, fd, (long)SOL_SOCKET, (long)SO_RCVTIMEO, (long)value,
		   (long)bytes, 0L);
	expect(ret, "getsockopt", "fd = %ld|_optval_length = %d, optval = [ [0] = 5;optlen = %u",
	       fd, is_wide ? 4 : 2, *bytes);
	*bytes = 4;
	ret = call(SYS_getsockopt, 365L, fd, (long)SOL_SOCKET, (long)SO_TYPE, (long)value,
		   (long)bytes, 0L);
	expect(ret, "getsockopt",
	       "optname = 3|_optval_length = 1, optval = [ [0] = 2 ];optlen = 4");
	*bytes = 4;
	ret = call(SYS_getsockopt, 365L, fd, (long)SOL_SOCKET, 9999L, (long)value, (long)bytes, 0L);
	expect(ret, "getsockopt", "optname = 9999|_optval_length = 0;optlen = 0");
}

/* A datagram to ourselves. */
static void sockets(void)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = 0 };
	struct sockaddr_in *at = copy(&four, sizeof(four));
	unsigned *bytes = copy(NULL, 4);
	char *data = text("datagram");
	void *vector = longs(2, (long)data, 8L), *message;
	long fd, ret;

	inet_pton(AF_INET, "127.0.0.1", &at->sin_addr);
	fd = CALL(socket, 359, AF_INET, SOCK_DGRAM, 0, 0);
	expect(fd, "socket", "container = 2;protocol = 0|");
	ret = CALL(bind, 361, fd, at, sizeof(*at), 0);
	expect(ret, "bind", "fd = %ld;umyaddr_port = 0;[0] = 127, [1] = 0, [2] = 0, [3] = 1|", fd);
	*bytes = sizeof(*at);
	ret = CALL(getsockname, 367, fd, at, bytes, 0);
	expect(ret, "getsockname",
	       "fd = %ld|usockaddr_port = %d;[0] = 127, [1] = 0, [2] = 0, [3] = 1", fd,
	       ntohs(at->sin_port));
	message = longs(7, (long)at, (long)sizeof(*at), (long)vector, 1L, 0L, 0L, 0L);
	ret = CALL(sendmsg, 370, fd, message, 0, 0);
	expect(ret, "sendmsg", "fd = %ld;container = 2;msg_port = %d;[0] = 127, [1] = 0, [2] = 0|",
	       fd, ntohs(at->sin_port));
	ret = CALL(recvmsg, 372, fd, message, 0, 0);
	expect(ret, "recvmsg", "fd = %ld|container = 2;msg_port = %d;[0] = 127, [1] = 0, [2] = 0",
	       fd, ntohs(at->sin_port));
	messages(fd, at, (long)vector, ntohs(at->sin_port));
	options(fd);
	ret = CALL(sendmsg, 370, fd, longs(7, 0L, 0L, (long)vector, 1L, 0L, 0L, 0L), 0, 0);
	expect(ret, "sendmsg", "fd = %ld;msg_port = 0;_msg_addr_length = 0|", fd);
	/* Without an address at all. */
	ret = call(SYS_sendto, 369L, fd, (long)vector, 4L, 0L, 0L, 0L);
	expect(ret, "sendto", "fd = %ld;len = 4;addr_port = 0;_addr_addr_length = 0;addr_len = 0|",
	       fd);
	ret = call(SYS_recvfrom, 371L, fd, (long)vector, 4L, (long)MSG_DONTWAIT, 0L, 0L);
	expect(ret, "recvfrom", "fd = %ld;size = 4|addr_port = 0;_addr_addr_length = 0", fd);
	ret = CALL(connect, 362, fd, at, sizeof(*at), 0);
	expect(ret, "connect", "fd = %ld;uservaddr_port = %d;addrlen = 16|", fd,
	       ntohs(at->sin_port));
}

static void limits(void)
{
	void *limit = copy(NULL, 16), *old = copy(NULL, 16), *timer = copy(NULL, 32);
	struct rlimit now;
	long ret, fd;

	ret = CALL(nanosleep, 162, longs(2, 0L, 123456L), 0, 0, 0);
	expect(ret, "nanosleep", "rqtp_sec = 0;rqtp_nsec = 123456|");
	ret = CALL(nanosleep, 162, longs(2, -3L, 5L), 0, 0, 0);
	expect(ret, "nanosleep", "rqtp_sec = -3;rqtp_nsec = 5|");
	if (!is_wide) {
		const long long wide[2] = { -7000000000, 5 };

		ret = call(0, 407, (long)CLOCK_MONOTONIC, 0L, (long)copy(wide, 16), 0L, 0L, 0L);
		expect(ret, "clock_nanosleep_time64", "rqtp_sec = -7000000000;rqtp_nsec = 5|");
	}
	fd = CALL(timerfd_create, 322, CLOCK_MONOTONIC, 0, 0, 0);
	expect(fd, "timerfd_create", " |");
	ret = CALL(timerfd_settime, 325, fd, 0, longs(4, 100L, 7L, 200L, 9L), 0);
	expect(ret, "timerfd_settime",
	       "ufd = %ld;utmr_interval_sec = 100;utmr_interval_nsec = 7;utmr_value_sec = 200;"
	       "utmr_value_nsec = 9|",
	       fd);
	ret = CALL(timerfd_gettime, 326, fd, timer, 0, 0);
	expect(ret, "timerfd_gettime",
	       "ufd = %ld|otmr_interval_sec = 100;otmr_interval_nsec = 7;otmr_value_sec = %ld", fd,
	       long_at(timer, 2));
	ret = CALL(setitimer, 104, ITIMER_VIRTUAL, longs(4, 0L, 0L, 1000L, 3L), 0, 0);
	expect(ret, "setitimer",
	       "value_interval_sec = 0;value_value_sec = 1000;value_value_usec = 3|");
	test_must(!getrlimit(RLIMIT_NOFILE, &now));
	ret = CALL(getrlimit, 191, RLIMIT_NOFILE, limit, 0, 0);
	expect(ret, is_wide ? "getrlimit" : "ugetrlimit", " |rlim_cur = %lu;rlim_max = %lu",
	       now.rlim_cur, now.rlim_max);
	ret = CALL(setrlimit, 75, RLIMIT_NOFILE, limit, 0, 0);
	expect(ret, "setrlimit", "rlim_cur = %lu;rlim_max = %lu|", now.rlim_cur, now.rlim_max);
	ret = CALL(prlimit64, 340, 0, RLIMIT_NOFILE, copy(&now, sizeof(now)), old);
	expect(ret, "prlimit64", "pid = 0;new_rlim_cur = %lu|old_rlim_max = %lu", now.rlim_cur,
	       now.rlim_max);
	ret = CALL(sched_setscheduler, 156, 0, SCHED_OTHER, copy("\5\0\0", 4), 0);
	expect(ret, "sched_setscheduler", "pid = 0;param_priority = 5|");
}

static void nothing(int signal)
{
	(void)signal;
}

/* A process that sends its parent SIGUSR1 once that sleeps, which it does in one place only then. */
static pid_t interrupter(void)
{
	char path[64], stat[256], *state;
	pid_t parent = getpid(), child = fork();
	ssize_t size;
	int file;

	test_must(child >= 0);
	if (child)
		return child;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)parent);
	do {
		poll(NULL, 0, 1);
		file = open(path, O_RDONLY | O_CLOEXEC);
		test_must(file >= 0);
		size = read(file, stat, sizeof(stat) - 1);
		test_must(size > 0 && !close(file));
		stat[size] = 0;
		state = strrchr(stat, ')');
	} while (!state || state[1] != ' ' || state[2] != 'S');
	test_must(!kill(parent, SIGUSR1));
	_exit(0);
}

/* How long a thread waits, and how much of it was left. */
static void waits(void)
{
	struct sigaction interrupt = { .sa_handler = nothing }, old;
	unsigned *word = copy(NULL, 4);
	void *rest = longs(2, 77L, 78L);
	pid_t child;
	int status;
	long ret;

	*word = 1;
	ret = call(SYS_futex, 240L, (long)word, (long)(FUTEX_WAIT | FUTEX_PRIVATE_FLAG), 2L,
		   (long)longs(2, 3L, 4L), 0L, 0L);
	expect(ret, "futex", "val = 2;utime_sec = 3;utime_nsec = 4|");
	ret = call(SYS_futex, 240L, (long)word,
		   (long)(FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME), 1L,
		   (long)longs(2, 5L, 6L), 0L, -1L);
	expect(ret, "futex", "val = 1;utime_sec = 5;utime_nsec = 6;val3 = 0xFFFFFFFF|");
	/* A number there, which is no address. */
	ret = call(SYS_futex, 240L, (long)word, (long)FUTEX_CMP_REQUEUE, 1L, (long)rest,
		   (long)(word + 1), 1L);
	expect(ret, "futex", "utime = 0x%lX;utime_sec = 0;utime_nsec = 0;val3 = 0x1|", (long)rest);
	ret = CALL(futex, 240, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, 12);
	expect(ret, "futex", "utime = 0xC;utime_sec = 0;utime_nsec = 0|");
	if (!is_wide) {
		const long long wide[2] = { 7000000000, 5 };

		ret = call(0L, 422L, (long)word, (long)FUTEX_WAIT, 2L, (long)copy(wide, 16), 0L,
			   0L);
		expect(ret, "futex_time64", "val = 2;utime_sec = 7000000000;utime_nsec = 5|");
	}
	ret = CALL(nanosleep, 162, longs(2, 0L, 10L), rest, 0, 0);
	expect(ret, "nanosleep", "rqtp_nsec = 10|rmtp_sec = 0;rmtp_nsec = 0");
	test_must(!sigaction(SIGUSR1, &interrupt, &old));
	child = interrupter();
	ret = CALL(nanosleep, 162, longs(2, 50L, 0L), rest, 0, 0);
	test_must(ret == -EINTR && long_at(rest, 0) < 50);
	/* To a tracer, before the kernel has looked for a handler. */
	expect(-516, "nanosleep", "rqtp_sec = 50|rmtp_sec = %ld;rmtp_nsec = %ld", long_at(rest, 0),
	       long_at(rest, 1));
	test_must(waitpid(child, &status, 0) == child && !status);
	test_must(!sigaction(SIGUSR1, &old, NULL));
}

/* What the kernel says of files, and of itself. */
static void states(const char *dir)
{
	char *path = copy(NULL, 300), *names = copy(NULL, 400);
	unsigned char *found = copy(NULL, 512);
	struct statfs files;
	struct sysinfo now;
	struct utsname name;
	struct stat stat;
	long ret, fd;

	snprintf(path, 300, "%s/states", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0604);
	test_must(fd >= 0 && !ftruncate((int)fd, 1234567) && !fstat((int)fd, &stat));
#define STAT                                                                          \
	"statbuf_ino = %lu;statbuf_mode = 0100604;statbuf_uid = %u;statbuf_gid = %u;" \
	"statbuf_size = 1234567;statbuf_mtime_sec = %ld"
	ret = CALL(stat, 195, path, found, 0, 0);
	expect(ret, is_wide ? "stat" : "stat64", "filename = \"%s\"|" STAT, path, stat.st_ino,
	       stat.st_uid, stat.st_gid, stat.st_mtime);
	ret = CALL(fstat, 197, fd, found, 0, 0);
	expect(ret, is_wide ? "fstat" : "fstat64", "fd = %ld|" STAT, fd, stat.st_ino, stat.st_uid,
	       stat.st_gid, stat.st_mtime);
	ret = CALL(newfstatat, 300, AT_FDCWD, path, found, 0);
	expect(ret, is_wide ? "newfstatat" : "fstatat64", "dfd = -100|" STAT, stat.st_ino,
	       stat.st_uid, stat.st_gid, stat.st_mtime);
	if (!is_wide) {
		ret = call(0L, 106L, (long)path, (long)found, 0L, 0L, 0L, 0L);
		expect(ret, "stat", " |" STAT, stat.st_ino & 0xffffffff, stat.st_uid & 0xffff,
		       stat.st_gid & 0xffff, stat.st_mtime);
	}
	ret = CALL(newfstatat, 300, AT_FDCWD, text("/no/such/file"), found, 0);
	expect(ret, is_wide ? "newfstatat" : "fstatat64", "dfd = -100|statbuf_size = 0");
	ret = call(SYS_statx, 383L, (long)AT_FDCWD, (long)path, 0L, (long)STATX_BASIC_STATS,
		   (long)found, 0L);
	expect(ret, "statx",
	       " |buffer_uid = %u;buffer_mode = 0100604;buffer_ino = %lu;buffer_size = 1234567;"
	       "buffer_mtime_sec = %ld",
	       stat.st_uid, stat.st_ino, stat.st_mtime);
	test_must(!statfs("/proc", &files));
	ret = CALL(statfs, 99, text("/proc"), found, 0, 0);
	expect(ret, "statfs",
	       "pathname = \"/proc\"|buf_type = 0x9FA0;buf_bsize = %ld;buf_blocks = 0",
	       files.f_bsize);
	if (!is_wide) {
		ret = call(0L, 268L, (long)text("/proc"), 84L, (long)found, 0L, 0L, 0L);
		expect(ret, "statfs64", " |buf_type = 0x9FA0;buf_bsize = %ld;buf_ffree = 0",
		       files.f_bsize);
	}
	test_must(!uname(&name) && !sysinfo(&now));
	ret = CALL(uname, 122, names, 0, 0, 0);
	expect(ret, "uname", " |name_nodename = \"%s\";name_release = \"%s\";name_machine = \"",
	       name.nodename, name.release);
	ret = CALL(sysinfo, 116, found, 0, 0, 0);
	expect(ret, "sysinfo", " |info_uptime = %ld;info_totalram = %lu;info_mem_unit = %u",
	       long_at(found, 0), (unsigned long)long_at(found, 4),
	       *(unsigned *)(void *)(found + (is_wide ? 104 : 52)));
	ret = CALL(times, 43, found, 0, 0, 0);
	expect(is_wide ? ret : (int)ret, "times", " |tbuf_utime = %ld;tbuf_cstime = %ld",
	       long_at(found, 0), long_at(found, 3));
	ret = CALL(getrusage, 77, RUSAGE_SELF, found, 0, 0);
	expect(ret, "getrusage",
	       " |ru_utime_usec = %ld;ru_maxrss = %ld;ru_minflt = %ld;ru_nvcsw = %ld;ru_nivcsw = %ld",
	       long_at(found, 1), long_at(found, 4), long_at(found, 8), long_at(found, 16),
	       long_at(found, 17));
	close((int)fd);
}

static void handlers(void)
{
	const long flags = SA_RESTART | 0x4000000, restorer = 0x1234;
	void *action = is_wide ? longs(4, 1L, flags, restorer, 1L << 16) :
				 longs(5, 1L, flags, restorer, 1L << 16, 0L);
	long ret = CALL(rt_sigaction, 174, SIGUSR2, action, copy(NULL, 32), 8);

	expect(ret, "rt_sigaction",
	       "act_handler = 0x1;act_flags = 0x14000000;act_restorer = 0x1234;act_mask = 0x10000;sigsetsize = 8|"
	       "oact_handler = 0x0;oact_mask = 0x0");
	ret = CALL(rt_sigaction, 174, SIGUSR2, 0, copy(NULL, 32), 8);
	expect(ret, "rt_sigaction",
	       "act_handler = 0x0|oact_handler = 0x1;oact_flags = 0x14000000;oact_mask = 0x10000");
}

/* How children end. */
static void children(void)
{
	int pair[2], *status = copy(NULL, 4);
	void *info = copy(NULL, 128), *usage = copy(NULL, 144);
	long ret;
	pid_t child;
	char byte;

	*status = 0x1234567;
	test_must(!pipe(pair));
	child = fork();
	if (!child)
		_exit(read(pair[0], &byte, 1) == 1 ? 5 : 6);
	ret = CALL(wait4, 114, child, status, WNOHANG, usage);
	expect(ret, "wait4", "upid = %d|stat_addr = 0x0;ru_maxrss = 0", child);
	test_must(write(pair[1], "x", 1) == 1);
	ret = call(SYS_waitid, 284L, (long)P_PID, (long)child, (long)info,
		   (long)(WEXITED | WNOWAIT), (long)usage, 0L);
	expect(ret, "waitid",
	       "upid = %d|infop_signo = 17;infop_code = 1;infop_pid = %d;infop_uid = %u;infop_status = 5;"
	       "ru_maxrss = %ld;ru_minflt = %ld",
	       child, child, getuid(), long_at(usage, 4), long_at(usage, 8));
	ret = CALL(wait4, 114, child, status, 0, usage);
	expect(ret, "wait4", "upid = %d|stat_addr = 0x500;ru_stime_usec = %ld;ru_maxrss = %ld",
	       child, long_at(usage, 3), long_at(usage, 4));
	child = fork();
	if (!child)
		pause();
	test_must(!kill(child, SIGKILL));
	ret = call(SYS_waitid, 284L, (long)P_PID, (long)child, (long)info, (long)WEXITED, 0L, 0L);
	expect(ret, "waitid", " |infop_code = 2;infop_pid = %d;infop_status = 9;ru_maxrss = 0",
	       child);
	close(pair[0]);
	close(pair[1]);
}

static void processes(void)
{
	void *argv = longs(4, (long)text("none"), (long)text("one"), (long)text("two"), 0L);
	unsigned *ids = copy(NULL, 48);
	char *program = text("/no/such/program");
	pid_t child = fork();
	long ret;

	if (!child)
		_exit(33);
	ret = CALL(wait4, 114, child, ids, 0, 0);
	expect(ret, "wait4", "upid = %d|stat_addr = 0x2100", child);
	ret = CALL(getresuid, 209, ids, ids + 1, ids + 2, 0);
	expect(ret, is_wide ? "getresuid" : "getresuid32", " |ruidp = %u;euidp = %u;suidp = %u",
	       ids[0], ids[1], ids[2]);
	ret = CALL(execve, 11, program, argv, 0, 0);
	expect(ret, "execve", "filename = \"/no/such/program\";argv = \"none one two\"|");
	ret = CALL(getpid, 20, 0, 0, 0, 0);
	expect(ret, "getpid", " |");
	expect(CALL(kill, 37, ret, 0, 0, 0), "kill", "pid = %ld;container = 0|", ret);
	if (is_wide)
		return;
	ret = call(0, 192, 0L, 8192L, (long)PROT_READ, (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L,
		   18L);
	expect((unsigned)ret, "mmap2", "addr = 0x0;len = 8192;off = 18|");
	ret = call(0, 102, 99L, (long)ids, 0L, 0L, 0L, 0L);
	expect(ret, "socketcall", "call = 99;args = 0x%lX|", (unsigned long)ids);
	/* Of 700 there is no place in the table, of 500 an empty one. */
	for (int nr = 500; nr <= 700; nr += 200) {
		ret = call(0, nr, 11L, 12L, 13L, 14L, 15L, -1L);
		expect(ret, "unknown",
		       "nr = %d;container = 1;arg0 = 0xB;arg1 = 0xC;arg2 = 0xD;arg3 = 0xE;arg4 = 0xF;"
		       "arg5 = 0xFFFFFFFF|nr = %d;container = 1",
		       nr, nr);
	}
}

/* What is not in memory when the call begins: each on a page of a file that nobody has touched. */
static void not_there(const char *dir)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(60007) };
	char path[300], *page[4];
	long time[2] = { 0, 1000 }, ret;
	int file, fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (!is_wide)
		memcpy(time, (const int[]){ 0, 1000 }, 8);
	snprintf(path, sizeof(path), "%s/pages", dir);
	file = open(path, O_CREAT | O_RDWR, 0600);
	inet_pton(AF_INET, "127.0.0.1", &four.sin_addr);
	test_must(file >= 0 && pwrite(file, time, 16, 0) == 16);
	test_must(pwrite(file, &four, sizeof(four), 4096) == (ssize_t)sizeof(four));
	test_must(pwrite(file, "/etc/hostname", 14, 8192) == 14);
	/* Apart: a page brings its neighbours of the same mapping. */
	test_must(pwrite(file, time, 16, 12288) == 16);
	for (int i = 0; i < 4; i++) {
		page[i] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_32BIT, file,
			       i < 3 ? 8192 - 4096 * i : 12288);
		test_must(page[i] != MAP_FAILED);
	}
	ret = CALL(nanosleep, 162, page[2], 0, 0, 0);
	expect(ret, "nanosleep", "rqtp_sec = 0;rqtp_nsec = 0|");
	ret = CALL(futex, 240, copy("\1\0\0", 4), FUTEX_WAIT, 1, page[3]);
	expect(ret, "futex", "utime = 0x%lX;utime_sec = 0;utime_nsec = 0|", (unsigned long)page[3]);
	ret = CALL(connect, 362, fd, page[1], sizeof(four), 0);
	expect(ret, "connect", "fd = %d;uservaddr_port = 0;_uservaddr_addr_length = 0|", fd);
	ret = CALL(openat, 295, AT_FDCWD, page[0], O_RDONLY, 0);
	expect(ret, "openat", "dfd = -100;filename = \"%#lx\"|", (unsigned long)page[0]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const char *dir = argc > 2 ? argv[2] : "/";

	alarm(60);
	low = mmap(NULL, LOW_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_POPULATE, -1, 0);
	test_must(low != MAP_FAILED);
	if (!strcmp(what, "probe"))
		return call(0, 20, 0L, 0L, 0L, 0L, 0L, 0L) != getpid();
	is_wide = !strcmp(what, "64");
	test_must(is_wide || !strcmp(what, "32"));
	files(dir);
	descriptors();
	ready();
	sockets();
	limits();
	waits();
	states(dir);
	handlers();
	children();
	processes();
	not_there(dir);
	fwrite(expected, 1, expected_size, stdout);
	return 0;
}
