/* SPDX-License-Identifier: MIT */
/*
 * search.c - every execution once: re-execution, decisions, partial order reduction.
 *
 * An execution is determined by its decisions: which thread runs the next event, what a load reads,
 * whether a handler runs, and so on. The search goes through them depth first; it changes the last
 * decision that has something left to try and executes again, from the start or from a state that
 * was saved on the way (saved.c).
 *
 * The reduction is source-set DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas: "Optimal
 * Dynamic Partial Order Reduction", POPL 2014), with one particularity. A load that comes after a
 * store may still return the older value, so "load, store" needs no exploration of its own once
 * "store, load" has all results of the load. Hence only these are reversed:
 *   - a read, and a later write to the same object (now the read can see the new value);
 *   - two writes to the same object (modification order is execution order);
 *   - two operations of one chain (same CPU, SC fences);
 *   - a peek, and a write to the same plain memory, in either order. (Unordered writes to the same
 *     memory are a race; they are reversed too, for sections that fail: see struct event.)
 * For the same reason a load that sleeps is woken by a store only for the new message.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

/* -DMC_BUG_NO_WAKE breaks the reduction on purpose: the fuzz test must notice. */
#ifdef MC_BUG_NO_WAKE
#define BUG_NO_WAKE true
#else
#define BUG_NO_WAKE false
#endif

struct node {
	bool is_choice;
	uint16_t chosen;	      /* alternative, or context */
	uint16_t alternatives;	      /* of a choice */
	uint8_t enabled, asleep;      /* contexts, at the time of a scheduling decision */
	uint8_t to_explore, explored; /* contexts */
};

enum outcome {
	COMPLETE,
	PRUNED, /* only sleeping threads were left */
	STOPPED,
	ARRIVED, /* where it was to end */
};

/* A scheduling point that the search can return to. */
struct point {
	int decisions; /* made before */
	int nr_events;
};

static struct node nodes[MC_MAX_NODES];
static int nr_nodes, position; /* position: next decision of this execution */

_Static_assert(CONTEXTS <= 8, "contexts are bits of a uint8_t");
_Static_assert(CONTEXTS <= SLOTS, "a clock has a slot for each context");
_Static_assert(MC_MAX_LOCATIONS <= 64, "objects are bits of a uint64_t");
_Static_assert(MC_MAX_REGIONS <= 32, "regions are bits of a uint32_t");
_Static_assert(CHAINS <= 32, "chains are bits of a uint32_t");

static const char replay_differs[] = "replay differs from the first run: setup does not reset all "
				     "state, or the code under test depends on something else";

/* 0..@n - 1, a decision of the search. */
unsigned search_choose(unsigned n)
{
	if (n <= 1)
		return 0;
	if (position == nr_nodes) {
		if (nr_nodes == MC_MAX_NODES)
			engine_fail("limit: more than MC_MAX_NODES = %d decisions", MC_MAX_NODES);
		if (n > UINT16_MAX)
			engine_fail("limit: choice among %u", n);
		nodes[nr_nodes++] = (struct node){ .is_choice = true, .alternatives = (uint16_t)n };
	}
	if (!nodes[position].is_choice || nodes[position].alternatives != n)
		engine_fail("%s", replay_differs);
	return nodes[position++].chosen;
}

/* ---- dependencies ------------------------------------------------------------------------ */

static bool spans_conflict(const struct footprint *a, const struct footprint *b)
{
	if (a->peek && b->peek)
		return false;
	for (int i = 0; i < a->nr_spans; i++)
		for (int j = 0; j < b->nr_spans; j++)
			if (a->spans[i].first <= b->spans[j].last &&
			    b->spans[j].first <= a->spans[i].last)
				return true;
	return false;
}

/* An event that touched @a keeps its place before an operation that may touch @b. */
static bool is_ordered(const struct footprint *a, const struct footprint *b)
{
	return (a->writes | a->latest) & b->writes || a->chains & b->chains || spans_conflict(a, b);
}

static bool is_before(const struct event *e, const struct clock *deps)
{
	return deps->at[e->context] >= e->index;
}

/*
 * Dependency clock of the pending operation if @e had not been before it: its thread's own, and
 * those of the events between that it would still follow.
 */
static struct clock deps_without(const struct event *e, const struct op *op)
{
	struct clock deps = current_thread()->deps;

	for (const struct event *f = e + 1; f < &mc.events[mc.nr_events]; f++)
		if (!is_before(e, &f->deps) && is_ordered(&f->touched, &op->may))
			clock_join(&deps, &f->deps);
	return deps;
}

/*
 * Contexts that can run first in the sequence "events after @e that do not depend on it, then the
 * pending operation": those whose first event there depends on no other of the sequence.
 */
static unsigned initials(const struct event *e, const struct clock *pending_deps)
{
	const struct event *first[CONTEXTS] = { NULL }, *end = &mc.events[mc.nr_events];
	unsigned found = 0;

	for (const struct event *f = e + 1; f <= end; f++) {
		unsigned context = f < end ? f->context : mc.self;
		const struct clock *deps = f < end ? &f->deps : pending_deps;
		bool independent = true;

		if (first[context] || (f < end && is_before(e, deps)))
			continue;
		for (unsigned q = 1; q <= mc.nr_threads; q++)
			if (q != context && first[q] && is_before(first[q], deps))
				independent = false;
		first[context] = f;
		if (independent)
			found |= 1u << context;
	}
	return found;
}

/*
 * Event number @n - 1 (none if @n is 0) conflicts with the pending operation. Unless something
 * else orders them, the search must also try the other order: instead of the event, at least one
 * of the initials must be explored where the event was scheduled.
 */
static void reverse_race(unsigned n, const struct op *op)
{
	const struct event *e;
	struct clock deps;
	unsigned candidates;
	struct node *node;

	if (!n)
		return;
	e = &mc.events[n - 1];
	if (e->context == mc.self || e->node < 0 || is_before(e, &current_thread()->deps))
		return;
	deps = deps_without(e, op);
	candidates = initials(e, &deps);
	node = &nodes[e->node];
	if (candidates & (node->to_explore | node->asleep))
		return;
	if (candidates >> mc.self & 1)
		candidates = 1u << mc.self;
	node->to_explore |= (uint8_t)(candidates & -candidates);
}

static void reverse_races(const struct op *op)
{
	unsigned last_peek[CONTEXTS] = { 0 }, last_write = 0;

	for (uint64_t l = op->may.writes; l; l &= l - 1) {
		const struct location *location = &mc.locations[__builtin_ctzll(l)];

		for (unsigned q = 1; q <= mc.nr_threads; q++) {
			if (q == mc.self)
				continue;
			reverse_race(location->last_write[q], op);
			reverse_race(location->last_read[q], op);
		}
	}
	for (uint32_t c = op->may.chains; c; c &= c - 1)
		for (unsigned q = 1; q <= mc.nr_threads; q++)
			if (q != mc.self)
				reverse_race(mc.chains[__builtin_ctz(c)].last[q], op);
	for (int i = 0; i < op->may.nr_spans; i++)
		for (int c = op->may.spans[i].first; c <= op->may.spans[i].last; c++) {
			const struct cell *cell = &mc.cells[c];

			/* Neighbouring cells mostly have the same last events. */
			if (cell->last_write != last_write) {
				last_write = cell->last_write;
				reverse_race(last_write, op);
			}
			for (unsigned q = 1; !op->may.peek && q <= mc.nr_threads; q++) {
				if (q == mc.self || cell->last_peek[q] == last_peek[q])
					continue;
				last_peek[q] = cell->last_peek[q];
				reverse_race(last_peek[q], op);
			}
		}
}

/* ---- events ------------------------------------------------------------------------------ */

static void note_touched(const struct event *e)
{
	uint16_t number = (uint16_t)(e - mc.events + 1);

	for (uint64_t l = e->touched.writes; l; l &= l - 1)
		mc.locations[__builtin_ctzll(l)].last_write[mc.self] = number;
	for (uint64_t l = e->touched.reads | e->touched.latest; l; l &= l - 1)
		mc.locations[__builtin_ctzll(l)].last_read[mc.self] = number;
	for (uint64_t l = e->touched.latest; l; l &= l - 1)
		clock_join(&mc.locations[__builtin_ctzll(l)].latest_deps, &e->deps);
	for (uint32_t c = e->touched.chains; c; c &= c - 1)
		mc.chains[__builtin_ctz(c)].last[mc.self] = number;
}

/* Oldest message that event @e added to an object that it wrote. */
static int first_message_of(const struct event *e, unsigned location)
{
	const struct location *l = &mc.locations[location];
	int i = l->count - 1;

	while (i > 0 && l->messages[i - 1].context == e->context &&
	       l->messages[i - 1].index == e->index)
		i--;
	return i;
}

/* Threads that sleep until something happens on which their next operation depends. */
static void wake_sleepers(const struct event *e)
{
	for (unsigned q = 1; q <= mc.nr_threads; q++) {
		struct thread *t = &mc.threads[q];
		const struct footprint *may;

		if (!t->asleep)
			continue;
		may = &t->pending->may;
		if (is_ordered(&e->touched, may))
			t->asleep = false;
		/* All that a load or a compare-exchange could read before has been explored. */
		if (e->touched.writes & may->reads) {
			int first = first_message_of(e, t->pending->location);

			t->asleep = false;
			if (t->first_new < first)
				t->first_new = first;
		}
	}
}

/* Let the scheduler decide when, run @op, and draw the conclusions. Returns its result. */
uint64_t search_event(const struct op *op)
{
	struct thread *t = current_thread();
	struct event *e = &mc.events[mc.nr_events];
	uint64_t result;

	if (!mc.self) {
		memset(&mc.scratch, 0, sizeof(mc.scratch));
		return memory_execute(op, &mc.scratch);
	}
	t->pending = op;
	coroutine_yield();

	if (mc.nr_events == MC_MAX_EVENTS)
		engine_fail("limit: more than MC_MAX_EVENTS = %d events (livelock?)",
			    MC_MAX_EVENTS);
	e = &mc.events[mc.nr_events];
	memset(e, 0, sizeof(*e));
	e->context = (uint8_t)mc.self;
	e->node = t->node;
	if (mc.config->reduce)
		reverse_races(op);
	result = memory_execute(op, e);
	e->deps = t->deps;
	e->index = t->deps.at[mc.self];
	mc.nr_events++;
	note_touched(e);
	t->first_new = 0;
	t->asleep = false;
	if (mc.config->reduce && !BUG_NO_WAKE)
		wake_sleepers(e);
	return result;
}

/* ---- one execution ----------------------------------------------------------------------- */

static void setup_main(void)
{
	mc.config->setup();
	coroutine_yield();
	abort();
}

static void final_main(void)
{
	mc.config->final();
	coroutine_yield();
	abort();
}

static void thread_main(void)
{
	mc.config->threads[mc.self - 1].run();
	current_thread()->done = true;
	coroutine_yield();
	abort();
}

/* Returns false if the execution ends here. */
static bool run_context(unsigned context)
{
	mc.self = context;
	coroutine_resume(context);
	if (!mc.failed && coroutine_overflowed(context))
		engine_note_failure("limit: %s needs more than MC_STACK_BYTES = %d of stack",
				    context_name(context), MC_STACK_BYTES);
	return !mc.failed && !mc.restart;
}

static void reset_execution(void)
{
	position = 0;
	mc.self = 0;
	mc.nr_events = 0;
	mc.threads_started = false;
	mc.handlers_left = mc.config->handlers;
	mc.aborts_left = mc.config->aborts;
	mc.migrations_left = mc.config->migrations;
	memset(mc.threads, 0, sizeof(mc.threads));
	memory_reset();
	plain_reset();
}

/* Each thread runs up to its first event. */
static bool start_threads(void)
{
	mc.threads_started = true;
	for (unsigned i = 1; i <= mc.nr_threads; i++) {
		struct thread *t = &mc.threads[i];

		t->now = t->acquired = mc.threads[0].now;
		t->deps = mc.threads[0].deps;
		t->cpu = mc.config->threads[i - 1].cpu;
		coroutine_start(i, thread_main);
		if (!run_context(i))
			return false;
	}
	return true;
}

/*
 * The decision which of the @enabled threads runs next; returns its context, 0 = prune, -1 = stop.
 * @previous goes on if it can: fewest switches, so the first failing trace is easy to read.
 */
static int schedule(unsigned enabled, unsigned awake, unsigned previous)
{
	struct node *node;

	if (position == nr_nodes) {
		unsigned chosen;

		if (!awake)
			return 0;
		if (nr_nodes == MC_MAX_NODES) {
			engine_note_failure("limit: more than MC_MAX_NODES = %d decisions",
					    MC_MAX_NODES);
			return -1;
		}
		chosen = awake >> previous & 1 ? previous : (unsigned)__builtin_ctz(awake);
		nodes[nr_nodes++] = (struct node){
			.chosen = (uint16_t)chosen,
			.enabled = (uint8_t)enabled,
			.asleep = (uint8_t)(enabled & ~awake),
			.to_explore = (uint8_t)(mc.config->reduce ? 1u << chosen : enabled),
		};
	}
	node = &nodes[position];
	if (node->is_choice || node->enabled != enabled) {
		engine_note_failure("%s", replay_differs);
		return -1;
	}
	for (unsigned i = 1; mc.config->reduce && i <= mc.nr_threads; i++)
		if (node->explored >> i & 1 && i != node->chosen)
			mc.threads[i].asleep = true;
	mc.threads[node->chosen].node = position++;
	return node->chosen;
}

/* Runs from the start to the first scheduling point. */
static bool begin(void)
{
	reset_execution();
	coroutine_start(0, setup_main);
	return run_context(0) && start_threads();
}

/* Runs on from the scheduling point after which @context ran last. */
static enum outcome go_on(unsigned context, const struct point *end)
{
	for (;;) {
		unsigned enabled = 0, awake = 0;

		if (end && position == end->decisions && mc.nr_events == end->nr_events)
			return ARRIVED;
		if (position == nr_nodes && saved_wanted(position))
			saved_add(position, context);
		for (unsigned i = 1; i <= mc.nr_threads; i++) {
			enabled |= (unsigned)!mc.threads[i].done << i;
			awake |= (unsigned)(!mc.threads[i].done && !mc.threads[i].asleep) << i;
		}
		if (!enabled)
			break;
		if (enabled & (enabled - 1)) {
			int chosen = schedule(enabled, awake, context);

			if (chosen <= 0)
				return chosen ? STOPPED : PRUNED;
			context = (unsigned)chosen;
		} else {
			if (!awake)
				return PRUNED;
			context = (unsigned)__builtin_ctz(enabled);
			mc.threads[context].node = -1;
		}
		if (!run_context(context))
			return STOPPED;
	}
	memory_show_everything();
	if (!mc.config->final)
		return COMPLETE;
	coroutine_start(0, final_main);
	return run_context(0) ? COMPLETE : STOPPED;
}

/* Checks that a state restored by saved_go_back() equals the one that running up to it leaves. */
static bool compare_saved(void)
{
	const struct point end = { position, mc.nr_events };

	saved_compare_begin();
	if (!begin() || go_on(1, &end) != ARRIVED)
		engine_note_failure("%s", replay_differs);
	else
		saved_compare();
	return !mc.failed;
}

static enum outcome execute_once(void)
{
	unsigned context = 1;

	if (!saved_go_back(nr_nodes - 1, &position, &context)) {
		if (!begin())
			return STOPPED;
	} else if (saved_to_compare() && !compare_saved()) {
		return STOPPED;
	}
	return go_on(context, NULL);
}

/* Change the last decision that has an alternative left. Returns false if none has. */
static bool next_decisions(void)
{
	for (; nr_nodes; nr_nodes--) {
		struct node *node = &nodes[nr_nodes - 1];
		unsigned left;

		if (node->is_choice) {
			if (++node->chosen < node->alternatives)
				return true;
			continue;
		}
		node->explored |= (uint8_t)(1u << node->chosen);
		left = node->to_explore & ~(unsigned)(node->explored | node->asleep);
		if (left) {
			node->chosen = (uint16_t)__builtin_ctz(left);
			return true;
		}
	}
	return false;
}

/* ---- runs -------------------------------------------------------------------------------- */

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool check_config(const struct mc_config *config)
{
	unsigned cpus = config->nr_cpus ? config->nr_cpus : 1;

	for (mc.nr_threads = 0; mc.nr_threads < MC_MAX_THREADS; mc.nr_threads++) {
		const struct mc_thread *t = &config->threads[mc.nr_threads];

		if (!t->run)
			break;
		if (t->cpu >= cpus)
			engine_note_failure("configuration: T%u starts on CPU %u, nr_cpus is %u",
					    mc.nr_threads, t->cpu, cpus);
	}
	if (cpus > MC_MAX_CPUS)
		engine_note_failure("limit: nr_cpus %u, more than MC_MAX_CPUS = %d", cpus,
				    MC_MAX_CPUS);
	if (!config->setup)
		engine_note_failure("configuration: no setup");
	return !mc.failed;
}

/* Returns when the search is complete, at its limit, failed, or to be restarted. */
static void explore(struct mc_result *result)
{
	const struct mc_config *config = mc.config;

	result->executions = result->pruned = 0;
	nr_nodes = 0;
	graph_reset();
	saved_reset();
	do {
		switch (execute_once()) {
		case COMPLETE:
			result->executions++;
			if (config->graphs)
				graph_add_current();
			break;
		case PRUNED:
			result->pruned++;
			break;
		case STOPPED:
		case ARRIVED: /* only in compare_saved() */
			return;
		}
		if (config->max_executions &&
		    result->executions + result->pruned >= config->max_executions) {
			result->limit_hit = next_decisions();
			return;
		}
	} while (next_decisions());
}

/* Same decisions, same execution; this time it prints itself. */
static void replay_failure(const struct mc_result *result)
{
	trace_begin(result);
	mc.failed = false;
	mc.tracing = true;
	execute_once();
	mc.tracing = false;
	trace_end(result, mc.failed && !strcmp(mc.message, result->message));
}

struct mc_result mc_run(const struct mc_config *config)
{
	struct mc_result result = { .passed = false };
	double begin = now_seconds();
	bool usable;

	mc.config = config;
	mc.failed = false;
	mc.peeked = 0;
	usable = check_config(config);
	if (usable) {
		do {
			mc.restart = false;
			explore(&result);
		} while (mc.restart);
		result.graphs = graph_count();
		result.graph_sum = graph_sum();
	}
	result.seconds = now_seconds() - begin;
	result.passed = !mc.failed;
	if (mc.failed) {
		memcpy(result.message, mc.message, sizeof(result.message));
		if (config->print_trace && usable)
			replay_failure(&result);
	}
	return result;
}
