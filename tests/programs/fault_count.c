/* SPDX-License-Identifier: MIT */
/*
 * fault_count.c - records numbered events, and says in a file how many are complete.
 *
 *   fault_count FILE THREADS NUMBER PAUSE_US STATUS
 *
 * Each thread records NUMBER events fault:step (0: until SIGTERM comes), and sleeps PAUSE_US after every 64th (0: never). Record k of
 * thread t carries k and a checksum of its other fields; FILE says for each thread how many were complete.
 * At the end it prints "done THREADS NUMBER" and exits with STATUS; "killed": it waits for that, or for its parent's end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <strata/tracepoint.h>

#include "fault_count.h"

static struct fault_counts *counts;
static uint64_t number, pause_us;
static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void *work(void *argument)
{
	const uint32_t thread = (uint32_t)(uintptr_t)argument, pid = (uint32_t)getpid();
	char text[FAULT_TEXT_MAX + 1];
	uint64_t k;

	for (k = 0; !asked && (!number || k < number); k++) {
		fault_text(text, k);
		STRATA_TRACE(fault, step, INFO, strata_int(pid, pid), strata_int(thread, thread),
			     strata_int(number, k), strata_string(text, text),
			     strata_hex(check, fault_check(pid, thread, k, text)));
		__atomic_store_n(&counts->thread[thread].completed, k + 1, __ATOMIC_RELEASE);
		if (pause_us && k % 64 == 63)
			usleep((useconds_t)pause_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[FAULT_THREADS_MAX];
	unsigned long i, n;

	if (argc != 6)
		return 99;
	n = strtoul(argv[2], NULL, 10);
	number = strtoull(argv[3], NULL, 10);
	pause_us = strtoull(argv[4], NULL, 10);
	counts = n && n <= FAULT_THREADS_MAX ? fault_counts(argv[1]) : NULL;
	if (!counts)
		return 99;
	counts->pid = (uint64_t)getpid();
	counts->threads = n;
	if (!strcmp(argv[5], "killed") && prctl(PR_SET_PDEATHSIG, SIGKILL))
		return 99;
	signal(SIGTERM, on_term);
	for (i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 99;
	work(NULL);
	for (i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	while (!strcmp(argv[5], "killed"))
		pause();
	printf("done %lu %lu\n", n, (unsigned long)number);
	return atoi(argv[5]);
}
