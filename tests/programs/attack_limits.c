/* SPDX-License-Identifier: MIT */
/*
 * attack_limits.c - a program short of something, which emits nonetheless.
 *
 *   attack_limits WHAT EVENTS
 *
 * WHAT: none; mlock (mlockall() of all that is and will be); closefrom (closes all descriptors but those of
 * its terminal); nofile (all descriptors are in use); hidden (nobody else may look into it from now on);
 * user (root becomes another user);
 * overwritten (it replaces the code of its own site by no-ops, and toggles the page's protection all the
 * time). It says "ready", waits for a line, emits, and prints a sum and what it was refused.
 */
#include <strata/tracepoint.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "count.h"

STRATA_CLASS(step, (uint64_t number), strata_int(number, number));
STRATA_EVENT(limits, step, INFO, step);
STRATA_EVENT(limits, own, INFO, step);

static void use_all_descriptors(void)
{
	struct rlimit limit = { 128, 128 };

	test_must(!setrlimit(RLIMIT_NOFILE, &limit));
	while (dup(0) >= 0)
		;
	test_must(errno == EMFILE);
}

/* The function whose code is written over; nothing else of it is in the way. */
__attribute__((noinline, aligned(4096))) static void own_step(uint64_t number)
{
	STRATA_TRACE_EVENT(limits, own, number);
}

static void protect(int flags)
{
	test_must(!mprotect((void *)(uintptr_t)own_step, 4096, flags));
}

/* Five bytes that do nothing in the place of the site, which is the first A9 or E9 of the function. */
static void overwrite_site(void)
{
	static const unsigned char nop[5] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	unsigned char *code = (unsigned char *)(uintptr_t)own_step;

	protect(PROT_READ | PROT_WRITE | PROT_EXEC);
	while (*code != 0xa9 && *code != 0xe9)
		code++;
	memcpy(code, nop, sizeof(nop));
	protect(PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long nr_events = test_number(argc, argv, 2, 100), i;
	int is_code = !strcmp(what, "overwritten");
	uint64_t sum = 0;
	char line;

	test_counts_kept = test_counts_open();
	if (!strcmp(what, "mlock"))
		test_must(!mlockall(MCL_CURRENT | MCL_FUTURE));
	else if (!strcmp(what, "closefrom"))
		test_must(!close_range(3, ~0u, 0));
	else if (!strcmp(what, "nofile"))
		use_all_descriptors();
	else if (!strcmp(what, "hidden"))
		test_must(!prctl(PR_SET_DUMPABLE, 0));
	else if (!strcmp(what, "user"))
		test_must(!setgid(65534) && !setuid(65534));
	else if (is_code)
		overwrite_site();
	puts("ready");
	fflush(stdout);
	test_must(read(STDIN_FILENO, &line, 1) >= 0);
	for (i = 0; i < nr_events; i++) {
		STRATA_TRACE_EVENT(limits, step, i);
		sum = sum * 31 + i;
		if (is_code) {
			protect(i % 2 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE | PROT_EXEC);
			own_step(i);
		}
	}
	printf("%llx\n", (unsigned long long)sum);
	return 0;
}
