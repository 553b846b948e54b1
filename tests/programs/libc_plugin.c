/* SPDX-License-Identifier: MIT */
/* libc_plugin.c - a library that allocates as it is loaded, and says how often, as libc_counted.c does. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const char __ehdr_start __attribute__((visibility("hidden")));

int strata_test_plugin = 7;

__attribute__((constructor)) static void begin(void)
{
	const void *first = &__ehdr_start, *last = &strata_test_plugin;
	void *kept[50];
	char text[256];
	int i, bytes;

	for (i = 0; i < 50; i++)
		kept[i] = malloc(5000 + (size_t)i);
	for (i = 0; i < 20; i++)
		free(kept[i]);
	bytes = snprintf(text, sizeof(text), "%d %p %p malloc 50\n%d %p %p free 20\n", getpid(),
			 first, last, getpid(), first, last);
	if (getenv("STRATA_TEST_PLUGIN_SAYS") && write(1, text, (size_t)bytes) != bytes)
		abort();
}
