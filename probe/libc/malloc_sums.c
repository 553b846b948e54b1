/* SPDX-License-Identifier: MIT */
/*
 * malloc_sums.c - calls of malloc()'s family counted, by call site and class of sizes: a tight loop makes more records than a
 * disk takes.
 *
 * Each thread has a table of its own, which it alone adds to. What was added since the last time is recorded by
 * whoever comes by when a period is over, by the thread itself when its table is full or it ends, and before the process
 * ends or executes another program: exact in sum. Who writes a table's records holds its lock; nobody waits for it
 * longer than a moment, and what finds no room in a table is a record of its own.
 *
 * The kernel wipes the tables in a child, which counts anew. All are made by the first call that is counted: a program
 * that shuts itself in later is not surprised by a system call.
 */
#define STRATA_LIBC_MALLOC
#include "malloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "replaced_function.h"

#define PERIOD_NS   1000000000ull
#define LOOKS_EVERY 256u /* calls of a thread, at the clock */
#define TABLES_MAX  256u
#define NR_ENTRIES  511u
#define PROBES_MAX  16u
#define NR_CLASSES  66u
#define LOCK_TRIES  10000u

/* Counts of one caller and function, and the part of them that was recorded already. */
struct entry {
	uintptr_t caller; /* 0: free */
	uint64_t what;	  /* function * NR_CLASSES + class */
	uint64_t count;
	uint64_t bytes;
	uint64_t failed;
	uint64_t count_said;
	uint64_t bytes_said;
	uint64_t failed_said;
};

/* The table of a thread. Zeros are an empty table without an owner. */
struct table {
	void *owner; /* an address that only this thread has; changed by compare-and-swap from 0, and to 0 by it */
	uint32_t lock;
	uint32_t nr_used;
	uint32_t nr_calls;
	uint32_t unused[11];
	struct entry entries[NR_ENTRIES];
};

static struct table *tables; /* TABLES_MAX of them; NULL: none yet, or not to be had */
static uint32_t is_made;
static uint32_t nr_tables; /* that anybody ever had */
static uint64_t next_time;
static pthread_key_t at_thread_end;
static int has_key;
static __thread __attribute__((tls_model("initial-exec"))) struct table *own;

static unsigned class_of(size_t size)
{
	return size < 2 ? (unsigned)size : 65u - (unsigned)__builtin_clzl(size - 1);
}

static size_t class_min(unsigned class)
{
	return class < 2 ? class : ((size_t)1 << (class - 2)) + 1;
}

static size_t class_max(unsigned class)
{
	if (class < 2)
		return class;
	return class == NR_CLASSES - 1 ? SIZE_MAX : (size_t)1 << (class - 1);
}

static void say(const void *caller, uint64_t what, uint64_t count, uint64_t bytes, uint64_t failed)
{
	unsigned class = (unsigned)(what % NR_CLASSES);

	STRATA_TRACE_EVENT(libc_sum, calls, caller, (unsigned char)(what / NR_CLASSES),
			   class_min(class), class_max(class), count, bytes, failed);
}

/* ---- whole tables ---- */

static int lock_table(struct table *table, uint32_t tries)
{
	while (__atomic_exchange_n(&table->lock, 1, __ATOMIC_ACQUIRE)) {
		if (!tries--)
			return 0;
		if (!(tries % 16))
			sched_yield();
	}
	return 1;
}

static void unlock_table(struct table *table)
{
	__atomic_store_n(&table->lock, 0, __ATOMIC_RELEASE);
}

/*
 * Records what was added to a table since the last record. The table's owner may add at the same time, in any order:
 * the next record has what this one lacks.
 */
static void say_table(struct table *table)
{
	uint32_t i;

	for (i = 0; i < NR_ENTRIES; i++) {
		struct entry *e = &table->entries[i];
		uint64_t count = __atomic_load_n(&e->count, __ATOMIC_ACQUIRE);
		uint64_t bytes = __atomic_load_n(&e->bytes, __ATOMIC_RELAXED);
		uint64_t failed = __atomic_load_n(&e->failed, __ATOMIC_RELAXED);

		if (count == e->count_said)
			continue;
		say((const void *)e->caller, e->what, count - e->count_said, bytes - e->bytes_said,
		    failed - e->failed_said);
		e->count_said = count;
		e->bytes_said = bytes;
		e->failed_said = failed;
	}
}

/* Records all tables, also of threads that have ended without recording theirs. */
static void say_all(uint32_t tries)
{
	struct table *all = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
	uint32_t nr = __atomic_load_n(&nr_tables, __ATOMIC_ACQUIRE), i;

	for (i = 0; all && i < nr; i++) {
		if (lock_table(&all[i], tries)) {
			say_table(&all[i]);
			unlock_table(&all[i]);
		}
	}
}

/* Records and empties a table. Called by its owner, who adds nothing meanwhile. */
static int empty(struct table *table)
{
	if (!lock_table(table, LOCK_TRIES))
		return 0;
	say_table(table);
	memset(table->entries, 0, sizeof(table->entries));
	table->nr_used = 0;
	unlock_table(table);
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void look_at_clock(void)
{
	uint64_t now = now_ns(), at = __atomic_load_n(&next_time, __ATOMIC_RELAXED);

	if (now >= at &&
	    __atomic_compare_exchange_n(&next_time, &at, now + PERIOD_NS, 0, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED) &&
	    at)
		say_all(0);
}

/* ---- whose ---- */

/*
 * Makes the tables. Pages that nobody has touched take no memory. If there is no room, each call is recorded by
 * itself.
 */
static struct table *make_tables(void)
{
	size_t bytes = TABLES_MAX * sizeof(struct table);
	struct table *all;

	if (__atomic_exchange_n(&is_made, 1, __ATOMIC_RELAXED))
		return __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
	all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	/* A child that had its parent's counts would record them a second time. */
	if (madvise(all, bytes, MADV_WIPEONFORK)) {
		munmap(all, bytes);
		return NULL;
	}
	__atomic_store_n(&tables, all, __ATOMIC_RELEASE);
	return all;
}

/* Takes a table that no thread has, or the one of a thread that had the same address. */
static struct table *take_table(void)
{
	struct table *all = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
	uint32_t nr, i;

	if (!all)
		all = make_tables();
	for (i = 0; all && i < TABLES_MAX; i++) {
		void *owner = NULL;

		if (!__atomic_compare_exchange_n(&all[i].owner, &owner, &own, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED) &&
		    owner != &own)
			continue;
		nr = __atomic_load_n(&nr_tables, __ATOMIC_RELAXED);
		while (nr <= i && !__atomic_compare_exchange_n(&nr_tables, &nr, i + 1, 0,
							       __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		return &all[i];
	}
	return NULL;
}

/*
 * Returns this thread's table; NULL if there is none. In a child of a fork the table is zeros and
 * has no owner, and another thread of the child may take it first.
 */
static struct table *own_table(void)
{
	struct table *table = own;

	if (STRATA_LIBC_LIKELY(table && __atomic_load_n(&table->owner, __ATOMIC_RELAXED) == &own))
		return table;
	own = table = take_table();
	/* May allocate, which is not counted: the call is ours. */
	if (table && has_key)
		pthread_setspecific(at_thread_end, table);
	return table;
}

/* Gives the table of a thread back. If the thread makes calls later, it takes a table once more. */
static void end_thread(void *given)
{
	struct table *table = given;

	if (__atomic_load_n(&table->owner, __ATOMIC_RELAXED) != &own)
		return;
	if (!empty(table))
		return; /* the next owner says it */
	own = NULL;
	__atomic_store_n(&table->owner, NULL, __ATOMIC_RELEASE);
}

/* ---- one call ---- */

static void add(uint64_t *to, uint64_t n)
{
	__atomic_store_n(to, *to + n, __ATOMIC_RELAXED);
}

/* The entry of this, which is new where .count is 0; NULL: no room. */
static struct entry *entry_of(struct table *table, uintptr_t caller, uint64_t what)
{
	uint64_t hash = (caller ^ what << 48) * 0x9E3779B97F4A7C15ull;
	uint32_t at = (uint32_t)((hash >> 32) * NR_ENTRIES >> 32), i;

	for (i = 0; i < PROBES_MAX; i++) {
		struct entry *e = &table->entries[(at + i) % NR_ENTRIES];

		if (e->caller == caller && e->what == what && e->count)
			return e;
		if (!e->count) {
			e->caller = caller;
			e->what = what;
			return e;
		}
	}
	return NULL;
}

void strata_libc_sum(const void *caller, enum strata_libc_function function, size_t size,
		     int failed)
{
	uint64_t what = (uint64_t)function * NR_CLASSES + class_of(size);
	int saved = errno;
	struct table *table = own_table();
	struct entry *e = NULL;

	if (table) {
		e = entry_of(table, (uintptr_t)caller, what);
		if (!e && empty(table))
			e = entry_of(table, (uintptr_t)caller, what);
	}
	if (e) {
		if (failed)
			add(&e->failed, 1);
		else
			add(&e->bytes, size);
		/*
		 * RELEASE pairs with the reader of the counts: a reader that sees the count sees
		 * the caller, too.
		 */
		__atomic_store_n(&e->count, e->count + 1, __ATOMIC_RELEASE);
		if (__builtin_expect(!(++table->nr_calls % LOOKS_EVERY), 0))
			look_at_clock();
	} else {
		say(caller, what, 1, failed ? 0 : size, failed ? 1 : 0);
	}
	errno = saved;
}

/* ---- before the process ends, or is another program ---- */

static void say_rest(void)
{
	int saved = errno;

	if (STRATA_ENABLED(libc_sum, calls))
		say_all(LOCK_TRIES);
	errno = saved;
}

__attribute__((constructor)) static void begin(void)
{
	has_key = STRATA_OLDER_HAS(pthread_key_create) &&
		  !pthread_key_create(&at_thread_end, end_thread);
	at_quick_exit(say_rest);
}

__attribute__((destructor)) static void end(void)
{
	say_rest();
}

#define EXECUTES(name, call_arguments, ...)                   \
	STRATA_LIBC_NEXT_IS(name)                             \
	STRATA_LIBC_EXPORT int name(__VA_ARGS__)              \
	{                                                     \
		say_rest();                                   \
		return STRATA_LIBC_NEXT(name) call_arguments; \
	}

EXECUTES(execve, (path, argv, envp), const char *path, char *const argv[], char *const envp[])
EXECUTES(execv, (path, argv), const char *path, char *const argv[])
EXECUTES(execvp, (file, argv), const char *file, char *const argv[])
EXECUTES(execvpe, (file, argv, envp), const char *file, char *const argv[], char *const envp[])
EXECUTES(fexecve, (fd, argv, envp), int fd, char *const argv[], char *const envp[])

/* Arguments of a function as an array, which is the caller's. */
#define ARGUMENTS(first, list, argv)        \
	va_list list;                       \
	size_t nr_ = 1, i_;                 \
                                            \
	va_start(list, first);              \
	while (va_arg(list, char *))        \
		nr_++;                      \
	va_end(list);                       \
	char *argv[nr_ + 1];                \
                                            \
	argv[0] = (char *)(uintptr_t)first; \
	va_start(list, first);              \
	for (i_ = 1; i_ <= nr_; i_++)       \
	argv[i_] = va_arg(list, char *)

STRATA_LIBC_EXPORT int execl(const char *path, const char *first, ...)
{
	ARGUMENTS(first, list, argv);

	va_end(list);
	return execv(path, argv);
}

STRATA_LIBC_EXPORT int execlp(const char *file, const char *first, ...)
{
	ARGUMENTS(first, list, argv);

	va_end(list);
	return execvp(file, argv);
}

STRATA_LIBC_EXPORT int execle(const char *path, const char *first, ...)
{
	char *const *envp;

	ARGUMENTS(first, list, argv);
	envp = va_arg(list, char *const *);
	va_end(list);
	return execve(path, argv, envp);
}

STRATA_LIBC_NEXT_IS(_exit)
STRATA_LIBC_NEXT_IS(_Exit)

STRATA_LIBC_EXPORT void _exit(int status)
{
	say_rest();
	STRATA_LIBC_NEXT(_exit)(status);
	__builtin_unreachable();
}

STRATA_LIBC_EXPORT void _Exit(int status)
{
	say_rest();
	STRATA_LIBC_NEXT(_Exit)(status);
	__builtin_unreachable();
}
