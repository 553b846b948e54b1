/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of the model checker share.
 *
 *   hooks.c      the public hooks: nested handlers, then one scheduled event
 *   memory.c     atomic objects: messages, views, per-CPU and SC-fence chains
 *   plain.c      plain memory: regions, race check, peeks
 *   search.c     executions, decisions, partial order reduction
 *   coroutine.c  one stack for each thread
 *   saved.c      states to go back to, instead of running up to them once more
 *   graph.c      set of distinct execution graphs (tests of the engine only)
 *   report.c     messages and the trace of a failing execution
 *
 * Context 0 is setup and final; context i is thread i - 1 of the configuration.
 */
#ifndef STRATA_CHECK_INTERNAL_H
#define STRATA_CHECK_INTERNAL_H

#include "engine.h"

enum {
	CONTEXTS = MC_MAX_THREADS + 1,
	SLOTS = 8,		/* CONTEXTS, rounded up so that a clock is one vector register */
	CLOCK_LIMIT = 32000,	/* steps of one thread, plain accesses included; below INT16_MAX */
	CHAIN_SC = MC_MAX_CPUS, /* chain of the SC fences; those before it belong to CPUs */
	CHAINS,
};

struct clock {
	int16_t at[SLOTS];
};

/*
 * The view of a thread: what it has seen. seen[l] is the oldest message of object l that it may
 * still read; hb is the vector clock of happens-before, against which plain accesses are checked.
 */
struct view {
	int16_t seen[MC_MAX_LOCATIONS];
	struct clock hb;
};

/* One value of an object. Messages are kept in modification order, which is execution order. */
struct message {
	uint64_t value;
	struct view view;      /* gained by an acquire load that reads this */
	struct clock deps;     /* see struct event */
	uint8_t context, part; /* who stored it; which store of one restartable sequence */
	int16_t index;
};

struct location {
	const char *name;
	int instance; /* how many earlier objects have the same name, as in an array */
	int count;
	uint16_t last_write[CONTEXTS], last_read[CONTEXTS]; /* event number + 1; 0 = none */
	struct clock latest_deps; /* of operations with footprint.latest */
	struct message *messages; /* [MC_MAX_MESSAGES] */
};

/*
 * Operations that are totally ordered and synchronize, each with the one before: those of one CPU,
 * and SC fences.
 */
struct chain {
	struct view view;
	struct clock deps;
	uint16_t last[CONTEXTS]; /* event number + 1 */
	uint64_t hash;		 /* order of its operations, for the execution graph */
};

struct region {
	char *memory;
	size_t bytes;
	const char *name;
	int first_cell;
};

/* Four bytes of plain memory. Epochs are values of the accessing thread's hb clock. */
struct cell {
	struct clock write, read;
	uint16_t written_by; /* event number + 1, like the next two; only in peeked regions */
	uint16_t last_write; /* event that wrote or, in another execution, might have */
	uint16_t last_peek[CONTEXTS];
};

/* A range of cells, first..last. */
struct span {
	int16_t first, last;
};

/*
 * The footprint of an operation: an upper bound before it ran (struct op), the truth afterwards
 * (struct event). Bit l of a mask is object l. @latest: depends on the latest value, like a write.
 */
struct footprint {
	uint64_t reads, writes, latest;
	uint32_t chains;
	uint8_t nr_spans; /* plain memory of peeked regions */
	bool peek;	  /* the spans are read, not written */
	struct span spans[MC_MAX_RSEQ_WRITES];
};

enum op_kind {
	OP_LOAD,
	OP_STORE,
	OP_STORE_HINT,
	OP_CAS,
	OP_ADD,
	OP_LOCAL_CAS,
	OP_LOCAL_ADD,
	OP_IPI,
	OP_FENCE, /* SC; the weaker fences are local to their thread and not scheduled */
	OP_RSEQ_CPU,
	OP_RSEQ,
	OP_PLAIN_WRITE, /* only into a peeked region; otherwise not scheduled */
	OP_PEEK,
};

struct rseq {
	uint32_t cpu;
	bool on_cpu; /* the thread runs there */
	unsigned guard;
	uint64_t expect;
	const struct mc_rseq_write *writes;
	unsigned nr_writes, nr_stores;
	unsigned stores[MC_MAX_RSEQ_STORES];
	const uint64_t *values;
	const int *orders;
	/* For mc_rseq_section(), all of the above but cpu is computed from it in the step. */
	const struct mc_rseq_section *section;
};

/* An operation that waits to be scheduled. It lives on the stack of its thread. */
struct op {
	enum op_kind kind;
	int order;
	unsigned location;
	uint64_t value;
	uint64_t *expected;	 /* OP_CAS */
	uint32_t cpu;		 /* OP_IPI */
	const struct rseq *rseq; /* OP_RSEQ */
	void *dst;		 /* OP_PLAIN_WRITE, OP_PEEK */
	const void *src;
	size_t n;
	struct footprint may;
};

/*
 * An operation that ran. @deps is a vector clock of event indices over the dependency relation of
 * the reduction: program order, reads-from, modification order, chains, peek against write. A read
 * is *not* before a later write: the read could have come second and returned the old value.
 * A restartable sequence that fails counts as having touched what it would have written. Whether it
 * fails depends on its order among others, and a dependency must not come and go with that: sleep
 * sets would then hide executions.
 */
struct event {
	uint8_t context;
	int16_t index; /* deps.at[context]: how many events of this context, this one included */
	int node;      /* decision that scheduled it; -1 = no other thread was left */
	struct clock deps;
	struct footprint touched;
};

struct thread {
	struct view now;      /* what its reads and acquires have shown it */
	struct view acquired; /* what an acquire fence would add */
	struct view released; /* what a relaxed store publishes: as of the last release fence */
	struct clock deps;
	const struct op *pending;
	unsigned depth; /* nested handlers that are running */
	uint32_t cpu;
	bool done, asleep;
	int first_new; /* woken load: older messages were explored before it was put to sleep */
	int node;
	uint64_t hash; /* its part of the execution graph */
};

struct engine {
	const struct mc_config *config;
	unsigned nr_threads;
	unsigned self; /* context that runs */
	unsigned handlers_left, aborts_left, migrations_left;
	unsigned nr_locations, nr_regions;
	int nr_cells, nr_events;
	bool threads_started; /* no more objects or regions */
	bool tracing;	      /* replaying a failed execution */
	bool failed, restart; /* why a context stopped */
	uint32_t peeked;      /* regions in which something is peeked; learned during the run */
	char message[256];
	struct thread threads[CONTEXTS];
	struct chain chains[CHAINS];
	struct region regions[MC_MAX_REGIONS];
	struct location locations[MC_MAX_LOCATIONS];
	struct cell cells[MC_MAX_CELLS];
	/* These arrays are not saved, see saved.c: nobody reads beyond their counts. */
	struct event events[MC_MAX_EVENTS];
	struct view released
		[MC_MAX_EVENTS]; /* gained by an acquire fence behind a peek at its plain writes */
	struct event scratch;	 /* setup's and final's are not kept */
	struct message messages[MC_MAX_LOCATIONS][MC_MAX_MESSAGES];
};

struct coroutines {
	_Alignas(64) char stacks[CONTEXTS][MC_STACK_BYTES];
	void *top[CONTEXTS], *scheduler; /* x86-64 */
	unsigned running;
};

extern struct engine mc;
extern struct coroutines coroutines;

static inline void clock_join(struct clock *a, const struct clock *b)
{
	for (int i = 0; i < SLOTS; i++)
		a->at[i] = a->at[i] < b->at[i] ? b->at[i] : a->at[i];
}

static inline void view_join(struct view *a, const struct view *b)
{
	for (int i = 0; i < MC_MAX_LOCATIONS; i++)
		a->seen[i] = a->seen[i] < b->seen[i] ? b->seen[i] : a->seen[i];
	clock_join(&a->hb, &b->hb);
}

static inline uint64_t hash_mix(uint64_t h, uint64_t x)
{
	h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	return h * 0xff51afd7ed558ccdu;
}

static inline struct thread *current_thread(void)
{
	return &mc.threads[mc.self];
}

static inline bool order_acquires(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST || order == __ATOMIC_CONSUME;
}

static inline bool order_releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/* memory.c */
void memory_reset(void);
unsigned memory_location(uint64_t id);
const char *location_name(const struct location *l);
void memory_tick(struct thread *t);
uint64_t memory_execute(const struct op *op, struct event *e);
void memory_fence(int order);
void memory_show_everything(void);

/* plain.c */
void plain_reset(void);
bool plain_in_peeked_region(const void *memory, size_t n, struct span *span);
void plain_note_peek(const void *src, size_t n);
void plain_order_writes(const struct op *op, struct event *e);
void plain_write(void *dst, const void *src, size_t n, bool is_event);
void plain_read(void *dst, const void *src, size_t n);
int plain_peek(void *dst, const void *src, size_t n, struct event *e);

/* search.c */
unsigned search_choose(unsigned n);
uint64_t search_event(const struct op *op);

/* coroutine.c: start prepares a context; resume runs it until its next yield. */
void coroutine_start(unsigned context, void (*entry)(void));
void coroutine_resume(unsigned context);
void coroutine_yield(void);
bool coroutine_overflowed(unsigned context);
/*
 * Returns the part of the stack that a yielded context uses; with NULL, only whether that can be
 * told.
 */
bool coroutine_in_use(unsigned context, struct mc_memory *stack);
/* The stack in use has @bytes again. */
void coroutine_set_in_use(unsigned context, size_t bytes);

/* saved.c */
void saved_reset(void);
bool saved_wanted(int decisions);
void saved_add(int decisions, unsigned context);
bool saved_go_back(int decisions, int *position, unsigned *context);
bool saved_to_compare(void);
void saved_compare_begin(void);
void saved_compare(void);

/* graph.c */
void graph_reset(void);
void graph_add_current(void);
uint64_t graph_count(void);
uint64_t graph_sum(void);

/* report.c */
void engine_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void engine_note_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *context_name(unsigned context);
const char *order_name(int order);
void trace_begin(const struct mc_result *result);
void trace_end(const struct mc_result *result, bool same);
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_bytes(const char *what, const char *region, size_t offset, const void *bytes, size_t n);

#endif
