/* SPDX-License-Identifier: MIT */
/*
 * litmus_memory.c - atomic objects and fences: message passing (MP), store and load buffering (SB,
 * LB), coherence of reads (CoRR), independent reads of independent writes (IRIW).
 */
#include "litmus.h"

static void mp_writer(void)
{
	mc_store(x, 1, RLX);
	mc_store(y, 1, test->order[0]);
}

void mp_reader(void)
{
	r[0] = load(y, test->order[1]);
	r[1] = load(x, RLX);
}

static void mp_fence_writer(void)
{
	mc_store(x, 1, RLX);
	mc_fence(REL);
	mc_store(y, 1, RLX);
}

static void mp_fence_reader(void)
{
	r[0] = load(y, RLX);
	mc_fence(ACQ);
	r[1] = load(x, RLX);
}

static void sb_left(void)
{
	mc_store(x, 1, RLX);
	if (test->order[0])
		mc_fence(test->order[0]);
	r[0] = load(y, RLX);
}

static void sb_right(void)
{
	mc_store(y, 1, RLX);
	if (test->order[0])
		mc_fence(test->order[0]);
	r[1] = load(x, RLX);
}

static void lb_left(void)
{
	r[0] = load(x, RLX);
	mc_store(y, 1, RLX);
}

static void lb_right(void)
{
	r[1] = load(y, RLX);
	mc_store(x, 1, RLX);
}

static void store_x_twice(void)
{
	mc_store(x, 1, RLX);
	mc_store(x, 2, RLX);
}

static void load_x_twice(void)
{
	r[0] = load(x, RLX);
	r[1] = load(x, RLX);
}

static void store_x(void)
{
	mc_store(x, 1, test->order[0]);
}

static void store_y(void)
{
	mc_store(y, 1, test->order[0]);
}

void iriw_left(void)
{
	r[0] = load(x, test->order[1]);
	if (test->order[2])
		mc_fence(test->order[2]);
	r[1] = load(y, test->order[1]);
}

static void iriw_right(void)
{
	r[2] = load(y, test->order[1]);
	if (test->order[2])
		mc_fence(test->order[2]);
	r[3] = load(x, test->order[1]);
}

/* After the store, by another thread, and with no order of its own. */
static void add_to_stored_y(void)
{
	if (load(y, RLX))
		mc_add(y, 1, RLX);
}

static void store_over_stored_y(void)
{
	if (load(y, RLX))
		mc_store(y, 2, RLX);
}

static void add_y_result(void)
{
	r[0] = (int)mc_add(y, 1, RLX);
}

static void add_y_result_2(void)
{
	r[1] = (int)mc_add(y, 1, RLX);
}

static void cas_after_load(void)
{
	uint64_t expected = 1;

	r[0] = load(y, RLX);
	r[1] = mc_cas(x, &expected, 5, RLX);
}

static void cas_from_zero(void)
{
	uint64_t expected = 0;

	r[0] = mc_cas(x, &expected, 5, RLX);
}

static void cas_from_zero_2(void)
{
	uint64_t expected = 0;

	r[1] = mc_cas(x, &expected, 6, RLX);
}

/* The load of x in the middle is redundant; a checker that prunes too much loses (1, 0) by it. */
static void redundant_writer(void)
{
	mc_store(x, 1, SC);
	mc_store(y, 1, SC);
	mc_store(y, 0, SC);
	mc_load(x, SC);
	mc_store(x, 0, SC);
}

static void redundant_reader(void)
{
	r[0] = load(y, SC);
	r[1] = load(x, SC);
}

static void store_x_2(void)
{
	mc_store(x, 2, RLX);
}

static void hint_x_1(void)
{
	mc_store_hint(x, 1, RLX);
	mc_store(y, 1, REL);
}

static void hint_x_2(void)
{
	mc_store_hint(x, 2, RLX);
	r[1] = load(y, ACQ);
	r[0] = load(x, RLX);
}

const struct litmus memory_tests[] = {
	ALLOWS("MP relaxed", R(1, 0), .run = { mp_writer, mp_reader }, .order = { RLX, RLX }),
	ALLOWS("MP release, relaxed", R(1, 0), .run = { mp_writer, mp_reader },
	       .order = { REL, RLX }),
	ALLOWS("MP relaxed, acquire", R(1, 0), .run = { mp_writer, mp_reader },
	       .order = { RLX, ACQ }),
	FORBIDS("MP release, acquire", R(1, 0), .run = { mp_writer, mp_reader },
		.order = { REL, ACQ }),
	FORBIDS("MP fences", R(1, 0), .run = { mp_fence_writer, mp_fence_reader }),
	ALLOWS("SB relaxed", R(0, 0), .run = { sb_left, sb_right }),
	FORBIDS("SB seq_cst fences", R(0, 0), .run = { sb_left, sb_right }, .order = { SC }),
	ALLOWS("SB acq_rel fences", R(0, 0), .run = { sb_left, sb_right }, .order = { AR }),
	FORBIDS("LB (not in the model)", R(1, 1), .run = { lb_left, lb_right }),
	FORBIDS("CoRR 2 then 1", R(2, 1), .run = { store_x_twice, load_x_twice }),
	ALLOWS("CoRR 1 then 2", R(1, 2), .run = { store_x_twice, load_x_twice }),
	FORBIDS("release sequence through relaxed add", R(2, 0),
		.run = { mp_writer, add_to_stored_y, mp_reader }, .order = { REL, ACQ }),
	ALLOWS("no release sequence through a store", R(2, 0),
	       .run = { mp_writer, store_over_stored_y, mp_reader }, .order = { REL, ACQ }),
	ALLOWS("failed CAS reads an old value", R(1, 0), .run = { mp_writer, cas_after_load },
	       .order = { REL, RLX }),
	ALLOWS("redundant load", R(1, 0), .run = { redundant_writer, redundant_reader }),
	ALLOWS("IRIW release, acquire", R(1, 0, 1, 0),
	       .run = { store_x, store_y, iriw_left, iriw_right }, .order = { REL, ACQ }),
	FORBIDS("IRIW seq_cst fences", R(1, 0, 1, 0),
		.run = { store_x, store_y, iriw_left, iriw_right }, .order = { RLX, RLX, SC }),
	FORBIDS("two adds both count", R(0, 0), .run = { add_y_result, add_y_result_2 }),
	FORBIDS("two CAS do not both succeed", R(1, 1), .run = { cas_from_zero, cas_from_zero_2 }),
	FORBIDS("two CAS do not both fail", R(0, 0), .run = { cas_from_zero, cas_from_zero_2 }),
	FAILS_WITH("concurrent blind stores", "unsupported: store to x by",
		   .run = { store_x, store_x_2 }),
	ALLOWS("hints: this one last", R(2, 1), .run = { hint_x_1, hint_x_2 }),
	ALLOWS("hints: other one last", R(1, 1), .run = { hint_x_1, hint_x_2 }),
	FORBIDS("hints: neither", R(0), .run = { hint_x_1, hint_x_2 }),
	{ .name = NULL },
};
