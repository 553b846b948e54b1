/* SPDX-License-Identifier: MIT */
/* loaded.c - a program that loads the objects that it is given, and then emits an event now and then until it is ended. */
#include <strata/tracepoint.h>

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 200000000 };
	int i;

	for (i = 1; i < argc; i++) {
		if (!dlopen(argv[i], RTLD_NOW)) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
	}
	for (;;) {
		STRATA_TRACE(loaded, step, INFO, strata_int(number, argc));
		nanosleep(&pause, NULL);
	}
}
