/* SPDX-License-Identifier: MIT */
/*
 * loader.c - a program without libstrata that loads libraries with tracepoints: for each pair of LIBRARY and
 * FUNCTION, loads it, calls the function, and unloads it again.
 */
#include <dlfcn.h>

#include "count.h"

int main(int argc, char **argv)
{
	uint64_t emitted = 0;
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		void *object = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		int (*function)(int);

		if (!object) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		function = (int (*)(int))(intptr_t)dlsym(object, argv[i + 1]);
		test_must(function);
		emitted += (uint64_t)function(10);
		dlclose(object);
	}
	test_count("loader", emitted);
	return 0;
}
