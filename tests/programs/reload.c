/* SPDX-License-Identifier: MIT */
/*
 * reload.c - two libraries in turn, the second one before the first has gone, as plugins are exchanged: what one had of
 * the process is not at the end of anything when it goes.
 *
 *   reload LIBRARY FUNCTION LIBRARY FUNCTION TIMES
 *
 * What the functions returned is checked.
 */
#include <dlfcn.h>

#include "count.h"

static void *load(char **names)
{
	void *object = dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
	int (*function)(int);

	if (!object) {
		fprintf(stderr, "reload: %s\n", dlerror());
		_exit(96);
	}
	function = (int (*)(int))(intptr_t)dlsym(object, names[1]);
	test_must(function && function(3) == 9);
	return object;
}

int main(int argc, char **argv)
{
	void *one, *other = NULL;
	unsigned long i, times;

	test_must(argc > 5);
	times = test_number(argc, argv, 5, 0);
	for (i = 0; i < times; i++) {
		one = load(argv + 1);
		test_must(!other || !dlclose(other));
		other = load(argv + 3);
		test_must(!dlclose(one));
	}
	return 0;
}
