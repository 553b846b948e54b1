/* SPDX-License-Identifier: MIT */
/* event.h - an event class that a program has registered at run time: events.c makes it, values.c records it. */
#ifndef STRATA_RUNTIME_EVENT_H
#define STRATA_RUNTIME_EVENT_H

#include <strata/events.h>

#include "runtime.h"

/* The way in which a field's value gets into a payload. Fields before .nr_plain are all STEP_NUMBER. */
#define STRATA_STEP_NUMBER   0u /* the low .size bytes of .u */
#define STRATA_STEP_SINGLE   1u /* .f as a float */
#define STRATA_STEP_TRUTH    2u /* .u is not 0 */
#define STRATA_STEP_STRING   3u /* .data up to a NUL */
#define STRATA_STEP_ARRAY    4u /* .data, .count elements of .size bytes */
#define STRATA_STEP_TEXT     5u /* likewise, and nothing behind a NUL */
#define STRATA_STEP_SEQUENCE 6u /* .data, as many elements of .size bytes as the next value says */

struct strata_step {
	uint8_t kind;
	uint8_t size;	 /* of one element [byte] */
	uint16_t offset; /* in the payload, of a field before .nr_plain [byte] */
	uint32_t count;
};

/*
 * One event class with all that it points to, in one piece of memory that is never freed, since threads may be
 * recording it.
 */
struct strata_event_made {
	struct strata_event handle; /* the first member: the program's pointer is to it */
	struct strata_tracepoint tracepoint;
	const struct strata_step *steps;
	uint32_t nr_values;   /* fields, and sequences once more */
	uint32_t nr_plain;    /* fields at the front that are numbers */
	uint32_t fixed_bytes; /* of each payload; UINT32_MAX: they differ */
	uint32_t is_word;     /* one number of 8 bytes */
	/* Under the lock of the objects: */
	uint32_t uses; /* 0: it is not registered */
	struct strata_abi_user_state *state;
	struct strata_provider *provider;
	struct strata_event_made *next; /* with the same hash */
	uint32_t hash;
};

/* The two events of a span. Under the lock of the objects: .uses and .next. */
struct strata_span {
	struct strata_event_made *begin;
	struct strata_event_made *end;
	uint32_t is_keyed;
	uint32_t uses;
	struct strata_span *next; /* of the provider */
};

/* Returns whether the event is on in any session. */
STRATA_INLINE int strata_event_made_is_on(const struct strata_event_made *event)
{
	return __atomic_load_n(event->handle.enabled, __ATOMIC_RELAXED) != 0;
}

/* Classes that are registered, under the lock of the objects. */
extern uint32_t strata_events_live STRATA_HIDDEN;

/* Functions of objects.c. All but the first two are called under the lock. */
STRATA_HIDDEN void strata_objects_lock(void);
STRATA_HIDDEN void strata_objects_unlock(void);
STRATA_HIDDEN int strata_objects_begin(void);
STRATA_HIDDEN int strata_objects_add(struct strata_tracepoint *t);
STRATA_HIDDEN void strata_objects_add_again(struct strata_tracepoint *t,
					    struct strata_abi_user_state *state);
STRATA_HIDDEN void strata_objects_remove(struct strata_tracepoint *t);

#endif /* STRATA_RUNTIME_EVENT_H */
