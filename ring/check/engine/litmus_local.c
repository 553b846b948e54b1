/* SPDX-License-Identifier: MIT */
/*
 * litmus_local.c - what is ordered on one CPU only: local operations, and barriers by an interrupt from another CPU.
 */
#include "litmus.h"

static void write_both(void)
{
	mc_store(x, 1, RLX);
	mc_store(y, 1, RLX);
}

static void write_data_and_flag(void)
{
	write_data(0, 7);
	mc_store(y, 1, RLX);
}

/*
 * Variants by order[0]: 1 has the barrier between the loads, 2 in front of both, 3 runs on a CPU
 * where nobody writes.
 */
static void interrupt_and_read(void)
{
	if (test->order[0] == 2)
		mc_ipi(0);
	r[0] = load(y, RLX);
	if (test->order[0] == 1 || test->order[0] == 3)
		mc_ipi(test->order[0] == 3);
	r[1] = load(x, RLX);
}

static void interrupt_and_read_data(void)
{
	if (!load(y, RLX))
		return;
	if (test->order[0])
		mc_ipi(0);
	r[0] = read_data(0);
}

/* Store buffering, of which one side has no barrier of its own. */
static void store_then_load(void)
{
	mc_store(x, 1, RLX);
	r[0] = load(y, RLX);
}

static void store_interrupt_load(void)
{
	mc_store(y, 1, RLX);
	if (test->order[0])
		mc_ipi(0);
	r[1] = load(x, RLX);
}

static void add_locally(void)
{
	mc_local_add(x, 1, RLX);
	r[3] = 1;
}

static void add_locally_and_read(void)
{
	mc_local_add(x, 1, RLX);
	r[0] = load(x, RLX);
}

/* Sets r[2] to 1 if the handler has run and one of the two adds is missing. */
static void all_added(void)
{
	r[2] = r[3] == 1 && load(x, RLX) != 2;
}

static void add_remotely(void)
{
	mc_add(x, 1, RLX);
}

static void swap_locally(void)
{
	uint64_t expected = 0;

	r[0] = mc_local_cas(x, &expected, 5, RLX);
	r[1] = (int)expected;
}

/* A local add behind a release store of its own thread: not of its release sequence. */
static void release_then_add(void)
{
	mc_store(x, 1, RLX);
	mc_store(y, 1, REL);
	mc_local_add(y, 1, RLX);
}

const struct litmus local_tests[] = {
	ALLOWS("MP, barrier by interrupt in front of both loads", R(1, 0),
	       .run = { write_both, interrupt_and_read }, .order = { 2 }, .ipi = true,
	       .cpu = { 0, 1 }),
	FORBIDS("MP, barrier by interrupt between the loads", R(1, 0),
		.run = { write_both, interrupt_and_read }, .order = { 1 }, .ipi = true,
		.cpu = { 0, 1 }),
	ALLOWS("MP, barrier on a third CPU", R(1, 0), .run = { write_both, interrupt_and_read },
	       .order = { 3 }, .ipi = true, .cpu = { 0, 1 }),
	FORBIDS("data behind a flag and a barrier by interrupt", R(0),
		.run = { write_data_and_flag, interrupt_and_read_data }, .order = { 1 },
		.ipi = true, .cpu = { 0, 1 }),
	FAILS_WITH("data behind a flag without", "data race",
		   .run = { write_data_and_flag, interrupt_and_read_data }, .ipi = true,
		   .cpu = { 0, 1 }),
	FORBIDS("SB, one side interrupts the other", R(0, 0),
		.run = { store_then_load, store_interrupt_load }, .order = { 1 }, .ipi = true,
		.cpu = { 0, 1 }),
	ALLOWS("SB, nobody does", R(0, 0), .run = { store_then_load, store_interrupt_load },
	       .ipi = true, .cpu = { 0, 1 }),
	FORBIDS("a handler adds between the halves of a local add", R(ANY, ANY, 1),
		.run = { add_locally_and_read }, .handler = add_locally, .handlers = 1, .depth = 1,
		.final = all_added),
	FAILS_WITH("local add, where another CPU adds", "unsupported: local operation",
		   .run = { add_locally, add_remotely }),
	ALLOWS("local compare-exchange after a handler's add", R(0, 1), .run = { swap_locally },
	       .handler = add_locally, .handlers = 1, .depth = 1),
	ALLOWS("a local add is of no release sequence", R(2, 0),
	       .run = { release_then_add, mp_reader }, .order = { RLX, ACQ }),
	{ .name = NULL },
};
