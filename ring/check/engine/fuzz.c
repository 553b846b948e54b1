/* SPDX-License-Identifier: MIT */
/*
 * fuzz.c - the reduced search against the search without reduction, on random programs.
 *
 * Both must find the same execution graphs, the same outcomes and the same verdict. What differs is
 * a bug of the reduction (or of a dependency that an operation does not declare). Built with
 * -DMC_BUG_NO_WAKE, the engine has such a bug, and this test must find it.
 *
 * Usage: fuzz COUNT [SEED]. Program i of a run is made from SEED + i alone; COUNT 1 repeats it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

enum {
	MAX_CODE = 6, /* instructions of one thread */
	OBJECTS = 3,  /* besides those of the CPUs */
	CPUS = 2,
	WORDS = 3 + CPUS,   /* plain memory: one word for each thread, one for each CPU */
	LIMIT = 120 * 1000, /* executions of one search; larger programs are skipped */
	MAX_OUTCOMES = 1 << 15,
	MISMATCHES_SHOWN = 3, /* made as small as possible first */
};

enum kind {
	LOAD,
	STORE,
	HINT,
	ADD,
	CAS,
	FENCE,
	CHOOSE,
	STEP,
	WRITE,
	READ,
	PEEK,
	CPU,
	RSEQ,
	KINDS,
};

static const char *const kind_names[KINDS] = { "load",	"store",  "hint", "add",   "cas",
					       "fence", "choose", "step", "write", "read",
					       "peek",	"cpu",	  "rseq" };

struct instruction {
	enum kind kind;
	unsigned object; /* or word */
	int order;
	unsigned value;
};

struct code {
	struct instruction instructions[MAX_CODE];
	unsigned length;
};

static struct program {
	unsigned nr_threads, nr_objects;
	unsigned owner[OBJECTS]; /* the one thread with STOREs; nr_threads: HINTs, any thread */
	struct code threads[3], handlers[3];
	struct mc_config config;
} program;

/* ---- random programs --------------------------------------------------------------------- */

static uint64_t random_state;

/* 0..@n - 1, by splitmix64. */
static unsigned random_below(unsigned n)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (unsigned)((z ^ z >> 31) % n);
}

/* Weights of the kinds of operations, one row for each style of program. */
static const unsigned char flavours[][KINDS] = {
	/* ld  st hint add cas fence ch step wr rd peek cpu rseq */
	{ 8, 6, 1, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0 }, /* objects and fences */
	{ 5, 1, 3, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0 }, /* hints */
	{ 3, 2, 2, 2, 6, 1, 0, 0, 0, 0, 0, 0, 0 }, /* compare-exchanges */
	{ 4, 2, 0, 1, 1, 1, 0, 1, 0, 0, 0, 3, 6 }, /* restartable sequences */
	{ 3, 3, 0, 1, 0, 3, 0, 0, 4, 0, 5, 0, 0 }, /* peeks */
	{ 2, 1, 0, 1, 0, 2, 0, 0, 1, 0, 4, 1, 5 }, /* peeks at restartable sequences */
	{ 4, 3, 1, 1, 1, 2, 1, 1, 2, 1, 1, 1, 3 }, /* all */
};

static enum kind random_kind(const unsigned char *weights)
{
	unsigned sum = 0, at;

	for (int k = 0; k < KINDS; k++)
		sum += weights[k];
	at = random_below(sum);
	for (int k = 0;; k++) {
		if (at < weights[k])
			return (enum kind)k;
		at -= weights[k];
	}
}

static int random_order(enum kind kind)
{
	static const int loads[] = { __ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_ACQUIRE };
	static const int stores[] = { __ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_RELEASE };
	static const int updates[] = { __ATOMIC_RELAXED, __ATOMIC_ACQ_REL, __ATOMIC_RELEASE };
	static const int fences[] = { __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE };
	unsigned i = random_below(3);

	switch (kind) {
	case LOAD:
		return loads[i];
	case STORE:
	case HINT:
	case RSEQ:
		return stores[i];
	case FENCE:
		return fences[i];
	default:
		return updates[i];
	}
}

static void random_code(struct code *code, unsigned thread, unsigned length,
			const unsigned char *weights)
{
	code->length = length;
	for (unsigned i = 0; i < length; i++) {
		struct instruction *in = &code->instructions[i];

		in->kind = random_kind(weights);
		in->object = random_below(program.nr_objects);
		/* A program that is refused tests little: keep blind stores to one writer. */
		if (in->kind == STORE && program.owner[in->object] == program.nr_threads)
			in->kind = HINT;
		if (in->kind == STORE && program.owner[in->object] != thread)
			in->kind = random_below(2) ? LOAD : ADD;
		if (in->kind == HINT && program.owner[in->object] != program.nr_threads)
			in->kind = LOAD;
		if (in->kind == WRITE)
			in->object = thread;
		if (in->kind == READ)
			in->object = random_below(4) ? thread : random_below(WORDS);
		if (in->kind == PEEK)
			in->object = random_below(WORDS);
		in->order = random_order(in->kind);
		in->value = 1 + random_below(3);
	}
}

static void random_program(void)
{
	const unsigned char *weights =
		flavours[random_below(sizeof(flavours) / sizeof(flavours[0]))];
	bool handlers = !random_below(3);
	struct mc_config *config = &program.config;

	memset(&program, 0, sizeof(program));
	program.nr_threads = 2 + random_below(2);
	program.nr_objects = 1 + random_below(OBJECTS);
	for (unsigned i = 0; i < program.nr_objects; i++)
		program.owner[i] = random_below(program.nr_threads + 1);
	config->nr_cpus = 1 + random_below(CPUS);
	config->aborts = random_below(2);
	config->migrations = random_below(2);
	config->handlers = handlers ? 1 + random_below(2) : 0;
	config->depth = handlers ? 1 + random_below(2) : 0;
	for (unsigned t = 0; t < program.nr_threads; t++) {
		unsigned length = program.nr_threads == 2 ? 5 : 3;

		random_code(&program.threads[t], t, 1 + random_below(length), weights);
		config->threads[t].cpu = random_below(config->nr_cpus);
		if (handlers && (!t || !random_below(4)))
			random_code(&program.handlers[t], t, 1 + random_below(2), weights);
	}
}

/* ---- execution --------------------------------------------------------------------------- */

static uint64_t objects[OBJECTS], cpu_position[CPUS], cpu_total[CPUS];
static uint32_t words[WORDS];
static uint64_t seen[3]; /* hash of all that a thread saw */
static uint32_t known_cpu[3];

static void see(unsigned thread, uint64_t value)
{
	seen[thread] = (seen[thread] ^ value) * 0x9e3779b97f4a7c15u;
	seen[thread] ^= seen[thread] >> 29;
}

/* A section of the CPU that the thread believes to be on, with the position as it last was. */
static void run_section(unsigned t, const struct instruction *in)
{
	uint32_t cpu = known_cpu[t], value = in->value;
	uint64_t position = in->object ? mc_load(cpu_position[cpu], __ATOMIC_RELAXED) :
					 in->value - 1;
	uint64_t ids[2] = { cpu_total[cpu], cpu_position[cpu] };
	uint64_t values[2] = { position + in->value, position + 1 };
	int orders[2] = { __ATOMIC_RELAXED, in->order };
	unsigned skip = in->value == 1; /* then only the position is stored */
	struct mc_rseq_write w = { &words[3 + cpu], &value, sizeof(value) };

	see(t, position);
	see(t, (uint64_t)mc_rseq(cpu, cpu_position[cpu], position, &w, in->value != 2, ids + skip,
				 values + skip, orders + skip, 2 - skip));
}

static void run_instruction(unsigned t, const struct instruction *in)
{
	uint64_t id = objects[in->object < OBJECTS ? in->object : 0], expected = in->value % 3;
	uint32_t word = in->value;

	switch (in->kind) {
	case LOAD:
		see(t, mc_load(id, in->order));
		break;
	case STORE:
		mc_store(id, in->value, in->order);
		break;
	case HINT:
		mc_store_hint(id, in->value, in->order);
		break;
	case ADD:
		see(t, mc_add(id, in->value, in->order));
		break;
	case CAS:
		see(t, (uint64_t)mc_cas(id, &expected, in->value, in->order));
		see(t, expected);
		break;
	case FENCE:
		mc_fence(in->order);
		break;
	case CHOOSE:
		see(t, mc_choose(2));
		break;
	case STEP:
		mc_step();
		break;
	case WRITE:
		mc_plain_write(&words[in->object], &word, sizeof(word));
		break;
	case READ:
		mc_plain_read(&word, &words[in->object], sizeof(word));
		see(t, word);
		break;
	case PEEK:
		see(t, (uint64_t)mc_peek(&word, &words[in->object], sizeof(word)));
		see(t, word);
		break;
	case CPU:
		known_cpu[t] = mc_rseq_cpu();
		see(t, known_cpu[t]);
		break;
	case RSEQ:
		run_section(t, in);
		break;
	case KINDS:
		abort();
	}
}

static void run_code(unsigned t, const struct code *code)
{
	for (unsigned i = 0; i < code->length; i++)
		run_instruction(t, &code->instructions[i]);
	see(t, code->length);
}

#define THREAD(t)                                  \
	static void thread_##t(void)               \
	{                                          \
		run_code(t, &program.threads[t]);  \
	}                                          \
	static void handler_##t(void)              \
	{                                          \
		run_code(t, &program.handlers[t]); \
	}
THREAD(0)
THREAD(1)
THREAD(2)

static void setup(void)
{
	for (unsigned i = 0; i < OBJECTS; i++)
		objects[i] = mc_new(0, "object");
	for (unsigned c = 0; c < CPUS; c++) {
		cpu_position[c] = mc_new(0, "position of a CPU");
		cpu_total[c] = mc_new(0, "total of a CPU");
	}
	memset(words, 0, sizeof(words));
	mc_region(words, sizeof(words), "words");
	memset(seen, 0, sizeof(seen));
	for (unsigned t = 0; t < program.nr_threads; t++)
		known_cpu[t] = program.config.threads[t].cpu;
}

/* ---- outcomes ---------------------------------------------------------------------------- */

static struct outcomes {
	uint64_t table[MAX_OUTCOMES], sum; /* open addressing; 0 = empty */
	unsigned count;
} outcomes;

static void final(void)
{
	uint64_t hash = 1;
	unsigned i;

	for (unsigned t = 0; t < 3; t++)
		see(t, 1);
	for (i = 0; i < OBJECTS; i++)
		see(0, mc_load(objects[i], __ATOMIC_RELAXED));
	for (i = 0; i < CPUS; i++)
		see(0, mc_load(cpu_position[i], __ATOMIC_RELAXED) * 100 +
			       mc_load(cpu_total[i], __ATOMIC_RELAXED));
	for (i = 0; i < WORDS; i++)
		see(0, words[i]);
	for (unsigned t = 0; t < 3; t++)
		hash = (hash ^ seen[t]) * 0xff51afd7ed558ccdu;
	hash |= !hash;
	for (i = (unsigned)(hash >> 40); outcomes.table[i % MAX_OUTCOMES]; i++)
		if (outcomes.table[i % MAX_OUTCOMES] == hash)
			return;
	if (outcomes.count == MAX_OUTCOMES / 2)
		mc_fail("too many outcomes");
	outcomes.table[i % MAX_OUTCOMES] = hash;
	outcomes.sum += hash;
	outcomes.count++;
}

/* ---- comparison -------------------------------------------------------------------------- */

static struct totals {
	unsigned mismatches, refused, too_big, compared;
	uint64_t reduced, all, graphs;
	double reduced_seconds, all_seconds;
} totals;

struct found {
	struct mc_result result;
	unsigned outcomes;
	uint64_t outcome_sum;
};

static void search(bool reduce, struct found *found)
{
	static void (*const threads[])(void) = { thread_0, thread_1, thread_2 };
	static void (*const handlers[])(void) = { handler_0, handler_1, handler_2 };
	struct mc_config *config = &program.config;

	config->name = reduce ? "reduced" : "all";
	config->setup = setup;
	config->final = final;
	config->reduce = reduce;
	memset(config->state, 0, sizeof(config->state));
	if (reduce) {
		config->state[0] = (struct mc_memory){ seen, sizeof(seen) };
		config->state[1] = (struct mc_memory){ known_cpu, sizeof(known_cpu) };
	}
	config->graphs = true;
	config->max_executions = LIMIT;
	for (unsigned t = 0; t < program.nr_threads; t++) {
		config->threads[t].run = threads[t];
		config->threads[t].handler = program.handlers[t].length ? handlers[t] : NULL;
	}
	memset(&outcomes, 0, sizeof(outcomes));
	found->result = mc_run(config);
	found->outcomes = outcomes.count;
	found->outcome_sum = outcomes.sum;
}

static void print_code(const char *what, unsigned t, const struct code *code)
{
	if (!code->length)
		return;
	printf("  %s %u:", what, t);
	for (unsigned i = 0; i < code->length; i++) {
		const struct instruction *in = &code->instructions[i];

		printf("  %s %u order %d value %u;", kind_names[in->kind], in->object, in->order,
		       in->value);
	}
	printf("\n");
}

static void print_mismatch(uint64_t seed, const struct found *reduced, const struct found *all)
{
	const struct mc_config *c = &program.config;

	printf("seed %llu: MISMATCH, reduced / all: %llu / %llu graphs, %u / %u outcomes\n",
	       (unsigned long long)seed, (unsigned long long)reduced->result.graphs,
	       (unsigned long long)all->result.graphs, reduced->outcomes, all->outcomes);
	printf("  reduced: %s; all: %s\n",
	       reduced->result.passed ? "passed" : reduced->result.message,
	       all->result.passed ? "passed" : all->result.message);
	printf("  %u CPUs, %u aborts, %u migrations, %u handlers of depth %u; on CPU %u %u %u\n",
	       c->nr_cpus, c->aborts, c->migrations, c->handlers, c->depth, c->threads[0].cpu,
	       c->threads[1].cpu, c->threads[2].cpu);
	for (unsigned t = 0; t < program.nr_threads; t++) {
		print_code("thread", t, &program.threads[t]);
		print_code("handler", t, &program.handlers[t]);
	}
}

/* Runs both searches of the program; false if they differ. */
static bool agree(struct found *reduced, struct found *all)
{
	search(true, reduced);
	search(false, all);
	if (reduced->result.limit_hit || all->result.limit_hit)
		return true;
	if (!reduced->result.passed || !all->result.passed)
		return reduced->result.passed == all->result.passed;
	return reduced->result.graphs == all->result.graphs &&
	       reduced->result.graph_sum == all->result.graph_sum &&
	       reduced->outcomes == all->outcomes && reduced->outcome_sum == all->outcome_sum;
}

/* Remove instructions as long as the searches still differ. */
static bool shrink_code(struct code *code, struct found *reduced, struct found *all)
{
	for (unsigned i = 0; i < code->length; i++) {
		const struct code before = *code;

		code->length--;
		memmove(&code->instructions[i], &code->instructions[i + 1],
			(code->length - i) * sizeof(code->instructions[0]));
		if (!agree(reduced, all))
			return true;
		*code = before;
	}
	return false;
}

static void shrink(struct found *reduced, struct found *all)
{
	bool smaller;

	do {
		smaller = false;
		for (unsigned t = 0; t < program.nr_threads; t++)
			smaller |= shrink_code(&program.threads[t], reduced, all) ||
				   shrink_code(&program.handlers[t], reduced, all);
	} while (smaller);
	agree(reduced, all);
}

static void compare(uint64_t seed)
{
	static struct found reduced, all;

	random_state = seed;
	random_program();
	if (!agree(&reduced, &all)) {
		totals.mismatches++;
		if (totals.mismatches <= MISMATCHES_SHOWN) {
			shrink(&reduced, &all);
			print_mismatch(seed, &reduced, &all);
		}
		return;
	}
	if (reduced.result.limit_hit || all.result.limit_hit) {
		totals.too_big++;
		return;
	}
	if (!all.result.passed) {
		totals.refused++;
		return;
	}
	totals.compared++;
	totals.reduced += reduced.result.executions + reduced.result.pruned;
	totals.all += all.result.executions;
	totals.graphs += all.result.graphs;
	totals.reduced_seconds += reduced.result.seconds;
	totals.all_seconds += all.result.seconds;
}

int main(int argc, char **argv)
{
	uint64_t count, seed;

	if (argc < 2) {
		fprintf(stderr, "usage: fuzz COUNT [SEED]\n");
		return 2;
	}
	count = strtoull(argv[1], NULL, 0);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000;
	printf("fuzz: %llu programs from seed %llu\n", (unsigned long long)count,
	       (unsigned long long)seed);
	fflush(stdout);
	for (uint64_t i = 0; i < count; i++)
		compare(seed + i);
	printf("fuzz: %u mismatches; %u compared, %u fail both ways (race, unsupported), %u big\n",
	       totals.mismatches, totals.compared, totals.refused, totals.too_big);
	printf("fuzz: %llu graphs, in %llu executions reduced (%.1f s), %llu without (%.1f s)\n",
	       (unsigned long long)totals.graphs, (unsigned long long)totals.reduced,
	       totals.reduced_seconds, (unsigned long long)totals.all, totals.all_seconds);
	return totals.mismatches ? 1 : 0;
}
