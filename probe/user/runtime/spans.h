/* SPDX-License-Identifier: MIT */
/*
 * spans.h - begins of spans that are kept until the span ends, in sessions whose filter tests the duration. Then the
 * filter is asked, and both ends are recorded or none.
 *
 * Only spans of STRATA_SPAN() are kept: both of their ends are in one thread, and the compiler makes an end for each begin.
 * A begin is kept for its thread, by the names and the line of the statement. An end belongs to the latest begin of these.
 * What a jump has left stays until its place is wanted for another begin.
 */
#ifndef STRATA_RUNTIME_SPANS_H
#define STRATA_RUNTIME_SPANS_H

#include "runtime.h"

/* Size of the time between a span's begin and its record, which precedes the payload of a kept begin [byte]. */
#define STRATA_SPAN_ELAPSED_BYTES 8u
/* The size of the largest payload that is kept in the table. A larger one has a mapping of its own. */
#define STRATA_SPAN_PAYLOAD_BYTES 192u
#define STRATA_SPANS_KEPT	  4096u
/* The number of places in which the begins of a thread may be, which bounds how deep spans are nested. */
#define STRATA_SPANS_OF_THREAD 256u

/* Values in strata_span_keys: the bits above both identify the span's statement. 0: the event is no end of a span. */
#define STRATA_SPAN_KEY	 2u
#define STRATA_SPAN_ENDS 1u

/*
 * Keys of spans by the number of the tracepoint's state. Written under the lock of the objects, before the tracepoint
 * is PRESENT.
 */
extern uint64_t strata_span_keys[STRATA_ABI_USER_NR_STATES] STRATA_HIDDEN;

STRATA_INLINE uint64_t strata_span_key(const struct strata_abi_user_state *state)
{
	const uint32_t nr = (uint32_t)(state - strata_runtime.states) % STRATA_ABI_USER_NR_STATES;

	return __atomic_load_n(&strata_span_keys[nr], __ATOMIC_RELAXED);
}

STRATA_INLINE int strata_span_begins(uint64_t key)
{
	return key && !(key & STRATA_SPAN_ENDS);
}

/* The begin of a span that has not ended. Only its thread reads it. */
struct strata_user_kept {
	uint64_t key; /* 0: being filled in, or taken out */
	uint64_t begun_ns;
	const struct strata_tracepoint *tracepoint;
	struct strata_abi_user_state *state;
	unsigned char *record; /* with room for .elapsed, and behind it the payload */
	uint32_t payload_bytes;
	uint32_t place;
	_Alignas(8) unsigned char room[STRATA_USER_HEADROOM + STRATA_SPAN_ELAPSED_BYTES +
				       STRATA_SPAN_PAYLOAD_BYTES + STRATA_USER_TAILROOM];
};

/* The begins of one session in this process. Never freed once other threads can see it. */
struct strata_user_spans {
	uint64_t looked_ns;		   /* for threads that have ended; atomic */
	uint32_t owner[STRATA_SPANS_KEPT]; /* ids of threads; 0: the place is free; atomic */
	struct strata_user_kept kept[STRATA_SPANS_KEPT];
};

/* Functions of spans.c */
STRATA_HIDDEN int strata_spans_map(struct strata_user_spans **spans);
STRATA_HIDDEN void strata_spans_forget(struct strata_user_spans *spans);
STRATA_HIDDEN uint64_t strata_span_key_of(const struct strata_tracepoint *tracepoint);
STRATA_HIDDEN struct strata_user_kept *strata_spans_take_place(struct strata_user_spans *spans,
							       uint32_t thread, uint64_t now_ns);
STRATA_HIDDEN void strata_spans_unstage(struct strata_user_kept *kept);
STRATA_HIDDEN struct strata_user_kept *strata_spans_find(struct strata_user_spans *spans,
							 uint32_t thread, uint64_t key);

/*
 * Publishes a place that strata_spans_take_place() gave and the caller has filled, so that strata_spans_find() finds
 * it.
 */
STRATA_INLINE void strata_spans_keep(struct strata_user_kept *kept, uint64_t key)
{
	__atomic_store_n(&kept->key, key, __ATOMIC_RELEASE);
}

/* Gives a place of the table back. */
STRATA_INLINE void strata_spans_free(struct strata_user_spans *spans, struct strata_user_kept *kept)
{
	__atomic_store_n(&spans->owner[kept->place], 0, __ATOMIC_RELEASE);
}

#endif /* STRATA_RUNTIME_SPANS_H */
