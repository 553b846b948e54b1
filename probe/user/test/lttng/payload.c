/* SPDX-License-Identifier: MIT */
/*
 * payload.c - what becomes of values that another thread changes between measuring and copying, and of
 * lengths that are none: every record stays one that a reader finds its way through.
 */
#include <stdio.h>
#include <stdlib.h>

#include <strata/user/lttng_payload.h>

static int failed;
static uint64_t asked;

unsigned char *strata_user_stage(struct strata_tracepoint *tracepoint, uint64_t bytes)
{
	(void)tracepoint;
	asked = bytes;
	return NULL;
}

void strata_user_unstage(unsigned char *payload, uint64_t bytes)
{
	(void)payload;
	(void)bytes;
}

void strata_user_record(struct strata_tracepoint *tracepoint, unsigned char *payload,
			uint32_t bytes)
{
	(void)tracepoint;
	(void)payload;
	(void)bytes;
}

static void check(int ok, const char *what)
{
	if (!ok) {
		printf("payload: %s\n", what);
		failed = 1;
	}
}

static void string_that_shrank_ends_at_its_nul(void)
{
	unsigned char to[16];
	struct strata_lttng_part part = { "ab\0cdef", 7 };

	memset(to, 0xff, sizeof(to));
	check(strata_lttng_put_string(to, &part) == to + 3 && !memcmp(to, "ab", 3), __func__);
}

static void string_that_grew_is_cut_and_ended(void)
{
	unsigned char to[16];
	struct strata_lttng_part part = { "abcdef", 3 };

	memset(to, 0xff, sizeof(to));
	check(strata_lttng_put_string(to, &part) == to + 4 && !memcmp(to, "abc", 4), __func__);
}

static void text_shorter_than_its_field_is_padded(void)
{
	unsigned char to[8];

	memset(to, 0xff, sizeof(to));
	check(strata_lttng_put_text(to, "ab\0x", 6) == to + 6 &&
		      !memcmp(to, "ab\0\0\0\0\xff\xff", 8),
	      __func__);
	check(strata_lttng_put_text(to, NULL, 2) == to + 2 && !to[0] && !to[1], __func__);
}

static void null_array_is_zeros_and_null_sequence_is_empty(void)
{
	unsigned char to[4] = { 1, 1, 1, 1 };
	struct strata_lttng_part part;

	check(strata_lttng_put_array(to, NULL, 4) == to + 4 && !to[0] && !to[3], __func__);
	check(strata_lttng_measure_sequence(&part, 10, NULL, 5, 8, 2) == 12 && !part.count,
	      __func__);
}

static void length_that_does_not_fit_its_type_is_too_large(void)
{
	struct strata_lttng_part part;

	check(strata_lttng_measure_sequence(&part, 0, "", 255, 1, 1) == 256, __func__);
	check(strata_lttng_measure_sequence(&part, 0, "", 256, 1, 1) == STRATA_LTTNG_TOO_LARGE,
	      __func__);
	check(strata_lttng_measure_sequence(&part, 0, "", (uint64_t)-1, 1, 4) ==
		      STRATA_LTTNG_TOO_LARGE,
	      __func__);
	check(strata_lttng_measure_sequence(&part, 0, "", (uint64_t)-1, 8, 8) ==
		      STRATA_LTTNG_TOO_LARGE,
	      __func__);
	check(strata_lttng_sum(STRATA_LTTNG_TOO_LARGE, 100) == STRATA_LTTNG_TOO_LARGE, __func__);
}

static void payload_too_large_is_never_asked_for_as_a_small_one(void)
{
	unsigned char stack[STRATA_LTTNG_STACK];

	check(strata_lttng_begin(NULL, stack, STRATA_LTTNG_STACK_BYTES) ==
		      stack + STRATA_USER_HEADROOM,
	      __func__);
	check(!strata_lttng_begin(NULL, stack, STRATA_LTTNG_STACK_BYTES + 1) &&
		      asked == STRATA_LTTNG_STACK_BYTES + 1,
	      __func__);
	check(!strata_lttng_begin(NULL, stack, UINT64_C(0x100000001)) &&
		      asked == STRATA_LTTNG_TOO_LARGE,
	      __func__);
}

int main(void)
{
	string_that_shrank_ends_at_its_nul();
	string_that_grew_is_cut_and_ended();
	text_shorter_than_its_field_is_padded();
	null_array_is_zeros_and_null_sequence_is_empty();
	length_that_does_not_fit_its_type_is_too_large();
	payload_too_large_is_never_asked_for_as_a_small_one();
	return failed;
}
