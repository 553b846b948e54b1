/* SPDX-License-Identifier: MIT */
/* main.c - hits each event of the providers here with known values; also compiled as C++. */
#include <arpa/inet.h>

#define LTTNG_UST_TRACEPOINT_DEFINE
#ifdef COMPAT_DYNAMIC
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#endif
#include "all_fields.h"
#include "other_provider.h"
#include "old_names.h"

#ifdef __cplusplus
extern "C"
#endif
	void
	compat_other_unit(void);

static int evaluated;

static int count(int value)
{
	evaluated++;
	return value;
}

static void hit_sequences(void)
{
	static char large[100001];
	long values[] = { 1, -2, 3 };
	struct compat_point point = { 5, { 0xde, 0xad, 0xbe, 0xef } };

	memset(large, 'x', sizeof(large) - 1);
	lttng_ust_tracepoint(compat_all, texts, "short", NULL, 3);
	lttng_ust_tracepoint(compat_all, texts, "longer than ten", "some", 15);
	lttng_ust_tracepoint(compat_all, texts, large, "none", 100000);
	lttng_ust_tracepoint(compat_all, texts, "too large", "none", (size_t)-1);
	lttng_ust_tracepoint(compat_all, arrays, values, &point, 3);
}

static void hit_others(void)
{
	uint16_t ports[] = { htons(80), htons(443), htons(8080) };
	long values[] = { 1, 2 };
	int counter = 7;

	lttng_ust_tracepoint(compat_all, network, htons(22), htonl(0x7f000001), ports);
	lttng_ust_tracepoint(compat_all, floats, 1.5f, -2.25);
	lttng_ust_tracepoint(compat_all, enums, COMPAT_RED, 5);
	lttng_ust_tracepoint(compat_all, nowrite, &counter, "s", values, 0);
	lttng_ust_tracepoint(compat_all, empty);
	lttng_ust_tracepoint(compat_all, only_void);
	if (lttng_ust_tracepoint_enabled(compat_all, begin_pair))
		lttng_ust_do_tracepoint(compat_all, begin_pair, count(1), "begin");
	lttng_ust_do_tracepoint(compat_all, begin_pair, count(2), "asked for");
	lttng_ust_tracepoint(compat_all, end_pair, count(3), "end");
	lttng_ust_tracepoint(compat_other, borrowed, count(4), "borrowed");
}

static void hit_old(void)
{
	const short values[] = { 258, -2 };

	tracepoint(compat_old, everything, 17, "words", values, 0.5);
	tracepoint(compat_old, nothing_written, 17, "words", values, 0.5);
	if (tracepoint_enabled(compat_old, first_number))
		do_tracepoint(compat_old, first_number, 10);
	else
		tracepoint(compat_old, second_number, (unsigned long)count(11));
	tracepoint(TRACEPOINT_PROVIDER, no_argument);
}

int main(void)
{
	lttng_ust_tracepoint(compat_all, integers, (int8_t)count(-1), 255, -32768, 65535, -5, 5u,
			     -6, UINT64_C(0xfedcba9876543210), true, (const void *)0x1000);
	hit_sequences();
	hit_others();
	hit_old();
	compat_other_unit();
	printf("evaluated %d\n", evaluated);
	return 0;
}
