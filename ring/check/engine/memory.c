/* SPDX-License-Identifier: MIT */
/*
 * memory.c - atomic objects in the C11 memory model, by messages and views.
 *
 * Each store appends a message to its object. A thread may read any message that is not older than
 * the newest one it knows of (its view), so a load has several results and the search tries all.
 * A message carries the view that a reader gains by acquiring it; with a release store that is all
 * the writer knew, with a relaxed store what the writer knew at its last release fence.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

struct engine mc;

/* High bits of every identity, so that a cell that never went through mc_new() is recognized. */
#define ID_TAG 0x4d63496400000000u

/* The object of an identity. */
unsigned memory_location(uint64_t id)
{
	uint64_t location = id ^ ID_TAG;

	if (location >= mc.nr_locations)
		engine_fail(
			"0x%llx is no atomic object: field used before mc_new(), or overwritten",
			(unsigned long long)id);
	return (unsigned)location;
}

void memory_reset(void)
{
	mc.nr_locations = 0;
	memset(mc.chains, 0, sizeof(mc.chains));
}

static int instance_of(const char *name)
{
	/* Objects that are created in a loop are found by their address. */
	for (const struct location *l = &mc.locations[mc.nr_locations]; l-- > mc.locations;)
		if (l->name == name)
			return l->instance + 1;
	return 0;
}

/* Returns the location's name for messages, valid until the next call. */
const char *location_name(const struct location *l)
{
	static char name[128];

	if (!l->instance)
		return l->name;
	snprintf(name, sizeof(name), "%s #%d", l->name, l->instance);
	return name;
}

uint64_t mc_new(uint64_t initial, const char *name)
{
	struct location *l = &mc.locations[mc.nr_locations];

	if (mc.threads_started)
		engine_fail("mc_new(%s) outside setup", name);
	if (mc.nr_locations == MC_MAX_LOCATIONS)
		engine_fail("limit: more than MC_MAX_LOCATIONS = %d atomic objects",
			    MC_MAX_LOCATIONS);
	memset(l->last_write, 0, sizeof(l->last_write));
	memset(l->last_read, 0, sizeof(l->last_read));
	memset(&l->latest_deps, 0, sizeof(l->latest_deps));
	l->messages = mc.messages[mc.nr_locations];
	memset(&l->messages[0], 0, sizeof(l->messages[0]));
	l->messages[0].value = initial;
	l->count = 1;
	l->name = name;
	l->instance = instance_of(name);
	return ID_TAG | mc.nr_locations++;
}

/* One more step of the thread in both vector clocks. */
void memory_tick(struct thread *t)
{
	if (t->now.hb.at[mc.self] == CLOCK_LIMIT)
		engine_fail("limit: %s made more than CLOCK_LIMIT = %d accesses (livelock?)",
			    context_name(mc.self), CLOCK_LIMIT);
	t->now.hb.at[mc.self]++;
}

/* After all threads have ended, final sees what each of them saw. */
void memory_show_everything(void)
{
	struct thread *t = &mc.threads[0];

	for (unsigned i = 1; i <= mc.nr_threads; i++) {
		view_join(&t->now, &mc.threads[i].now);
		clock_join(&t->deps, &mc.threads[i].deps);
	}
}

static uint64_t identity(const struct message *m)
{
	return (uint64_t)m->context << 32 | (uint64_t)(uint16_t)m->index << 8 | m->part;
}

static uint64_t read_message(struct thread *t, unsigned location, int i, int order)
{
	const struct message *m = &mc.locations[location].messages[i];

	if (t->now.seen[location] < i)
		t->now.seen[location] = (int16_t)i;
	view_join(&t->acquired, &m->view);
	if (order_acquires(order))
		view_join(&t->now, &m->view);
	clock_join(&t->deps, &m->deps);
	t->hash = hash_mix(t->hash, identity(m));
	return m->value;
}

struct write {
	unsigned location;
	uint64_t value;
	int order;
	bool rmw;      /* continues the release sequence of the message before */
	unsigned part; /* number within the operation */
};

static void write_message(struct thread *t, struct event *e, const struct write *w)
{
	struct location *l = &mc.locations[w->location];
	struct message *before = &l->messages[l->count - 1], *m = before + 1;

	if (l->count == MC_MAX_MESSAGES)
		engine_fail("limit: more than MC_MAX_MESSAGES = %d values stored to %s",
			    MC_MAX_MESSAGES, location_name(l));
	clock_join(&t->deps, &before->deps);
	clock_join(&t->deps, &l->latest_deps);
	t->now.seen[w->location] = (int16_t)l->count;
	t->acquired.seen[w->location] = (int16_t)l->count;
	m->view = order_releases(w->order) ? t->now : t->released;
	m->view.seen[w->location] = (int16_t)l->count;
	if (w->rmw)
		view_join(&m->view, &before->view);
	m->value = w->value;
	m->deps = t->deps;
	m->context = (uint8_t)mc.self;
	m->part = (uint8_t)w->part;
	m->index = t->deps.at[mc.self];
	l->count++;
	e->touched.writes |= 1ull << w->location;
}

/*
 * A blind store may land anywhere in modification order after what its thread has seen. Messages
 * are in execution order, so only a store that has seen the latest one is modelled completely.
 */
static void require_latest_seen(const struct thread *t, unsigned location, const char *what)
{
	const struct location *l = &mc.locations[location];

	if (t->now.seen[location] < l->count - 1)
		engine_fail("unsupported: %s %s by %s, concurrent with a write by %s", what,
			    location_name(l), context_name(mc.self),
			    context_name(l->messages[l->count - 1].context));
}

static int oldest_readable(const struct thread *t, unsigned location)
{
	int seen = t->now.seen[location];

	if (!mc.self)
		return mc.locations[location].count - 1;
	return seen < t->first_new ? t->first_new : seen;
}

static uint64_t execute_load(struct thread *t, const struct op *op, struct event *e)
{
	const struct location *l = &mc.locations[op->location];
	int last = l->count - 1, oldest = oldest_readable(t, op->location);
	int i = oldest + (int)search_choose((unsigned)(last - oldest + 1));
	uint64_t value = read_message(t, op->location, i, op->order);

	e->touched.reads |= 1ull << op->location;
	if (mc.tracing)
		trace("load   %s = %llu, %s%s", location_name(l), (unsigned long long)value,
		      order_name(op->order), i < last ? ", not the latest value" : "");
	return value;
}

static void execute_store(struct thread *t, const struct op *op, struct event *e)
{
	const struct location *l = &mc.locations[op->location];

	if (mc.tracing)
		trace("store  %s := %llu, %s", location_name(l), (unsigned long long)op->value,
		      order_name(op->order));
	if (mc.self && op->kind == OP_STORE)
		require_latest_seen(t, op->location, "store to");
	write_message(t, e,
		      &(struct write){
			      .location = op->location, .value = op->value, .order = op->order });
}

static uint64_t execute_add(struct thread *t, const struct op *op, struct event *e)
{
	const struct location *l = &mc.locations[op->location];
	uint64_t before = read_message(t, op->location, l->count - 1, op->order);

	write_message(t, e,
		      &(struct write){ .location = op->location,
				       .value = before + op->value,
				       .order = op->order,
				       .rmw = true });
	e->touched.reads |= 1ull << op->location;
	if (mc.tracing)
		trace("add    %s: %llu + %llu, %s", location_name(l), (unsigned long long)before,
		      (unsigned long long)op->value, order_name(op->order));
	return before;
}

/* Returns 1 on success. Success needs the latest message; failure may come from an older one. */
static uint64_t execute_cas(struct thread *t, const struct op *op, struct event *e)
{
	const struct location *l = &mc.locations[op->location];
	int last = l->count - 1, readable[MC_MAX_MESSAGES], nr = 0, i;
	uint64_t expected = *op->expected, found;

	for (i = oldest_readable(t, op->location); i <= last; i++)
		if (i == last || l->messages[i].value != expected)
			readable[nr++] = i;
	i = readable[search_choose((unsigned)nr)];
	e->touched.reads |= 1ull << op->location;
	if (l->messages[i].value == expected) {
		read_message(t, op->location, i, op->order);
		write_message(t, e,
			      &(struct write){ .location = op->location,
					       .value = op->value,
					       .order = op->order,
					       .rmw = true });
		if (mc.tracing)
			trace("cas    %s: %llu -> %llu, %s", location_name(l),
			      (unsigned long long)expected, (unsigned long long)op->value,
			      order_name(op->order));
		return 1;
	}
	found = read_message(t, op->location, i, __ATOMIC_RELAXED);
	if (mc.tracing)
		trace("cas    %s: %llu -> %llu fails, found %llu%s", location_name(l),
		      (unsigned long long)expected, (unsigned long long)op->value,
		      (unsigned long long)found, i < last ? " (not the latest value)" : "");
	*op->expected = found;
	return 0;
}

static void chain_enter(struct thread *t, unsigned chain, struct event *e)
{
	struct chain *c = &mc.chains[chain];

	view_join(&t->now, &c->view);
	clock_join(&t->deps, &c->deps);
	c->hash = hash_mix(c->hash, (uint64_t)mc.self << 32 | (uint16_t)t->deps.at[mc.self]);
	e->touched.chains |= 1u << chain;
}

static void chain_leave(const struct thread *t, unsigned chain)
{
	mc.chains[chain].view = t->now;
	mc.chains[chain].deps = t->deps;
}

/* Every part of @order that stays within the thread; the SC part is a chain (execute_fence()). */
void memory_fence(int order)
{
	struct thread *t = current_thread();

	if (order_acquires(order))
		view_join(&t->now, &t->acquired);
	if (order_releases(order))
		t->released = t->now;
	if (mc.tracing)
		trace("fence  %s", order_name(order));
}

static void execute_fence(struct thread *t, struct event *e)
{
	view_join(&t->now, &t->acquired);
	chain_enter(t, CHAIN_SC, e);
	t->released = t->now;
	chain_leave(t, CHAIN_SC);
	if (mc.tracing)
		trace("fence  seq_cst");
}

/* A load and a store that only what this thread does itself cannot come between. */
static uint64_t execute_local(struct thread *t, const struct op *op, struct event *e)
{
	const struct location *l = &mc.locations[op->location];
	uint64_t before, value = op->value;

	if (mc.self)
		require_latest_seen(t, op->location, "local operation on");
	before = read_message(t, op->location, l->count - 1, op->order);
	e->touched.reads |= 1ull << op->location;
	if (op->kind == OP_LOCAL_CAS && before != *op->expected) {
		if (mc.tracing)
			trace("local  %s: %llu -> %llu fails, found %llu", location_name(l),
			      (unsigned long long)*op->expected, (unsigned long long)value,
			      (unsigned long long)before);
		*op->expected = before;
		return 0;
	}
	if (op->kind == OP_LOCAL_ADD)
		value += before;
	if (mc.tracing)
		trace("local  %s: %llu -> %llu, %s", location_name(l), (unsigned long long)before,
		      (unsigned long long)value, order_name(op->order));
	write_message(
		t, e,
		&(struct write){ .location = op->location, .value = value, .order = op->order });
	return op->kind == OP_LOCAL_CAS ? 1 : before;
}

static void execute_ipi(struct thread *t, const struct op *op, struct event *e)
{
	view_join(&t->now, &t->acquired);
	chain_enter(t, CHAIN_SC, e);
	chain_enter(t, op->cpu, e);
	t->released = t->now;
	chain_leave(t, CHAIN_SC);
	chain_leave(t, op->cpu);
	if (mc.tracing)
		trace("ipi    barrier on CPU %u", op->cpu);
}

static void execute_rseq_cpu(struct thread *t, struct event *e)
{
	chain_enter(t, t->cpu, e);
	chain_leave(t, t->cpu);
	if (mc.tracing)
		trace("rseq   runs on CPU %u", t->cpu);
}

/* All of the section's plain writes. They come first: a store's message must know their order. */
static void rseq_write_all(const struct rseq *r)
{
	for (unsigned i = 0; i < r->nr_writes; i++)
		plain_write(r->writes[i].dst, r->writes[i].src, r->writes[i].n, mc.self);
}

static void rseq_store_all(struct thread *t, const struct rseq *r, struct event *e)
{
	for (unsigned i = 0; i < r->nr_stores; i++) {
		if (mc.tracing)
			trace("         store  %s := %llu, %s",
			      location_name(&mc.locations[r->stores[i]]),
			      (unsigned long long)r->values[i], order_name(r->orders[i]));
		/* A read-modify-write needs none: its reading in the same step was of the latest. */
		if (mc.self && !(r->section && r->section->shared_id &&
				 memory_location(r->section->shared_id) == r->stores[i]))
			require_latest_seen(t, r->stores[i], "restartable sequence storing to");
		write_message(t, e,
			      &(struct write){ .location = r->stores[i],
					       .value = r->values[i],
					       .order = r->orders[i],
					       .part = i });
	}
}

/*
 * Whatever any part of the section depends on, the whole step depends on, even if it fails; see
 * struct event.
 */
static void rseq_depend(struct thread *t, const struct op *op, struct event *e)
{
	for (uint64_t bits = op->may.writes; bits; bits &= bits - 1) {
		const struct location *l = &mc.locations[__builtin_ctzll(bits)];

		clock_join(&t->deps, &l->messages[l->count - 1].deps);
		clock_join(&t->deps, &l->latest_deps);
	}
	e->touched.latest |= op->may.writes;
	plain_order_writes(op, e);
}

/* The section itself, inside its CPU's chain. */
static bool rseq_run(struct thread *t, const struct rseq *r, struct event *e)
{
	const struct location *guard = &mc.locations[r->guard];
	uint64_t found;

	if (!r->on_cpu) {
		if (mc.tracing)
			trace("rseq   for CPU %u fails: runs on CPU %u", r->cpu, t->cpu);
		return false;
	}
	if (mc.self)
		require_latest_seen(t, r->guard, "restartable sequence guarded by");
	found = read_message(t, r->guard, guard->count - 1, __ATOMIC_RELAXED);

	if (found != r->expect) {
		if (mc.tracing)
			trace("rseq   on CPU %u fails: %s is %llu, expected %llu", r->cpu,
			      location_name(guard), (unsigned long long)found,
			      (unsigned long long)r->expect);
		return false;
	}
	if (mc.self && mc.aborts_left && search_choose(2)) {
		mc.aborts_left--;
		t->hash = hash_mix(t->hash, 'a');
		if (mc.tracing)
			trace("rseq   on CPU %u, %s = %llu: aborted before its stores", r->cpu,
			      location_name(guard), (unsigned long long)found);
		rseq_write_all(r);
		return false;
	}
	if (mc.tracing)
		trace("rseq   on CPU %u, %s = %llu: runs", r->cpu, location_name(guard),
		      (unsigned long long)found);
	rseq_write_all(r);
	rseq_store_all(t, r, e);
	return true;
}

uint64_t mc_rseq_read(uint64_t id)
{
	unsigned location = memory_location(id);

	return read_message(current_thread(), location, mc.locations[location].count - 1,
			    __ATOMIC_RELAXED);
}

/* A section that computes what it does. */
static bool rseq_run_section(struct thread *t, const struct rseq *asked, struct event *e)
{
	const struct mc_rseq_section *section = asked->section;
	struct mc_rseq_outcome does = { .nr_writes = 0 };
	struct rseq r = *asked;
	bool runs = section->compute(section->data, asked->cpu, &does);

	if (mc.tracing)
		trace("rseq   on CPU %u: %s", asked->cpu, runs ? "computed" : "fails");
	if (!runs)
		return false;
	r.writes = does.writes;
	r.nr_writes = does.nr_writes;
	r.nr_stores = does.nr_stores;
	r.values = does.store_values;
	r.orders = does.store_orders;
	for (unsigned i = 0; i < does.nr_stores; i++)
		r.stores[i] = memory_location(does.store_ids[i]);
	if (mc.self && mc.aborts_left && search_choose(2)) {
		mc.aborts_left--;
		t->hash = hash_mix(t->hash, 'a');
		if (mc.tracing)
			trace("         aborted before its stores");
		rseq_write_all(&r);
		return false;
	}
	rseq_write_all(&r);
	rseq_store_all(t, &r, e);
	return true;
}

static uint64_t execute_rseq(struct thread *t, const struct op *op, struct event *e)
{
	unsigned cpu = op->rseq->on_cpu ? op->rseq->cpu : t->cpu;
	bool done;

	chain_enter(t, cpu, e);
	rseq_depend(t, op, e);
	done = op->rseq->section ? rseq_run_section(t, op->rseq, e) : rseq_run(t, op->rseq, e);
	chain_leave(t, cpu);
	t->hash = hash_mix(t->hash, done);
	return done;
}

static uint64_t execute(struct thread *t, const struct op *op, struct event *e)
{
	switch (op->kind) {
	case OP_LOAD:
		return execute_load(t, op, e);
	case OP_STORE:
	case OP_STORE_HINT:
		execute_store(t, op, e);
		return 0;
	case OP_CAS:
		return execute_cas(t, op, e);
	case OP_LOCAL_CAS:
	case OP_LOCAL_ADD:
		return execute_local(t, op, e);
	case OP_IPI:
		execute_ipi(t, op, e);
		return 0;
	case OP_ADD:
		return execute_add(t, op, e);
	case OP_FENCE:
		execute_fence(t, e);
		return 0;
	case OP_RSEQ_CPU:
		execute_rseq_cpu(t, e);
		return t->cpu;
	case OP_RSEQ:
		return execute_rseq(t, op, e);
	case OP_PLAIN_WRITE:
		plain_order_writes(op, e);
		plain_write(op->dst, op->src, op->n, mc.self);
		return 0;
	case OP_PEEK:
		return (uint64_t)plain_peek(op->dst, op->src, op->n, e);
	}
	engine_fail("engine: unknown operation %d", (int)op->kind);
}

/* Run @op for the current context, and note in @e what it touched. */
uint64_t memory_execute(const struct op *op, struct event *e)
{
	struct thread *t = current_thread();
	bool of_cpu = mc.config->ipi && mc.self && op->kind != OP_IPI;
	uint64_t result;

	memory_tick(t);
	t->deps.at[mc.self]++;
	t->hash = hash_mix(t->hash, (uint64_t)op->kind << 32 | op->location);
	if (of_cpu)
		chain_enter(t, t->cpu, e);
	result = execute(t, op, e);
	if (of_cpu)
		chain_leave(t, t->cpu);
	return result;
}
