/* SPDX-License-Identifier: MIT */
/*
 * record.c - writes an event record to each session in which its tracepoint is on.
 *
 * A site calls these functions only if its tracepoint is on somewhere. They begin with the fast path, for the most frequent
 * case: one session, which publishes by write position. Its channel is strata_mapped.common, or strata_mapped.asked if the
 * session has a filter or contexts. One restartable sequence reserves, copies and publishes.
 *
 *   fast path   strata_user_record_in_one_section()    one session, sub-buffer with room, conversion of the clock known
 *      └── -> strata_user_record_otherwise()    a jump, so that the fast path has no frame
 *              ├── record_one       one session with a filter or contexts: asked, then the fast path again
 *              └── record_long      the sub-buffer is full, or the thread was interrupted: publish_long()
 *                   └── record_any  several sessions, publication by commit, a child of vfork(): each session in turn
 *
 * Sessions may end, and others begin in their slots, at any time. No lock is held: each path compares the session's bit or
 * generation with its channel's, and -ESTALE makes it look again. A record that is not written is counted where its reason
 * says: full, without room for the payload, without a clock.
 *
 * Everything here may run in a signal handler, in a child of vfork(), or in a program that has shut itself in. errno is kept.
 * The program's place (@caller) is passed on as NULL by jumps, whose target has the program as its caller.
 */
#include <sys/mman.h>

#include "fast_path.h"
#include "filter_select.h"
#include "spans.h"
#include "write.h"

static const struct strata_abi_user_clock_slot no_slot = { .index = UINT64_MAX };
const struct strata_abi_user_clock_slot *strata_clock_slot = &no_slot;

/* The configurations of the ring, for code that chooses one at run time. */
const struct strata_ring_config strata_user_configs[4] = {
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_COMPACT),
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_LARGE),
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_COMPACT),
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_LARGE),
};

/* The number of discarded records between two looks at the tracer's heartbeat. */
#define STRATA_USER_DISCARDS_PER_LOOK 65536u

/* Leaves the session if its tracer has died: the channel would stay full for ever. */
STRATA_SLOW void strata_user_leave_dead(const struct strata_user_channel *channel, uint32_t slot)
{
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	uint32_t nr = __atomic_load_n(&strata_runtime.control->nr_states, __ATOMIC_ACQUIRE), i;
	uint64_t beat = strata_load_relaxed(&session->heartbeat_ns);
	uint64_t generation = strata_load_relaxed(&channel->generation);

	if (!beat)
		beat = strata_runtime.control->started_ns;
	if ((int64_t)(strata_machine_ns() - beat) < (int64_t)STRATA_ABI_USER_DEAD_NS)
		return;
	/* Another session may have begun in the slot while we were full. */
	if (strata_load_relaxed(&session->generation) != generation)
		return;
	strata_store_relaxed(&session->self_stopped, 1);
	for (i = 0; i < nr && i < STRATA_ABI_USER_NR_STATES; i++)
		__atomic_fetch_and(&strata_runtime.states[i].enabled, ~(UINT32_C(1) << slot),
				   __ATOMIC_RELAXED);
}

STRATA_SLOW void strata_user_full(struct strata_user_channel *channel, uint32_t slot)
{
	/* Threads may overwrite each other's count, which only says when to check again. */
	uint64_t n = strata_load_relaxed(&channel->discarded) + 1;

	strata_hint_relaxed(&channel->discarded, n);
	if (n % STRATA_USER_DISCARDS_PER_LOOK == 0)
		strata_user_leave_dead(channel, slot);
}

/*
 * Writes a record by strata_user_write(), or in a child of vfork() by the way that is safe there.
 */
STRATA_INLINE int write_record(const struct strata_user_channel *channel,
			       const struct strata_ring_event *event, unsigned char *payload)
{
	int code = -ESTALE;

	if (strata_thread_is_vforked())
		code = strata_vforked_write(channel, event, payload);
	return code == -ESTALE ? strata_user_write(channel, event, payload) : code;
}

/*
 * Returns this process' channel of session @slot, and maps it if that was not done yet. NULL: there is none, which is
 * counted.
 */
STRATA_INLINE struct strata_user_channel *strata_user_channel_of(uint32_t slot)
{
	const struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	struct strata_user_channel *channel;

	/* ACQUIRE pairs with the RELEASE of the thread that mapped it. */
	channel = __atomic_load_n(&strata_mapped.channel[slot], __ATOMIC_ACQUIRE);
	if (strata_unlikely(!channel ||
			    channel->generation != strata_load_relaxed(&session->generation)))
		return strata_session_map(slot);
	return channel;
}

/*
 * Memory in which payloads are assembled that are too large for the stack. To map it for each record took 7 us and more, most
 * of it for the first touch of its pages. So up to STAGING_PLACES mappings stay, of STAGING_BYTES each. Who needs one takes it out
 * of its place by an exchange, and puts it back into an empty place: a thread, a signal handler and a child of vfork() never
 * have the same one. Who finds none maps its own. What a thread has at a fork() stays mapped in the child.
 */
#define STAGING_PLACES 8u
#define STAGING_BYTES  UINT64_C(65536)
static unsigned char *staging[STAGING_PLACES];

/* Returns memory that nobody uses, or NULL. */
static unsigned char *take_staging(void)
{
	unsigned char *memory;
	uint32_t i;

	for (i = 0; i < STAGING_PLACES; i++) {
		if (!__atomic_load_n(&staging[i], __ATOMIC_RELAXED))
			continue;
		/* ACQUIRE and the RELEASE of give_staging(): who had it before has finished with it. */
		memory = __atomic_exchange_n(&staging[i], NULL, __ATOMIC_ACQUIRE);
		if (memory)
			return memory;
	}
	return NULL;
}

/* The place gets memory of STAGING_BYTES. Returns 0 if no place is empty. */
static int give_staging(unsigned char *memory)
{
	unsigned char *none;
	uint32_t i;

	for (i = 0; i < STAGING_PLACES; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&staging[i], &none, memory, 0, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return 1;
	}
	return 0;
}

/* Returns the size of the mapping for a payload; it follows from the payload's size. */
static uint64_t staged_bytes(uint64_t payload_bytes)
{
	const uint64_t bytes =
		(STRATA_USER_HEADROOM + payload_bytes + STRATA_USER_TAILROOM + 4095) &
		~UINT64_C(4095);

	return bytes <= STAGING_BYTES ? STAGING_BYTES : bytes;
}

/*
 * Takes memory for a payload of @bytes, or maps some. Returns NULL if there is none, or if the program has shut
 * itself in (seccomp), so that a system call may be its end. Keeps errno.
 */
static unsigned char *stage(uint64_t bytes)
{
	const uint64_t all = staged_bytes(bytes);
	unsigned char *memory = all == STAGING_BYTES ? take_staging() : NULL;
	void *mapped = MAP_FAILED;
	int saved = errno;

	if (memory)
		return memory + STRATA_USER_HEADROOM;
	if (!__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		mapped = strata_mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				     -1);
	errno = saved;
	return mapped == MAP_FAILED ? NULL : (unsigned char *)mapped + STRATA_USER_HEADROOM;
}

/* Largest size of a payload with its thread and contexts that is assembled on the stack [byte]. */
#define CONTEXTS_STACK_BYTES 1500u

/* Writes @event's record with its contexts before @payload. @to has room for them and for the payload. */
static int write_at(const struct strata_user_channel *channel, struct strata_ring_event *event,
		    const struct strata_abi_user_state *state, const struct strata_caller *caller,
		    const unsigned char *payload, uint32_t payload_bytes, unsigned char *to)
{
	unsigned char *end = to;

	if (channel->once.context_bytes) {
		end += STRATA_USER_VTID_BYTES;
		strata_thread_put(end);
	}
	end = strata_contexts_put(&channel->contexts, end, state, caller);
	memcpy(end, payload, payload_bytes);
	/* The last word of the record is copied as a whole. */
	memset(end + payload_bytes, 0, STRATA_USER_TAILROOM);
	event->payload_bytes = (uint32_t)(end - to) + payload_bytes;
	return write_record(channel, event, to);
}

/*
 * Assembles a record on the stack and writes it. A function of its own, so that one session at a time takes the stack
 * that it needs.
 */
STRATA_SLOW int write_on_stack(const struct strata_user_channel *channel,
			       struct strata_ring_event *event,
			       const struct strata_abi_user_state *state,
			       const struct strata_caller *caller, const unsigned char *payload,
			       uint32_t payload_bytes, uint32_t bytes)
{
	unsigned char *memory = (unsigned char *)__builtin_alloca(STRATA_USER_HEADROOM + bytes +
								  STRATA_USER_TAILROOM);

	return write_at(channel, event, state, caller, payload, payload_bytes,
			memory + STRATA_USER_HEADROOM);
}

/* Writes a record to a session with contexts. */
STRATA_SLOW int write_with_contexts(const struct strata_user_channel *channel,
				    struct strata_ring_event *event,
				    const struct strata_abi_user_state *state,
				    const struct strata_caller *caller, unsigned char *payload,
				    uint32_t payload_bytes)
{
	const uint64_t bytes =
		(uint64_t)payload_bytes + channel->contexts.bytes_max + STRATA_USER_VTID_BYTES;
	unsigned char *to;
	int code;

	if (bytes <= CONTEXTS_STACK_BYTES)
		return write_on_stack(channel, event, state, caller, payload, payload_bytes,
				      (uint32_t)bytes);
	/* The record is refused and counted before its bytes are read. */
	if (payload_bytes > channel->ring.header.subbuf_bytes)
		return write_record(channel, event, payload);
	to = stage(bytes);
	if (!to) {
		strata_add_relaxed(&strata_runtime.sessions[channel->slot].discarded_unstaged, 1);
		return -ENOMEM;
	}
	code = write_at(channel, event, state, caller, payload, payload_bytes, to);
	strata_user_unstage(to, bytes);
	return code;
}

/*
 * Writes an event's record on the slow path, with what the session puts in front of the payload. Returns 0, or a negative
 * errno: the record is counted as discarded, but for -ESTALE, where the session has ended.
 */
STRATA_SLOW int write_one(struct strata_user_channel *channel,
			  const struct strata_abi_user_state *state, unsigned char *payload,
			  uint32_t payload_bytes, const struct strata_caller *caller)
{
	struct strata_ring_event event;
	unsigned char *body = payload;
	int code;

	event.in_handler = 0;
	event.id = __atomic_load_n(&state->ids[channel->slot], __ATOMIC_RELAXED);
	/* The event has no id, so the session has just ended. */
	if (event.id == STRATA_ABI_USER_NO_ID)
		return -ESTALE;
	event.payload_bytes = payload_bytes;
	if (channel->once.context_bytes && !channel->contexts.nr) {
		strata_thread_put(payload);
		body -= STRATA_USER_VTID_BYTES;
		event.payload_bytes += STRATA_USER_VTID_BYTES;
	}
	if (channel->contexts.nr)
		code = write_with_contexts(channel, &event, state, caller, payload, payload_bytes);
	else
		code = write_record(channel, &event, body);
	if (code == -ENOBUFS)
		strata_user_full(channel, channel->slot);
	return code;
}

/*
 * Counts a begin that has found no place, or given its place up, or an end whose begin was not
 * written.
 */
static void count_not_kept(const struct strata_user_channel *channel)
{
	strata_add_relaxed(&strata_runtime.sessions[channel->slot].discarded_unstaged, 1);
}

/* Keeps the begin of a span until it ends. */
static void keep_begin(const struct strata_user_channel *channel,
		       const struct strata_tracepoint *tracepoint,
		       struct strata_abi_user_state *state, uint64_t key,
		       const unsigned char *payload, uint32_t payload_bytes)
{
	const uint32_t thread = strata_thread_id();
	const uint64_t now_ns = strata_machine_ns();
	struct strata_user_kept *kept =
		thread ? strata_spans_take_place(channel->spans, thread, now_ns) : NULL;

	if (!kept) {
		count_not_kept(channel);
		return;
	}
	if (kept->record)
		count_not_kept(channel);
	strata_spans_unstage(kept);
	kept->payload_bytes = payload_bytes;
	kept->record = payload_bytes <= STRATA_SPAN_PAYLOAD_BYTES ?
			       kept->room + STRATA_USER_HEADROOM :
			       stage((uint64_t)payload_bytes + STRATA_SPAN_ELAPSED_BYTES);
	if (!kept->record) {
		count_not_kept(channel);
		strata_spans_free(channel->spans, kept);
		return;
	}
	memcpy(kept->record + STRATA_SPAN_ELAPSED_BYTES, payload, payload_bytes);
	/* The last word of the record is copied as a whole. */
	memset(kept->record + STRATA_SPAN_ELAPSED_BYTES + payload_bytes, 0, STRATA_USER_TAILROOM);
	kept->begun_ns = now_ns;
	kept->tracepoint = tracepoint;
	kept->state = state;
	strata_spans_keep(kept, key);
}

/* Records both ends of a span, if the filter selects the span now that its duration is known. */
static void record_ended(struct strata_user_channel *channel,
			 const struct strata_abi_user_state *state, uint64_t key,
			 unsigned char *payload, uint32_t payload_bytes,
			 const struct strata_caller *caller)
{
	const uint32_t thread = strata_thread_id();
	struct strata_user_kept *kept = thread ? strata_spans_find(channel->spans, thread, key) :
						 NULL;
	uint64_t elapsed;
	int code;

	/* The span began before it was switched on, or in the parent. */
	if (!kept)
		return;
	elapsed = strata_machine_ns() - kept->begun_ns;
	if (strata_filter_selects(channel->filter, kept->tracepoint, kept->state,
				  kept->record + STRATA_SPAN_ELAPSED_BYTES, kept->payload_bytes,
				  elapsed)) {
		memcpy(kept->record, &elapsed, sizeof(elapsed));
		code = write_one(channel, kept->state, kept->record,
				 kept->payload_bytes + STRATA_SPAN_ELAPSED_BYTES, caller);
		/* An end without its begin says nothing, or would close a span around it. */
		if (!code)
			write_one(channel, state, payload, payload_bytes, caller);
		else if (code != -ESTALE)
			count_not_kept(channel);
	}
	strata_spans_unstage(kept);
	strata_spans_free(channel->spans, kept);
}

/*
 * Records an event of a session whose filter tests the duration. Returns 1 if the event is an end of a span, for
 * which everything is done; 0 if it is still to be recorded as any other event.
 */
STRATA_SLOW int record_span(struct strata_user_channel *channel,
			    const struct strata_tracepoint *tracepoint,
			    struct strata_abi_user_state *state, unsigned char *payload,
			    uint32_t payload_bytes, const struct strata_caller *caller)
{
	const uint64_t key = strata_span_key(state);

	if (!key)
		return 0;
	if (strata_without_clock())
		strata_count_without_clock(channel->session_bit);
	else if (strata_span_begins(key))
		keep_begin(channel, tracepoint, state, key, payload, payload_bytes);
	else
		record_ended(channel, state, key, payload, payload_bytes, caller);
	return 1;
}

/*
 * Records an event in any number of sessions, and in channels of any kind. Returns those that have ended before their
 * record was written.
 */
STRATA_SLOW uint32_t strata_user_record_each(const struct strata_tracepoint *tracepoint,
					     struct strata_abi_user_state *state, uint32_t sessions,
					     unsigned char *payload, uint32_t payload_bytes,
					     const struct strata_caller *caller)
{
	struct strata_user_channel *channel;
	uint32_t slot, ended = 0;

	for (; sessions; sessions &= sessions - 1) {
		slot = (uint32_t)__builtin_ctz(sessions);
		channel = strata_user_channel_of(slot);
		/* The event has no id, so the session has just ended. */
		if (!channel ||
		    __atomic_load_n(&state->ids[slot], __ATOMIC_RELAXED) == STRATA_ABI_USER_NO_ID) {
			ended |= UINT32_C(1) << slot;
			continue;
		}
		if (channel->spans &&
		    record_span(channel, tracepoint, state, payload, payload_bytes, caller))
			continue;
		if (channel->filter && !strata_filter_selects(channel->filter, tracepoint, state,
							      payload, payload_bytes, 0))
			continue;
		write_one(channel, state, payload, payload_bytes, caller);
	}
	return ended;
}

/*
 * Writes a record to any number of sessions, as strata_user_record_each() does. A session that has
 * ended may have been replaced by another one since we looked: that one gets the record.
 */
STRATA_SLOW void strata_user_record_any(const struct strata_tracepoint *tracepoint,
					struct strata_abi_user_state *state, uint32_t sessions,
					unsigned char *payload, uint32_t payload_bytes,
					const struct strata_caller *caller)
{
	uint32_t seen = 0;

	if (strata_without_clock()) {
		strata_count_without_clock(sessions);
		return;
	}
	while (sessions) {
		seen |= sessions;
		if (!strata_user_record_each(tracepoint, state, sessions, payload, payload_bytes,
					     caller))
			return;
		sessions = __atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE) & ~seen;
	}
}

/*
 * Writes a record that the fast path could not write, for the one session of @channel. -ESTALE if
 * there is another session, or none.
 */
STRATA_INLINE int publish_long(const struct strata_user_channel *channel,
			       const struct strata_abi_user_state *state, uint32_t sessions,
			       unsigned char *payload, uint32_t payload_bytes)
{
	struct strata_ring_event event;

	/* If there is no session, the event was switched off just now. */
	if (!sessions || sessions != channel->session_bit ||
	    channel->ring.header.publish != STRATA_ABI_RING_BY_POSITION || strata_without_clock() ||
	    strata_thread_is_vforked())
		return -ESTALE;
	event.id = __atomic_load_n(&state->ids[channel->slot], __ATOMIC_RELAXED);
	event.payload_bytes = payload_bytes;
	event.in_handler = 0;
	if (event.id == STRATA_ABI_USER_NO_ID)
		return -ESTALE;
	return strata_ring_publish_long(channel->config, &channel->once, &channel->ring.streams,
					&event, strata_thread_id(), payload);
}

/*
 * Writes a record on the slow path: the sub-buffer is full, the thread was interrupted, or nothing
 * is mapped yet. @channel: the one that the fast path would have used, or NULL. @caller: as for
 * strata_user_record_otherwise().
 */
STRATA_SLOW void strata_user_record_long(const struct strata_tracepoint *tracepoint,
					 unsigned char *payload, uint32_t payload_bytes,
					 struct strata_user_channel *channel,
					 const struct strata_caller *caller)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	uint32_t sessions;
	int code = -ESTALE;

	if (!state)
		return;
	sessions = __atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE);
	/* The channel is the one that records nothing if modes.c has closed the fast path. */
	if (channel)
		code = publish_long(channel, state, sessions, payload, payload_bytes);
	if (code == -ESTALE)
		strata_user_record_any(tracepoint, state, sessions, payload, payload_bytes,
				       caller ? caller : STRATA_CALLER);
	else if (code == -ENOBUFS)
		strata_user_full(channel, channel->slot);
	/* Keeps this function's frame until everything is written, since the call is not replaced by a jump. */
	__asm__ volatile("");
}

/*
 * Records an event in @channel, the one of the only session, whose records have contexts: they are put before the
 * payload, and written with it. @caller: as strata_user_record_otherwise().
 */
__attribute__((noinline, hot)) static void
strata_user_record_contexts(struct strata_tracepoint *tracepoint, unsigned char *payload,
			    uint32_t payload_bytes, struct strata_user_channel *channel,
			    const struct strata_caller *caller)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	const uint64_t bytes = (uint64_t)payload_bytes + channel->contexts.bytes_max;
	unsigned char *to, *end;
	uint32_t sessions, i;
	int code = -ESTALE;

	if (!state)
		return;
	sessions = __atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE);
	/* The fast path may be closed by modes.c. */
	if (strata_likely(bytes <= CONTEXTS_STACK_BYTES &&
			  __atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) !=
				  &strata_no_channel &&
			  channel->ring.header.publish == STRATA_ABI_RING_BY_POSITION)) {
		to = (unsigned char *)__builtin_alloca(STRATA_USER_HEADROOM + bytes +
						       STRATA_USER_TAILROOM) +
		     STRATA_USER_HEADROOM;
		end = strata_contexts_put(&channel->contexts, to, state,
					  caller ? caller : STRATA_CALLER);
		/*
		 * Copies whole words, as the record is copied again; there is room for that behind
		 * both.
		 */
		for (i = 0; i < payload_bytes; i += 8)
			memcpy(end + i, payload + i, 8);
		end += payload_bytes;
		memset(end, 0, STRATA_USER_TAILROOM);
		code = strata_user_record_in_one_section(channel, state, to, (uint32_t)(end - to));
		if (strata_unlikely(code))
			code = publish_long(channel, state, sessions, to, (uint32_t)(end - to));
	}
	if (strata_unlikely(code == -ESTALE))
		strata_user_record_any(tracepoint, state, sessions, payload, payload_bytes,
				       caller ? caller : STRATA_CALLER);
	else if (strata_unlikely(code == -ENOBUFS))
		strata_user_full(channel, channel->slot);
	/* Keeps this function's frame until everything is written, since the call is not replaced by a jump. */
	__asm__ volatile("");
}

/*
 * Records an event in the only session, which has contexts, or may keep begins of spans of which
 * the event is one end. A function with a frame, since the caller is needed after that.
 */
__attribute__((noinline)) static void
strata_user_record_careful(struct strata_tracepoint *tracepoint, unsigned char *payload,
			   uint32_t payload_bytes, struct strata_user_channel *channel,
			   const struct strata_caller *caller)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	if (!channel->spans || (state && !strata_span_key(state)))
		strata_user_record_contexts(tracepoint, payload, payload_bytes, channel,
					    caller ? caller : STRATA_CALLER);
	else if (state)
		strata_user_record_any(tracepoint, state, channel->session_bit, payload,
				       payload_bytes, caller ? caller : STRATA_CALLER);
	/* Keeps this function's frame until everything is written, since the call is not replaced by a jump. */
	__asm__ volatile("");
}

/* Records an event that a filter has selected, in @channel of the only session. */
__attribute__((noinline, hot)) static void
strata_user_record_selected(struct strata_tracepoint *tracepoint, unsigned char *payload,
			    uint32_t payload_bytes, struct strata_user_channel *channel,
			    const struct strata_caller *caller)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	if (strata_unlikely(channel->careful) &&
	    (channel->contexts.nr || (state && strata_span_key(state)))) {
		strata_user_record_careful(tracepoint, payload, payload_bytes, channel, caller);
		return;
	}
	/* The fast path may be closed by modes.c. */
	if (strata_unlikely(
		    !state ||
		    __atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) ==
			    &strata_no_channel ||
		    channel->ring.header.publish != STRATA_ABI_RING_BY_POSITION ||
		    strata_user_record_in_one_section(channel, state, payload, payload_bytes)))
		strata_user_record_long(tracepoint, payload, payload_bytes, channel, caller);
}

/*
 * Records an event if the filter of @channel's session, the only one, selects it, which words of
 * the payload do not decide.
 */
__attribute__((noinline, hot)) static void
strata_user_record_asked(struct strata_tracepoint *tracepoint, unsigned char *payload,
			 uint32_t payload_bytes, struct strata_user_channel *channel,
			 const struct strata_caller *caller)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	/* The filter is applied to the begin of a span when the span has ended. */
	if (state &&
	    ((channel->spans && strata_span_key(state)) ||
	     strata_filter_selects(channel->filter, tracepoint, state, payload, payload_bytes, 0)))
		strata_user_record_selected(tracepoint, payload, payload_bytes, channel, caller);
}

/*
 * Returns whether the begin of a span is kept although its fields say already that the filter rejects it. Its end
 * comes all the same, and would take the begin of a span around it, as in a recursion. Not where @program rejects all
 * begins of the statement: then none has to be found.
 */
STRATA_INLINE int is_kept_all_the_same(const struct strata_user_channel *channel,
				       const struct strata_abi_user_state *state,
				       const struct strata_filter_program *program)
{
	return strata_unlikely(!!channel->spans) && program->nr && strata_span_key(state);
}

/*
 * Records an event in the only session, which has a filter or contexts. An event that the filter
 * rejects ends here, if words of the payload decide. The generation is compared before the filter
 * is applied, which may be that of an earlier session. A function without a frame.
 */
__attribute__((noinline, hot)) static void
strata_user_record_one(struct strata_tracepoint *tracepoint, unsigned char *payload,
		       uint32_t payload_bytes, const struct strata_caller *caller)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	struct strata_user_channel *channel =
		__atomic_load_n(&strata_mapped.asked, __ATOMIC_ACQUIRE);
	const struct strata_filter_program *program;
	uint32_t selected;

	if (strata_unlikely(!state || !channel) ||
	    strata_unlikely(__atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE) !=
			    channel->one_section.session_bit) ||
	    strata_unlikely(strata_load_relaxed(&channel->session->generation) !=
			    channel->generation))
		goto long_way;
	if (!channel->filter) {
		strata_user_record_contexts(tracepoint, payload, payload_bytes, channel, caller);
		return;
	}
	program = strata_filter_bound_program(channel->filter, state);
	selected = strata_likely(!!program) ?
			   strata_filter_ask_words(strata_filter_of(channel->filter), program,
						   payload, payload_bytes) :
			   STRATA_FILTER_UNDECIDED;
	if (strata_likely(!selected)) {
		if (strata_likely(!is_kept_all_the_same(channel, state, program)))
			return;
		selected = STRATA_FILTER_UNDECIDED;
	}
	if (selected == STRATA_FILTER_UNDECIDED)
		strata_user_record_asked(tracepoint, payload, payload_bytes, channel, caller);
	else
		strata_user_record_selected(tracepoint, payload, payload_bytes, channel, caller);
	return;
long_way:
	strata_user_record_long(tracepoint, payload, payload_bytes, NULL, caller);
}

/*
 * Writes a record that the fast path could not write. @caller: the place in the program, or NULL:
 * this function is reached and left by jumps, and the last one's caller is the program.
 */
__attribute__((noinline)) void strata_user_record_otherwise(struct strata_tracepoint *tracepoint,
							    unsigned char *payload,
							    uint32_t payload_bytes,
							    const struct strata_caller *caller)
{
	if (strata_mapped.asked)
		strata_user_record_one(tracepoint, payload, payload_bytes, caller);
	else
		strata_user_record_long(tracepoint, payload, payload_bytes,
					__atomic_load_n(&strata_mapped.common, __ATOMIC_ACQUIRE),
					caller);
}

void strata_user_record(struct strata_tracepoint *tracepoint, unsigned char *payload,
			uint32_t payload_bytes)
{
	if (strata_user_record_short(tracepoint, payload, payload_bytes))
		strata_user_record_otherwise(tracepoint, payload, payload_bytes, NULL);
}

/*
 * Stores the word in memory, for headers of other kinds, records without their thread, and the slower paths. A jump
 * leads here: its caller is the program.
 */
__attribute__((noinline, hot)) static void
strata_user_record_staged_word(struct strata_tracepoint *tracepoint, uint64_t word)
{
	unsigned char memory[STRATA_USER_HEADROOM + sizeof(word) + STRATA_USER_TAILROOM]
		__attribute__((aligned(8)));
	unsigned char *payload = memory + STRATA_USER_HEADROOM;

	memcpy(payload, &word, sizeof(word));
	memset(payload + sizeof(word), 0, STRATA_USER_TAILROOM);
	if (strata_user_record_short(tracepoint, payload, sizeof(word)))
		strata_user_record_otherwise(tracepoint, payload, sizeof(word), STRATA_CALLER);
}

/*
 * Records a word that the filter of @channel's session, the only one, has selected. Reached by a jump, and left by
 * one.
 */
__attribute__((noinline, hot)) static void
strata_user_record_selected_word(struct strata_tracepoint *tracepoint, uint64_t word,
				 const struct strata_user_channel *channel)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	/* The fast path may be closed by modes.c. */
	if (strata_likely(state && !channel->careful &&
			  channel->ring.header.publish == STRATA_ABI_RING_BY_POSITION) &&
	    strata_likely(__atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) !=
			  &strata_no_channel)) {
		if (strata_likely(!record_word_in_one_section(channel, state, word)))
			return;
	}
	strata_user_record_staged_word(tracepoint, word);
}

/*
 * Writes a record of one word that the fast path leaves to a filter. The filter of the one session is asked here, if
 * one load tells: what it rejects is never in memory. Reached and left by jumps.
 */
__attribute__((noinline, hot)) static void
strata_user_record_asked_word(struct strata_tracepoint *tracepoint, uint64_t word)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	const struct strata_user_channel *channel =
		__atomic_load_n(&strata_mapped.asked, __ATOMIC_ACQUIRE);
	const struct strata_filter_program *program;
	uint32_t selected = STRATA_FILTER_UNDECIDED;

	if (strata_likely(state && channel && channel->filter) &&
	    strata_likely(__atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE) ==
			  channel->one_section.session_bit) &&
	    strata_likely(strata_load_relaxed(&channel->session->generation) ==
			  channel->generation)) {
		program = strata_filter_bound_program(channel->filter, state);
		if (strata_likely(!!program))
			selected = strata_filter_ask_word(program, word);
		if (strata_likely(!selected)) {
			if (strata_likely(!is_kept_all_the_same(channel, state, program)))
				return;
			selected = STRATA_FILTER_UNDECIDED;
		}
	}
	if (selected == STRATA_FILTER_UNDECIDED)
		strata_user_record_staged_word(tracepoint, word);
	else
		strata_user_record_selected_word(tracepoint, word, channel);
}

void strata_user_record_word(struct strata_tracepoint *tracepoint, uint64_t word)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	struct strata_user_channel *channel = common_channel(state);

	if (strata_likely(!!channel)) {
		if (strata_likely(!record_word_in_one_section(channel, state, word)))
			return;
		strata_user_record_staged_word(tracepoint, word);
		return;
	}
	strata_user_record_asked_word(tracepoint, word);
}

/*
 * Returns 0 if no session wants an event with these values, one for each field. Returns 1 where
 * that does not show, and the event is recorded as if nobody had asked; also after the session
 * whose filter has rejected some, and then this is not asked again.
 */
int strata_user_wants(struct strata_tracepoint *tracepoint, const struct strata_user_part *parts,
		      uint32_t nr)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	const struct strata_user_channel *channel =
		__atomic_load_n(&strata_mapped.asked, __ATOMIC_ACQUIRE);
	const struct strata_filter_program *program;

	if (strata_unlikely(!state || nr != tracepoint->nr_fields))
		return 1;
	if (strata_unlikely(!channel || !channel->filter ||
			    strata_load_relaxed(&channel->session->generation) !=
				    channel->generation)) {
		__atomic_store_n(&tracepoint->filtered, 0, __ATOMIC_RELAXED);
		return 1;
	}
	if (strata_unlikely(__atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE) !=
			    channel->session_bit))
		return 1;
	program = strata_filter_bound_program(channel->filter, state);
	return !program ||
	       strata_filter_ask_parts(strata_filter_of(channel->filter), program, parts) ||
	       is_kept_all_the_same(channel, state, program);
}

/* The size of the largest payload. With header and contexts it fits into 32 bits. */
#define PAYLOAD_BYTES_MAX (UINT32_MAX - STRATA_USER_HEADROOM)

/*
 * Counts a record for @sessions that its site could not assemble: as too large in each session whose sub-buffers are
 * smaller, and as without memory in the others. The channel's private size decides; the session's may be another
 * one's by now.
 */
static void count_unstaged(const struct strata_abi_user_state *state, uint32_t sessions,
			   uint64_t payload_bytes)
{
	unsigned char nothing[STRATA_USER_HEADROOM + STRATA_USER_TAILROOM];
	struct strata_user_channel *channel;
	struct strata_ring_event event;
	uint32_t slot;

	event.payload_bytes = payload_bytes < PAYLOAD_BYTES_MAX ? (uint32_t)payload_bytes :
								  PAYLOAD_BYTES_MAX;
	event.in_handler = 0;
	for (; sessions; sessions &= sessions - 1) {
		slot = (uint32_t)__builtin_ctz(sessions);
		channel = strata_user_channel_of(slot);
		event.id = __atomic_load_n(&state->ids[slot], __ATOMIC_RELAXED);
		/* The record is refused before its bytes are read. */
		if (channel && payload_bytes > channel->ring.header.subbuf_bytes)
			write_record(channel, &event, nothing + STRATA_USER_HEADROOM);
		else
			strata_add_relaxed(&strata_runtime.sessions[slot].discarded_unstaged, 1);
	}
}

/*
 * Returns the size of the largest record that any of the sessions takes, which is that of its sub-buffers. A larger
 * one is not assembled.
 */
static uint64_t largest_record(uint32_t sessions)
{
	uint64_t largest = 0, bytes;

	for (; sessions; sessions &= sessions - 1) {
		bytes = strata_load_relaxed(
			&strata_runtime.sessions[__builtin_ctz(sessions)].subbuf_bytes);
		if (bytes > largest)
			largest = bytes;
	}
	return largest < STRATA_ABI_RING_SUBBUF_BYTES_MAX ? largest :
							    STRATA_ABI_RING_SUBBUF_BYTES_MAX;
}

unsigned char *strata_user_stage(struct strata_tracepoint *tracepoint, uint64_t payload_bytes)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	unsigned char *payload;
	uint32_t sessions;

	if (!state)
		return NULL;
	sessions = __atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE);
	if (strata_without_clock()) {
		strata_count_without_clock(sessions);
		return NULL;
	}
	if (payload_bytes > largest_record(sessions)) {
		count_unstaged(state, sessions, payload_bytes);
		return NULL;
	}
	payload = stage(payload_bytes);
	if (payload)
		return payload;
	for (; sessions; sessions &= sessions - 1)
		strata_add_relaxed(
			&strata_runtime.sessions[__builtin_ctz(sessions)].discarded_unstaged, 1);
	return NULL;
}

void strata_user_unstage(unsigned char *payload, uint64_t payload_bytes)
{
	const uint64_t all = staged_bytes(payload_bytes);
	unsigned char *memory = payload - STRATA_USER_HEADROOM;
	int saved = errno;

	/* A program that has shut itself in since then keeps the memory. */
	if ((all == STAGING_BYTES && give_staging(memory)) ||
	    __atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		return;
	strata_munmap(memory, all);
	errno = saved;
}
