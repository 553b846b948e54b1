/* SPDX-License-Identifier: MIT */
/*
 * kernel_truth.c - does what a kernel trace must show, and says on stdout what that was.
 *
 *   calls DIR       known system calls between two of getpgid(MARK); one line "NAME|FIELD;FIELD|RET" each
 *   loop N THREADS  N of getppid() by each thread, on one CPU after another
 *   faults N        N new pages, one store each; "faults FIRST_ADDRESS N MINOR_FAULTS" of getrusage()
 *   switches N      N round trips with another process; getrusage() and /proc/stat before and after
 *   tree DIR        processes and threads begun in all ways; each opens DIR/NAME, the names are printed
 *   open PATH       opens PATH
 */
#include <arpa/inet.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "count.h"
#include "expected.h"

#define MARK	  424242
#define STAT_SIZE 16384 /* of a read of /proc/stat [byte] */

static void mark(void)
{
	syscall(SYS_getpgid, MARK);
}

/* ---- calls ---- */

/* What the kernel returned, errors as it returns them. */
static long call(long nr, long a, long b, long c, long d)
{
	long ret = syscall(nr, a, b, c, d);

	return ret < 0 ? -errno : ret;
}

static long open_at(const char *path, int flags, int mode)
{
	long ret = call(SYS_openat, AT_FDCWD, (long)path, flags, mode);
	char address[32];

	/* What cannot be read is its address. */
	snprintf(address, sizeof(address), "%#lx", (long)path);
	expect(ret, "openat", "dfd = -100;filename = \"%s\";container = 0x%X ), mode = 0%o",
	       (long)path > 4096 ? path : address, (unsigned)flags, (unsigned)mode);
	return ret;
}

static void connect_to(int family, const void *address, socklen_t bytes, int port, const char *text)
{
	long fd = call(SYS_socket, family, SOCK_STREAM, 0, 0);
	long ret;

	expect(fd, "socket", "container = %d;protocol = 0", family);
	ret = call(SYS_connect, fd, (long)address, (long)bytes, 0);
	expect(ret, "connect", "fd = %ld;uservaddr_port = %d;%s;addrlen = %u", fd, port, text,
	       (unsigned)bytes);
	expect(call(SYS_close, fd, 0, 0, 0), "close", "fd = %ld", fd);
}

static void sockets(void)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(60007) };
	struct sockaddr_un local = { .sun_family = AF_UNIX, .sun_path = "/no" };

	inet_pton(AF_INET, "127.1.2.3", &four.sin_addr);
	six.sin6_addr = in6addr_loopback;
	connect_to(
		AF_INET, &four, sizeof(four), 9,
		"_uservaddr_addr_length = 4;uservaddr_addr = [ [0] = 127, [1] = 1, [2] = 2, [3] = 3 ]");
	connect_to(AF_INET6, &six, sizeof(six), 60007,
		   "_uservaddr_addr_length = 16;[14] = 0, [15] = 1 ]");
	connect_to(AF_UNIX, &local, sizeof(sa_family_t) + 4, 0,
		   "uservaddr_addr = [ [0] = 47, [1] = 110, [2] = 111 ]");
}

static void files(const char *dir)
{
	static const char *const names[] = { "first", "with a space", "third", "fourth" };
	char path[300], other[300], data[5000] = "";
	long fds[4], ret;
	unsigned i;

	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		fds[i] = open_at(path, O_CREAT | O_RDWR, 0640);
		test_must(fds[i] >= 0);
	}
	snprintf(path, sizeof(path), "%s/none", dir);
	open_at(path, O_RDONLY, 0);
	memset(path, 'n', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	open_at(path, O_RDONLY, 0);
	open_at((const char *)8, O_RDONLY, 0);
	for (i = 0; i < 4; i++) {
		ret = call(SYS_write, fds[i], (long)data, 1234 + i, 0);
		expect(ret, "write", "fd = %ld;count = %u", fds[i], 1234 + i);
	}
	ret = call(SYS_pwrite64, fds[0], (long)data, 321, 3000000000);
	expect(ret, "pwrite64", "fd = %ld;count = 321;pos = 3000000000", fds[0]);
	ret = call(SYS_lseek, fds[0], 5, SEEK_SET, 0);
	expect(ret, "lseek", "fd = %ld;offset = 5", fds[0]);
	ret = call(SYS_read, fds[0], (long)data, 5000, 0);
	expect(ret, "read", "fd = %ld;count = 5000", fds[0]);
	ret = call(SYS_write, -1, (long)data, 1, 0);
	expect(ret, "write", "fd = -1;count = 1");
	for (i = 0; i < 4; i++)
		expect(call(SYS_close, fds[i], 0, 0, 0), "close", "fd = %ld", fds[i]);
	snprintf(path, sizeof(path), "%s/third", dir);
	snprintf(other, sizeof(other), "%s/moved", dir);
	ret = call(SYS_rename, (long)path, (long)other, 0, 0);
	expect(ret, "rename", "oldname = \"%s\";newname = \"%s\"", path, other);
	ret = call(SYS_unlink, (long)other, 0, 0, 0);
	expect(ret, "unlink", "pathname = \"%s\"", other);
}

static void times_and_programs(void)
{
	static char *const arguments[] = { (char *)"none", (char *)"one", (char *)"two", NULL };
	struct timespec time = { 0, 123456 };
	long ret = call(SYS_nanosleep, (long)&time, 0, 0, 0);

	expect(ret, "nanosleep", "rqtp_sec = 0;rqtp_nsec = 123456");
	time.tv_sec = -3;
	ret = call(SYS_nanosleep, (long)&time, 0, 0, 0);
	expect(ret, "nanosleep", "rqtp_sec = -3;rqtp_nsec = 123456");
	time.tv_sec = 0;
	ret = call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&time, 0);
	expect(ret, "clock_nanosleep", "container = 1;rqtp_sec = 0;rqtp_nsec = 123456");
	ret = call(SYS_execve, (long)"/no/such/program", (long)arguments, 0, 0);
	expect(ret, "execve", "filename = \"/no/such/program\";argv = \"none one two\"");
	ret = call(SYS_getpid, 0, 0, 0, 0);
	expect(ret, "getpid", " ");
	expect(call(SYS_kill, ret, 0, 0, 0), "kill", "pid = %ld;container = 0", ret);
	ret = call(999, 11, 12, 13, 14);
	expect(ret, "unknown", "nr = 999;arg0 = 0xB;arg1 = 0xC;arg2 = 0xD;arg3 = 0xE");
}

static int calls(const char *dir)
{
	mark();
	files(dir);
	sockets();
	times_and_programs();
	mark();
	fwrite(expected, 1, expected_size, stdout);
	return 0;
}

/* ---- loop ---- */

static void move_to(unsigned nth)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(nth % (unsigned)nr, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static unsigned long loop_calls;

static void *loop(void *nth)
{
	unsigned long i;

	for (i = 0; i < loop_calls; i++) {
		if (i % 10000 == 0)
			move_to((unsigned)(i / 10000 + (uintptr_t)nth));
		syscall(SYS_getppid);
	}
	return NULL;
}

static int loops(unsigned long n, unsigned long nr_threads)
{
	pthread_t threads[16];
	unsigned long i;

	test_must(nr_threads <= 16);
	loop_calls = n;
	for (i = 0; i < nr_threads; i++)
		test_must(!pthread_create(&threads[i], NULL, loop, (void *)i));
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	printf("%lu\n", n * nr_threads);
	return 0;
}

/* ---- faults ---- */

static int faults(unsigned long n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct rusage before, after;
	volatile char *memory;
	unsigned long i;

	test_must(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	memory = (volatile char *)mmap(NULL, n * page, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test_must(memory != MAP_FAILED);
	/* Their own pages are there before. */
	mark();
	getrusage(RUSAGE_SELF, &after);
	getrusage(RUSAGE_SELF, &before);
	mark();
	for (i = 0; i < n; i++)
		memory[i * page] = 1;
	getrusage(RUSAGE_SELF, &after);
	mark();
	printf("faults %zu %lu %ld\n", (size_t)(uintptr_t)memory, n,
	       after.ru_minflt - before.ru_minflt);
	return 0;
}

/* ---- switches ---- */

static long switches_of_me(void)
{
	struct rusage usage;

	test_must(!getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static long switches_of_all(int stat)
{
	static char text[STAT_SIZE];
	ssize_t n = pread(stat, text, sizeof(text) - 1, 0);
	const char *line;

	test_must(n > 0);
	text[n] = 0;
	line = strstr(text, "\nctxt ");
	test_must(line);
	return strtol(line + 6, NULL, 10);
}

/* The other one of the two. */
static void answer(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1)
		test_must(write(to, &byte, 1) == 1);
	_exit(0);
}

static int switches(unsigned long n)
{
	int there[2], back[2], stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	long me, all;
	unsigned long i;
	char byte = 0;
	pid_t child;

	test_must(stat >= 0 && !pipe(there) && !pipe(back));
	child = fork();
	if (!child) {
		close(there[1]);
		answer(there[0], back[1]);
	}
	switches_of_all(stat);
	mark();
	me = switches_of_me();
	all = switches_of_all(stat);
	for (i = 0; i < n; i++) {
		if (i % 100 == 0)
			move_to((unsigned)(i / 100));
		test_must(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
		if (i % 7 == 0)
			sched_yield();
	}
	all = switches_of_all(stat) - all;
	me = switches_of_me() - me;
	mark();
	close(there[1]);
	waitpid(child, NULL, 0);
	printf("%ld %ld\n", me, all);
	return 0;
}

/* ---- tree ---- */

static const char *tree_dir;

/* Says the name, and opens it: that there is no such file does not matter. */
static void open_name(const char *format, int number)
{
	char name[64], path[300], line[80];
	int n;

	snprintf(name, sizeof(name), format, number);
	snprintf(path, sizeof(path), "%s/%s", tree_dir, name);
	syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	n = snprintf(line, sizeof(line), "%s\n", name);
	test_must(write(1, line, (size_t)n) == n);
}

static void *open_in_thread(void *data)
{
	open_name("thread-%d", (int)(intptr_t)data);
	return NULL;
}

/* Its parent does not wait for it; @ended is closed when it ends. */
static void orphan(int ended)
{
	if (fork())
		_exit(0);
	setsid();
	test_sleep_ms(30);
	open_name("orphan-%d", ended >= 0);
	if (!fork()) {
		open_name("child-of-orphan-%d", 1);
		_exit(0);
	}
	wait(NULL);
	_exit(0);
}

static void spawn(const char *self, int number, int by_vfork)
{
	char path[300], line[80];
	char *arguments[] = { (char *)"open", (char *)"open", path, NULL };
	char *none[] = { NULL };
	pid_t child;
	int n;

	snprintf(path, sizeof(path), "%s/spawned-%d", tree_dir, number);
	n = snprintf(line, sizeof(line), "spawned-%d\n", number);
	test_must(write(1, line, (size_t)n) == n);
	if (by_vfork) {
		child = vfork();
		if (!child) {
			execve(self, arguments, none);
			_exit(98);
		}
		test_must(child > 0);
	} else {
		test_must(!posix_spawn(&child, self, NULL, NULL, arguments, none));
	}
	test_must(waitpid(child, NULL, 0) == child);
}

static void generations(int depth)
{
	if (!depth || fork()) {
		wait(NULL);
		return;
	}
	open_name("generation-%d", depth);
	generations(depth - 1);
	_exit(0);
}

static int tree(const char *dir)
{
	struct clone_args clone = { .exit_signal = SIGCHLD };
	int ended[2], number;
	pthread_t thread;
	char byte;
	long child;

	tree_dir = dir;
	test_must(!pipe(ended));
	open_name("root-%d", 0);
	generations(6);
	for (number = 0; number < 20; number++) {
		test_must(!pthread_create(&thread, NULL, open_in_thread, (void *)(intptr_t)number));
		pthread_join(thread, NULL);
		spawn("/proc/self/exe", number, number & 1);
		child = syscall(SYS_clone3, &clone, sizeof(clone));
		if (!child) {
			open_name("clone3-%d", number);
			_exit(0);
		}
		test_must(waitpid((pid_t)child, NULL, 0) == child);
	}
	child = fork();
	if (!child) {
		close(ended[0]);
		orphan(ended[1]);
	}
	close(ended[1]);
	waitpid((pid_t)child, NULL, 0);
	test_must(!read(ended[0], &byte, 1));
	open_name("end-%d", 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const char *path = argc > 2 ? argv[2] : "/";
	unsigned long n = test_number(argc, argv, 2, 1000);

	alarm(120);
	if (!strcmp(what, "calls"))
		return calls(path);
	if (!strcmp(what, "loop"))
		return loops(n, test_number(argc, argv, 3, 1));
	if (!strcmp(what, "faults"))
		return faults(n);
	if (!strcmp(what, "switches"))
		return switches(n);
	if (!strcmp(what, "tree"))
		return tree(path);
	if (!strcmp(what, "open"))
		return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0) == -2;
	fprintf(stderr, "kernel_truth: what is '%s'? See its source.\n", what);
	return 2;
}
