/* SPDX-License-Identifier: MIT */
/* loader.c - a program whose probes come and go: loader PROVIDER.so */
#define TRACEPOINT_DEFINE
#define TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#include "old_names.h"

static void hit(const char *when, unsigned long value)
{
	printf("%s\n", when);
	fflush(stdout);
	tracepoint(compat_old, first_number, value);
	do_tracepoint(compat_old, second_number, value);
}

int main(int argc, char **argv)
{
	int i;

	hit("before", 1);
	for (i = 0; i < 2 && argc > 1; i++) {
		void *provider = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		if (!provider) {
			printf("%s\n", dlerror());
			return 1;
		}
		hit("loaded", 2);
		if (dlclose(provider))
			return 1;
		hit("unloaded", 3);
	}
	return 0;
}
