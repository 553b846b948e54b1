/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - what the code under test calls: first nested handlers may run, then the operation does.
 */
#include <string.h>

#include "internal.h"

/* Several handlers may follow each other here, and each may be interrupted at its own hooks. */
static void run_handlers(void)
{
	struct thread *t = current_thread();
	void (*handler)(void);

	if (!mc.self)
		return;
	handler = mc.config->threads[mc.self - 1].handler;
	while (handler && t->depth < mc.config->depth && mc.handlers_left && search_choose(2)) {
		mc.handlers_left--;
		if (mc.tracing)
			trace("handler begins");
		t->depth++;
		t->hash = hash_mix(t->hash, '(');
		handler();
		t->hash = hash_mix(t->hash, ')');
		t->depth--;
		if (mc.tracing)
			trace("handler returns");
	}
}

/* The thread may have been moved to another CPU since its last hook. */
static void migrate(void)
{
	struct thread *t = current_thread();
	unsigned cpus = mc.config->nr_cpus ? mc.config->nr_cpus : 1, by;

	if (!mc.self || !mc.migrations_left)
		return;
	by = search_choose(cpus);
	if (!by)
		return;
	mc.migrations_left--;
	t->cpu = (t->cpu + by) % cpus;
	t->hash = hash_mix(t->hash, 'm');
	if (mc.tracing)
		trace("moved to CPU %u", t->cpu);
}

/*
 * Adds an event to the search. Where interrupts of other CPUs may come between any two operations,
 * each operation also belongs to its CPU.
 */
static uint64_t event(struct op *op)
{
	if (mc.config->ipi && mc.self && op->kind != OP_IPI)
		op->may.chains |= 1u << current_thread()->cpu;
	return search_event(op);
}

uint64_t mc_load(uint64_t id, int order)
{
	struct op op = { .kind = OP_LOAD, .order = order, .location = memory_location(id) };

	run_handlers();
	op.may.reads = 1ull << op.location;
	return event(&op);
}

static void store(enum op_kind kind, uint64_t id, uint64_t value, int order)
{
	struct op op = {
		.kind = kind, .order = order, .location = memory_location(id), .value = value
	};

	run_handlers();
	op.may.writes = 1ull << op.location;
	event(&op);
}

void mc_store(uint64_t id, uint64_t value, int order)
{
	store(OP_STORE, id, value, order);
}

void mc_store_hint(uint64_t id, uint64_t value, int order)
{
	store(OP_STORE_HINT, id, value, order);
}

static int cas(enum op_kind kind, uint64_t id, uint64_t *expected, uint64_t desired, int order)
{
	struct op op = { .kind = kind,
			 .order = order,
			 .location = memory_location(id),
			 .value = desired,
			 .expected = expected };

	run_handlers();
	op.may.reads = op.may.writes = 1ull << op.location;
	return (int)event(&op);
}

int mc_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order)
{
	return cas(OP_CAS, id, expected, desired, order);
}

int mc_local_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order)
{
	return cas(OP_LOCAL_CAS, id, expected, desired, order);
}

static uint64_t add(enum op_kind kind, uint64_t id, uint64_t value, int order)
{
	struct op op = {
		.kind = kind, .order = order, .location = memory_location(id), .value = value
	};

	run_handlers();
	op.may.reads = op.may.writes = 1ull << op.location;
	return event(&op);
}

uint64_t mc_add(uint64_t id, uint64_t value, int order)
{
	return add(OP_ADD, id, value, order);
}

uint64_t mc_local_add(uint64_t id, uint64_t value, int order)
{
	return add(OP_LOCAL_ADD, id, value, order);
}

void mc_ipi(uint32_t cpu)
{
	struct op op = { .kind = OP_IPI, .cpu = cpu };

	if (!mc.config->ipi || cpu >= MC_MAX_CPUS)
		engine_fail("mc_ipi: CPU %u, limit MC_MAX_CPUS = %d, or without mc_config.ipi", cpu,
			    MC_MAX_CPUS);
	run_handlers();
	op.may.chains = 1u << cpu | 1u << CHAIN_SC;
	event(&op);
}

void mc_fence(int order)
{
	struct op op = { .kind = OP_FENCE, .order = order };

	run_handlers();
	if (order != __ATOMIC_SEQ_CST) {
		memory_fence(order);
		return;
	}
	op.may.chains = 1u << CHAIN_SC;
	event(&op);
}

void mc_plain_write(void *dst, const void *src, size_t n)
{
	struct op op = { .kind = OP_PLAIN_WRITE, .dst = dst, .src = src, .n = n };

	run_handlers();
	if (!plain_in_peeked_region(dst, n, &op.may.spans[0])) {
		plain_write(dst, src, n, false);
		return;
	}
	op.may.nr_spans = 1;
	event(&op);
}

void mc_plain_read(void *dst, const void *src, size_t n)
{
	run_handlers();
	plain_read(dst, src, n);
}

int mc_peek(void *dst, const void *src, size_t n)
{
	struct op op = { .kind = OP_PEEK, .dst = dst, .src = src, .n = n };

	run_handlers();
	if (!n)
		return 0;
	plain_note_peek(src, n);
	if (plain_in_peeked_region(src, n, &op.may.spans[0]))
		op.may.nr_spans = 1;
	op.may.peek = true;
	return (int)event(&op);
}

unsigned mc_choose(unsigned n)
{
	struct thread *t = current_thread();
	unsigned chosen;

	if (!n)
		engine_fail("mc_choose(0)");
	chosen = search_choose(n);
	t->hash = hash_mix(t->hash, chosen);
	if (mc.tracing)
		trace("choose %u of 0..%u", chosen, n - 1);
	return chosen;
}

void mc_fail(const char *message)
{
	engine_fail("%s (%s)", message, context_name(mc.self));
}

void mc_step(void)
{
	run_handlers();
}

uint32_t mc_rseq_cpu(void)
{
	struct op op = { .kind = OP_RSEQ_CPU };

	run_handlers();
	migrate();
	op.may.chains = 1u << current_thread()->cpu;
	return (uint32_t)event(&op);
}

/* Collects what the section touches if it succeeds. */
static void rseq_footprint(const struct rseq *r, struct footprint *may)
{
	/* The guard is read as its latest value: it conflicts with every write, like a write. */
	may->writes = 1ull << r->guard;
	for (unsigned i = 0; i < r->nr_stores; i++)
		may->writes |= 1ull << r->stores[i];
	for (unsigned i = 0; i < r->nr_writes; i++)
		if (plain_in_peeked_region(r->writes[i].dst, r->writes[i].n,
					   &may->spans[may->nr_spans]))
			may->nr_spans++;
}

int mc_rseq(uint32_t cpu, uint64_t guard_id, uint64_t expect, const struct mc_rseq_write *w,
	    unsigned nw, const uint64_t *store_ids, const uint64_t *store_values,
	    const int *store_orders, unsigned nstores)
{
	struct rseq rseq = { .cpu = cpu,
			     .guard = memory_location(guard_id),
			     .expect = expect,
			     .writes = w,
			     .nr_writes = nw,
			     .nr_stores = nstores,
			     .values = store_values,
			     .orders = store_orders };
	struct op op = { .kind = OP_RSEQ, .location = rseq.guard, .rseq = &rseq };

	if (cpu >= MC_MAX_CPUS)
		engine_fail("mc_rseq: CPU %u, limit MC_MAX_CPUS = %d", cpu, MC_MAX_CPUS);
	if (nw > MC_MAX_RSEQ_WRITES)
		engine_fail(
			"limit: more than MC_MAX_RSEQ_WRITES = %d plain writes in one mc_rseq()",
			MC_MAX_RSEQ_WRITES);
	if (nstores > MC_MAX_RSEQ_STORES)
		engine_fail("limit: more than MC_MAX_RSEQ_STORES = %d stores in one mc_rseq()",
			    MC_MAX_RSEQ_STORES);
	run_handlers();
	migrate();
	for (unsigned i = 0; i < nstores; i++)
		rseq.stores[i] = memory_location(store_ids[i]);
	/* setup and final may run sections of any CPU. */
	rseq.on_cpu = !mc.self || current_thread()->cpu == cpu;
	op.may.chains = 1u << (mc.self ? current_thread()->cpu : cpu);
	if (rseq.on_cpu)
		rseq_footprint(&rseq, &op.may);
	return (int)event(&op);
}

int mc_rseq_section(const struct mc_rseq_section *section)
{
	struct mc_rseq_outcome may = { .nr_writes = 0 };
	struct rseq rseq = { .section = section, .on_cpu = true };
	struct op op = { .kind = OP_RSEQ, .rseq = &rseq };

	run_handlers();
	migrate();
	rseq.cpu = mc.self ? current_thread()->cpu : 0;
	section->touches(section->data, rseq.cpu, &may);
	if (may.nr_writes > MC_MAX_RSEQ_WRITES || may.nr_stores > MC_MAX_RSEQ_STORES)
		engine_fail("limit: mc_rseq_section() touches %u and %u", may.nr_writes,
			    may.nr_stores);
	op.may.chains = 1u << rseq.cpu;
	for (unsigned i = 0; i < may.nr_stores; i++)
		op.may.writes |= 1ull << memory_location(may.store_ids[i]);
	for (unsigned i = 0; i < may.nr_writes; i++)
		if (plain_in_peeked_region(may.writes[i].dst, may.writes[i].n,
					   &op.may.spans[op.may.nr_spans]))
			op.may.nr_spans++;
	return (int)event(&op);
}
