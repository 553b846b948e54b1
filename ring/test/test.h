/* SPDX-License-Identifier: MIT */
/*
 * test.h - what the ring's test programs share: CHECK, the list of tests, the seed, a watchdog.
 *
 *   program [SEED] [PART-OF-A-NAME]
 *
 * A test marked BOTH runs once for each way of publishing that the machine has; what a test creates
 * with test_attr() publishes that way. Exit: 0 all passed, 1 something failed, 77 skipped.
 */
#ifndef STRATA_RING_TEST_H
#define STRATA_RING_TEST_H

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strata/ring/ring.h>
#include <time.h>
#include <unistd.h>

/* A test that hangs is killed by SIGALRM [s]. */
#define TEST_SECONDS 150u

struct test {
	const char *name;
	void (*run)(void);
	int both;
};

#define ONCE(function)                 \
	{                              \
#function, function, 0 \
	}
#define BOTH(function)                 \
	{                              \
#function, function, 1 \
	}

static unsigned test_failures; /* of the test that runs; atomic */
static int test_by_position;   /* 1: the test that runs publishes by write position */
static int test_cpu;	       /* main() runs on this CPU only */
static uint64_t test_seed;     /* printed; the first argument repeats a run */
static uint64_t test_state;

/* Print at most a few of a test's failures: the first one tells. */
__attribute__((unused, format(printf, 3, 4))) static void test_fail(const char *file, int line,
								    const char *format, ...)
{
	char text[400];
	va_list list;

	if (__atomic_fetch_add(&test_failures, 1, __ATOMIC_RELAXED) >= 8)
		return;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(stderr, "%s:%d: %s\n", file, line, text);
}

/* Checks integers: CHECK(found, ==, expected). Returns whether it held. */
#define CHECK(a, op, b)                                                                        \
	__extension__({                                                                        \
		const long long check_a = (long long)(a), check_b = (long long)(b);            \
		const int check_held = check_a op check_b;                                     \
		if (!check_held)                                                               \
			test_fail(__FILE__, __LINE__,                                          \
				  "%s %s %s: found %lld (0x%llx), %lld (0x%llx)", #a, #op, #b, \
				  check_a, (unsigned long long)check_a, check_b,               \
				  (unsigned long long)check_b);                                \
		check_held;                                                                    \
	})

#define CHECK_TEXT(a, b)                                                                           \
	do {                                                                                       \
		if (strcmp((a), (b)))                                                              \
			test_fail(__FILE__, __LINE__, "%s:\n  found    \"%s\"\n  expected \"%s\"", \
				  #a, (a), (b));                                                   \
	} while (0)

/* Ends the test if the check fails, since the rest would have no meaning. */
#define REQUIRE(a, op, b)             \
	do {                          \
		if (!CHECK(a, op, b)) \
			return;       \
	} while (0)

__attribute__((unused)) static uint64_t test_now_ns(void)
{
	return strata_clock_monotonic_ns();
}

/* A xorshift64* generator, whose state must not be 0. */
__attribute__((unused)) static uint64_t test_random_from(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Returns a random number below @limit. */
__attribute__((unused)) static uint64_t test_random(uint64_t limit)
{
	return (test_random_from(&test_state) >> 11) % limit;
}

__attribute__((unused)) static void test_sleep_us(uint64_t us)
{
	const struct timespec t = { (time_t)(us / 1000000), (long)(us % 1000000 * 1000) };

	nanosleep(&t, NULL);
}

/* Run on @cpu only. Returns 0 if this process may not. */
__attribute__((unused)) static int test_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* CPUs that the program may run on, at most @max; those of its start. */
static cpu_set_t test_allowed;

__attribute__((unused)) static int test_cpus(int *cpus, int max)
{
	int i, n = 0;

	for (i = 0; i < CPU_SETSIZE && n < max; i++)
		if (CPU_ISSET((size_t)i, &test_allowed))
			cpus[n++] = i;
	return n;
}

__attribute__((unused)) static struct strata_ring_attr test_attr(uint64_t subbuf_bytes,
								 uint64_t nr_subbufs)
{
	struct strata_ring_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = subbuf_bytes;
	attr.nr_subbufs = nr_subbufs;
	attr.no_rseq = !test_by_position;
	return attr;
}

static int test_run_one(const struct test *test, const char *way)
{
	uint64_t begin = test_now_ns();

	test_failures = 0;
	test_state = test_seed;
	alarm(TEST_SECONDS);
	fflush(NULL);
	test->run();
	alarm(0);
	printf("%s  %s%s (%" PRIu64 " ms)\n", test_failures ? "FAIL" : "pass", test->name, way,
	       (test_now_ns() - begin) / 1000000);
	return test_failures != 0;
}

static int test_main(int argc, char **argv, const struct test *tests, size_t n)
{
	const char *part = "";
	int failed = 0, ran = 0;
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	test_seed = (test_now_ns() ^ (uint64_t)getpid() << 32) | 1;
	for (i = 1; i < (size_t)argc; i++)
		if (argv[i][0] >= '0' && argv[i][0] <= '9')
			test_seed = strtoull(argv[i], NULL, 0) | 1;
		else
			part = argv[i];
	printf("seed %" PRIu64 "\n", test_seed);
	/*
	 * The effect of a limit on file sizes is an error to be returned, not the end of the
	 * program.
	 */
	signal(SIGXFSZ, SIG_IGN);
	sched_getaffinity(0, sizeof(test_allowed), &test_allowed);
	test_cpus(&test_cpu, 1);
	test_pin(test_cpu);
	for (i = 0; i < n; i++) {
		if (!strstr(tests[i].name, part))
			continue;
		ran++;
		test_by_position = 0;
		failed += test_run_one(&tests[i], tests[i].both ? ", by commit" : "");
		if (tests[i].both && strata_rseq_available()) {
			test_by_position = 1;
			failed += test_run_one(&tests[i], ", by position");
		}
	}
	if (failed)
		printf("%d failed; again with: %s %" PRIu64 "\n", failed, argv[0], test_seed);
	return failed || !ran;
}

#define TEST_MAIN(tests)                                                                 \
	int main(int argc, char **argv)                                                  \
	{                                                                                \
		return test_main(argc, argv, tests, sizeof(tests) / sizeof((tests)[0])); \
	}

#endif /* STRATA_RING_TEST_H */
