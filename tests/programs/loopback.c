/* SPDX-License-Identifier: MIT */
/*
 * Pairs of processes that wait for each other, by KIND: tcp and udp over 127.0.0.1, unix, pipe.
 *
 *   loopback KIND...   KIND_client asks 4 times, and KIND_server answers after a sleep of 5 ms
 *   loopback bulk      bulk_client sends 4 MiB to bulk_server on its own CPU from a small buffer: so many softirqs raise
 *                      each other that the kernel leaves some of them to ksoftirqd
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ASKED = 4,
	BULK = 4 << 20
};

static char block[1 << 20];

static void must(int is_done, const char *what)
{
	if (!is_done) {
		perror(what);
		exit(1);
	}
}

static int local_socket(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int made = socket(AF_INET, type, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(made >= 0 && !bind(made, (struct sockaddr *)address, length), "bind");
	must(!getsockname(made, (struct sockaddr *)address, &length), "getsockname");
	return made;
}

static void join(int from, const struct sockaddr_in *to)
{
	must(!connect(from, (const struct sockaddr *)to, sizeof(*to)), "connect");
}

/* Makes two ends, each with a descriptor to read from ([0]) and one to write to ([1]). */
static void make_pair(const char *kind, int server[2], int client[2])
{
	struct sockaddr_in here, there;
	int two[2];

	if (!strcmp(kind, "pipe")) {
		must(!pipe(two), "pipe");
		server[0] = two[0], client[1] = two[1];
		must(!pipe(two), "pipe");
		client[0] = two[0], server[1] = two[1];
		return;
	}
	if (!strcmp(kind, "unix")) {
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, two), "socketpair");
	} else if (!strcmp(kind, "udp")) {
		two[0] = local_socket(SOCK_DGRAM, &here);
		two[1] = local_socket(SOCK_DGRAM, &there);
		join(two[0], &there);
		join(two[1], &here);
	} else {
		int listens = local_socket(SOCK_STREAM, &here);

		must(!listen(listens, 1), "listen");
		two[1] = socket(AF_INET, SOCK_STREAM, 0);
		join(two[1], &here);
		two[0] = accept(listens, NULL, NULL);
		must(two[0] >= 0, "accept");
		close(listens);
	}
	server[0] = server[1] = two[0];
	client[0] = client[1] = two[1];
}

static void serve(const int by[2], int is_bulk)
{
	const struct timespec work = { .tv_nsec = 5000000 };

	while (is_bulk) {
		ssize_t got = read(by[0], block, sizeof(block));

		must(got >= 0, "read");
		if (!got)
			_exit(0);
	}
	for (int at = 0; at < ASKED; at++) {
		must(read(by[0], block, 1) == 1, "read");
		nanosleep(&work, NULL);
		must(write(by[1], block, 1) == 1, "write");
	}
	_exit(0);
}

static void ask(const int by[2], int is_bulk)
{
	int small = 16384;

	if (is_bulk)
		must(!setsockopt(by[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), "SO_SNDBUF");
	for (long sent = 0; is_bulk && sent < BULK;) {
		ssize_t given = write(by[1], block, sizeof(block));

		must(given > 0, "write");
		sent += given;
	}
	for (int at = 0; !is_bulk && at < ASKED; at++) {
		must(write(by[1], block, 1) == 1, "write");
		must(read(by[0], block, 1) == 1, "read");
	}
	_exit(0);
}

static void start(const char *kind, const char *role, const int mine[2], const int others[2])
{
	int is_bulk = !strcmp(kind, "bulk");
	char name[16];
	pid_t child = fork();

	must(child >= 0, "fork");
	if (child) {
		printf("%s_%s %d\n", kind, role, child);
		return;
	}
	close(others[0]);
	if (others[1] != others[0])
		close(others[1]);
	snprintf(name, sizeof(name), "%s_%s", kind, role);
	prctl(PR_SET_NAME, name);
	if (!strcmp(role, "server"))
		serve(mine, is_bulk);
	ask(mine, is_bulk);
}

int main(int argc, char **argv)
{
	int status, bad = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	for (int at = 1; at < argc; at++) {
		int server[2], client[2];

		if (!strcmp(argv[at], "bulk")) {
			cpu_set_t one;

			CPU_ZERO(&one);
			CPU_SET(sched_getcpu(), &one);
			must(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
		}
		make_pair(argv[at], server, client);
		start(argv[at], "server", server, client);
		start(argv[at], "client", client, server);
		close(server[0]);
		close(client[0]);
		if (server[1] != server[0]) {
			close(server[1]);
			close(client[1]);
		}
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
