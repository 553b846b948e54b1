/* SPDX-License-Identifier: MIT */
/* spans.c - the table of begins that are kept until their spans end. */
#include <sys/mman.h>
#include <unistd.h>

#include "spans.h"
#include "thread.h"

uint64_t strata_span_keys[STRATA_ABI_USER_NR_STATES];

/* Makes the table of a session. Its pages are taken as begins are kept. Returns 0, or a negative errno. */
int strata_spans_map(struct strata_user_spans **spans)
{
	void *p = strata_mmap(NULL, sizeof(**spans), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	*spans = p == MAP_FAILED ? NULL : (struct strata_user_spans *)p;
	return *spans ? 0 : -ENOMEM;
}

/* Unmaps a table that no other thread has seen yet. */
void strata_spans_forget(struct strata_user_spans *spans)
{
	strata_munmap(spans, sizeof(*spans));
}

/* Returns the FNV-1a hash of the bytes, continued from @hash. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t nr)
{
	const unsigned char *byte = (const unsigned char *)bytes;

	for (; nr; nr--, byte++)
		hash = (hash ^ *byte) * UINT64_C(1099511628211);
	return hash;
}

/*
 * Returns the key of a tracepoint, which both ends of a span share but for STRATA_SPAN_ENDS; 0 if the tracepoint is
 * no end of a span.
 */
uint64_t strata_span_key_of(const struct strata_tracepoint *tracepoint)
{
	const uint8_t role = tracepoint->level & STRATA_USER_SPAN_ROLE;
	uint64_t hash = UINT64_C(14695981039346656037);
	size_t nr = strlen(tracepoint->name);

	if (!role)
		return 0;
	nr -= role == STRATA_USER_SPAN_ENDS ? strlen("_end") : strlen("_begin");
	hash = hash_bytes(hash, tracepoint->provider, strlen(tracepoint->provider) + 1);
	hash = hash_bytes(hash, tracepoint->name, nr);
	hash = hash_bytes(hash, &tracepoint->line, sizeof(tracepoint->line));
	hash = (hash << 2) | STRATA_SPAN_KEY;
	return role == STRATA_USER_SPAN_ENDS ? hash | STRATA_SPAN_ENDS : hash;
}

/* Returns the first of the places that belong to a thread. */
static uint32_t first_place(uint32_t thread)
{
	return (thread * UINT32_C(2654435769)) >> 20;
}

static uint32_t place_of(uint32_t first, uint32_t nr)
{
	return (first + nr) % STRATA_SPANS_KEPT;
}

static int claim(struct strata_user_spans *spans, uint32_t place, uint32_t from, uint32_t to)
{
	return __atomic_load_n(&spans->owner[place], __ATOMIC_RELAXED) == from &&
	       __atomic_compare_exchange_n(&spans->owner[place], &from, to, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* The period in which a table without room is searched for threads that have ended [ns]. */
#define LOOK_PERIOD_NS UINT64_C(100000000)

/* The owner of a place that is being freed for a thread that has ended. No thread has this id. */
#define NOBODY UINT32_MAX

/* Frees the memory of a begin that is not in the table itself. */
void strata_spans_unstage(struct strata_user_kept *kept)
{
	unsigned char *record = kept->record;

	kept->record = NULL;
	if (record && record != kept->room + STRATA_USER_HEADROOM)
		strata_user_unstage(record,
				    (uint64_t)kept->payload_bytes + STRATA_SPAN_ELAPSED_BYTES);
}

/*
 * Frees the places, of those that begin with @first, of threads that have ended within a span. Not in a child of vfork():
 * to the kernel its parent's threads are none of its process.
 */
STRATA_SLOW void free_ended(struct strata_user_spans *spans, uint32_t first, uint32_t thread,
			    uint64_t now_ns)
{
	uint64_t looked = strata_load_relaxed(&spans->looked_ns);
	struct strata_user_kept *kept;
	uint32_t nr, place, owner;
	const int saved = errno;

	if (now_ns - looked < LOOK_PERIOD_NS || strata_thread_is_vforked() ||
	    __atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&spans->looked_ns, &looked, now_ns, 0, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	for (nr = 0; nr < STRATA_SPANS_OF_THREAD; nr++) {
		place = place_of(first, nr);
		owner = __atomic_load_n(&spans->owner[place], __ATOMIC_RELAXED);
		if (!owner || owner == thread || owner == NOBODY ||
		    strata_syscall(SYS_tgkill, getpid(), owner, 0) != -1 || errno != ESRCH ||
		    !claim(spans, place, owner, NOBODY))
			continue;
		kept = &spans->kept[place];
		__atomic_store_n(&kept->key, 0, __ATOMIC_RELAXED);
		strata_spans_unstage(kept);
		kept->place = place;
		strata_spans_free(spans, kept);
	}
	errno = saved;
}

/* Returns the place of the begin that @thread has kept for longest; NULL if it has none. */
static struct strata_user_kept *oldest(struct strata_user_spans *spans, uint32_t first,
				       uint32_t thread)
{
	struct strata_user_kept *found = NULL, *kept;
	uint32_t nr, place;

	for (nr = 0; nr < STRATA_SPANS_OF_THREAD; nr++) {
		place = place_of(first, nr);
		kept = &spans->kept[place];
		if (__atomic_load_n(&spans->owner[place], __ATOMIC_RELAXED) == thread &&
		    strata_load_relaxed(&kept->key) && (!found || kept->begun_ns < found->begun_ns))
			found = kept;
	}
	return found;
}

static struct strata_user_kept *free_place(struct strata_user_spans *spans, uint32_t first,
					   uint32_t thread)
{
	uint32_t nr, place;

	for (nr = 0; nr < STRATA_SPANS_OF_THREAD; nr++) {
		place = place_of(first, nr);
		if (claim(spans, place, 0, thread)) {
			spans->kept[place].place = place;
			return &spans->kept[place];
		}
	}
	return NULL;
}

/*
 * Returns a place for a begin of @thread, whose .key is 0. If there is no room, it is the place of the thread's oldest
 * begin, whose .payload_bytes then are not 0 or .record not NULL: nobody may find it any more. NULL: there is none.
 */
struct strata_user_kept *strata_spans_take_place(struct strata_user_spans *spans, uint32_t thread,
						 uint64_t now_ns)
{
	const uint32_t first = first_place(thread);
	struct strata_user_kept *kept = free_place(spans, first, thread);

	if (strata_unlikely(!kept)) {
		free_ended(spans, first, thread, now_ns);
		kept = free_place(spans, first, thread);
	}
	if (strata_likely(!!kept))
		return kept;
	kept = oldest(spans, first, thread);
	if (kept)
		__atomic_store_n(&kept->key, 0, __ATOMIC_RELAXED);
	return kept;
}

/*
 * Takes the latest begin of @thread with this key out of the table. Its place is the caller's until
 * strata_spans_free(). NULL: there is none.
 */
struct strata_user_kept *strata_spans_find(struct strata_user_spans *spans, uint32_t thread,
					   uint64_t key)
{
	const uint32_t first = first_place(thread);
	struct strata_user_kept *found = NULL, *kept;
	uint32_t nr, place;

	for (nr = 0; nr < STRATA_SPANS_OF_THREAD; nr++) {
		place = place_of(first, nr);
		if (__atomic_load_n(&spans->owner[place], __ATOMIC_RELAXED) != thread)
			continue;
		kept = &spans->kept[place];
		if (__atomic_load_n(&kept->key, __ATOMIC_ACQUIRE) ==
			    (key & ~(uint64_t)STRATA_SPAN_ENDS) &&
		    (!found || kept->begun_ns >= found->begun_ns))
			found = kept;
	}
	if (found)
		__atomic_store_n(&found->key, 0, __ATOMIC_RELAXED);
	return found;
}
