/* SPDX-License-Identifier: MIT */
/*
 * attack_pressure.c - a program that takes so much memory, and emits.
 *
 *   attack_pressure MIB EVENTS [fork]
 *
 * It touches MIB MiB of its own, says "ready", waits for a line, emits EVENTS events of more than 64 bytes,
 * looks at its memory, and prints a sum. With "fork" a child does what is behind the line.
 */
#include <strata/tracepoint.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include "count.h"

static const unsigned char bytes[64];

static int work(unsigned char *own, size_t own_bytes, unsigned long nr_events)
{
	uint64_t sum = 0;
	unsigned long i;
	size_t at;

	for (i = 0; i < nr_events; i++) {
		STRATA_TRACE(pressure, step, INFO, strata_int(number, i),
			     strata_array(bytes, bytes, sizeof(bytes)));
		sum = sum * 31 + i;
	}
	for (at = 0; at < own_bytes; at += 4096)
		sum += own[at];
	printf("%llx\n", (unsigned long long)sum);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	size_t own_bytes = (size_t)test_number(argc, argv, 1, 1) << 20;
	unsigned long nr_events = test_number(argc, argv, 2, 100);
	unsigned char *own;
	char line;
	int state;

	own = mmap(NULL, own_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test_must(own != MAP_FAILED);
	memset(own, 3, own_bytes);
	puts("ready");
	fflush(stdout);
	test_must(read(STDIN_FILENO, &line, 1) >= 0);
	if (argc < 4)
		return work(own, own_bytes, nr_events);
	if (!fork())
		_exit(work(own, own_bytes, nr_events));
	test_must(wait(&state) > 0);
	return WIFEXITED(state) ? WEXITSTATUS(state) : 200 + WTERMSIG(state);
}
