/* SPDX-License-Identifier: MIT */
/*
 * litmus.c - runs the litmus tests, each with and without the reduction.
 *
 * Usage: litmus [-v | NAME]. With the name of a failing test, prints its trace.
 */
#include <stdio.h>

#include "litmus.h"

const struct litmus *test;
uint64_t x, y, cpu_position[2];
int r[4];
uint32_t data[4];

static bool occurred;

static void setup(void)
{
	x = mc_new(0, "x");
	y = mc_new(0, "y");
	cpu_position[0] = mc_new(0, "position of CPU 0");
	cpu_position[1] = mc_new(0, "position of CPU 1");
	memset(data, 0, sizeof(data));
	mc_region(data, sizeof(data), "data");
	for (int i = 0; i < 4; i++)
		r[i] = ANY;
	if (test->setup)
		test->setup();
}

static void final(void)
{
	if (test->final)
		test->final();
	for (int i = 0; i < 4; i++)
		if (test->outcome[i] != ANY && r[i] != test->outcome[i])
			return;
	occurred = true;
}

static bool run_test(const struct litmus *t, bool reduce, bool print_trace, uint64_t *executions)
{
	struct mc_config config = {
		.name = t->name,
		.setup = setup,
		.final = final,
		.state = { { r, sizeof(r) } },
		.handlers = t->handlers,
		.depth = t->depth,
		.aborts = t->aborts,
		.migrations = t->migrations,
		.nr_cpus = 2,
		.ipi = t->ipi,
		.reduce = reduce,
		.print_trace = print_trace,
	};
	struct mc_result result;

	test = t;
	occurred = false;
	for (int i = 0; i < 4; i++) {
		config.threads[i].run = t->run[i];
		config.threads[i].cpu = t->cpu[i];
	}
	config.threads[0].handler = t->handler;
	result = mc_run(&config);
	*executions = result.executions + result.pruned;
	if (t->expected == FAILS)
		return !result.passed && strstr(result.message, t->message);
	if (!result.passed)
		printf("     %s\n", result.message);
	return result.passed && occurred == (t->expected == ALLOWED);
}

int main(int argc, char **argv)
{
	static const struct litmus *const tables[] = { memory_tests, plain_tests, rseq_tests,
						       limit_tests, local_tests };
	static const char *const expected[] = { "allowed", "forbidden", "fails" };
	bool verbose = argc > 1 && !strcmp(argv[1], "-v");
	const char *only = argc > 1 && !verbose ? argv[1] : NULL;
	int run = 0, bad = 0;

	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct litmus *t = tables[i]; t->name; t++) {
			uint64_t reduced, all;
			bool ok;

			if (only && strcmp(only, t->name))
				continue;
			ok = run_test(t, true, only, &reduced);
			ok &= run_test(t, false, false, &all);
			run++;
			bad += !ok;
			if (verbose || !ok)
				printf("%-4s %-44s %-9s %4llu executions, %llu without reduction\n",
				       ok ? "ok" : "BAD", t->name, expected[t->expected],
				       (unsigned long long)reduced, (unsigned long long)all);
		}
	printf("litmus: %d tests, %d wrong\n", run, bad);
	return bad || !run ? 1 : 0;
}
