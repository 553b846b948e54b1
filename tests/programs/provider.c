/* SPDX-License-Identifier: MIT */
/* provider.c - a shared object with tracepoints of provider PROVIDER; also compiled as C++. */
#include <strata/tracepoint.h>

#define PASTE_(a, b)   a##b
#define PASTE(a, b)    PASTE_(a, b)
#define STRING_(a)     #a
#define STRING(a)      STRING_(a)
#define WORK(provider) PASTE(provider, _work)
/* Names are taken as they are written: these write out what PROVIDER is. */
#define EVENT(provider, ...)	   STRATA_EVENT(provider, __VA_ARGS__)
#define TRACE(provider, ...)	   STRATA_TRACE(provider, __VA_ARGS__)
#define TRACE_EVENT(provider, ...) STRATA_TRACE_EVENT(provider, __VA_ARGS__)

STRATA_CLASS(numbered, (int number), strata_int(number, number),
	     strata_string(from, STRING(PROVIDER)));
EVENT(PROVIDER, begin, INFO, numbered);
EVENT(PROVIDER, end, INFO, numbered);

#ifdef __cplusplus
extern "C"
#endif
	int WORK(PROVIDER)(int rounds);

/* Three events in each round. */
int WORK(PROVIDER)(int rounds)
{
	int i;

	for (i = 0; i < rounds; i++) {
		TRACE_EVENT(PROVIDER, begin, i);
		TRACE(PROVIDER, work, DEBUG, strata_int(number, i), strata_float(half, i / 2.0));
		TRACE_EVENT(PROVIDER, end, i);
	}
	return 3 * rounds;
}
