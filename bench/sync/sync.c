/* SPDX-License-Identifier: MIT */
/*
 * sync.c - what does each way to keep writers apart cost, without contention?
 *
 * The papers compare a CAS without LOCK prefix with one that has it and with disabling interrupts
 * ("CAS compared to interrupt disabling"), because a record needs one of them. In user space blocking
 * signals is what disabling interrupts is in a kernel. Each loop does one thing on one word that
 * nobody else touches; none makes payload, which would hide the cheapest ones behind it.
 */
#include <signal.h>
#include <strata/ring/rseq.h>

#include "../bench.h"

static struct {
	_Alignas(64) uint64_t word;
	_Alignas(64) pthread_spinlock_t spin;
	_Alignas(64) pthread_mutex_t mutex;
	_Alignas(64) uint64_t sequence; /* of a sequence lock: even while nobody writes */
} shared = { .mutex = PTHREAD_MUTEX_INITIALIZER };

#define LOOP(name, ...)                                            \
	BENCH_NOINLINE void name(struct bench_case *c, uint64_t n) \
	{                                                          \
		uint64_t *word = &shared.word;                     \
		(void)c;                                           \
		(void)word;                                        \
		for (; n; n--) {                                   \
			bench_keep(n);                             \
			__VA_ARGS__                                \
		}                                                  \
	}

/* As a reservation: the value is loaded first. The add is 1, so that the sum says how often. */
#define CAS(cas)                                          \
	{                                                 \
		uint64_t old = strata_load_relaxed(word); \
		while (!cas(word, &old, old + 1))         \
			;                                 \
	}

LOOP(loop_empty, )
LOOP(loop_clock, bench_keep(strata_clock_cycles());)
LOOP(loop_plain, strata_store_relaxed(word, strata_load_relaxed(word) + 1);
     __asm__ volatile(""
		      :
		      :
		      : "memory");)
LOOP(loop_local_cas, CAS(strata_local_cas))
LOOP(loop_lock_cas, CAS(strata_cas_acq_rel))
LOOP(loop_local_add, strata_local_add(word, 1);)
LOOP(loop_lock_add, bench_keep(strata_add_acq_rel(word, 1));)
LOOP(loop_spin, pthread_spin_lock(&shared.spin); ++*word; pthread_spin_unlock(&shared.spin);)
LOOP(loop_mutex, pthread_mutex_lock(&shared.mutex); ++*word; pthread_mutex_unlock(&shared.mutex);)

/* The papers' alternative for reading the clock: a sequence lock around it, then a CAS with LOCK. */
LOOP(loop_sequence, {
	uint64_t sequence;
	do {
		sequence = strata_load_acquire(&shared.sequence);
		bench_keep(strata_load_relaxed(&shared.word));
		strata_fence_acquire();
	} while ((sequence & 1) || strata_load_relaxed(&shared.sequence) != sequence);
	CAS(strata_cas_acq_rel)
})

/* One restartable sequence that stores one word: what takes the CAS's place. */
LOOP(loop_rseq, {
	uint64_t old;
	do
		old = strata_load_relaxed(word);
	while (!strata_rseq_cas(strata_rseq_cpu(), word, old, old + 1));
})

LOOP(loop_signals, {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	++*word;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
})

static struct bench_case cases[] = {
	{ .name = "empty loop", .loop = loop_empty },
	{ .name = "bare clock read", .loop = loop_clock },
	{ .name = "load, add, store (no protection)", .loop = loop_plain },
	{ .name = "local CAS (no LOCK prefix)", .loop = loop_local_cas },
	{ .name = "LOCK CAS", .loop = loop_lock_cas },
	{ .name = "local add", .loop = loop_local_add },
	{ .name = "LOCK add", .loop = loop_lock_add },
	{ .name = "sequence lock (read) and LOCK CAS", .loop = loop_sequence },
	{ .name = "pthread spin lock and unlock", .loop = loop_spin },
	{ .name = "pthread mutex lock and unlock", .loop = loop_mutex },
	{ .name = "block and unblock signals", .loop = loop_signals },
	{ .name = "restartable sequence, one store",
	  .loop = loop_rseq }, /* last: may be left out */
};

enum {
	FIRST_ADD = 2, /* from here on each adds 1 to the word */
	LOCAL_CAS = 3,
	LOCK_CAS = 4,
	SPIN = 8,
	MUTEX = 9,
	SIGNALS = 10,
};

int main(int argc, char **argv)
{
	unsigned nr = sizeof(cases) / sizeof(cases[0]), i;
	double ratio[sizeof(cases) / sizeof(cases[0])];
	const struct bench_case *local;
	uint64_t calls = 0;
	struct bench b;

	bench_begin(
		&b, argc, argv, 300,
		"sync: what does each way to keep writers apart cost, without contention? [ns]");
	if (!strata_rseq_available())
		nr--;
	for (i = 0; i < nr; i++)
		cases[i].n = cases[i].loop == loop_signals ? 500 : 10000;
	if (pthread_spin_init(&shared.spin, PTHREAD_PROCESS_PRIVATE))
		return 2;
	bench_run(&b, cases, nr);
	bench_table(&b, cases, nr, "one operation");
	for (i = FIRST_ADD; i < nr; i++)
		calls += cases[i].n * (b.rounds + 1);
	bench_must_equal(&b, "additions to the word", shared.word, calls);
	local = &cases[LOCAL_CAS];
	for (i = LOCK_CAS; i < nr; i++)
		ratio[i] = bench_ratio(&cases[i], local, b.rounds);
	printf("\nLOCK CAS %.2f x, spin lock %.2f x, mutex %.2f x, blocking signals %.1f x local CAS\n",
	       ratio[LOCK_CAS], ratio[SPIN], ratio[MUTEX], ratio[SIGNALS]);
	printf("papers, Xeon E5405 (another machine, 2009) [cycles]: local CAS 8, LOCK CAS 24, "
	       "interrupts off and on 42: 3.0 x, 5.25 x local CAS\n");
	return bench_end(&b);
}
