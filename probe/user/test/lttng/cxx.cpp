/* SPDX-License-Identifier: MIT */
/* cxx.cpp - call sites where C++ has more places for them; its probes are in the same unit. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "cxx_provider.h"

template <typename type> static type traced(type value)
{
	lttng_ust_tracepoint(compat_cxx, step, (int)value);
	return value;
}

class counter
{
    public:
	counter()
	{
		lttng_ust_tracepoint(compat_cxx, step, 10);
	}
	~counter()
	{
		lttng_ust_tracepoint(compat_cxx, step, 11);
	}
};

static counter early; /* a constructor of the program, before main() */

static inline int in_line(int n)
{
	lttng_ust_tracepoint(compat_cxx, step, n);
	return n + 1;
}

int main()
{
	compat::shape shape = { "triangle", 1.25, { 3, 4, 5 } };

	lttng_ust_tracepoint(compat_cxx, shape, shape, compat::colour::red, std::string("copied"));
	/* Variables that begin between two call sites of one function. */
	std::string later(3, 'z');
	lttng_ust_tracepoint(compat_cxx, shape, shape, compat::colour::green, later + later);
	auto lambda = [&](int n) { lttng_ust_tracepoint(compat_cxx, step, n); };
	lambda(traced(20));
	traced(21L);
	traced('!');
	for (int i = in_line(30); i < 33; i = in_line(i))
		;
	if (lttng_ust_tracepoint_enabled(compat_cxx, step) && shape.area > 1)
		lttng_ust_do_tracepoint(compat_cxx, step, 40);
	return 0;
}
