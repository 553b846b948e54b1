/* SPDX-License-Identifier: MIT */
/*
 * engine.h - public interface of the ring buffer's stateless model checker.
 *
 * The compiled code under test calls the hooks below for every access to shared memory. The engine
 * runs it again and again, each time with another order of events and another choice of what each
 * load returns, until every execution that the model allows has been seen once (up to equivalence)
 * or one of them fails.
 *
 * What the model contains
 *   - C11 relaxed, acquire and release accesses, fences (SC fences too) and release sequences.
 *   - Loads that return an older value, and compare-exchanges that fail because of one.
 *   - Data races on plain memory, by happens-before.
 *   - Nested handlers (interrupts, signals): at every hook of a thread that has one, a handler may
 *     run to completion on the same stack.
 *   - Restartable sequences: one step for the threads of one CPU, aborts, migration.
 *
 * What it does not contain
 *   - Load buffering (r1 = r2 = 1 with both loads before the stores).
 *   - Sequentially consistent accesses as such: they are acquire and release. SC fences are SC.
 *   - Modification orders that contradict the order of execution. Concurrent blind mc_store()s to
 *     one object are refused loudly; mc_store_hint() accepts the gap.
 *   - Liveness. A loop without progress ends at the event limit, which is a failure.
 *
 * One checker per process; not thread-safe. A limit that is exceeded is a failure that names it.
 */
#ifndef STRATA_CHECK_ENGINE_H
#define STRATA_CHECK_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	MC_MAX_THREADS = 5,
	MC_MAX_CPUS = 4,
	MC_MAX_LOCATIONS = 64, /* atomic objects */
	MC_MAX_MESSAGES = 64, /* values stored to one object in one execution, the first included */
	MC_MAX_EVENTS = 1024, /* scheduled steps of one execution */
	MC_MAX_NODES = 4096,  /* decisions of one execution: scheduling and choices */
	MC_MAX_REGIONS = 32,  /* mc_region() calls */
	MC_MAX_CELLS = 4096,  /* 4-byte units of plain memory, all regions together */
	MC_MAX_RSEQ_WRITES = 4,	  /* plain writes of one mc_rseq() */
	MC_MAX_RSEQ_STORES = 9,	  /* atomic stores of one mc_rseq() */
	MC_MAX_STATE = 8,	  /* parts of mc_config.state */
	MC_STACK_BYTES = 1 << 18, /* of each thread */
};

/* ---- Set-up: only from mc_config.setup --------------------------------------------------- */

/**
 * mc_new() - create an atomic object.
 * @initial: value that every thread sees until another one is stored.
 * @name:    for the trace; not copied.
 *
 * Returns the identity to keep in the 64-bit cell that the object stands for. Never 0.
 */
uint64_t mc_new(uint64_t initial, const char *name);

/**
 * mc_region() - declare plain memory that threads share.
 * @memory: multiple of 4 [address].
 * @bytes:  multiple of 4.
 * @name:   for the trace; not copied.
 *
 * Races are found in units of 4 bytes: two accesses to different bytes of one unit conflict. The
 * content is the caller's to reset, in every call of setup.
 */
void mc_region(void *memory, size_t bytes, const char *name);

/* ---- Atomic objects (@order is one of __ATOMIC_*) ---------------------------------------- */

uint64_t mc_load(uint64_t id, int order);
void mc_store(uint64_t id, uint64_t value, int order);

/* A store that may be concurrent with other blind stores to the same object. Their modification
 * order is the order of execution: outcomes that need another one (2+2W) are not explored. Only for
 * objects where each value ever stored stays valid. */
void mc_store_hint(uint64_t id, uint64_t value, int order);

/* Strong compare-exchange; 1 on success. May read an old value and fail; failure is relaxed. */
int mc_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order);

/* Atomic for the handlers of the calling thread only: a load and a store for everybody else. A store of another
 * thread's to the same object that is not ordered before is a failure ("unsupported"). */
int mc_local_cas(uint64_t id, uint64_t *expected, uint64_t desired, int order);
uint64_t mc_local_add(uint64_t id, uint64_t value, int order);

uint64_t mc_add(uint64_t id, uint64_t value, int order); /* returns the value before */
void mc_fence(int order);

/**
 * mc_ipi() - have @cpu make a full barrier between two operations of its threads, and wait for it.
 *
 * Only with mc_config.ipi. Itself a full barrier of the calling thread. A plain write of the other CPU that is not
 * peeked goes with the operation behind it: interrupted in between, it would be ordered, too, which is less to find.
 */
void mc_ipi(uint32_t cpu);

/* ---- Plain memory ------------------------------------------------------------------------ */

/* Copy @n bytes and check one side: @dst of a write and @src of a read must be inside one region
 * and ordered by happens-before with every conflicting access. The other side is private. */
void mc_plain_write(void *dst, const void *src, size_t n);
void mc_plain_read(void *dst, const void *src, size_t n);

/**
 * mc_peek() - copy shared memory that may be overwritten at the same time.
 *
 * Returns 1 if the last write of some byte does not happen before this call: the copy may be torn.
 * Never a data race. For readers that copy first and validate afterwards; the oracle is "a copy
 * that passed validation was not torn". As with a relaxed load, an acquire fence after the peek
 * synchronizes with a release fence before a write that the peek has seen.
 *
 * Both orders of a peek and an unordered write are explored. Memory of a region in which nothing is
 * peeked pays nothing for it.
 */
int mc_peek(void *dst, const void *src, size_t n);

/* ---- Choices, oracles -------------------------------------------------------------------- */

/* 0..@n - 1; every alternative is explored. */
unsigned mc_choose(unsigned n);

/* The execution is wrong. Stops the run; does not return. @message is copied. */
void mc_fail(const char *message) __attribute__((noreturn));

/* A point where a nested handler may run; no effect on memory. Handlers run *before* an operation:
 * one that is to come after the last operation of a thread needs a step there. */
void mc_step(void);

/* ---- Restartable sequences --------------------------------------------------------------- */

struct mc_rseq_write {
	void *dst; /* inside a region */
	const void *src;
	size_t n; /* [byte] */
};

/**
 * mc_rseq_cpu() - CPU on which the calling thread runs.
 *
 * While the migration budget lasts, explores that the thread has just moved to another CPU.
 */
uint32_t mc_rseq_cpu(void);

/**
 * mc_rseq() - one restartable critical section.
 * @cpu:          CPU for which the section was prepared.
 * @guard_id:     atomic object that the section compares first,
 * @expect:       with this value.
 * @w, @nw:       plain writes of the section.
 * @store_ids, @store_values, @store_orders, @nstores: its atomic stores, in this order; the last
 *                one commits.
 *
 * Returns 1 if the section ran to its end, and 0 without any store if
 *   - the thread is not on @cpu. While the migration budget lasts, explores that it has moved to
 *     another CPU just before;
 *   - the latest value of @guard_id is not @expect;
 *   - it was aborted (explored while the abort budget lasts). All plain writes are done then, none
 *     of the stores: the longest prefix leaves the most garbage.
 *
 * One step for the threads of the same CPU. A nested handler may run just before, never inside.
 * Ordering: each call, and each mc_rseq_cpu(), is an acquire and release update of a hidden object
 * of the CPU: what ran on one CPU is ordered, as by the context switch between. Threads that never
 * use that CPU learn nothing from it.
 * @guard_id is read as its latest value, because only rseq sections of the same CPU write it. A
 * write from elsewhere that is not ordered before is a failure ("unsupported").
 */
int mc_rseq(uint32_t cpu, uint64_t guard_id, uint64_t expect, const struct mc_rseq_write *w,
	    unsigned nw, const uint64_t *store_ids, const uint64_t *store_values,
	    const int *store_orders, unsigned nstores);

/* The outcome of a computed section, once it has read what it needs. */
struct mc_rseq_outcome {
	struct mc_rseq_write writes[MC_MAX_RSEQ_WRITES];
	unsigned nr_writes;
	uint64_t store_ids[MC_MAX_RSEQ_STORES]; /* the last one commits */
	uint64_t store_values[MC_MAX_RSEQ_STORES];
	int store_orders[MC_MAX_RSEQ_STORES];
	unsigned nr_stores;
};

/*
 * A section that reads, decides and stores, all in one step. @touches says, for the CPU that it will run on, which
 * atomic objects it may read or store (as store_ids) and which plain memory it may write (as writes, without
 * what is written). @compute then runs inside of the step; it reads objects by mc_rseq_read() and calls no
 * other hook, and returns 0 if the section fails.
 */
struct mc_rseq_section {
	void (*touches)(void *data, uint32_t cpu, struct mc_rseq_outcome *may);
	int (*compute)(void *data, uint32_t cpu, struct mc_rseq_outcome *does);
	void *data;
	uint64_t shared_id; /* an object that other CPUs store as well, by read-modify-write; 0: none */
};

/**
 * mc_rseq_section() - run it on the current CPU. Returns 1 if it came to its end; aborts as mc_rseq().
 */
int mc_rseq_section(const struct mc_rseq_section *section);

/* Latest value of an object, only in mc_rseq_section.compute. */
uint64_t mc_rseq_read(uint64_t id);

/* ---- Runs -------------------------------------------------------------------------------- */

struct mc_thread {
	void (*run)(void);     /* NULL ends the list */
	void (*handler)(void); /* nested handler, or NULL */
	uint32_t cpu;	       /* at the start; below nr_cpus */
};

struct mc_memory {
	void *at;
	size_t bytes; /* 0 ends the list */
};

/*
 * A run calls setup, lets the threads go, and calls final when all have returned; once for each
 * execution. setup and final are not scheduled and see everything; no handler, abort or migration
 * happens in them; mc_rseq_cpu() is 0 there, and mc_rseq() takes any CPU. setup must reset all
 * state of the harness, or replay differs from the first run (which is noticed, mostly).
 *
 * With mc_config.state, most executions go on from where they differ from the one before. It names all memory that
 * threads and handlers change beside their stacks and regions, and that they read. It is looked whether that is all.
 *
 * The budgets are totals for one execution, shared by all threads.
 */
struct mc_config {
	const char *name;
	void (*setup)(void);
	void (*final)(void); /* may be NULL */
	struct mc_thread threads[MC_MAX_THREADS];
	struct mc_memory state[MC_MAX_STATE];
	unsigned handlers;   /* budget: nested handlers that run */
	unsigned depth;	     /* how deep handlers nest; 1 = a handler is not interrupted */
	unsigned aborts;     /* budget: aborted restartable sequences */
	unsigned migrations; /* budget: moves to another CPU */
	unsigned nr_cpus;    /* 0 means 1 */
	bool reduce;	     /* partial order reduction; false only to test the reduction itself */
	bool ipi;	     /* mc_ipi() is used: each operation is ordered with it */
	bool graphs;	     /* count distinct execution graphs (for tests of the engine) */
	uint64_t max_executions; /* pruned ones included; 0 = no limit */
	bool print_trace;	 /* on failure, print the execution to stderr */
};

struct mc_result {
	bool passed;	     /* no failure found, as far as the search went */
	bool limit_hit;	     /* max_executions reached: the search is incomplete */
	uint64_t executions; /* complete ones */
	uint64_t pruned;     /* abandoned, because equivalent to one already seen */
	uint64_t graphs;     /* distinct execution graphs, if asked for */
	uint64_t graph_sum;  /* sum of their hashes: equal sets have equal sums */
	double seconds;
	char message[256]; /* of the failure */
};

struct mc_result mc_run(const struct mc_config *config);

/* Prints one line: name, verdict, counts and speed. */
void mc_print_result(const struct mc_config *config, const struct mc_result *result);

#ifdef __cplusplus
}
#endif

#endif
