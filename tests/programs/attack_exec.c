/* SPDX-License-Identifier: MIT */
/*
 * attack_exec.c - shares memory with a tracer, as a traced program does, and becomes a program with more rights
 * while the tracer is at work.
 *
 *   attack_exec WAY ADDRESS DISPLACEMENT VICTIM
 *
 * The memory claims a tracepoint whose site is at ADDRESS, in hexadecimal, with DISPLACEMENT: those of VICTIM.
 * WAY says how the tracer is made to write there, and when the process executes VICTIM:
 *
 *   dead     before the tracer gets the memory's lock, which a child holds; a session of a tracer that has not been
 *            heard of is on, which the tracer ends first; the memory cannot grow, so that nothing comes behind
 *   on       the same without that session: the tracer switches the tracepoint on
 *   armed    when the tracer's session is on, with a tracepoint that it had nothing to write for; then the site
 *            appears, of a process that says that it could not arm itself
 *   stop     when the tracepoint is on, which has no site then; before the tracer switches it off it has one
 *   map      as "on", and VICTIM maps the very memory
 *
 * A child looks on. It says "shared PID" when the memory is announced or to be found, waits until the tracer has had
 * its way with it, and then lets VICTIM make its checks by closing its standard input.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "announce.h"

#define DEAD_SLOT 5

static unsigned char *memory;
static struct strata_abi_user_control *control;
static struct strata_abi_user_session *sessions;
static struct strata_abi_user_state *states;

static void must(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(2);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int is(const char *way, const char *one)
{
	return !strcmp(way, one);
}

static void pause_briefly(void)
{
	const struct timespec pause = { 0, 500000 };

	nanosleep(&pause, NULL);
}

static int effective_user(pid_t pid)
{
	char path[64], line[256];
	int user = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %*d %d", &user) == 1)
			break;
	if (file)
		fclose(file);
	return user;
}

/* One tracepoint "a:b" with a site. */
static void describe(uint64_t address, int32_t displacement, int with_site)
{
	static const unsigned char description[] = { 6, 0,   0, 0, 1,	0, 0, 0,  1,
						     0, 'a', 1, 0, 'b', 1, 0, 'c' };
	struct strata_abi_user_site *site =
		(struct strata_abi_user_site *)(void *)(memory +
							STRATA_ABI_USER_DESCRIPTIONS_OFFSET + 24);

	memcpy(memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET, description, sizeof(description));
	site->address = address;
	site->displacement = displacement;
	states[0].description = 0;
	states[0].description_bytes = sizeof(description);
	states[0].sites = 24;
	states[0].nr_sites = with_site ? 1 : 0;
	memset(states[0].ids, 0xff, sizeof(states[0].ids));
	states[0].flags = STRATA_ABI_USER_STATE_PRESENT;
	control->descriptions_bytes = 40;
	control->nr_states = 1;
}

static uint32_t status_of(int slot)
{
	return __atomic_load_n(&sessions[slot].status, __ATOMIC_ACQUIRE);
}

static int any_session(void)
{
	int slot;

	for (slot = 0; slot < (int)STRATA_ABI_USER_NR_SESSIONS; slot++)
		if (slot != DEAD_SLOT && status_of(slot) == STRATA_ABI_USER_SESSION_ACTIVE)
			return 1;
	return 0;
}

/* Until the tracer has begun, at most so long. */
static void wait_for_session(uint64_t ms)
{
	const uint64_t end = now_ns() + ms * 1000000;

	while (!any_session() && now_ns() < end)
		pause_briefly();
}

/* In the child: what the process would do, could it go on. */
static void look_on(const char *way, pid_t attacker, int memfd, int ready)
{
	uint64_t end;
	char byte;

	/* The attacker has become the victim when it has root's rights. */
	if (read(ready, &byte, 1) != 1)
		exit(2);
	while (effective_user(attacker) != 0) {
		if (kill(attacker, 0))
			exit(2);
		pause_briefly();
	}
	if (is(way, "armed") || is(way, "stop")) {
		states[0].nr_sites = 1;
		if (is(way, "armed")) {
			control->patch_errno = 13;
			__atomic_add_fetch(&control->generation, 1, __ATOMIC_RELEASE);
		}
	} else {
		flock(memfd, LOCK_UN);
	}
	printf("shared %d\n", (int)attacker);
	fflush(stdout);
	/* What the tracer does it does at once; "stop": until it has ended the session. */
	end = now_ns() + UINT64_C(1500000000);
	if (is(way, "dead"))
		while (status_of(DEAD_SLOT) != STRATA_ABI_USER_SESSION_FREE && now_ns() < end)
			pause_briefly();
	else if (is(way, "stop"))
		for (end += UINT64_C(20000000000); any_session() && now_ns() < end;)
			pause_briefly();
	else
		wait_for_session(1500);
	/* And its last step. */
	end = now_ns() + UINT64_C(700000000);
	while (now_ns() < end)
		pause_briefly();
}

int main(int argc, char **argv)
{
	int memfd, until[2], ready[2];
	const char *way;
	char path[32];

	if (argc != 5)
		return 2;
	way = argv[1];
	memfd = (int)memfd_create(STRATA_ABI_USER_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(memfd >= 0 && !ftruncate(memfd, STRATA_ABI_USER_CHANNELS_OFFSET), "memfd");
	must(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | (is(way, "dead") ? F_SEAL_GROW : 0)),
	     "seals");
	memory = mmap(NULL, STRATA_ABI_USER_CHANNELS_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED,
		      memfd, 0);
	must(memory != MAP_FAILED, "mmap");
	control = (void *)memory;
	sessions = (void *)(memory + STRATA_ABI_USER_SESSIONS_OFFSET);
	states = (void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	control->version = STRATA_ABI_USER_VERSION;
	control->pid = (uint32_t)getpid();
	control->publish = STRATA_ABI_RING_BY_COMMIT;
	control->nr_cpus = 1;
	control->started_ns = now_ns();
	strcpy(control->name, "attack_exec");
	describe(strtoull(argv[2], NULL, 16), (int32_t)strtol(argv[3], NULL, 0),
		 !is(way, "armed") && !is(way, "stop"));
	if (is(way, "dead")) {
		sessions[DEAD_SLOT].status = STRATA_ABI_USER_SESSION_ACTIVE;
		sessions[DEAD_SLOT].generation = 77;
		sessions[DEAD_SLOT].heartbeat_ns = 1;
		control->claimed_sessions = 1u << DEAD_SLOT;
		states[0].enabled = 1u << DEAD_SLOT;
	}
	must(!pipe(until) && !pipe(ready), "pipe");
	must(!flock(memfd, LOCK_EX), "flock");
	if (is(way, "armed") || is(way, "stop"))
		flock(memfd, LOCK_UN);
	if (!fork()) {
		/* Gone with this process, should it be ended. */
		close(until[0]);
		close(ready[1]);
		look_on(way, getppid(), memfd, ready[0]);
		_exit(0);
	}
	close(until[1]);
	dup2(until[0], 0);
	__atomic_store_n(&control->magic, STRATA_ABI_USER_MAGIC, __ATOMIC_RELEASE);
	__atomic_store_n(&control->generation, 1, __ATOMIC_RELEASE);
	announce_to_all(1, &memfd, 1);
	if (is(way, "armed") || is(way, "stop"))
		wait_for_session(20000);
	must(write(ready[1], "", 1) == 1, "pipe");
	if (is(way, "map")) {
		fcntl(memfd, F_SETFD, 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
		execl(argv[4], "victim", path, NULL);
	}
	execl(argv[4], "victim", NULL);
	perror(argv[4]);
	return 2;
}
