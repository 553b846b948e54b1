// SPDX-License-Identifier: MIT
// returns.cc - functions that are left in all ways that a C++ program knows; prints how often each one returned, and the sum
// of what it returned.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <coroutine>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __clang__
#define PROBED extern "C" __attribute__((noinline))
#else
#define PROBED extern "C" __attribute__((noipa))
#endif
#define HERE asm volatile("" ::: "memory")

static jmp_buf back;
static ucontext_t one, other;
static char stack[65536];
static long returned[16], sums[16];

PROBED long throws(long n)
{
	HERE;
	if (n % 2)
		throw std::runtime_error("odd");
	return n;
}

// An exception passes through, and there is nothing to be done for it here.
PROBED long passes(long n)
{
	long m = throws(n);

	HERE;
	return m + 1;
}

PROBED long jumps(long n)
{
	HERE;
	if (n % 3 == 0)
		longjmp(back, 1);
	return n;
}

PROBED long switches(long n)
{
	swapcontext(&other, &one);
	HERE;
	return n * 2;
}

PROBED long nests(long n)
{
	long m = n ? nests(n - 1) : 0;

	HERE;
	return m + 1;
}

PROBED long ends(long n)
{
	if (n % 2)
		pthread_exit(nullptr);
	HERE;
	return n;
}

PROBED long last(long n)
{
	HERE;
	return n + 5;
}

// Calls another function last, if it is optimized.
PROBED long calls_last(long n)
{
	HERE;
	if (n & 1)
		return last(n);
	HERE;
	return n;
}

PROBED long chooses(long n)
{
	HERE;
	switch (n % 8) {
	case 0:
		HERE;
		return 17;
	case 1:
		HERE;
		return n * 3;
	case 2:
		HERE;
		return n ^ 5;
	case 3:
		HERE;
		return -n;
	case 4:
		HERE;
		return n + 11;
	case 5:
		HERE;
		return n * n;
	case 6:
		HERE;
		return n - 100;
	default:
		HERE;
		return n / 2;
	}
}

#define PAGE 4096

static const void *table;

// Goes where a table says. With nothing of its own on the stack, only the target tells that it stays in the function.
PROBED long goes(long n)
{
	alignas(PAGE) static const void *const places[PAGE / sizeof(void *)] = { &&begins,
										 &&doubles,
										 &&ends };

	table = places;
	goto *const_cast<void *>(places[n % 3]);
begins:
	HERE;
	return n;
doubles:
	HERE;
	return 2 * n;
ends:
	HERE;
	return n + 9;
}

PROBED long catches(long n)
{
	try {
		return passes(n);
	} catch (std::exception &) {
		return -1;
	}
}

struct Task {
	struct promise_type {
		long value = 0;
		Task get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		void return_value(long v)
		{
			value = v;
		}
		void unhandled_exception()
		{
			std::abort();
		}
	};
	std::coroutine_handle<promise_type> handle;
};

static Task coroutine(long n)
{
	long m = last(n);

	co_await std::suspend_always{};
	co_return m + last(n);
}

PROBED long resumes(long n)
{
	Task task = coroutine(n);

	task.handle.resume();
	long value = task.handle.promise().value;
	task.handle.destroy();
	return value;
}

static void count(int which, long value)
{
	returned[which]++;
	sums[which] += value;
}

static void in_context()
{
	for (long i = 0; i < 10; i++)
		count(3, switches(i));
}

static void *in_thread(void *n)
{
	count(5, ends((long)n));
	return nullptr;
}

int main()
{
	static const char *const names[] = { "throws",	"passes",  "jumps",	 "switches",
					     "nests",	"ends",	   "calls_last", "chooses",
					     "catches", "resumes", "goes" };

	/* setjmp() returns to this frame: no register keeps it. */
	static long i;

	for (i = 0; i < 100; i++) {
		count(8, catches(i));
		if (i % 2 == 0) {
			count(0, i);
			count(1, i + 1);
		}
		if (!setjmp(back))
			count(2, jumps(i));
		count(6, calls_last(i));
		count(7, chooses(i));
		count(9, resumes(i));
		count(10, goes(i));
#if !defined(__PIC__) && !defined(__PIE__)
		// Its page holds no changes, and is not in memory when the next call needs it.
		madvise(const_cast<void *>(table), PAGE, MADV_DONTNEED);
#endif
	}
	getcontext(&other);
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = sizeof(stack);
	other.uc_link = &one;
	makecontext(&other, in_context, 0);
	for (int i = 0; i < 11; i++)
		swapcontext(&one, &other);
	nests(500);
	for (long i = 1; i <= 501; i++)
		count(4, i);
	for (long i = 0; i < 10; i++) {
		pthread_t thread;

		pthread_create(&thread, nullptr, in_thread, (void *)i);
		pthread_join(thread, nullptr);
	}
	for (int i = 0; i < 11; i++)
		printf("%s %ld %ld\n", names[i], returned[i], sums[i]);
	return 7;
}
