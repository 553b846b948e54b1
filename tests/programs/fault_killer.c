/* SPDX-License-Identifier: MIT */
/*
 * fault_killer.c - kills processes at random moments while they record.
 *
 *   fault_killer SEED NUMBER FOLDER FAULT_COUNT
 *
 * Starts FAULT_COUNT (the program) NUMBER times, four at once, every other one with three threads, each
 * with a file of its own in FOLDER; kills each with SIGKILL up to 1.5 ms after its first complete record. Where the
 * killer gets no CPU meanwhile, a thread stops at RECORDS: all of a process together are some 22 MiB, wherever it runs.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "fault_count.h"

#define AT_ONCE	    4u
#define DELAY_US    1500u
#define PATIENCE_MS 20000u
#define RECORDS	    "120000"

static uint64_t state;

static uint32_t random_below(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 11) % n);
}

/* Precise, and without giving the CPU away: the moment shall be anywhere, not at a timer's tick. */
static void spin_us(uint32_t us)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static int wait_for_first(const struct fault_counts *counts, pid_t pid)
{
	uint32_t ms;

	for (ms = 0; ms < PATIENCE_MS * 10; ms++) {
		if (__atomic_load_n(&counts->thread[0].completed, __ATOMIC_ACQUIRE))
			return 0;
		usleep(100);
	}
	fprintf(stderr, "fault_killer: process %d: no record within %u ms\n", (int)pid,
		PATIENCE_MS);
	return -1;
}

int main(int argc, char **argv)
{
	struct fault_counts *counts[AT_ONCE];
	pid_t pids[AT_ONCE];
	uint32_t i, k, n, begin;
	char path[4096];
	int status, failed = 0;

	if (argc != 5)
		return 99;
	state = strtoull(argv[1], NULL, 10) * 2654435769u + 88172645463325252u;
	n = (uint32_t)strtoul(argv[2], NULL, 10);
	for (begin = 0; begin < n && !failed; begin += k) {
		for (k = 0; k < AT_ONCE && begin + k < n; k++) {
			snprintf(path, sizeof(path), "%s/%u", argv[3], begin + k);
			counts[k] = fault_counts(path);
			if (!counts[k])
				return 99;
			pids[k] = fork();
			if (!pids[k]) {
				execl(argv[4], argv[4], path, (begin + k) % 2 ? "3" : "1", RECORDS,
				      "0", "killed", (char *)NULL);
				_exit(99);
			}
		}
		for (i = 0; i < k; i++) {
			failed |= wait_for_first(counts[i], pids[i]);
			spin_us(random_below(DELAY_US));
			kill(pids[i], SIGKILL);
		}
		for (i = 0; i < k; i++) {
			if (waitpid(pids[i], &status, 0) != pids[i] || !WIFSIGNALED(status) ||
			    WTERMSIG(status) != SIGKILL) {
				fprintf(stderr, "fault_killer: process %d: ended by itself (%#x)\n",
					(int)pids[i], (unsigned)status);
				failed = 1;
			}
			munmap(counts[i], sizeof(*counts[i]));
		}
	}
	return !!failed;
}
