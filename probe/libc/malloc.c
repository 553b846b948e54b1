/* SPDX-License-Identifier: MIT */
/*
 * malloc.c - the functions of malloc()'s family, in front of those of libc or of any other allocator: the next object
 * that has them. While nobody records them, a call costs a look at two flags and a jump.
 *
 * dlsym(), which finds those, may allocate: while a thread is in it, it gets memory of an arena. An allocator that uses
 * one function of the family for another is recorded once, by what the program has called.
 */
#define STRATA_LIBC_MALLOC
#include "malloc.h"

#include <stdlib.h>
#include <unistd.h>

#include "events.h"
#include "replaced_function.h"

#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

/* This thread is in the allocator, or counts a call: what is called meanwhile is a part of that. */
THREAD_LOCAL int inside;

/* ---- before the allocator is known ---- */

#define ARENA_BYTES  (64u << 10)
#define ARENA_HEADER 16u

/* Memory for allocations before the allocator is found; it is never freed. Each piece is preceded by its size. */
static _Alignas(ARENA_HEADER) unsigned char arena[ARENA_BYTES];
static size_t arena_used;

static int is_of_arena(const void *ptr)
{
	return (uintptr_t)ptr - (uintptr_t)arena < ARENA_BYTES;
}

static void *arena_take(size_t alignment, size_t size)
{
	size_t used = __atomic_load_n(&arena_used, __ATOMIC_RELAXED), at;

	if (alignment < ARENA_HEADER)
		alignment = ARENA_HEADER;
	if (size > ARENA_BYTES || alignment > ARENA_BYTES)
		goto none;
	do {
		at = (uintptr_t)arena + used + ARENA_HEADER;
		at = ((at + alignment - 1) & ~(alignment - 1)) - (uintptr_t)arena;
		if (at + size > ARENA_BYTES)
			goto none;
	} while (!__atomic_compare_exchange_n(&arena_used, &used, (at + size + 15) & ~(size_t)15, 0,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	memcpy(arena + at - ARENA_HEADER, &size, sizeof(size));
	return arena + at;
none:
	errno = ENOMEM;
	return NULL;
}

static size_t arena_size(const void *ptr)
{
	size_t size;

	memcpy(&size, (const unsigned char *)ptr - ARENA_HEADER, sizeof(size));
	return size;
}

/* ---- the allocator ---- */

static void *early_malloc(size_t size);
static void *early_calloc(size_t nmemb, size_t size);
static void *early_realloc(void *ptr, size_t size);
static void *early_memalign(size_t alignment, size_t size);
static void *early_aligned_alloc(size_t alignment, size_t size);
static void *early_valloc(size_t size);
static void *early_pvalloc(size_t size);
static int early_posix_memalign(void **out, size_t alignment, size_t size);
static void early_free(void *ptr);

static struct allocator {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t nmemb, size_t size);
	void *(*realloc)(void *ptr, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
	int (*posix_memalign)(void **out, size_t alignment, size_t size);
	void (*free)(void *ptr);
} next = {
	early_malloc, early_calloc,  early_realloc,	   early_memalign, early_aligned_alloc,
	early_valloc, early_pvalloc, early_posix_memalign, early_free,
};

/* Finds the allocator's functions. Several threads may do this at once, with the same result. */
STRATA_LIBC_COLD static void find_allocator(void)
{
	static __thread __attribute__((tls_model("initial-exec"))) int is_finding;
	struct allocator found;

	if (is_finding)
		return;
	is_finding = 1;
#define FIND(name) found.name = (__typeof__(found.name))(uintptr_t)strata_libc_find(#name, NULL)
	FIND(malloc);
	FIND(calloc);
	FIND(realloc);
	FIND(memalign);
	FIND(aligned_alloc);
	FIND(valloc);
	FIND(pvalloc);
	FIND(posix_memalign);
	FIND(free);
#undef FIND
	/*
	 * Stores free() first: memory that a thread gets from the allocator can then be given back.
	 */
#define SET(name)       \
	if (found.name) \
	__atomic_store_n(&next.name, found.name, __ATOMIC_RELEASE)
	SET(free);
	SET(realloc);
	SET(calloc);
	SET(memalign);
	SET(aligned_alloc);
	SET(valloc);
	SET(pvalloc);
	SET(posix_memalign);
	SET(malloc);
#undef SET
	is_finding = 0;
}

/* Calls next.NAME with @arguments if the allocator is known by now, and evaluates @otherwise if not. */
#define EARLY(name, otherwise, ...)                                                         \
	(find_allocator(), __atomic_load_n(&next.name, __ATOMIC_ACQUIRE) != early_##name) ? \
		next.name(__VA_ARGS__) :                                                    \
		(otherwise)

static void *early_malloc(size_t size)
{
	return EARLY(malloc, arena_take(1, size), size);
}

static void *early_calloc(size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes))
		bytes = SIZE_MAX;
	/* The arena is zeros, and each part of it given away once. */
	return EARLY(calloc, arena_take(1, bytes), nmemb, size);
}

static void *early_realloc(void *ptr, size_t size)
{
	return EARLY(realloc, arena_take(1, size), ptr, size);
}

static void *early_memalign(size_t alignment, size_t size)
{
	return EARLY(memalign, arena_take(alignment, size), alignment, size);
}

static void *early_aligned_alloc(size_t alignment, size_t size)
{
	return EARLY(aligned_alloc, arena_take(alignment, size), alignment, size);
}

static void *early_valloc(size_t size)
{
	return EARLY(valloc, arena_take((size_t)getpagesize(), size), size);
}

static void *early_pvalloc(size_t size)
{
	return EARLY(pvalloc, arena_take((size_t)getpagesize(), size), size);
}

static int early_posix_memalign(void **out, size_t alignment, size_t size)
{
	int saved = errno;
	void *taken;

	find_allocator();
	if (next.posix_memalign != early_posix_memalign)
		return next.posix_memalign(out, alignment, size);
	taken = arena_take(alignment, size);
	errno = saved;
	if (!taken)
		return ENOMEM;
	*out = taken;
	return 0;
}

static void early_free(void *ptr)
{
	find_allocator();
	if (next.free != early_free)
		next.free(ptr);
}

/* ---- what is recorded ---- */

#define WANTS(event)  (STRATA_ENABLED(libc, event) | STRATA_ENABLED(libc_sum, calls))
#define WANTED(event) __builtin_expect(WANTS(event), 0)

static void sum(const void *caller, enum strata_libc_function function, size_t size, int failed)
{
	if (STRATA_ENABLED(libc_sum, calls)) {
		inside++;
		strata_libc_sum(caller, function, size, failed);
		inside--;
	}
}

/* Calls the allocator, and keeps its result and errno. */
#define ALLOCATE(call)                           \
	({                                       \
		inside++;                        \
		__typeof__(call) said_ = (call); \
		inside--;                        \
		said_;                           \
	})

STRATA_LIBC_COLD static void *recorded_malloc(size_t size, const void *caller)
{
	void *ptr;

	if (inside)
		return next.malloc(size);
	ptr = ALLOCATE(next.malloc(size));
	STRATA_TRACE_EVENT(libc, malloc, size, ptr, caller);
	sum(caller, STRATA_LIBC_MALLOC_, size, !ptr);
	return ptr;
}

STRATA_LIBC_EXPORT void *malloc(size_t size)
{
	if (WANTED(malloc))
		return recorded_malloc(size, STRATA_LIBC_CALLER);
	return next.malloc(size);
}

STRATA_LIBC_COLD static void *recorded_calloc(size_t nmemb, size_t size, const void *caller)
{
	size_t bytes;
	void *ptr;

	if (inside)
		return next.calloc(nmemb, size);
	ptr = ALLOCATE(next.calloc(nmemb, size));
	STRATA_TRACE_EVENT(libc, calloc, nmemb, size, ptr, caller);
	if (__builtin_mul_overflow(nmemb, size, &bytes))
		bytes = SIZE_MAX;
	sum(caller, STRATA_LIBC_CALLOC_, bytes, !ptr);
	return ptr;
}

STRATA_LIBC_EXPORT void *calloc(size_t nmemb, size_t size)
{
	if (WANTED(calloc))
		return recorded_calloc(nmemb, size, STRATA_LIBC_CALLER);
	return next.calloc(nmemb, size);
}

/* Copies memory of the arena to the allocator's. The old memory stays. */
static void *move_from_arena(void *ptr, size_t size)
{
	size_t old = arena_size(ptr);
	void *moved = size ? next.malloc(size) : NULL;

	if (moved)
		memcpy(moved, ptr, old < size ? old : size);
	return moved;
}

static void *reallocate(void *ptr, size_t size)
{
	return is_of_arena(ptr) ? move_from_arena(ptr, size) : next.realloc(ptr, size);
}

STRATA_LIBC_COLD static void *recorded_realloc(void *in_ptr, size_t size, int overflows,
					       const void *caller)
{
	void *ptr = NULL;

	if (inside)
		return reallocate(in_ptr, size);
	STRATA_TRACE_EVENT(libc, realloc_begin, in_ptr, size, caller);
	if (overflows)
		errno = ENOMEM;
	else
		ptr = ALLOCATE(reallocate(in_ptr, size));
	STRATA_TRACE_EVENT(libc, realloc_end, in_ptr, size, ptr, caller);
	sum(caller, STRATA_LIBC_REALLOC_, size, !ptr && size);
	return ptr;
}

#define WANTS_REALLOC __builtin_expect(WANTS(realloc_begin) | STRATA_ENABLED(libc, realloc_end), 0)

STRATA_LIBC_EXPORT void *realloc(void *ptr, size_t size)
{
	if (WANTS_REALLOC)
		return recorded_realloc(ptr, size, 0, STRATA_LIBC_CALLER);
	return reallocate(ptr, size);
}

/* Allocates an array by realloc(), as libc does. */
STRATA_LIBC_EXPORT void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
	size_t bytes;
	int overflows = __builtin_mul_overflow(nmemb, size, &bytes);

	if (overflows)
		bytes = SIZE_MAX;
	if (WANTS_REALLOC)
		return recorded_realloc(ptr, bytes, overflows, STRATA_LIBC_CALLER);
	if (overflows) {
		errno = ENOMEM;
		return NULL;
	}
	return reallocate(ptr, bytes);
}

#define ALIGNED(name)                                                                \
	STRATA_LIBC_COLD static void *recorded_##name(size_t alignment, size_t size, \
						      const void *caller)            \
	{                                                                            \
		void *ptr;                                                           \
                                                                                     \
		if (inside)                                                          \
			return next.name(alignment, size);                           \
		ptr = ALLOCATE(next.name(alignment, size));                          \
		STRATA_TRACE_EVENT(libc, name, alignment, size, ptr, caller);        \
		sum(caller, STRATA_LIBC_MEMALIGN_, size, !ptr);                      \
		return ptr;                                                          \
	}                                                                            \
                                                                                     \
	STRATA_LIBC_EXPORT void *name(size_t alignment, size_t size)                 \
	{                                                                            \
		if (WANTED(name))                                                    \
			return recorded_##name(alignment, size, STRATA_LIBC_CALLER); \
		return next.name(alignment, size);                                   \
	}

#define PAGES(name)                                                                    \
	STRATA_LIBC_COLD static void *recorded_##name(size_t size, const void *caller) \
	{                                                                              \
		void *ptr;                                                             \
                                                                                       \
		if (inside)                                                            \
			return next.name(size);                                        \
		ptr = ALLOCATE(next.name(size));                                       \
		STRATA_TRACE_EVENT(libc, name, size, ptr, caller);                     \
		sum(caller, STRATA_LIBC_MEMALIGN_, size, !ptr);                        \
		return ptr;                                                            \
	}                                                                              \
                                                                                       \
	STRATA_LIBC_EXPORT void *name(size_t size)                                     \
	{                                                                              \
		if (WANTED(name))                                                      \
			return recorded_##name(size, STRATA_LIBC_CALLER);              \
		return next.name(size);                                                \
	}

STRATA_LIBC_EXPORT void *memalign(size_t alignment, size_t size);
STRATA_LIBC_EXPORT void *pvalloc(size_t size);

ALIGNED(memalign)
ALIGNED(aligned_alloc)
PAGES(valloc)
PAGES(pvalloc)

STRATA_LIBC_COLD static int recorded_posix_memalign(void **out, size_t alignment, size_t size,
						    const void *caller)
{
	int result;

	if (inside)
		return next.posix_memalign(out, alignment, size);
	result = ALLOCATE(next.posix_memalign(out, alignment, size));
	STRATA_TRACE_EVENT(libc, posix_memalign, alignment, size, result ? NULL : *out, result,
			   caller);
	sum(caller, STRATA_LIBC_MEMALIGN_, size, result != 0);
	return result;
}

STRATA_LIBC_EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (WANTED(posix_memalign))
		return recorded_posix_memalign(out, alignment, size, STRATA_LIBC_CALLER);
	return next.posix_memalign(out, alignment, size);
}

STRATA_LIBC_COLD static void recorded_free(void *ptr, const void *caller)
{
	if (inside) {
		next.free(ptr);
		return;
	}
	STRATA_TRACE_EVENT(libc, free, ptr, caller);
	sum(caller, STRATA_LIBC_FREE_, 0, 0);
	inside++;
	next.free(ptr);
	inside--;
}

STRATA_LIBC_EXPORT void free(void *ptr)
{
	if (__builtin_expect(is_of_arena(ptr), 0))
		return;
	if (WANTED(free))
		recorded_free(ptr, STRATA_LIBC_CALLER);
	else
		next.free(ptr);
}

__attribute__((constructor)) static void begin(void)
{
	if (next.malloc == early_malloc)
		find_allocator();
}
