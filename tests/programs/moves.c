/* SPDX-License-Identifier: MIT */
/*
 * A program that knows what it reads from where and writes to where: moves FOLDER. For each, one line on stdout:
 *
 *   file NAME READ WRITTEN OPENS ERRORS    what a file, a socket or a pipe is called in the report
 *   io RCHAR WCHAR                         /proc/thread-self/io of the process "mover" at its end
 *   later BYTES                            what was read of that; all that it writes then is this, to stdout
 *   cpu NS                                 its CPU time then
 *
 * "mover" is a child, whose counters begin with 0 where it begins. Its own child "sharer" has the same descriptors, and
 * "heir" runs another program with those that exec() leaves.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 16];

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(3);
	}
}

static void moved(ssize_t found, ssize_t wanted, const char *what)
{
	check(found != wanted, what);
}

static void wait_for(pid_t child)
{
	int status;

	check(waitpid(child, &status, 0) != child || status != 0, "waitpid");
}

/* With the descriptors of who calls it, and no memory of its own thread: as clone(2) makes it. */
static pid_t sharing(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static void mover(const char *folder, const char *self)
{
	struct iovec parts[2] = { { buffer, 1000 }, { buffer + 1000, 500 } };
	int data, copy, twin, ends[2];
	char io[512] = "", name[32];
	unsigned long long rchar, wchar;
	struct timespec used;
	pid_t child;
	FILE *file;

	prctl(PR_SET_NAME, "mover");
	check(chdir(folder), folder);
	data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(data < 0, "data");
	for (int i = 0; i < 10; i++)
		moved(write(data, buffer, 4096), 4096, "write");
	moved(pwrite(data, buffer, 100, 0), 100, "pwrite");
	for (int i = 0; i < 5; i++)
		moved(pread(data, buffer, 1000, i * 1000), 1000, "pread");
	check(lseek(data, 0, SEEK_SET) != 0, "lseek");
	moved(readv(data, parts, 2), 1500, "readv");
	/* Another number for the same. */
	twin = fcntl(dup(data), F_DUPFD_CLOEXEC, 100);
	check(twin < 100, "fcntl");
	moved(write(twin, buffer, 7), 7, "write");
	check(lseek(twin, -1, SEEK_SET) != -1, "lseek to nowhere");

	copy = open("copy", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	check(copy < 0, "copy");
	check(lseek(data, 0, SEEK_SET) != 0, "lseek");
	moved(sendfile(copy, data, NULL, 3000), 3000, "sendfile");
	moved(copy_file_range(data, NULL, copy, NULL, 2000, 0), 2000, "copy_file_range");
	check(open("not there", O_RDONLY) >= 0, "not there");

	check(pipe2(ends, O_CLOEXEC), "pipe2");
	moved(write(ends[1], buffer, 300), 300, "write");
	moved(read(ends[0], buffer, 1000), 300, "read");

	child = sharing();
	check(child < 0, "clone");
	if (child == 0) {
		prctl(PR_SET_NAME, "sharer");
		moved(write(data, buffer, 11), 11, "write");
		/* For its parent, too. */
		close(copy);
		check(dup2(data, copy) != copy, "dup2");
		_exit(0);
	}
	wait_for(child);
	moved(write(copy, buffer, 13), 13, "write");

	child = fork();
	check(child < 0, "fork");
	if (child == 0) {
		snprintf(name, sizeof(name), "%d", data);
		execl(self, "heir", "heir", name, NULL);
		_exit(4);
	}
	wait_for(child);

	file = fopen("/proc/thread-self/io", "r");
	check(!file || fread(io, 1, sizeof(io) - 1, file) == 0, "/proc/thread-self/io");
	check(sscanf(io, "rchar: %llu wchar: %llu", &rchar, &wchar) != 2, "rchar");
	check(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), "clock_gettime");
	printf("io %llu %llu\ncpu %lld\n", rchar, wchar, used.tv_sec * 1000000000LL + used.tv_nsec);
	/* The report has what was read there, too, and what is written now. */
	printf("later %zu\n", strlen(io));
	printf("file data %d %d 1 1\n", 5000 + 1500 + 3000 + 2000, 40960 + 100 + 7 + 13);
	printf("file copy 0 %d 1 0\nfile pipe 300 300 0 0\n", 3000 + 2000);
	printf("file not-there 0 0 0 1\n");
	fflush(stdout);
	_exit(0);
}

/* A connection to itself. */
static void talker(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET }, peer;
	socklen_t size = sizeof(address);
	int listener, one, other;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	check(listener < 0 || bind(listener, (void *)&address, size) || listen(listener, 1),
	      "listen");
	check(getsockname(listener, (void *)&address, &size), "getsockname");
	one = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(one, (void *)&address, size), "connect");
	size = sizeof(address);
	other = accept4(listener, (void *)&peer, &size, SOCK_CLOEXEC);
	check(other < 0, "accept4");
	moved(send(one, buffer, 700, 0), 700, "send");
	moved(recv(other, buffer, 700, MSG_WAITALL), 700, "recv");
	moved(write(other, buffer, 50), 50, "write");
	moved(read(one, buffer, 1000), 50, "read");
	printf("file tcp-%d 50 700 0 0\n", ntohs(address.sin_port));
	printf("file tcp-accepted 700 50 0 0\n");
	close(epoll_create1(0));
}

int main(int count, char **words)
{
	pid_t child;

	if (count == 3 && strcmp(words[1], "heir") == 0) {
		moved(write(atoi(words[2]), buffer, 17), 17, "write");
		return 0;
	}
	check(count != 2, "moves FOLDER");
	child = fork();
	check(child < 0, "fork");
	if (child == 0)
		mover(words[1], "/proc/self/exe");
	wait_for(child);
	talker();
	return 0;
}
