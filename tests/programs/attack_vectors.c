/* SPDX-License-Identifier: MIT */
/*
 * attack_vectors.c - what is in vector and floating-point registers over a tracepoint, on and off.
 *
 *   attack_vectors ROUNDS
 *
 * Sums with all vector registers alive, of 16, 32 and 64 bytes (as the CPU has them), with masks, in long
 * double, and with a rounding and exceptions of its own, in the main program and in a handler of SIGALRM on
 * a small stack that interrupts it. It prints the sums, which do not depend on who is recording, and waits
 * for a line first if there is a second argument.
 */
#include <strata/tracepoint.h>

#include <fenv.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/time.h>

#include "count.h"

STRATA_CLASS(step, (uint64_t number), strata_int(number, number), strata_float(half, 0.5));
STRATA_EVENT(vectors, sse, INFO, step);
STRATA_EVENT(vectors, avx, INFO, step);
STRATA_EVENT(vectors, avx512, INFO, step);
STRATA_EVENT(vectors, x87, INFO, step);
STRATA_EVENT(vectors, alarm, INFO, step);

static volatile uint64_t seed = 0x9e3779b97f4a7c15;
static uint64_t emitted;
static volatile sig_atomic_t wrong, alarms;

typedef uint64_t v2 __attribute__((vector_size(16)));
typedef uint64_t v4 __attribute__((vector_size(32)));
typedef uint64_t v8 __attribute__((vector_size(64)));

/* As many values as there are registers, none of them known to the compiler, all alive over the event. */
#define SUM(name, type, target_name, registers)                                                   \
	__attribute__((noinline, target(target_name))) static uint64_t sum_##name(uint64_t round) \
	{                                                                                         \
		type value[registers], sum = { 0 };                                               \
		uint64_t all = 0;                                                                 \
		unsigned i;                                                                       \
                                                                                                  \
		_Pragma("GCC unroll 32") for (i = 0; i < registers; i++)                          \
			value[i] = (type){ 0 } + (seed * (i + 1) + round);                        \
		_Pragma("GCC unroll 32") for (i = 0; i < registers;                               \
					      i++) __asm__ volatile("" : "+x"(value[i]));         \
		STRATA_TRACE_EVENT(vectors, name, round);                                         \
		_Pragma("GCC unroll 32") for (i = 0; i < registers;                               \
					      i++) __asm__ volatile("" : "+x"(value[i]));         \
		_Pragma("GCC unroll 32") for (i = 0; i < registers; i++)                          \
			sum += value[i] * (i + 3);                                                \
		for (i = 0; i < sizeof(type) / 8; i++)                                            \
			all = all * 31 + sum[i];                                                  \
		return all;                                                                       \
	}

SUM(sse, v2, "sse2", 16)
SUM(avx, v4, "avx2", 16)

/* A mask over an event, and the registers that only this set has. */
__attribute__((noinline, target("avx512f"))) static uint64_t sum_avx512(uint64_t round)
{
	v8 value[24], sum = { 0 };
	__mmask8 mask = (__mmask8)(round | 0x15);
	uint64_t all = 0;
	unsigned i;

#pragma GCC unroll 32
	for (i = 0; i < 24; i++)
		value[i] = (v8){ 0 } + (seed * (i + 1) + round);
#pragma GCC unroll 32
	for (i = 0; i < 24; i++)
		__asm__ volatile("" : "+v"(value[i]));
	__asm__ volatile("" : "+Yk"(mask));
	STRATA_TRACE_EVENT(vectors, avx512, round);
	__asm__ volatile("" : "+Yk"(mask));
#pragma GCC unroll 32
	for (i = 0; i < 24; i++)
		__asm__ volatile("" : "+v"(value[i]));
#pragma GCC unroll 32
	for (i = 0; i < 24; i++)
		sum += (v8)_mm512_maskz_add_epi64(mask, (__m512i)value[i], (__m512i)value[23 - i]);
	for (i = 0; i < 8; i++)
		all = all * 31 + sum[i];
	return all;
}

/* The x87 stack, its control word, MXCSR with a flag that is up, and a rounding that nobody else has. */
__attribute__((noinline)) static uint64_t sum_x87(uint64_t round)
{
	long double a = (long double)(round + 1) / 3, b = (long double)seed / 7, sum;
	unsigned before, after;
	uint16_t control, control_after;
	uint64_t bits[2] = { 0, 0 };

	fesetround(FE_UPWARD);
	feraiseexcept(FE_INEXACT | FE_DIVBYZERO);
	__asm__ volatile("" : "+t"(a), "+u"(b));
	before = _mm_getcsr();
	__asm__ volatile("fnstcw %0" : "=m"(control));
	STRATA_TRACE_EVENT(vectors, x87, round);
	after = _mm_getcsr();
	__asm__ volatile("fnstcw %0" : "=m"(control_after));
	if (before != after || control != control_after)
		wrong = 1;
	__asm__ volatile("" : "+t"(a), "+u"(b));
	sum = a * b;
	feclearexcept(FE_ALL_EXCEPT);
	fesetround(FE_TONEAREST);
	memcpy(bits, &sum, 10);
	return bits[0] * 31 + bits[1];
}

static uint64_t all_sums(uint64_t round)
{
	uint64_t sum = sum_sse(round) * 31 + sum_x87(round);

	emitted += 2;
	if (__builtin_cpu_supports("avx2")) {
		sum = sum * 31 + sum_avx(round);
		emitted++;
	}
	if (__builtin_cpu_supports("avx512f")) {
		sum = sum * 31 + sum_avx512(round);
		emitted++;
	}
	return sum;
}

static uint64_t expected;

static void on_alarm(int signal)
{
	uint64_t saved = emitted, sum;

	(void)signal;
	STRATA_TRACE_EVENT(vectors, alarm, alarms);
	sum = all_sums(12345);
	if (sum != expected)
		wrong = 2;
	/* What is counted here was interrupted in the middle of being counted, perhaps. */
	emitted = saved;
	alarms++;
}

int main(int argc, char **argv)
{
	unsigned long rounds = test_number(argc, argv, 1, 1000), i, in_handler;
	struct itimerval often = { { 0, 700 }, { 0, 700 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART };
	static unsigned char memory[16384] __attribute__((aligned(64)));
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
	uint64_t sum = 0;
	char line;

	puts("ready");
	fflush(stdout);
	if (argc > 2)
		test_must(read(STDIN_FILENO, &line, 1) >= 0);
	test_must(!sigaltstack(&stack, NULL));
	test_must(!sigaction(SIGALRM, &action, NULL));
	/* In the sum, too: the first event of all may be the one that maps the buffers. */
	expected = all_sums(12345);
	in_handler = emitted + 1;
	test_must(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; i < rounds || alarms < 20; i++)
		if (i < rounds)
			sum = sum * 31 + all_sums(i);
	test_must(!setitimer(ITIMER_REAL, &never, NULL));
	test_count("vectors",
		   in_handler - 1 + rounds * (in_handler - 1) + (uint64_t)alarms * in_handler);
	printf("%llx %llx wrong %d\n", (unsigned long long)expected, (unsigned long long)sum,
	       (int)wrong);
	return wrong;
}
