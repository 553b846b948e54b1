/* SPDX-License-Identifier: MIT */
/*
 * attack_loader.c - loads and unloads libraries with tracepoints for as long as it is told, in two threads,
 * and calls what is in them.
 *
 *   attack_loader LIBRARY FUNCTION LIBRARY FUNCTION [MS]
 *
 * With MS, it pauses so long after each. Ends with SIGTERM, or after ten minutes. It prints how often it loaded one, and what the functions
 * returned is checked.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "count.h"

static volatile sig_atomic_t asked;
static unsigned pause_ms;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void *work(void *argument)
{
	char **names = argument;
	uintptr_t loads = 0;

	while (!asked) {
		void *object = dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
		int (*function)(int);

		if (!object) {
			fprintf(stderr, "attack_loader: %s: %s\n", names[0], dlerror());
			_exit(96);
		}
		function = (int (*)(int))(intptr_t)dlsym(object, names[1]);
		test_must(function && function(3) == 9);
		test_must(!dlclose(object));
		loads++;
		test_sleep_ms(pause_ms);
	}
	return (void *)loads;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };
	pthread_t thread;
	void *loads;

	pause_ms = (unsigned)test_number(argc, argv, 5, 0);
	test_must(argc > 4 && !sigaction(SIGTERM, &action, NULL));
	test_must(!sigaction(SIGALRM, &action, NULL));
	alarm(600);
	puts("ready");
	fflush(stdout);
	test_must(!pthread_create(&thread, NULL, work, argv + 3));
	printf("loads %lu", (unsigned long)(uintptr_t)work(argv + 1));
	test_must(!pthread_join(thread, &loads));
	printf(" %lu\n", (unsigned long)(uintptr_t)loads);
	return 0;
}
