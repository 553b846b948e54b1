/* SPDX-License-Identifier: MIT */
/*
 * plain.c - plain shared memory: regions, the race check, and peeks.
 *
 * Race check: each cell keeps, for every context, the epoch of its last write and last read. An
 * access races with each conflicting one whose epoch is above what the accessing thread's clock
 * knows of that context. Whether two accesses race depends on the execution graph only, not on
 * which of them ran first; so accesses need no scheduling of their own. Peeks do: what they copy
 * depends on the order. Hence regions in which something is peeked are found out during the run
 * (the first peek restarts the search), and there each write is an event that can be reordered with
 * the peeks.
 */
#include <string.h>

#include "internal.h"

enum {
	CELL_BYTES = 4
};

void plain_reset(void)
{
	mc.nr_regions = 0;
	mc.nr_cells = 0;
}

void mc_region(void *memory, size_t bytes, const char *name)
{
	size_t cells = bytes / CELL_BYTES;

	if (mc.threads_started)
		engine_fail("mc_region(%s) outside setup", name);
	if (!bytes || bytes % CELL_BYTES || (uintptr_t)memory % CELL_BYTES)
		engine_fail("mc_region(%s): address and size must be multiples of %d", name,
			    CELL_BYTES);
	if (mc.nr_regions == MC_MAX_REGIONS)
		engine_fail("limit: more than MC_MAX_REGIONS = %d regions", MC_MAX_REGIONS);
	if (cells > (size_t)(MC_MAX_CELLS - mc.nr_cells))
		engine_fail("limit: more than MC_MAX_CELLS = %d cells of plain memory",
			    MC_MAX_CELLS);
	mc.regions[mc.nr_regions++] = (struct region){
		.memory = memory, .bytes = bytes, .name = name, .first_cell = mc.nr_cells
	};
	memset(&mc.cells[mc.nr_cells], 0, cells * sizeof(mc.cells[0]));
	mc.nr_cells += (int)cells;
}

/* The region that holds all of the @n bytes, or NULL. */
static const struct region *region_of(const void *memory, size_t n)
{
	uintptr_t at = (uintptr_t)memory;

	for (unsigned i = 0; i < mc.nr_regions; i++) {
		const struct region *r = &mc.regions[i];
		uintptr_t begin = (uintptr_t)r->memory;

		if (at >= begin && at - begin <= r->bytes && n <= r->bytes - (at - begin))
			return r;
	}
	return NULL;
}

static size_t offset_in(const struct region *r, const void *memory)
{
	return (size_t)((uintptr_t)memory - (uintptr_t)r->memory);
}

/* Returns the cells of @n bytes of memory; @n must not be 0. */
static struct span span_of(const struct region *r, const void *memory, size_t n)
{
	size_t offset = offset_in(r, memory);

	return (struct span){
		.first = (int16_t)(r->first_cell + (int)(offset / CELL_BYTES)),
		.last = (int16_t)(r->first_cell + (int)((offset + n - 1) / CELL_BYTES)),
	};
}

static const struct region *require_region(const void *memory, size_t n, const char *what)
{
	const struct region *r = region_of(memory, n);

	if (!r)
		engine_fail("wild %s: %zu bytes at %p by %s are not inside one region", what, n,
			    memory, context_name(mc.self));
	return r;
}

static bool is_peeked(const struct region *r)
{
	return mc.peeked >> (r - mc.regions) & 1;
}

/* True, with the cells in *span, if an access to this memory must be an event. */
bool plain_in_peeked_region(const void *memory, size_t n, struct span *span)
{
	const struct region *r;

	if (!mc.peeked || !n)
		return false;
	r = region_of(memory, n);
	if (!r || !is_peeked(r))
		return false;
	*span = span_of(r, memory, n);
	return true;
}

/* First peek of a region: so far its writes were no events. Start the search again. */
void plain_note_peek(const void *src, size_t n)
{
	const struct region *r = require_region(src, n, "peek");

	if (!mc.self || is_peeked(r))
		return;
	mc.peeked |= 1u << (r - mc.regions);
	mc.restart = true;
	coroutine_yield();
}

/* Some access in @accesses is not ordered before a thread with clock @hb. */
static bool unordered(const struct clock *accesses, const struct clock *hb)
{
	int16_t found = 0;

	for (int i = 0; i < SLOTS; i++)
		found |= (int16_t)(accesses->at[i] > hb->at[i]);
	return found;
}

static __attribute__((noreturn)) void fail_race(const char *what, const struct region *r, int cell,
						const char *other, const struct clock *accesses)
{
	const struct clock *hb = &current_thread()->now.hb;
	unsigned who = 0;

	while (accesses->at[who] <= hb->at[who])
		who++;
	engine_fail("data race: %s by %s of '%s' + %d, not ordered after the %s by %s", what,
		    context_name(mc.self), r->name, (cell - r->first_cell) * CELL_BYTES, other,
		    context_name(who));
}

/*
 * Orders the memory that @op may write after the peeks and writes before it. All spans of a
 * restartable sequence count, even if it fails; see struct event.
 */
void plain_order_writes(const struct op *op, struct event *e)
{
	struct thread *t = current_thread();

	if (!mc.self)
		return;
	for (int i = 0; i < op->may.nr_spans; i++) {
		struct span s = e->touched.spans[i] = op->may.spans[i];

		for (int c = s.first; c <= s.last; c++) {
			struct cell *cell = &mc.cells[c];

			for (unsigned q = 1; q <= mc.nr_threads; q++)
				if (cell->last_peek[q])
					clock_join(&t->deps,
						   &mc.events[cell->last_peek[q] - 1].deps);
			if (cell->last_write)
				clock_join(&t->deps, &mc.events[cell->last_write - 1].deps);
		}
	}
	for (int i = 0; i < op->may.nr_spans; i++)
		for (int c = op->may.spans[i].first; c <= op->may.spans[i].last; c++)
			mc.cells[c].last_write = (uint16_t)(mc.nr_events + 1);
	e->touched.nr_spans = op->may.nr_spans;
}

/* Writes plain memory; @is_event: the write is (part of) an event of the search. */
void plain_write(void *dst, const void *src, size_t n, bool is_event)
{
	struct thread *t = current_thread();
	const struct region *r = require_region(dst, n, "write");
	struct span s;

	if (!n)
		return;
	s = span_of(r, dst, n);
	if (mc.tracing)
		trace_bytes("write ", r->name, offset_in(r, dst), src, n);
	memory_tick(t);
	for (int i = s.first; i <= s.last; i++) {
		struct cell *c = &mc.cells[i];

		if (unordered(&c->write, &t->now.hb))
			fail_race("write", r, i, "write", &c->write);
		if (unordered(&c->read, &t->now.hb))
			fail_race("write", r, i, "read", &c->read);
		c->write.at[mc.self] = t->now.hb.at[mc.self];
	}
	if (is_event && is_peeked(r)) {
		mc.released[mc.nr_events] = t->released;
		for (int i = s.first; i <= s.last; i++)
			mc.cells[i].written_by = (uint16_t)(mc.nr_events + 1);
	}
	memcpy(dst, src, n);
}

void plain_read(void *dst, const void *src, size_t n)
{
	struct thread *t = current_thread();
	const struct region *r = require_region(src, n, "read");
	struct span s;

	if (!n)
		return;
	s = span_of(r, src, n);
	if (mc.tracing)
		trace_bytes("read  ", r->name, offset_in(r, src), src, n);
	memory_tick(t);
	for (int i = s.first; i <= s.last; i++) {
		struct cell *c = &mc.cells[i];

		if (unordered(&c->write, &t->now.hb))
			fail_race("read", r, i, "write", &c->write);
		c->read.at[mc.self] = t->now.hb.at[mc.self];
	}
	memcpy(dst, src, n);
}

/* Like a relaxed load of each cell's latest content; returns 1 if some of it may be torn. */
int plain_peek(void *dst, const void *src, size_t n, struct event *e)
{
	struct thread *t = current_thread();
	const struct region *r = require_region(src, n, "peek");
	struct span s = span_of(r, src, n);
	bool torn = false;

	for (int i = s.first; i <= s.last; i++) {
		struct cell *c = &mc.cells[i];

		torn |= unordered(&c->write, &t->now.hb);
		if (!mc.self)
			continue;
		if (c->last_write)
			clock_join(&t->deps, &mc.events[c->last_write - 1].deps);
		if (c->written_by)
			view_join(&t->acquired, &mc.released[c->written_by - 1]);
		c->last_peek[mc.self] = (uint16_t)(mc.nr_events + 1);
	}
	e->touched.peek = true;
	e->touched.spans[e->touched.nr_spans++] = s;
	memcpy(dst, src, n);
	for (size_t i = 0; i < n; i++)
		t->hash = hash_mix(t->hash, ((const unsigned char *)dst)[i]);
	t->hash = hash_mix(t->hash, torn);
	if (mc.tracing) {
		trace_bytes("peek  ", r->name, offset_in(r, src), dst, n);
		if (torn)
			trace("         may be torn");
	}
	return torn;
}
