/* SPDX-License-Identifier: MIT */
/*
 * attack_user.c - a traced program of a user who wants to harm who records everybody.
 *
 *   attack_user send MESSAGES FDS   to each tracer that listens so many messages, with so many descriptors of
 *                                   /dev/null each
 *   attack_user linger FDS          one message, with sockets that linger for a minute when they are closed
 *   attack_user lock                holds the lock of its own memory, from its start on
 *   attack_user relock              the same from when it is first recorded on
 *   attack_user forge NAME PID      writes these into its memory; 0: leaves the number
 *   attack_user future              says that it begins at the end of time
 *   attack_user idle                nothing
 *
 * Says "ready PID SITE" when that is done (SITE: where its tracepoint is in the code), and runs until it is told
 * to end (SIGTERM), at most two minutes; with "ends" as last argument it records an event and ends at once.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <strata/tracepoint.h>

#include "announce.h"

STRATA_CLASS(one, (int number), strata_int(number, number));
STRATA_EVENT(evil, one, INFO, one);

static unsigned char *memory;
static int memfd = -1;
static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void find_memory(void)
{
	memfd = announce_own_memory();
	memory = mmap(NULL, STRATA_ABI_USER_CHANNELS_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED,
		      memfd, 0);
}

static uint64_t first_site(void)
{
	const struct strata_abi_user_state *state =
		(void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	const struct strata_abi_user_site *sites =
		(void *)(memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET + state->sites);

	return state->nr_sites ? sites->address : 0;
}

/* A connection to ourselves whose buffers are full, so that its end cannot be sent. */
static int lingering(void)
{
	const struct linger linger = { 1, 60 };
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	static char text[65536];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int from = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes) ||
	    connect(from, (struct sockaddr *)&address, bytes) || accept(listener, NULL, NULL) < 0)
		die("a connection to ourselves");
	setsockopt(from, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (send(from, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	close(listener);
	return from;
}

static void send_descriptors(long messages, long n, int linger)
{
	int fds[ANNOUNCE_FDS_MAX];
	long i;

	for (i = 0; i < n && i < ANNOUNCE_FDS_MAX; i++)
		fds[i] = linger ? lingering() : open("/dev/null", O_RDONLY | O_CLOEXEC);
	announce_to_all(messages, fds, (size_t)i);
	while (i > 0)
		close(fds[--i]);
}

static void lock(void)
{
	if (flock(memfd, LOCK_EX))
		die("flock");
}

static void forge(const char *name, const char *pid)
{
	struct strata_abi_user_control *control = (void *)memory;

	memset(control->name, 0, sizeof(control->name));
	snprintf(control->name, sizeof(control->name), "%s", name);
	if (atoi(pid))
		control->pid = (uint32_t)atoi(pid);
}

static void record(void)
{
	STRATA_TRACE_EVENT(evil, one, 1);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	int ends = argc > 2 && !strcmp(argv[argc - 1], "ends"), relocked = strcmp(way, "relock");

	signal(SIGTERM, on_term);
	alarm(120);
	find_memory();
	if (memory == MAP_FAILED && strcmp(way, "idle"))
		die("our memory");
	if (!strcmp(way, "send"))
		send_descriptors(atol(argv[2]), atol(argv[3]), 0);
	else if (!strcmp(way, "linger"))
		send_descriptors(1, atol(argv[2]), 1);
	else if (!strcmp(way, "lock"))
		lock();
	else if (!strcmp(way, "forge"))
		forge(argv[2], argv[3]);
	else if (!strcmp(way, "future"))
		((struct strata_abi_user_control *)(void *)memory)->started_ns = UINT64_MAX;
	printf("ready %d %llu\n", (int)getpid(),
	       memory == MAP_FAILED ? 0ull : (unsigned long long)first_site());
	fflush(stdout);
	record();
	/* Not by exit(), which would take the tracepoint away. */
	if (ends)
		_exit(0);
	while (!asked) {
		poll(NULL, 0, 5);
		record();
		if (!relocked && STRATA_ENABLED(evil, one)) {
			relocked = 1;
			lock();
			puts("locked");
			fflush(stdout);
		}
	}
	return 0;
}
