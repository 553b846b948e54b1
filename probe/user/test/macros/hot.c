/* SPDX-License-Identifier: MIT */
/* hot.c - what ./dormant looks at in machine code. C and C++. */
#include <strata/tracepoint.h>

#ifdef __cplusplus
extern "C" {
#endif
uint64_t hot_none(uint64_t v);
uint64_t hot_integer(uint64_t v);
uint64_t hot_computed(uint64_t v, uint64_t w, const uint64_t *p);
uint64_t hot_string(const char *s);
uint64_t hot_loop(uint64_t n);
uint64_t hot_span(uint64_t v);

uint64_t hot_none(uint64_t v)
{
	return v + 1;
}

uint64_t hot_integer(uint64_t v)
{
	STRATA_TRACE(hot, integer, INFO, strata_int(v, v));
	return v + 1;
}

uint64_t hot_computed(uint64_t v, uint64_t w, const uint64_t *p)
{
	STRATA_TRACE(hot, computed, INFO, strata_int(a, v * w + 17), strata_int(b, p[3] / w),
		     strata_float(c, (double)v), strata_array(d, p, 4));
	return v + 1;
}

uint64_t hot_string(const char *s)
{
	STRATA_TRACE(hot, string, INFO, strata_string(s, s));
	return 1;
}

uint64_t hot_span(uint64_t v)
{
	STRATA_SPAN(hot, span, INFO, strata_int(v, v));
	return v + 1;
}

uint64_t hot_loop(uint64_t n)
{
	uint64_t x = 1;

	while (n--) {
		STRATA_TRACE(hot, loop, INFO, strata_int(x, x));
		x = x * 6364136223846793005u + 1442695040888963407u;
	}
	return x;
}
#ifdef __cplusplus
}
#endif
