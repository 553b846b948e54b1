/* SPDX-License-Identifier: MIT */
/*
 * libc_sockets.c - sockets of all families, whose addresses the program knows from getnameinfo() and from itself:
 *
 *   libc_sockets FOLDER    an empty one, of a short path, for sockets
 *
 * prints "EVENT RESULT FAMILY ADDRESS" for each call, in their order; FAMILY and ADDRESS are "-" where there is none.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(what)                                                  \
	do {                                                         \
		if (!(what)) {                                       \
			fprintf(stderr, "not so: %s (%m)\n", #what); \
			exit(1);                                     \
		}                                                    \
	} while (0)

/* Where nothing is; the compiler does not know. */
static void *volatile nowhere = (void *)8;

/* The last bytes that can be read before what cannot be. */
static char *edge;

static void say(const char *event, long result, const char *family, const char *address)
{
	printf("%s %ld %s %s\n", event, result, family, address);
}

static const char *name_of(const void *address, socklen_t bytes)
{
	static char text[300];
	char host[200], port[20];
	int is_6 = ((const struct sockaddr *)address)->sa_family == AF_INET6;

	CHECK(!getnameinfo(address, bytes, host, sizeof(host), port, sizeof(port),
			   NI_NUMERICHOST | NI_NUMERICSERV));
	snprintf(text, sizeof(text), is_6 ? "[%s]:%s" : "%s:%s", host, port);
	return text;
}

static socklen_t listen_at(int fd, void *address, socklen_t bytes)
{
	CHECK(!bind(fd, address, bytes));
	CHECK(!getsockname(fd, address, &bytes));
	return bytes;
}

/* At the end of a page: a byte more would end the program. */
static void *at_edge(const void *from, size_t bytes)
{
	return memcpy(edge - bytes, from, bytes);
}

/* Streams and messages of one family of the Internet. */
static void internet(void *address, socklen_t bytes, const char *family)
{
	struct sockaddr_storage own, who;
	socklen_t room = sizeof(who), own_bytes = sizeof(own);
	int listener = socket(((struct sockaddr *)address)->sa_family, SOCK_STREAM, 0), one, other;
	char text[4] = "abc", first[16];

	listen_at(listener, address, bytes);
	one = socket(((struct sockaddr *)address)->sa_family, SOCK_STREAM, 0);
	say("connect", connect(one, at_edge(address, bytes), bytes), family,
	    name_of(address, bytes));
	close(one);
	one = socket(((struct sockaddr *)address)->sa_family, SOCK_STREAM, 0);
	CHECK(!listen(listener, 4));
	say("connect", connect(one, address, bytes), family, name_of(address, bytes));
	CHECK(!getsockname(one, (void *)&own, &own_bytes));
	other = accept(listener, (void *)&who, &room);
	say("accept", other, family, name_of(&own, own_bytes));
	say("send", send(other, text, 4, 0), "-", "-");
	/* A stream has no address of each piece. */
	room = sizeof(who);
	say("recv", recvfrom(one, text, 4, 0, (void *)&who, &room), "-", "-");
	close(one);
	close(other);

	/* Less room than the address takes: its family only. */
	one = socket(((struct sockaddr *)address)->sa_family, SOCK_STREAM, 0);
	say("connect", connect(one, address, bytes), family, name_of(address, bytes));
	room = sizeof(first) - 4;
	other = accept4(listener, (void *)(edge - room), &room, SOCK_CLOEXEC);
	CHECK(other >= 0 && room == bytes);
	say("accept", other, family, "-");
	close(one);
	close(other);
	close(listener);

	listener = socket(((struct sockaddr *)address)->sa_family, SOCK_DGRAM, 0);
	one = socket(((struct sockaddr *)address)->sa_family, SOCK_DGRAM, 0);
	listen_at(listener, address, bytes);
	say("send", sendto(one, text, 4, 0, at_edge(address, bytes), bytes), family,
	    name_of(address, bytes));
	own_bytes = sizeof(own);
	CHECK(!getsockname(one, (void *)&own, &own_bytes));
	/* Of the port it says nothing else than from where it comes. */
	if (own.ss_family == AF_INET)
		((struct sockaddr_in *)&own)->sin_addr = ((struct sockaddr_in *)address)->sin_addr;
	else
		((struct sockaddr_in6 *)&own)->sin6_addr = in6addr_loopback;
	room = sizeof(who);
	say("recv", recvfrom(listener, text, 4, 0, (void *)&who, &room), family,
	    name_of(&own, own_bytes));
	say("send", sendto(one, text, 4, 0, NULL, 0), "-", "-");
	CHECK(errno == EDESTADDRREQ);
	close(one);
	close(listener);
}

static void local(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX }, who;
	const socklen_t head = offsetof(struct sockaddr_un, sun_path);
	socklen_t room = sizeof(who), bytes;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), one = socket(AF_UNIX, SOCK_STREAM, 0),
	    other;
	char text[500];
	int i;

	/* Not printable, in a path that fills all there is: without a NUL. */
	CHECK(strlen(folder) < 50);
	memset(address.sun_path, 'x', sizeof(address.sun_path));
	i = sprintf(address.sun_path, "%s/\n\\\xff", folder);
	address.sun_path[i] = '/';
	say("connect", connect(one, at_edge(&address, sizeof(address)), sizeof(address)), "AF_UNIX",
	    (snprintf(text, sizeof(text), "%s/\\x0A\\x5C\\xFF/%.*s", folder,
		      (int)sizeof(address.sun_path) - i - 1, address.sun_path + i + 1),
	     text));
	CHECK(errno == ENOENT);
	memset(address.sun_path, 0, sizeof(address.sun_path));
	sprintf(address.sun_path, "%s/s", folder);
	listen_at(listener, &address, sizeof(address));
	CHECK(!listen(listener, 1));
	say("connect", connect(one, (void *)&address, sizeof(address)), "AF_UNIX",
	    address.sun_path);
	other = accept(listener, (void *)&who, &room);
	say("accept", other, "AF_UNIX", "-");
	unlink(address.sun_path);
	close(one);
	close(other);
	close(listener);

	/* Abstract, with a NUL in it. */
	listener = socket(AF_UNIX, SOCK_DGRAM, 0);
	one = socket(AF_UNIX, SOCK_DGRAM, 0);
	bytes = head + 1 +
		(socklen_t)sprintf(address.sun_path + 1, "strata-libc-sockets-%d", getpid());
	address.sun_path[0] = '\0';
	memcpy((char *)&address + bytes, "\0z", 2);
	bytes += 2;
	CHECK(!bind(listener, (void *)&address, bytes));
	snprintf(text, sizeof(text), "@strata-libc-sockets-%d\\x00z", getpid());
	say("send", sendto(one, "a", 1, 0, at_edge(&address, bytes), bytes), "AF_UNIX", text);
	CHECK(!connect(listener, (void *)&address, bytes));
	say("connect", 0, "AF_UNIX", text);
	say("send", send(listener, "a", 1, 0), "-", "-");
	room = sizeof(who);
	say("recv", recvfrom(listener, text, 1, 0, NULL, NULL), "-", "-");
	CHECK(room == sizeof(who));
	close(one);
	close(listener);
}

/* What cannot be read says the same as ever, and its end has no address. */
static void edges(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in who;
	socklen_t room = sizeof(who);
	int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0), one, two;
	char text[4];

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	CHECK(connect(pair[0], nowhere, 16) < 0 && errno == EFAULT);
	say("connect", -1, "-", "-");
	CHECK(connect(pair[0], nowhere, 0) < 0 && errno == EINVAL);
	say("connect", -1, "-", "-");
	CHECK(connect(-1, nowhere, 16) < 0 && errno == EBADF);
	say("connect", -1, "-", "-");
	CHECK(sendto(pair[0], "a", 1, 0, nowhere, 16) < 0 && errno == EFAULT);
	say("send", -1, "-", "-");
	CHECK(send(pair[0], "abc", 4, 0) == 4);
	say("send", 4, "-", "-");
	CHECK(recvfrom(pair[1], text, 4, 0, nowhere, nowhere) < 0 && errno == EFAULT);
	say("recv", -1, "-", "-");
	listen_at(listener, &address, sizeof(address));
	CHECK(!listen(listener, 4));
	one = socket(AF_INET, SOCK_STREAM, 0);
	two = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(one, (void *)&address, sizeof(address)));
	say("connect", 0, "AF_INET", name_of(&address, sizeof(address)));
	CHECK(!connect(two, (void *)&address, sizeof(address)));
	say("connect", 0, "AF_INET", name_of(&address, sizeof(address)));
	CHECK(accept(listener, (void *)&who, nowhere) < 0 && errno == EFAULT);
	say("accept", -1, "-", "-");
	/* Without any room nothing is written. */
	room = 0;
	listener = accept(listener, nowhere, &room);
	CHECK(listener >= 0 && room == sizeof(address));
	say("accept", listener, "-", "-");
}

int main(int argc, char **argv)
{
	struct sockaddr_in inet = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in6 inet6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	long page = sysconf(_SC_PAGESIZE);

	CHECK(argc > 1);
	edge = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	CHECK(edge != MAP_FAILED);
	edge += page;
	CHECK(!mprotect(edge, (size_t)page, PROT_NONE));
	internet(&inet, sizeof(inet), "AF_INET");
	/* A machine may have no IPv6. */
	if (probe >= 0 && !bind(probe, (void *)&inet6, sizeof(inet6)))
		internet(&inet6, sizeof(inet6), "AF_INET6");
	local(argv[1]);
	edges();
	return 0;
}
