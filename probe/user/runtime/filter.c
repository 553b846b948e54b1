/* SPDX-License-Identifier: MIT */
/* filter.c - copy a session's filter out of the shared memory, and bind it to tracepoints when they are hit. */
#include <sys/mman.h>

#include "context.h"
#include "filter_select.h"
#include "spans.h"

/* Returns the thread, for filter_test.h. */
int32_t strata_filter_thread(void)
{
	return (int32_t)strata_thread_id();
}

uint32_t strata_filter_cpu(void)
{
	return (uint32_t)strata_ring_sched_getcpu();
}

uint64_t strata_filter_ask_context(const void *of, uint32_t nr, char *text)
{
	return strata_contexts_ask((const struct strata_user_contexts *)of, nr, text);
}

static const struct strata_filter_program all = { .nr = 0, .passes = 1 };
static const struct strata_filter_program none = { .nr = 0, .passes = 0 };

/*
 * The filter of session @slot in *@filter; NULL: it has none. Returns 0, or a negative errno: there is one that
 * cannot be used. What is asked afterwards is a copy that nobody else can change.
 */
int strata_filter_map(uint32_t slot, const struct strata_user_contexts *contexts,
		      struct strata_user_filter **filter)
{
	const struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	const uint32_t bytes = __atomic_load_n(&session->filter_bytes, __ATOMIC_RELAXED);
	const unsigned char *from = strata_runtime.memory + STRATA_ABI_USER_FILTERS_OFFSET +
				    (uint64_t)slot * STRATA_ABI_FILTER_BYTES;
	struct strata_user_filter *made;
	void *p;

	*filter = NULL;
	if (!bytes)
		return 0;
	if (bytes > STRATA_ABI_FILTER_BYTES)
		return -EINVAL;
	p = strata_mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (p == MAP_FAILED)
		return -ENOMEM;
	made = (struct strata_user_filter *)p;
	made->contexts.has = strata_contexts_bits(contexts) |
			     !!(session->flags & STRATA_ABI_USER_SESSION_VTID);
	made->contexts.of = contexts;
	made->asks_duration = !!(session->flags & STRATA_ABI_USER_SESSION_SPANS);
	memcpy(made->copy, from, bytes);
	if (!strata_filter_check((const struct strata_abi_filter *)(const void *)made->copy,
				 bytes)) {
		strata_filter_forget(made);
		return -EINVAL;
	}
	*filter = made;
	return 0;
}

/* Unmaps a filter that no other thread has seen yet. */
void strata_filter_forget(struct strata_user_filter *filter)
{
	strata_munmap(filter, sizeof(*filter));
}

/* Room for a program, or NULL. Threads and signal handlers may be here at a time. */
static struct strata_filter_program *make_room(struct strata_user_filter *filter, uint64_t bytes)
{
	uint64_t used = strata_load_relaxed(&filter->used);

	do {
		if (bytes > sizeof(filter->room) - used)
			return NULL;
	} while (!__atomic_compare_exchange_n(&filter->used, &used, used + bytes, 0,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return (struct strata_filter_program *)(void *)(filter->room + used);
}

/* The filter for the tracepoint of state @state, bound now. NULL: there is no room. */
STRATA_SLOW const struct strata_filter_program *
bind(struct strata_user_filter *filter, const struct strata_filter_event *event, uint32_t state)
{
	uint64_t room = strata_filter_program_bytes(event->filter), used;
	const struct strata_filter_program *bound, *before = NULL;
	struct strata_filter_program *program;

	/*
	 * Records of threads' names do not pass through the filter. For a span, the filter is applied to the begin,
	 * for both ends.
	 */
	if (event->tracepoint == &strata_thread_name ||
	    (filter->asks_duration && strata_span_keys[state] & STRATA_SPAN_ENDS)) {
		bound = &all;
	} else {
		program = make_room(filter, room);
		if (!program)
			return NULL;
		strata_filter_bind(program, event);
		/* The object's own memory, which it gave us to fill in. */
		__atomic_store_n((uint8_t *)(uintptr_t)&event->tracepoint->filtered, 1,
				 __ATOMIC_RELAXED);
		bound = program->nr ? program : program->passes ? &all : &none;
		/* Gives unused room back, unless another thread has taken room in between. */
		used = (uint64_t)((unsigned char *)program - filter->room) + room;
		room = used - room;
		if (program->nr)
			room += sizeof(*program) + program->nr * sizeof(program->test[0]);
		__atomic_compare_exchange_n(&filter->used, &used, room, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
	/*
	 * RELEASE publishes the program: a thread that sees the program may ask it. If another thread was quicker, its
	 * program is the same.
	 */
	__atomic_compare_exchange_n(&filter->program[state], &before, bound, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return bound;
}

/*
 * Returns whether the filter selects this event. @duration_ns: duration of the span that the event begins, if the
 * filter tests it.
 */
int strata_filter_selects(struct strata_user_filter *filter,
			  const struct strata_tracepoint *tracepoint,
			  const struct strata_abi_user_state *state, const unsigned char *payload,
			  uint64_t payload_bytes, uint64_t duration_ns)
{
	struct strata_filter_event event = {
		(const struct strata_abi_filter *)(const void *)filter->copy, tracepoint, payload,
		payload_bytes, filter->contexts
	};
	const struct strata_filter_program *program = strata_filter_bound_program(filter, state);

	if (filter->asks_duration && strata_span_begins(strata_span_key(state))) {
		event.contexts.has |= UINT32_C(1) << STRATA_FILTER_DURATION;
		event.contexts.duration = duration_ns;
	}
	if (!program)
		program = bind(filter, &event, (uint32_t)(state - strata_runtime.states));
	return program ? strata_filter_ask(program, &event) : strata_filter_ask_unbound(&event);
}
