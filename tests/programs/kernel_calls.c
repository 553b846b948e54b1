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
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
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
	ret = CALL(sendmsg, 370, fd, longs(7, 0L, 0L, (long)vector, 1L, 0L, 0L, 0L), 0, 0);
	expect(ret, "sendmsg", "fd = %ld;msg_port = 0;_msg_addr_length = 0|", fd);
	ret = CALL(connect, 362, fd, at, sizeof(*at), 0);
	expect(ret, "connect", "fd = %ld;uservaddr_port = %d;addrlen = 16|", fd,
	       ntohs(at->sin_port));
}

static void times(void)
{
	void *limit = copy(NULL, 16), *old = copy(NULL, 16);
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
	ret = CALL(timerfd_gettime, 326, fd, copy(NULL, 32), 0, 0);
	expect(ret, "timerfd_gettime",
	       "ufd = %ld|otmr_interval_sec = 100;otmr_interval_nsec = 7;otmr_value_sec = 199", fd);
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
	char path[300], *page[3];
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
	for (int i = 0; i < 3; i++) {
		page[i] =
			mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_32BIT, file, 8192 - 4096 * i);
		test_must(page[i] != MAP_FAILED);
	}
	ret = CALL(nanosleep, 162, page[2], 0, 0, 0);
	expect(ret, "nanosleep", "rqtp_sec = 0;rqtp_nsec = 0|");
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
	sockets();
	times();
	processes();
	not_there(dir);
	fwrite(expected, 1, expected_size, stdout);
	return 0;
}
