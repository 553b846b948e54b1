/* SPDX-License-Identifier: MIT */
/*
 * soak_short.c - processes that live for a moment, as many as wanted.
 *
 *   soak_short GO PROCESSES AT_ONCE PAUSE_US
 *
 * It emits short:begin until the file GO is there. Then it forks PROCESSES children, up to AT_ONCE of them at a time, one in
 * PAUSE_US microseconds at most; each
 * emits EVENTS events short:life, with a number of its own that no other child has, and ends: by itself, or by SIGKILL.
 * It prints how many there were; it emits short:end, and waits for SIGTERM.
 */
#include <strata/tracepoint.h>

#include <signal.h>
#include <sys/wait.h>

#include "count.h"

#define EVENTS 3u

STRATA_CLASS(moment, (uint64_t who, uint64_t number), strata_int(who, who),
	     strata_int(number, number));
STRATA_EVENT(short, begin, INFO, moment);
STRATA_EVENT(short, life, INFO, moment);
STRATA_EVENT(short, end, INFO, moment);

static _Noreturn void child(uint64_t who)
{
	uint64_t number;

	for (number = 0; number < EVENTS; number++)
		STRATA_TRACE_EVENT(short, life, who, number);
	if (who % 16 == 0)
		kill(getpid(), SIGKILL);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned long processes, at_once, pause_us, who, running = 0;
	struct timespec pause;
	sigset_t term;
	pid_t pid;
	int signal;

	test_must(argc == 5);
	processes = test_number(argc, argv, 2, 1);
	at_once = test_number(argc, argv, 3, 1);
	pause_us = test_number(argc, argv, 4, 0);
	pause = (struct timespec){ 0, (long)pause_us * 1000 };
	test_must(!sigemptyset(&term) && !sigaddset(&term, SIGTERM));
	test_must(!sigprocmask(SIG_BLOCK, &term, NULL));
	for (who = 0; access(argv[1], F_OK); who++) {
		STRATA_TRACE_EVENT(short, begin, 0, who);
		test_sleep_ms(10);
	}
	for (who = 0; who < processes; who++) {
		if (running == at_once) {
			test_must(wait(NULL) > 0);
			running--;
		}
		pid = fork();
		test_must(pid >= 0);
		if (!pid)
			child(who);
		running++;
		nanosleep(&pause, NULL); /* Time: as many in a second as were asked for. */
	}
	while (wait(NULL) > 0)
		;
	printf("processes %lu events %lu\n", processes, processes * EVENTS);
	fflush(stdout);
	STRATA_TRACE_EVENT(short, end, 0, 0);
	test_must(!sigwait(&term, &signal));
	return 0;
}
