/* SPDX-License-Identifier: MIT */
/*
 * filter_select.h - decide whether a session's filter selects an event. Asked before anything of a record is made. A
 * session without a filter is not asked; it pays nothing.
 */
#ifndef STRATA_RUNTIME_FILTER_SELECT_H
#define STRATA_RUNTIME_FILTER_SELECT_H

#include "thread.h"

#include "filter_test.h"

/*
 * Room for the programs of one session's filter, its tests bound to tracepoints [byte]. When it is
 * used up, tests are bound each time they are made.
 */
#define STRATA_FILTER_ROOM (256u << 10)

/*
 * A session's filter in this process: a private copy of what lay in the shared memory, checked, and what was bound
 * of it so far. Never changed or freed once others can see it, but for what is atomic.
 */
struct strata_user_filter {
	uint64_t bytes; /* of all of this */
	uint64_t used;	/* of .room; atomic */
	struct strata_filter_contexts contexts;
	int asks_duration; /* so that begins of spans are kept, and asked at the end */
	const struct strata_filter_program *program[STRATA_ABI_USER_NR_STATES]; /* atomic */
	_Alignas(8) unsigned char room[STRATA_FILTER_ROOM];
	_Alignas(8) unsigned char copy[STRATA_ABI_FILTER_BYTES];
};

/* Functions of filter.c */
STRATA_HIDDEN int strata_filter_map(uint32_t slot, const struct strata_user_contexts *contexts,
				    struct strata_user_filter **filter);
STRATA_HIDDEN void strata_filter_forget(struct strata_user_filter *filter);
STRATA_HIDDEN int strata_filter_selects(struct strata_user_filter *filter,
					const struct strata_tracepoint *tracepoint,
					const struct strata_abi_user_state *state,
					const unsigned char *payload, uint64_t payload_bytes,
					uint64_t duration_ns);

STRATA_INLINE const struct strata_abi_filter *
strata_filter_of(const struct strata_user_filter *filter)
{
	return (const struct strata_abi_filter *)(const void *)filter->copy;
}

/* Returns the filter's program for the tracepoint of this state; NULL if none is bound yet. */
STRATA_INLINE const struct strata_filter_program *
strata_filter_bound_program(const struct strata_user_filter *filter,
			    const struct strata_abi_user_state *state)
{
	const uint32_t nr = (uint32_t)(state - strata_runtime.states) % STRATA_ABI_USER_NR_STATES;

	/* ACQUIRE pairs with the RELEASE of the thread that bound it. */
	return __atomic_load_n(&filter->program[nr], __ATOMIC_ACQUIRE);
}

#endif /* STRATA_RUNTIME_FILTER_SELECT_H */
