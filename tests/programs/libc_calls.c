/* SPDX-License-Identifier: MIT */
/*
 * libc_calls.c - a program that locks, moves bytes, prints and looks up symbols, and knows how often it has called what:
 *
 *   libc_calls N PLUGIN   in two threads and in a child, which loads PLUGIN
 *
 * prints "PID FIRST LAST EVENT COUNT" for its own code, where FIRST and LAST are addresses.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EVENTS(_)           \
	_(readv_begin)      \
	_(writev_begin)     \
	_(read_begin)       \
	_(write_begin)      \
	_(send_begin)       \
	_(recv_begin)       \
	_(sendmsg_begin)    \
	_(recvmsg_begin)    \
	_(sendmmsg_begin)   \
	_(recvmmsg_begin)   \
	_(connect_begin)    \
	_(accept_begin)     \
	_(close_begin)      \
	_(open_begin)       \
	_(fopen_begin)      \
	_(fclose_begin)     \
	_(fflush_begin)     \
	_(fread_begin)      \
	_(fwrite_begin)     \
	_(printf_begin)     \
	_(dprintf_begin)    \
	_(fputs_begin)      \
	_(fgets_begin)      \
	_(getline_begin)    \
	_(fputc)            \
	_(fgetc)            \
	_(sym_begin)        \
	_(mutex_lock)       \
	_(mutex_unlock)     \
	_(mutex_lock_begin) \
	_(cond_wait_begin)  \
	_(cond_signal)
#define NUMBER(name) NR_##name,
#define NAME(name)   #name,
enum {
	EVENTS(NUMBER) NR
};
static const char *const names[] = { EVENTS(NAME) };
static unsigned long counts[NR];

#define COUNTED(event, ...) \
	(__atomic_fetch_add(&counts[NR_##event], 1, __ATOMIC_RELAXED), __VA_ARGS__)
#define CHECK(what)                                        \
	do {                                               \
		if (!(what)) {                             \
			dprintf(2, "not so: %s\n", #what); \
			_exit(1);                          \
		}                                          \
	} while (0)

extern const char __executable_start, etext;

/* No call that is an event. */
static void say(void)
{
	char line[200];
	int i, bytes;

	for (i = 0; i < NR; i++) {
		bytes = snprintf(line, sizeof(line), "%d %p %p %s %lu\n", getpid(),
				 (const void *)&__executable_start, (const void *)&etext, names[i],
				 counts[i]);
		CHECK(syscall(SYS_write, 1, line, (size_t)bytes) == bytes);
	}
}

static struct timespec soon(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_nsec += 1000;
	now.tv_sec += now.tv_nsec / 1000000000;
	now.tv_nsec %= 1000000000;
	return now;
}

/* Where nothing is; the compiler does not know. */
static void *volatile nowhere = (void *)8;

static void bytes_through(int from, int to)
{
	char bytes[2][4] = { "abc", "def" };
	struct iovec two[] = { { bytes[0], 4 }, { bytes[1], 4 } };
	struct msghdr message = { .msg_iov = two, .msg_iovlen = 2 };
	struct mmsghdr many[2] = { { .msg_hdr = message }, { .msg_hdr = message } };

	CHECK(COUNTED(writev_begin, writev(to, two, 2)) == 8);
	CHECK(COUNTED(readv_begin, readv(from, two, 2)) == 8);
	CHECK(COUNTED(write_begin, write(to, bytes, 8)) == 8);
	CHECK(COUNTED(read_begin, read(from, bytes, 8)) == 8);
	CHECK(COUNTED(send_begin, send(to, bytes, 8, MSG_NOSIGNAL)) == 8);
	CHECK(COUNTED(recv_begin, recv(from, bytes, 8, 0)) == 8);
	CHECK(COUNTED(send_begin, sendto(to, bytes, 8, 0, NULL, 0)) == 8);
	CHECK(COUNTED(recv_begin, recvfrom(from, bytes, 8, 0, NULL, NULL)) == 8);
	CHECK(COUNTED(sendmsg_begin, sendmsg(to, &message, 0)) == 8);
	CHECK(COUNTED(recvmsg_begin, recvmsg(from, &message, 0)) == 8);
	CHECK(COUNTED(sendmmsg_begin, sendmmsg(to, many, 2, 0)) == 2);
	CHECK(COUNTED(recvmmsg_begin, recvmmsg(from, many, 2, 0, NULL)) == 2);
	CHECK(many[0].msg_len + many[1].msg_len == 16);
	CHECK(COUNTED(sendmmsg_begin, sendmmsg(to, nowhere, 1, 0)) < 0);
	CHECK(COUNTED(recvmmsg_begin, recvmmsg(-1, nowhere, 1, 0, NULL)) < 0);
	CHECK(COUNTED(readv_begin, readv(-1, two, 2)) < 0);
	CHECK(COUNTED(recv_begin, recv(from, nowhere, 8, MSG_DONTWAIT)) < 0);
	CHECK(COUNTED(writev_begin, writev(to, nowhere, 1)) < 0);
}

static void files(void)
{
	char path[] = "/tmp/strata-libc-calls-XXXXXX", bytes[4] = "abc";
	struct iovec one = { bytes, 4 };
	int fd = mkstemp(path);

	CHECK(fd >= 0 && !unlink(path));
	CHECK(COUNTED(write_begin, pwrite(fd, bytes, 4, 10)) == 4);
	CHECK(COUNTED(read_begin, pread(fd, bytes, 4, 10)) == 4);
	CHECK(COUNTED(writev_begin, pwritev(fd, &one, 1, 20)) == 4);
	CHECK(COUNTED(readv_begin, preadv(fd, &one, 1, 20)) == 4);
	CHECK(COUNTED(writev_begin, pwritev2(fd, &one, 1, 20, 0)) == 4);
	CHECK(COUNTED(readv_begin, preadv2(fd, &one, 1, 20, 0)) == 4);
	CHECK(!memcmp(bytes, "abc", 4));
	CHECK(COUNTED(close_begin, close(fd)) == 0);
}

/* What fortified headers call instead. */
extern int __printf_chk(int flag, const char *format, ...);
extern int __fprintf_chk(FILE *file, int flag, const char *format, ...);
extern int __dprintf_chk(int fd, int flag, const char *format, ...);

static int print_list(FILE *file, const char *format, ...)
{
	va_list list;
	int bytes;

	va_start(list, format);
	bytes = COUNTED(printf_begin, vfprintf(file, format, list));
	va_end(list);
	return bytes;
}

static void streams(unsigned rounds)
{
	char path[] = "/tmp/strata-libc-streams-XXXXXX", line[16], *own = NULL;
	int fd = mkstemp(path);
	FILE *file = COUNTED(fopen_begin, fopen(path, "w+"));
	size_t room = 0;

	CHECK(fd >= 0 && file && !unlink(path));
	CHECK(COUNTED(dprintf_begin, dprintf(fd, "%d%s\n", 1, "2")) == 3);
	CHECK(COUNTED(dprintf_begin, __dprintf_chk(fd, 1, "%.1f\n", 3.0)) == 4);
	while (rounds--) {
		rewind(file);
		CHECK(COUNTED(printf_begin, fprintf(file, "%d %s %.1f\n", 12, "abc", 0.5)) == 11);
		CHECK(COUNTED(printf_begin, __fprintf_chk(file, 1, "%c\n", 'x')) == 2);
		CHECK(print_list(file, "%d%d%d%d%d%.0f%d\n", 1, 2, 3, 4, 5, 6.0, 7) == 8);
		CHECK(COUNTED(fputs_begin, fputs("text\n", file)) >= 0);
		CHECK(COUNTED(fputc, fputc('a', file)) == 'a');
		CHECK(COUNTED(fputc, putc('\n', file)) == '\n');
		CHECK(COUNTED(fwrite_begin, fwrite("0123\n", 1, 5, file)) == 5);
		CHECK(COUNTED(fflush_begin, fflush(file)) == 0);
		rewind(file);
		CHECK(COUNTED(fgets_begin, fgets(line, sizeof(line), file)) == line);
		CHECK(!strcmp(line, "12 abc 0.5\n"));
		CHECK(COUNTED(getline_begin, getline(&own, &room, file)) == 2);
		CHECK(COUNTED(getline_begin, getdelim(&own, &room, '\n', file)) == 8);
		CHECK(!strcmp(own, "1234567\n"));
		CHECK(COUNTED(fgetc, fgetc(file)) == 't' && COUNTED(fgetc, getc(file)) == 'e');
		CHECK(COUNTED(fread_begin, fread(line, 1, 10, file)) == 10);
		CHECK(COUNTED(fgetc, fgetc(file)) == EOF);
		CHECK(!COUNTED(fgets_begin, fgets(line, sizeof(line), file)));
		CHECK(COUNTED(getline_begin, getline(&own, &room, file)) < 0);
	}
	CHECK(COUNTED(fclose_begin, fclose(file)) == 0 && COUNTED(close_begin, close(fd)) == 0);
	free(own);
	/* No line of these is one of say()'s. */
	CHECK(COUNTED(printf_begin, printf("# %d\n", 5)) == 4);
	CHECK(COUNTED(printf_begin, __printf_chk(1, "# %s\n", "x")) == 4);
	CHECK(COUNTED(fputs_begin, puts("# puts")) >= 0);
	CHECK(COUNTED(fputc, putchar('#')) == '#' && COUNTED(fputc, putchar('\n')) == '\n');
	file = COUNTED(fopen_begin, fopen("/dev/full", "w"));
	CHECK(file && COUNTED(printf_begin, fprintf(file, "%d", 1)) == 1);
	CHECK(COUNTED(fflush_begin, fflush(file)) == EOF);
	COUNTED(fclose_begin, fclose(file));
}

/* One that calls another one, and is called. */
static void sockets(unsigned rounds)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), caller, called;

	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!listen(listener, 1) && !getsockname(listener, (struct sockaddr *)&address, &bytes));
	caller = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(COUNTED(connect_begin, connect(-1, (struct sockaddr *)&address, bytes)) < 0);
	CHECK(COUNTED(connect_begin, connect(caller, (struct sockaddr *)&address, bytes)) == 0);
	called = COUNTED(accept_begin, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	CHECK(called >= 0);
	CHECK(COUNTED(accept_begin, accept(-1, NULL, NULL)) < 0);
	while (rounds--)
		bytes_through(called, caller);
	CHECK(COUNTED(close_begin, close(called)) == 0);
	CHECK(COUNTED(close_begin, close(caller)) == 0);
	CHECK(COUNTED(close_begin, close(listener)) == 0);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void locks(unsigned rounds)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	while (rounds--) {
		struct timespec until = soon();

		/* The main thread has it all the time. */
		CHECK(COUNTED(mutex_lock_begin,
			      COUNTED(mutex_lock, pthread_mutex_timedlock(&held, &until))));
		CHECK(COUNTED(mutex_lock, pthread_mutex_lock(&lock)) == 0);
		CHECK(COUNTED(cond_signal, pthread_cond_signal(&cond)) == 0);
		CHECK(COUNTED(cond_wait_begin, pthread_cond_timedwait(&cond, &lock, &until)));
		CHECK(COUNTED(mutex_unlock, pthread_mutex_unlock(&lock)) == 0);
	}
}

static void symbols(const char *plugin)
{
	void *handle = COUNTED(open_begin, dlopen(plugin, RTLD_NOW)), *other;

	CHECK(handle);
	CHECK(!COUNTED(sym_begin, dlsym(handle, "there is none")));
	CHECK(dlerror() && !dlerror());
	CHECK(COUNTED(sym_begin, dlsym(RTLD_DEFAULT, "getpid")) == (void *)getpid);
	CHECK(dlsym(RTLD_NEXT, "getpid") == (void *)getpid);
	CHECK(COUNTED(close_begin, dlclose(handle)) == 0);
	/* With a libc of its own. */
	handle = COUNTED(open_begin, dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW));
	CHECK(handle);
	other = COUNTED(sym_begin, dlsym(handle, "getpid"));
	CHECK(other && other != (void *)getpid);
	CHECK(COUNTED(close_begin, dlclose(handle)) == 0);
	CHECK(!COUNTED(open_begin, dlmopen(LM_ID_BASE, "/there is none", RTLD_NOW)));
	CHECK(dlerror());
}

static void *in_a_thread(void *given)
{
	unsigned rounds = *(unsigned *)given;

	sockets(rounds);
	locks(rounds);
	files();
	streams(rounds);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t threads[2];
	int status, i;
	pid_t child;

	CHECK(argc > 2);
	pthread_mutex_lock(&held);
	counts[NR_mutex_lock]++;
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, in_a_thread, &rounds));
	for (i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
	symbols(argv[2]);
	child = fork();
	if (!child) {
		memset(counts, 0, sizeof(counts));
		sockets(rounds);
		symbols(argv[2]);
		say();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	say();
	return 0;
}
