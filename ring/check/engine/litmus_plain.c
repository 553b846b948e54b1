/* SPDX-License-Identifier: MIT */
/*
 * litmus_plain.c - plain memory, peeks, choices and nested handlers.
 */
#include "litmus.h"

static uint32_t outside; /* no region */

static void publish_data(void)
{
	write_data(0, 7);
	mc_store(y, 1, test->order[0]);
}

static void consume_data(void)
{
	r[0] = load(y, test->order[1]);
	if (r[0])
		r[1] = read_data(0);
}

void write_data_only(void)
{
	write_data(0, 8);
}

static void write_wild(void)
{
	uint32_t value = 1;

	mc_plain_write(&outside, &value, sizeof(value));
}

static void write_past_end(void)
{
	uint64_t value = 1;

	mc_plain_write(&data[3], &value, sizeof(value));
}

/* Writer of a buffer that is overwritten: announce, then overwrite. */
static void overwrite(void)
{
	mc_store(x, 1, RLX);
	if (test->order[0])
		mc_fence(test->order[0]);
	write_data(1, 9);
}

/* Copies the data, then validates: r[0] = torn, r[1] = announcement seen, r[2] = copy. */
void copy_then_validate(void)
{
	uint32_t copy;

	r[0] = mc_peek(&copy, &data[1], sizeof(copy));
	r[2] = (int)copy;
	if (test->order[1])
		mc_fence(test->order[1]);
	r[1] = load(x, RLX);
}

static void peek_after_acquire(void)
{
	uint32_t copy;

	if (load(y, ACQ))
		r[0] = mc_peek(&copy, &data[0], sizeof(copy));
}

/* ---- choices and nested handlers --------------------------------------------------------- */

static void choose_three(void)
{
	r[0] = (int)mc_choose(3);
}

static void two_steps(void)
{
	r[1] = 0;
	mc_store(x, 1, RLX);
	mc_store(x, 2, RLX);
	if (test->order[0])
		mc_step();
}

static void handler_loads_x(void)
{
	r[0] = load(x, RLX);
}

static int nesting, handlers_run;

static void one_step(void)
{
	nesting = handlers_run = 0;
	mc_step();
	r[1] = handlers_run;
}

static void handler_that_nests(void)
{
	handlers_run++;
	nesting++;
	if (r[0] < nesting)
		r[0] = nesting;
	mc_step();
	nesting--;
}

const struct litmus plain_tests[] = {
	ALLOWS("plain, release and acquire", R(1, 7), .run = { publish_data, consume_data },
	       .order = { REL, ACQ }),
	FAILS_WITH("plain, relaxed and acquire",
		   "data race: read by T1 of 'data' + 0, not ordered after the write by T0",
		   .run = { publish_data, consume_data }, .order = { RLX, ACQ }),
	FAILS_WITH("plain, release and relaxed", "data race", .run = { publish_data, consume_data },
		   .order = { REL, RLX }),
	FAILS_WITH("plain, two writers", "data race: write",
		   .run = { publish_data, write_data_only }, .order = { REL }),
	FAILS_WITH("plain, outside regions", "wild write", .run = { write_wild }),
	FAILS_WITH("plain, past the end of a region", "wild write", .run = { write_past_end }),
	ALLOWS("peek, torn", R(1, 1, 9), .run = { overwrite, copy_then_validate },
	       .order = { REL, ACQ }),
	ALLOWS("peek, before the write", R(0, 0, 0), .run = { overwrite, copy_then_validate },
	       .order = { REL, ACQ }),
	FORBIDS("peek, torn and valid", R(1, 0), .run = { overwrite, copy_then_validate },
		.order = { REL, ACQ }),
	ALLOWS("peek, torn and valid, no release fence", R(1, 0),
	       .run = { overwrite, copy_then_validate }, .order = { 0, ACQ }),
	ALLOWS("peek, torn and valid, no acquire fence", R(1, 0),
	       .run = { overwrite, copy_then_validate }, .order = { REL, 0 }),
	ALLOWS("peek, other order of threads", R(1, 0), .run = { copy_then_validate, overwrite },
	       .order = { REL, 0 }),
	FORBIDS("peek, ordered", R(1), .run = { publish_data, peek_after_acquire },
		.order = { REL }),
	ALLOWS("peek, ordered, not torn", R(0), .run = { publish_data, peek_after_acquire },
	       .order = { REL }),
	ALLOWS("choose, first", R(0), .run = { choose_three }),
	ALLOWS("choose, last", R(2), .run = { choose_three }),
	FORBIDS("choose, past the last", R(3), .run = { choose_three }),
	ALLOWS("handler at the first hook", R(0, 0), .run = { two_steps },
	       .handler = handler_loads_x, .handlers = 1, .depth = 1),
	ALLOWS("handler between", R(1, 0), .run = { two_steps }, .handler = handler_loads_x,
	       .handlers = 1, .depth = 1),
	FORBIDS("no handler after the last hook", R(2, 0), .run = { two_steps },
		.handler = handler_loads_x, .handlers = 1, .depth = 1),
	ALLOWS("handler at a step", R(2, 0), .run = { two_steps }, .order = { 1 },
	       .handler = handler_loads_x, .handlers = 1, .depth = 1),
	ALLOWS("handlers nest", R(2, 2), .run = { one_step }, .handler = handler_that_nests,
	       .handlers = 2, .depth = 2),
	FORBIDS("handlers nest no deeper", R(2), .run = { one_step }, .handler = handler_that_nests,
		.handlers = 2, .depth = 1),
	ALLOWS("handlers follow each other", R(1, 2), .run = { one_step },
	       .handler = handler_that_nests, .handlers = 2, .depth = 1),
	FORBIDS("handlers are limited", R(ANY, 3), .run = { one_step },
		.handler = handler_that_nests, .handlers = 2, .depth = 2),
	{ .name = NULL },
};
