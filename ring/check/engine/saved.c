/* SPDX-License-Identifier: MIT */
/*
 * saved.c - states to go back to, so that an execution begins where it differs from the one before.
 *
 * The search changes the last decision that has something left, mostly one near the end; all in front of it would be
 * the same once more. So at some scheduling points the state is copied: stacks (each at its address, to which it
 * comes back), views, clocks, cells, plain memory of regions, and what the harness says that its threads change.
 * Messages and events are only added to, so that their number is enough.
 *
 * A harness that forgets to name something would check executions that there are not. So the first times,
 * and seldom later, what comes back is compared with what running up to there leaves, in all of the program's data.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
	STATES = 512,
	EVENTS_BETWEEN = 5, /* to run so many takes about as long as a copy */
	COMPARED_FIRST = 16,
};

struct state {
	int decisions; /* made before it */
	int nr_events;
	unsigned context; /* ran last */
	unsigned handlers_left, aborts_left, migrations_left;
	size_t stack_bytes[CONTEXTS];
	size_t begin; /* in bytes */
};

static struct state states[STATES];
static int nr_states;
static char *bytes; /* of all states */
static size_t used, capacity;
static uint64_t went_back;

/* State that changes while two states are compared. */
static struct {
	char *cursor; /* in bytes */
	char *copy;   /* of the program's data */
	size_t bytes;
	bool differs;
} other;

/* The linker's symbols around the program's data. */
extern char __data_start[], _end[];

void saved_reset(void)
{
	nr_states = 0;
	used = 0;
	went_back = 0;
}

/* Calls @copy for all but the stacks. */
static void for_each(void (*copy)(void *memory, size_t n))
{
	copy(mc.threads, sizeof(mc.threads[0]) * (mc.nr_threads + 1));
	copy(mc.chains, sizeof(mc.chains));
	copy(mc.locations, sizeof(mc.locations[0]) * mc.nr_locations);
	copy(mc.cells, sizeof(mc.cells[0]) * (size_t)mc.nr_cells);
	for (unsigned i = 0; i < mc.nr_regions; i++)
		copy(mc.regions[i].memory, mc.regions[i].bytes);
	for (unsigned i = 0; i < MC_MAX_STATE && mc.config->state[i].bytes; i++)
		copy(mc.config->state[i].at, mc.config->state[i].bytes);
}

static void copy_out(void *memory, size_t n)
{
	if (used + n > capacity) {
		capacity = (used + n) * 2;
		bytes = realloc(bytes, capacity);
		if (!bytes)
			abort();
	}
	memcpy(bytes + used, memory, n);
	used += n;
}

static void copy_back(void *memory, size_t n)
{
	memcpy(memory, other.cursor, n);
	other.cursor += n;
}

/* At a scheduling point behind so many @decisions, none of which is made for the second time. */
bool saved_wanted(int decisions)
{
	const struct state *last = nr_states ? &states[nr_states - 1] : NULL;

	if (!mc.config->state[0].bytes || mc.tracing || nr_states == STATES)
		return false;
	return !last ||
	       (decisions > last->decisions && mc.nr_events >= last->nr_events + EVENTS_BETWEEN);
}

/* Saves the state; @context is the one that ran last. */
void saved_add(int decisions, unsigned context)
{
	struct state *s = &states[nr_states];
	struct mc_memory stack;

	if (!coroutine_in_use(0, NULL))
		return;
	nr_states++;
	*s = (struct state){ .decisions = decisions,
			     .nr_events = mc.nr_events,
			     .context = context,
			     .handlers_left = mc.handlers_left,
			     .aborts_left = mc.aborts_left,
			     .migrations_left = mc.migrations_left,
			     .begin = used };
	for_each(copy_out);
	for (unsigned i = 1; i <= mc.nr_threads; i++)
		if (!mc.threads[i].done) {
			coroutine_in_use(i, &stack);
			s->stack_bytes[i] = stack.bytes;
			copy_out(stack.at, stack.bytes);
		}
}

/*
 * To the last state with @decisions at most in front of it; those behind it are gone. False: there is none. Then
 * *position is how many there are, and *context ran last.
 */
bool saved_go_back(int decisions, int *position, unsigned *context)
{
	const struct state *s;
	struct mc_memory stack;

	while (nr_states && states[nr_states - 1].decisions > decisions)
		used = states[--nr_states].begin;
	if (!nr_states || mc.tracing)
		return false;
	s = &states[nr_states - 1];
	other.cursor = bytes + s->begin;
	for_each(copy_back);
	for (unsigned i = 1; i <= mc.nr_threads; i++)
		if (s->stack_bytes[i]) {
			coroutine_set_in_use(i, s->stack_bytes[i]);
			coroutine_in_use(i, &stack);
			copy_back(stack.at, stack.bytes);
		}
	mc.nr_events = s->nr_events;
	mc.handlers_left = s->handlers_left;
	mc.aborts_left = s->aborts_left;
	mc.migrations_left = s->migrations_left;
	*position = s->decisions;
	*context = s->context;
	went_back++;
	return true;
}

/*
 * Returns whether a restored state is to be compared this time: the first times, and then at powers
 * of two.
 */
bool saved_to_compare(void)
{
	return went_back <= COMPARED_FIRST || !(went_back & (went_back - 1));
}

/*
 * Calls @each for all of the program's data but what is the engine's own, by far the most; the rest of the engine does
 * not change meanwhile.
 */
static void for_each_other(void (*each)(void *memory, size_t n))
{
	const struct mc_memory own[] = { { &mc, sizeof(mc) },
					 { &coroutines, sizeof(coroutines) },
					 { states, sizeof(states) },
					 { &other, sizeof(other) } };
	char *at = __data_start, *next;

	for (;;) {
		size_t skip = 0;

		next = _end;
		for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			if ((char *)own[i].at >= at && (char *)own[i].at < next) {
				next = own[i].at;
				skip = own[i].bytes;
			}
		each(at, (size_t)(next - at));
		if (!skip)
			return;
		at = next + skip;
	}
}

static void copy_other(void *memory, size_t n)
{
	other.copy = realloc(other.copy, other.bytes + n);
	if (!other.copy)
		abort();
	memcpy(other.copy + other.bytes, memory, n);
	other.bytes += n;
}

static void compare_other(void *memory, size_t n)
{
	size_t i = 0;

	while (i < n && ((char *)memory)[i] == other.copy[other.bytes + i])
		i++;
	if (i < n)
		engine_note_failure(
			"executions change %p, %zu bytes into the program's data (nm: __data_start), which "
			"is in no region and not in mc_config.state",
			(void *)((char *)memory + i), (size_t)((char *)memory + i - __data_start));
	other.bytes += n;
}

static void compare(void *memory, size_t n)
{
	other.differs |= memcmp(memory, other.cursor, n) != 0;
	other.cursor += n;
}

/*
 * Begins a comparison after saved_go_back(): the state is made again by running up to it, and
 * saved_compare() is called.
 */
void saved_compare_begin(void)
{
	other.bytes = 0;
	for_each_other(copy_other);
}

void saved_compare(void)
{
	other.bytes = 0;
	for_each_other(compare_other);
	other.cursor = bytes + states[nr_states - 1].begin;
	other.differs = false;
	for_each(compare);
	if (other.differs)
		engine_note_failure("engine: a saved state is not what running up to it leaves");
}
