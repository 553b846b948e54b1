/* SPDX-License-Identifier: MIT */
/*
 * soak.c - processes with threads that start, fork, execute themselves and die at random, until SIGTERM.
 *
 *   soak FILE PROCESSES THREADS PERIOD_MS SEED [LIFE_MS]
 *
 * As many processes as that, each with so many threads, are kept alive; each thread emits soak:tick every PERIOD_MS
 * milliseconds, with a number of its own that no other thread ever has, in FILE, and its events counted from 0; and
 * soak:other, which sessions switch on and off, and calls getppid(), for sessions that record the kernel. A process lives
 * for up to LIFE_MS (6000); then it ends by itself, by a signal, executes this program anew, by the name that it was
 * started by, or leaves a child in its place.
 */
#include <strata/tracepoint.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "count.h"

#define PROCESSES_MAX 4096u

STRATA_CLASS(tick, (uint64_t who, uint64_t number), strata_int(who, who),
	     strata_int(number, number));
STRATA_EVENT(soak, tick, INFO, tick);
STRATA_EVENT(soak, other, DEBUG, tick);

/* FILE, mapped. */
struct shared {
	uint64_t next; /* thread's number */
	uint64_t births;
};

static struct shared *shared;
static char **arguments;
static unsigned long threads, period_ms, life_ms;
static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static uint64_t random_from(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

static void *emit(void *unused)
{
	uint64_t who = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED), number;

	(void)unused;
	for (number = 0;; number++) {
		STRATA_TRACE_EVENT(soak, tick, who, number);
		STRATA_TRACE_EVENT(soak, other, who, number);
		(void)getppid();
		test_sleep_ms((unsigned)period_ms);
	}
	return NULL;
}

/* Threads that emit, until this process has lived long enough. */
static void live(uint64_t *state)
{
	unsigned long i;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_DFL);
	__atomic_fetch_add(&shared->births, 1, __ATOMIC_RELAXED);
	for (i = 0; i < threads; i++)
		test_must(!pthread_create(&thread, NULL, emit, NULL));
	test_sleep_ms((unsigned)(random_from(state) % life_ms));
}

/* One process, and what comes of it. */
static _Noreturn void run(uint64_t state)
{
	char seed[24], life[24];
	int is_child = 1;

	while (is_child) {
		live(&state);
		switch (random_from(&state) % 6) {
		case 0:
			exit(0);
		case 1:
			kill(getpid(), SIGKILL);
			break;
		case 2:
			signal(SIGSEGV, SIG_DFL);
			raise(SIGSEGV);
			break;
		case 3:
			snprintf(seed, sizeof(seed), "%llu",
				 (unsigned long long)random_from(&state) | 1);
			snprintf(life, sizeof(life), "%lu", life_ms);
			execl(arguments[0], arguments[0], arguments[1], "again", arguments[3],
			      arguments[4], seed, life, (char *)NULL);
			break;
		case 4:
			/* Who waits for this one waits for its child, too. */
			is_child = !fork();
			if (!is_child)
				wait(NULL);
			continue;
		default:
			break;
		}
		break;
	}
	_exit(0);
}

static void begin(pid_t *place, uint64_t *state)
{
	uint64_t seed = random_from(state) | 1;

	*place = fork();
	test_must(*place >= 0);
	if (!*place)
		run(seed);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };
	static pid_t places[PROCESSES_MAX];
	unsigned long processes, i;
	uint64_t state;
	pid_t pid;
	int fd;

	test_must(argc >= 6);
	arguments = argv;
	threads = test_number(argc, argv, 3, 1);
	period_ms = test_number(argc, argv, 4, 100);
	life_ms = test_number(argc, argv, 6, 6000);
	state = strtoull(argv[5], NULL, 10) * 2654435769u + 88172645463325252u;
	fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	test_must(fd >= 0 && !ftruncate(fd, 4096));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	test_must(shared != MAP_FAILED);
	if (!strcmp(argv[2], "again"))
		run(state);
	processes = test_number(argc, argv, 2, 1);
	test_must(processes <= PROCESSES_MAX);
	test_must(!sigaction(SIGTERM, &action, NULL));
	for (i = 0; i < processes; i++)
		begin(&places[i], &state);
	puts("ready");
	fflush(stdout);
	while (!asked) {
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid <= 0) {
			test_sleep_ms(2);
			continue;
		}
		for (i = 0; i < processes; i++)
			if (places[i] == pid)
				begin(&places[i], &state);
	}
	for (i = 0; i < processes; i++)
		kill(places[i], SIGKILL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	printf("births %llu threads %llu\n", (unsigned long long)shared->births,
	       (unsigned long long)shared->next);
	return 0;
}
