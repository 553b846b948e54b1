// SPDX-License-Identifier: MIT
// early_late.cc - events outside of main(): constructors, static objects, exit handlers, threads that end.
#include <strata/tracepoint.h>

#include <pthread.h>
#include <thread>

#include "count.h"

static uint64_t emitted;

static void emit(const char *where)
{
	STRATA_TRACE(early_late, step, INFO, strata_string(where, where));
	__atomic_fetch_add(&emitted, 1, __ATOMIC_RELAXED);
}

struct in_a_thread {
	~in_a_thread()
	{
		emit("thread_local destructor");
	}
	void touch()
	{
		emit("thread_local");
	}
};

static struct in_static_memory {
	in_static_memory()
	{
		emit("static constructor");
	}
	~in_static_memory()
	{
		emit("static destructor");
	}
} object;

__attribute__((constructor(150))) static void first()
{
	emit("constructor 150");
}

__attribute__((constructor)) static void begin()
{
	emit("constructor");
}

__attribute__((destructor)) static void end()
{
	emit("destructor");
}

/* The last of all that come before libstrata's own. */
__attribute__((destructor(150))) static void last()
{
	emit("destructor 150");
	test_count("early_late", emitted);
}

static thread_local in_a_thread local;

int main()
{
	atexit([] { emit("atexit"); });
	std::thread([] { local.touch(); }).join();
	emit("main");
	try {
		throw 1;
	} catch (int) {
		emit("catch");
	}
	return 0;
}
