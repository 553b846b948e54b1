/* SPDX-License-Identifier: MIT */
/*
 * objects.c - a program with tracepoints, linked with two libraries that have some, which loads a third and
 * a fourth one, unloads them, and loads them again, CYCLES times; and, if it is given, a fifth one that has none, which
 * comes and goes while nobody looks.
 */
#include <strata/tracepoint.h>

#include <dlfcn.h>
#include <pthread.h>

#include "count.h"

int one_work(int rounds);
int two_work(int rounds);

static unsigned long emitted;
static int done;

static void *open_object(const char *path)
{
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!object) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(93);
	}
	return object;
}

static void close_object(const char *path, void *object)
{
	test_must(!dlclose(object));
	if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) {
		fprintf(stderr, "%s is still loaded\n", path);
		_exit(92);
	}
}

static int work(void *object, const char *name, int rounds)
{
	int (*function)(int) = (int (*)(int))(intptr_t)dlsym(object, name);

	test_must(function);
	return function(rounds);
}

/* Somebody emits while objects come and go. */
static void *meanwhile(void *argument)
{
	unsigned long *number = (unsigned long *)argument;

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		STRATA_TRACE(objects, meanwhile, INFO, strata_int(number, *number));
		++*number;
		test_sleep_ms(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long cycles = test_number(argc, argv, 1, 100), i, other = 0;
	const char *third = argc > 2 ? argv[2] : "", *fourth = argc > 3 ? argv[3] : "";
	void *three, *four = NULL;
	pthread_t thread;

	test_must(!pthread_create(&thread, NULL, meanwhile, &other));
	for (i = 0; i < cycles; i++) {
		STRATA_TRACE(objects, cycle, INFO, strata_int(number, i));
		emitted++;
		three = open_object(third);
		emitted += (unsigned long)one_work(1);
		emitted += (unsigned long)work(three, "three_work", 2);
		/* Every other time the fourth is where the third would be. */
		if (i % 2)
			four = open_object(fourth);
		close_object(third, three);
		if (i % 2) {
			emitted += (unsigned long)work(four, "four_work", 1);
			close_object(fourth, four);
		}
		emitted += (unsigned long)two_work(1);
		if (argc > 4)
			close_object(argv[4], open_object(argv[4]));
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	test_count("objects", emitted + other);
	printf("%lu %lu\n", emitted, other);
	return 0;
}
