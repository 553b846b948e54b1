/* SPDX-License-Identifier: MIT */
/*
 * litmus_limits.c - every limit and every misuse is a failure that names it.
 */
#include "litmus.h"

static void spin_on_x(void)
{
	while (!mc_load(x, RLX))
		;
}

static void store_x_forever(void)
{
	for (;;)
		mc_store(x, 1, RLX);
}

static void read_data_forever(void)
{
	for (;;)
		read_data(0);
}

static void choose_forever(void)
{
	for (;;)
		mc_choose(2);
}

static void use_much_stack(void)
{
	char big[MC_STACK_BYTES];

	/* Overwrites the stack below as well, which is that of setup: no longer in use. */
	memset(big, 0, sizeof(big));
	__asm__ volatile("" : : "r"(big) : "memory");
	mc_step();
}

static void use_number_as_object(void)
{
	mc_load(1, RLX);
}

static void too_many_stores(void)
{
	uint64_t ids[MC_MAX_RSEQ_STORES + 1] = { 0 }, values[MC_MAX_RSEQ_STORES + 1] = { 0 };
	int orders[MC_MAX_RSEQ_STORES + 1] = { 0 };

	mc_rseq(0, x, 0, NULL, 0, ids, values, orders, MC_MAX_RSEQ_STORES + 1);
}

static void too_many_writes(void)
{
	struct mc_rseq_write w[MC_MAX_RSEQ_WRITES + 1] = { { 0 } };

	mc_rseq(0, x, 0, w, MC_MAX_RSEQ_WRITES + 1, NULL, NULL, NULL, 0);
}

static void new_object(void)
{
	mc_new(0, "late");
}

static void too_many_objects(void)
{
	for (;;)
		mc_new(0, "object");
}

static void too_many_regions(void)
{
	for (;;)
		mc_region(data, sizeof(data), "data");
}

static void too_many_cells(void)
{
	static uint32_t big[MC_MAX_CELLS];

	mc_region(big, sizeof(big), "big");
}

static void fail_now(void)
{
	mc_fail("oracle");
}

static int unsteady;

static void unsteady_setup(void)
{
	unsteady++;
}

static void choose_unsteadily(void)
{
	mc_choose((unsigned)(2 + unsteady % 2));
}

static volatile int not_in_state;

static void change_what_is_not_in_state(void)
{
	not_in_state = 1;
	load(x, RLX);
	not_in_state = 2;
	mc_choose(2);
}

static void return_at_once(void)
{
}

const struct litmus limit_tests[] = {
	FAILS_WITH("failure of an oracle", "oracle (T0)", .run = { fail_now }),
	FAILS_WITH("not an object", "no atomic object", .run = { use_number_as_object }),
	FAILS_WITH("object after setup", "outside setup", .run = { new_object }),
	FAILS_WITH("replay that differs", "replay differs", .run = { choose_unsteadily },
		   .setup = unsteady_setup),
	FAILS_WITH("state that is not named", "not in mc_config.state",
		   .run = { change_what_is_not_in_state }),
	FAILS_WITH("limit of events", "MC_MAX_EVENTS", .run = { spin_on_x }),
	FAILS_WITH("limit of messages", "MC_MAX_MESSAGES", .run = { store_x_forever }),
	FAILS_WITH("limit of accesses", "CLOCK_LIMIT", .run = { read_data_forever }),
	FAILS_WITH("limit of decisions", "MC_MAX_NODES", .run = { choose_forever }),
	FAILS_WITH("limit of stack", "MC_STACK_BYTES", .run = { use_much_stack }),
	FAILS_WITH("limit of rseq stores", "MC_MAX_RSEQ_STORES", .run = { too_many_stores }),
	FAILS_WITH("limit of rseq writes", "MC_MAX_RSEQ_WRITES", .run = { too_many_writes }),
	FAILS_WITH("limit of objects", "MC_MAX_LOCATIONS", .run = { return_at_once },
		   .setup = too_many_objects),
	FAILS_WITH("limit of regions", "MC_MAX_REGIONS", .run = { return_at_once },
		   .setup = too_many_regions),
	FAILS_WITH("limit of cells", "MC_MAX_CELLS", .run = { return_at_once },
		   .setup = too_many_cells),
	{ .name = NULL },
};
