/* SPDX-License-Identifier: MIT */
/*
 * litmus_rseq.c - restartable sequences: atomic on their CPU, ordered there, aborted, migrated.
 */
#include "litmus.h"

struct section {
	uint32_t cpu, value;
	uint64_t position;
	int order;
};

/* Append to the two words of data[] that belong to the CPU. */
static int run_section(const struct section *s)
{
	uint64_t id = cpu_position[s->cpu], next = s->position + 1;
	struct mc_rseq_write w = { &data[2 * s->cpu + s->position], &s->value, sizeof(s->value) };

	return mc_rseq(s->cpu, id, s->position, &w, 1, &id, &next, &s->order, 1);
}

static void append(void)
{
	struct section s = { .value = 5, .order = REL };

	do {
		s.cpu = mc_rseq_cpu();
		s.position = mc_load(cpu_position[s.cpu], RLX);
	} while (!run_section(&s));
}

static void append_once(void)
{
	struct section s = { .value = 5, .order = test->order[0] };

	s.cpu = mc_rseq_cpu();
	s.position = 0;
	r[0] = run_section(&s);
	r[1] = load(cpu_position[0], RLX);
	if (!test->order[1])
		r[2] = read_data(0);
}

static void count_appended(void)
{
	r[0] = (int)(mc_load(cpu_position[0], RLX) + mc_load(cpu_position[1], RLX));
}

/* An increment whose section does not compare what it read. */
static void append_unguarded(void)
{
	uint64_t id = cpu_position[0], next = mc_load(id, RLX) + 1;
	int order = RLX;

	mc_rseq(mc_rseq_cpu(), x, 0, NULL, 0, &id, &next, &order, 1);
	r[0] = load(id, RLX);
}

static void append_unguarded_2(void)
{
	uint64_t id = cpu_position[0], next = mc_load(id, RLX) + 1;
	int order = RLX;

	mc_rseq(mc_rseq_cpu(), x, 0, NULL, 0, &id, &next, &order, 1);
	r[1] = load(id, RLX);
}

static void remote_reader(void)
{
	r[3] = load(cpu_position[0], test->order[1]);
	if (r[3])
		read_data(0);
}

/* The reader learns of the order by entering its CPU after the relaxed load. */
static void reader_on_a_cpu(void)
{
	r[3] = load(cpu_position[0], RLX);
	mc_rseq_cpu();
	if (r[3])
		read_data(0);
}

/* Reads only where it is ordered, and r[3] = 1 if it did. */
static void reader_on_cpu_0(void)
{
	if (load(cpu_position[0], RLX) && !mc_rseq_cpu()) {
		read_data(0);
		r[3] = 1;
	}
}

static void read_cpu_twice(void)
{
	r[0] = (int)mc_rseq_cpu();
	r[1] = (int)mc_rseq_cpu();
}

static void write_position_from_elsewhere(void)
{
	mc_store(cpu_position[0], 3, RLX);
}

static void add_position_from_elsewhere(void)
{
	mc_add(cpu_position[0], 3, RLX);
}

static void two_stores_in_a_section(void)
{
	uint64_t ids[2] = { x, y }, values[2] = { 1, 1 };
	int orders[2] = { RLX, test->order[0] };

	mc_rseq(mc_rseq_cpu(), cpu_position[0], 0, NULL, 0, ids, values, orders, 2);
}

static void store_x_twice_in_a_section(void)
{
	uint64_t ids[2] = { x, x }, values[2] = { 1, 2 };
	int orders[2] = { RLX, RLX };

	mc_rseq(mc_rseq_cpu(), cpu_position[0], 0, NULL, 0, ids, values, orders, 2);
}

static void load_x(void)
{
	r[0] = load(x, RLX);
}

static void both_on_the_cpu(void)
{
	r[0] = load(x, RLX);
	mc_rseq_cpu();
	r[1] = load(y, RLX);
}

static void append_over(void)
{
	uint64_t id = cpu_position[0], next = 1;
	uint32_t value = 9;
	struct mc_rseq_write w = { &data[1], &value, sizeof(value) };
	int order = RLX;

	mc_store(x, 1, RLX);
	if (test->order[0])
		mc_fence(test->order[0]);
	mc_rseq(mc_rseq_cpu(), id, 0, &w, 1, &id, &next, &order, 1);
}

static void handler_appends(void)
{
	append();
}

static void append_with_count(void)
{
	append();
	append();
	r[0] = load(cpu_position[0], RLX);
}

const struct litmus rseq_tests[] = {
	ALLOWS("rseq, two threads of a CPU append", R(2), .run = { append, append },
	       .final = count_appended),
	FORBIDS("rseq, two threads of a CPU append only one", R(1), .run = { append, append },
		.final = count_appended),
	FORBIDS("rseq, append only one, aborts", R(1), .run = { append, append }, .aborts = 2,
		.final = count_appended),
	FORBIDS("rseq, append only one, aborts and migration", R(1), .run = { append, append },
		.aborts = 1, .migrations = 1, .cpu = { 0, 1 }, .final = count_appended),
	ALLOWS("rseq, not guarded: both store 1", R(1, 1),
	       .run = { append_unguarded, append_unguarded_2 }),
	ALLOWS("rseq, handler on the CPU appends too", R(4), .run = { append_with_count },
	       .handler = handler_appends, .handlers = 2, .depth = 1),
	FORBIDS("rseq, handler on the CPU, short", R(1), .run = { append_with_count },
		.handler = handler_appends, .handlers = 2, .depth = 2),
	ALLOWS("rseq publishes, release and acquire", R(1, 1, ANY, 1),
	       .run = { append_once, remote_reader }, .order = { REL, ACQ }),
	FAILS_WITH("rseq publishes, relaxed and acquire", "data race",
		   .run = { append_once, remote_reader }, .order = { RLX, ACQ }),
	FAILS_WITH("rseq publishes, release and relaxed", "data race",
		   .run = { append_once, remote_reader }, .order = { REL, RLX }),
	ALLOWS("rseq, reader on the same CPU is ordered", R(1, 1, ANY, 1),
	       .run = { append_once, reader_on_a_cpu }, .order = { RLX, 1 }),
	FAILS_WITH("rseq, reader on another CPU learns nothing", "data race",
		   .run = { append_once, reader_on_a_cpu }, .order = { RLX, 1 }, .cpu = { 0, 1 }),
	ALLOWS("rseq, reader moved to the CPU is ordered", R(1, 1, ANY, 1),
	       .run = { append_once, reader_on_cpu_0 }, .order = { RLX, 1 }, .migrations = 1,
	       .cpu = { 0, 1 }),
	ALLOWS("rseq, abort leaves garbage only", R(0, 0, 5), .run = { append_once },
	       .order = { REL }, .aborts = 1),
	FORBIDS("rseq, abort does not commit", R(0, 1), .run = { append_once }, .order = { REL },
		.aborts = 1),
	FORBIDS("rseq, no abort without budget", R(0), .run = { append_once }, .order = { REL }),
	FAILS_WITH("rseq, aborted writes race too", "data race",
		   .run = { append_once, write_data_only }, .order = { REL, 1 }, .aborts = 1),
	ALLOWS("rseq, migration before the section", R(0, 0, 0), .run = { append_once },
	       .order = { REL }, .migrations = 1),
	ALLOWS("rseq, migration to a CPU", R(0, 1), .run = { read_cpu_twice }, .migrations = 1),
	FORBIDS("rseq, no migration back over budget", R(1, 0), .run = { read_cpu_twice },
		.migrations = 1),
	ALLOWS("rseq, migration back", R(1, 0), .run = { read_cpu_twice }, .migrations = 2),
	FORBIDS("rseq, no migration without budget", R(1), .run = { read_cpu_twice }),
	FAILS_WITH("rseq, guard stored from elsewhere", "unsupported",
		   .run = { append_once, write_position_from_elsewhere }, .order = { REL, 1 }),
	FAILS_WITH("rseq, guard added to from elsewhere",
		   "unsupported: restartable sequence guarded by",
		   .run = { append_once, add_position_from_elsewhere }, .order = { REL, 1 }),
	FORBIDS("rseq, stores in order, release", R(1, 0),
		.run = { two_stores_in_a_section, mp_reader }, .order = { REL, ACQ }),
	ALLOWS("rseq, stores in order, relaxed", R(1, 0),
	       .run = { two_stores_in_a_section, mp_reader }, .order = { RLX, ACQ }),
	ALLOWS("rseq, first store without the second", R(1, 0),
	       .run = { two_stores_in_a_section, iriw_left }, .order = { REL, ACQ }),
	ALLOWS("rseq, both stores to one object are seen", R(1),
	       .run = { load_x, store_x_twice_in_a_section }),
	FORBIDS("rseq, one step on its CPU", R(1, 0),
		.run = { two_stores_in_a_section, both_on_the_cpu }, .order = { RLX }),
	ALLOWS("rseq, peek sees aborted writes", R(1, 1, 9),
	       .run = { append_over, copy_then_validate }, .order = { REL, ACQ }, .aborts = 1),
	FORBIDS("rseq, peek torn and valid", R(1, 0), .run = { append_over, copy_then_validate },
		.order = { REL, ACQ }, .aborts = 1),
	ALLOWS("rseq, peek torn and valid, no fence", R(1, 0),
	       .run = { append_over, copy_then_validate }, .order = { 0, ACQ }, .aborts = 1),
	{ .name = NULL },
};
