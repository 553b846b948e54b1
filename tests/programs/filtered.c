/* SPDX-License-Identifier: MIT */
/*
 * filtered.c - the same events whenever it runs, of fields of many kinds, for filters: in itself, in a child, and, behind
 * "filtered LIBRARY FUNCTION", in a library that is loaded when it runs.
 */
#include <strata/tracepoint.h>

#include <dlfcn.h>
#include <sys/wait.h>

#include "count.h"

STRATA_ENUM(state, strata_label(IDLE, 0), strata_label(BUSY, 1), strata_label_range(BROKEN, 2, 3));

static const char *const names[] = { "a", "nginx", "nginx-worker", "worker" };
static uint32_t numbers[4] = { 1, 2, 3, 4 };

static uint64_t emit(int rounds, int from)
{
	char large[2000];
	int i;

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = 0;
	for (i = from; i < from + rounds; i++) {
		STRATA_TRACE(filtered, all, INFO, strata_int(count, (uint64_t)i),
			     strata_int(delta, 50 - i), strata_float(load, i / 8.0),
			     strata_string(who, names[i & 3]), strata_enum(state, state, i & 3),
			     strata_sequence(data, numbers, i & 3),
			     strata_text(fixed, names[i & 3], 12), strata_int(small, (int8_t)i));
		STRATA_TRACE(filtered, note, DEBUG, strata_string(who, names[i & 3]),
			     strata_int(count, i));
		/* Eight bytes, which are passed in a register. */
		STRATA_TRACE(filtered, pair, INFO, strata_int(left, (uint32_t)i),
			     strata_int(right, 50 - i));
		if (i % 16 == 0)
			STRATA_TRACE(filtered, large, WARNING, strata_int(count, i),
				     strata_string(text, large));
	}
	return (uint64_t)rounds * 3 + (uint64_t)(rounds + 15) / 16;
}

int main(int argc, char **argv)
{
	uint64_t emitted = emit(160, 0);
	void *object = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*function)(int) = NULL;
	pid_t child;

	if (argc > 2) {
		test_must(object);
		function = (int (*)(int))(intptr_t)dlsym(object, argv[2]);
		test_must(function);
		emitted += (uint64_t)function(20);
	}
	child = fork();
	test_must(child >= 0);
	if (!child) {
		test_count("filtered", emit(32, 1024));
		return 0;
	}
	test_must(waitpid(child, NULL, 0) == child);
	test_count("filtered", emitted);
	return 0;
}
