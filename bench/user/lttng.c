/* SPDX-License-Identifier: MIT */
/* lttng.c - the loops with LTTng-UST's tracepoints. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

#define TRACE_U64(x)		  lttng_ust_tracepoint(bench, u64, x)
#define TRACE_STRING(s)		  lttng_ust_tracepoint(bench, string, s)
#define TRACE_TEN(x)		  lttng_ust_tracepoint(bench, ten, x)
#define TRACE_PAIR(i, s)	  lttng_ust_tracepoint(bench, pair, i, s)
#define TRACE_ENUMS(x)		  lttng_ust_tracepoint(bench, enums, (int)((x)&7))
#define TRACE_TWELVE(x, array, s) lttng_ust_tracepoint(bench, twelve, x, array, s)

#include "loops.h"

int main(int argc, char **argv)
{
	return run_loops(argc, argv,
			 "user: what does an event cost the traced thread? (LTTng-UST)");
}
