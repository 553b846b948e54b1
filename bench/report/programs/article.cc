// SPDX-License-Identifier: MIT
//
// article.cc - the loop of the article on LTTng-UST's overhead: random numbers of std::mt19937, each handed to a tracepoint.
// Prints "ITERATIONS NS", the time of one iteration.
//
//   article ITERATIONS
//
// Compiled without a tracepoint, with Strata's (-DWITH_STRATA) or with LTTng-UST's (-DWITH_LTTNG).
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#if defined(WITH_STRATA)
#include <strata/tracepoint.h>
#define TRACE(x) STRATA_TRACE(bench, u64, INFO, strata_int(value, x))
#elif defined(WITH_LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "../../user/lttng_provider.h"
#define TRACE(x) lttng_ust_tracepoint(bench, u64, x)
#else
#define TRACE(x) static_cast<void>(x)
#endif

int main(int argc, char **argv)
{
	const unsigned long iterations = argc == 2 ? std::strtoul(argv[1], nullptr, 10) : 0;
	if (!iterations) {
		std::fprintf(stderr, "usage: article ITERATIONS\n");
		return 2;
	}
	std::mt19937 random;
	std::uint64_t sum = 0;
	const auto begin = std::chrono::steady_clock::now();
	for (unsigned long i = 0; i < iterations; i++) {
		const std::uint64_t x = static_cast<std::uint64_t>(random()) << 32 | random();
		sum += x;
		TRACE(x);
	}
	const std::chrono::duration<double, std::nano> took =
		std::chrono::steady_clock::now() - begin;
	std::printf("%lu %.4f\n", iterations, took.count() / static_cast<double>(iterations));
	/* The numbers are needed: the loop cannot go. */
	return sum == 1 ? 3 : 0;
}
