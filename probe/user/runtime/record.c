/* SPDX-License-Identifier: MIT */
/*
 * record.c - write an event record to each session in which its tracepoint is on.
 */
#include <sys/mman.h>

#include "context.h"
#include "selects.h"
#include "write.h"

static const struct strata_abi_user_clock_slot no_slot = { .index = UINT64_MAX };
const struct strata_abi_user_clock_slot *strata_clock_slot = &no_slot;

/* The same, for code that chooses at run time. */
const struct strata_ring_config strata_user_configs[4] = {
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_COMPACT),
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_LARGE),
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_COMPACT),
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_LARGE),
};

/* How many discarded records pass between two looks at the tracer's heartbeat. */
#define STRATA_USER_DISCARDS_PER_LOOK 65536u

/* Leave the session of a tracer that has died: its channel stays full for ever. */
STRATA_SLOW void strata_user_leave_dead(const struct strata_user_channel *channel, uint32_t slot)
{
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	uint32_t nr = __atomic_load_n(&strata_runtime.control->nr_states, __ATOMIC_ACQUIRE), i;
	uint64_t beat = strata_load_relaxed(&session->heartbeat_ns);
	uint64_t generation = strata_load_relaxed(&channel->generation);

	if (!beat)
		beat = strata_runtime.control->started_ns;
	if ((int64_t)(strata_clock_monotonic_ns() - beat) < (int64_t)STRATA_ABI_USER_DEAD_NS)
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
	/* Threads may overwrite each other's count: it only says when to look again. */
	uint64_t n = strata_load_relaxed(&channel->discarded) + 1;

	strata_hint_relaxed(&channel->discarded, n);
	if (n % STRATA_USER_DISCARDS_PER_LOOK == 0)
		strata_user_leave_dead(channel, slot);
}

/* As strata_user_write(), also between vfork() and exec. */
STRATA_INLINE int write_record(const struct strata_user_channel *channel,
			       const struct strata_ring_event *event, unsigned char *payload)
{
	int code = -ESTALE;

	if (strata_thread_is_vforked())
		code = strata_vforked_write(channel, event, payload);
	return code == -ESTALE ? strata_user_write(channel, event, payload) : code;
}

/* This process' channel of session @slot, mapped now if it has not been. NULL: there is none, counted. */
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

/* Memory that unstage() can give back: the whole mapping's size follows from the payload's. */
static uint64_t staged_bytes(uint64_t payload_bytes)
{
	return (STRATA_USER_HEADROOM + payload_bytes + STRATA_USER_TAILROOM + 4095) &
	       ~UINT64_C(4095);
}

/* A payload of @bytes, in memory of its own. NULL: there is none, or the program has shut itself in. errno stays. */
static unsigned char *stage(uint64_t bytes)
{
	void *memory = MAP_FAILED;
	int saved = errno;

	if (!__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		memory = strata_mmap(NULL, staged_bytes(bytes), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1);
	errno = saved;
	return memory == MAP_FAILED ? NULL : (unsigned char *)memory + STRATA_USER_HEADROOM;
}

/* Up to this size a payload and what is in front of it are put together on the stack [byte]. */
#define CONTEXTS_STACK_BYTES 1500u

/* @event's record with its contexts in front of @payload. @to has room for them and for the payload. */
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
	/* The last word of the record is copied whole. */
	memset(end + payload_bytes, 0, STRATA_USER_TAILROOM);
	event->payload_bytes = (uint32_t)(end - to) + payload_bytes;
	return write_record(channel, event, to);
}

/* A function of its own, so that the stack is taken for one session at a time; as much as is needed. */
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

/* A record of a session with contexts. */
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
	/* Refused, and counted, before anybody looks at its bytes. */
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

/* Any number of sessions, any kind of channel. Returns those that have ended before their record was written. */
STRATA_SLOW uint32_t strata_user_record_each(const struct strata_tracepoint *tracepoint,
					     struct strata_abi_user_state *state, uint32_t sessions,
					     unsigned char *payload, uint32_t payload_bytes,
					     const struct strata_caller *caller)
{
	int code;
	struct strata_user_channel *channel;
	struct strata_ring_event event;
	uint32_t slot, ended = 0;
	unsigned char *body;

	event.in_handler = 0;
	for (; sessions; sessions &= sessions - 1) {
		slot = (uint32_t)__builtin_ctz(sessions);
		channel = strata_user_channel_of(slot);
		event.id = __atomic_load_n(&state->ids[slot], __ATOMIC_RELAXED);
		/* No id: the session has just ended. */
		if (!channel || event.id == STRATA_ABI_USER_NO_ID) {
			ended |= UINT32_C(1) << slot;
			continue;
		}
		if (channel->filter && !strata_filter_selects(channel->filter, tracepoint, state,
							      payload, payload_bytes))
			continue;
		event.payload_bytes = payload_bytes;
		body = payload;
		if (channel->once.context_bytes && !channel->contexts.nr) {
			strata_thread_put(payload);
			body -= STRATA_USER_VTID_BYTES;
			event.payload_bytes += STRATA_USER_VTID_BYTES;
		}
		if (channel->contexts.nr)
			code = write_with_contexts(channel, &event, state, caller, payload,
						   payload_bytes);
		else
			code = write_record(channel, &event, body);
		if (code == -ENOBUFS)
			strata_user_full(channel, slot);
	}
	return ended;
}

/* The same. What ended may have been replaced by another session since we looked: that one gets the record. */
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

/* What the short way could not do, for the one session of @channel. -ESTALE: there is another one, or none. */
STRATA_INLINE int publish_long(const struct strata_user_channel *channel,
			       const struct strata_abi_user_state *state, uint32_t sessions,
			       unsigned char *payload, uint32_t payload_bytes)
{
	struct strata_ring_event event;

	/* No sessions: it was switched off just now. */
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
 * The short way does not lead there: the sub-buffer is full, the thread was interrupted, or nothing is mapped yet.
 * @channel: the one that it would have led to, or NULL. @caller: as strata_user_record_otherwise().
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
	/* Nobody may take this channel (modes.c), or there is none. */
	if (channel)
		code = publish_long(channel, state, sessions, payload, payload_bytes);
	if (code == -ESTALE)
		strata_user_record_any(tracepoint, state, sessions, payload, payload_bytes,
				       caller ? caller : STRATA_CALLER);
	else if (code == -ENOBUFS)
		strata_user_full(channel, channel->slot);
	/* Its frame is there until all is written: no jump ends it. */
	__asm__ volatile("");
}

/* The clock's conversion, a hint: the critical section finds out whether it is the right one. */
STRATA_INLINE const struct strata_ring_conversion *conversion(void)
{
	return (const struct strata_ring_conversion *)(const void *)__atomic_load_n(
		&strata_clock_slot, __ATOMIC_ACQUIRE);
}

/* See strata_thread_with(). The id was given to the event before it was switched on. */
STRATA_INLINE uint64_t header_and_thread(const struct strata_user_channel *channel,
					 const struct strata_abi_user_state *state)
{
	const uint16_t *id =
		(const uint16_t *)(const void *)((const char *)state + channel->at_once.id_at);

	return strata_thread_with(__atomic_load_n(id, __ATOMIC_RELAXED));
}

/* All that a record of @channel's session needs is one critical section. Returns 0, or it has to go the long way. */
STRATA_INLINE int strata_user_record_at_once(struct strata_user_channel *channel,
					     const struct strata_abi_user_state *state,
					     unsigned char *payload, uint32_t payload_bytes)
{
	const uint64_t both = header_and_thread(channel, state);

	return strata_ring_publish_at_once(channel->config, &channel->at_once.once, (uint32_t)both,
					   (uint32_t)(both >> 32), conversion(), payload,
					   payload_bytes);
}

/* The same of a payload of 8 bytes in a register. */
STRATA_INLINE int record_word_at_once(const struct strata_user_channel *channel,
				      const struct strata_abi_user_state *state, uint64_t word)
{
	const uint64_t both = header_and_thread(channel, state);

	return strata_ring_publish_word_at_once(&channel->at_once.once, (uint32_t)both,
						(uint32_t)(both >> 32), conversion(), word);
}

/*
 * An event of the one session, whose @channel it is and whose records have contexts: they are put in front of the
 * payload, and all of it is written as one. @caller: as strata_user_record_otherwise().
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
	/* Nobody takes the short way where that is closed (modes.c). */
	if (strata_likely(bytes <= CONTEXTS_STACK_BYTES &&
			  __atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) !=
				  &strata_no_channel &&
			  channel->ring.header.publish == STRATA_ABI_RING_BY_POSITION)) {
		to = (unsigned char *)__builtin_alloca(STRATA_USER_HEADROOM + bytes +
						       STRATA_USER_TAILROOM) +
		     STRATA_USER_HEADROOM;
		end = strata_contexts_put(&channel->contexts, to, state,
					  caller ? caller : STRATA_CALLER);
		/* By whole words, as the record is copied again; there are as many bytes behind both. */
		for (i = 0; i < payload_bytes; i += 8)
			memcpy(end + i, payload + i, 8);
		end += payload_bytes;
		memset(end, 0, STRATA_USER_TAILROOM);
		code = strata_user_record_at_once(channel, state, to, (uint32_t)(end - to));
		if (strata_unlikely(code))
			code = publish_long(channel, state, sessions, to, (uint32_t)(end - to));
	}
	if (strata_unlikely(code == -ESTALE))
		strata_user_record_any(tracepoint, state, sessions, payload, payload_bytes,
				       caller ? caller : STRATA_CALLER);
	else if (strata_unlikely(code == -ENOBUFS))
		strata_user_full(channel, channel->slot);
	/* Its frame is there until all is written: no jump ends it. */
	__asm__ volatile("");
}

/* An event that a filter has selected, of the one session, whose @channel it is. */
__attribute__((noinline, hot)) static void
strata_user_record_selected(struct strata_tracepoint *tracepoint, unsigned char *payload,
			    uint32_t payload_bytes, struct strata_user_channel *channel,
			    const struct strata_caller *caller)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	if (strata_unlikely(channel->contexts.nr)) {
		strata_user_record_contexts(tracepoint, payload, payload_bytes, channel, caller);
		return;
	}
	/* Nobody takes the short way where that is closed (modes.c). */
	if (strata_unlikely(!state ||
			    __atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) ==
				    &strata_no_channel ||
			    channel->ring.header.publish != STRATA_ABI_RING_BY_POSITION ||
			    strata_user_record_at_once(channel, state, payload, payload_bytes)))
		strata_user_record_long(tracepoint, payload, payload_bytes, channel, caller);
}

/* An event of which words of the payload do not tell whether the filter of @channel's session selects it. */
__attribute__((noinline, hot)) static void
strata_user_record_asked(struct strata_tracepoint *tracepoint, unsigned char *payload,
			 uint32_t payload_bytes, struct strata_user_channel *channel,
			 const struct strata_caller *caller)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	if (state &&
	    strata_filter_selects(channel->filter, tracepoint, state, payload, payload_bytes))
		strata_user_record_selected(tracepoint, payload, payload_bytes, channel, caller);
}

/*
 * One session, with a filter or contexts: what its filter does not select ends here, if words of the payload tell. The
 * generation is compared before the filter is asked: it may be that of a session before. A function without a frame.
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
			    channel->at_once.session_bit) ||
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
	if (strata_likely(!selected))
		return;
	if (selected == STRATA_FILTER_UNDECIDED)
		strata_user_record_asked(tracepoint, payload, payload_bytes, channel, caller);
	else
		strata_user_record_selected(tracepoint, payload, payload_bytes, channel, caller);
	return;
long_way:
	strata_user_record_long(tracepoint, payload, payload_bytes, NULL, caller);
}

/*
 * What the short way could not do. @caller: the place in the program, or NULL: what leads here, and on from here, are
 * jumps, and the program is the caller of whom they lead to.
 */
__attribute__((noinline)) static void
strata_user_record_otherwise(struct strata_tracepoint *tracepoint, unsigned char *payload,
			     uint32_t payload_bytes, const struct strata_caller *caller)
{
	if (strata_mapped.asked)
		strata_user_record_one(tracepoint, payload, payload_bytes, caller);
	else
		strata_user_record_long(tracepoint, payload, payload_bytes,
					__atomic_load_n(&strata_mapped.common, __ATOMIC_ACQUIRE),
					caller);
}

/*
 * The channel of the one session in which @state's event is recorded, if it is by write position. That the session still
 * is the one of the channel the critical section finds out. NULL: there is another way.
 */
STRATA_INLINE struct strata_user_channel *common_channel(const struct strata_abi_user_state *state)
{
	/* ACQUIRE pairs with the RELEASE of the thread that mapped it. */
	struct strata_user_channel *channel =
		__atomic_load_n(&strata_mapped.common, __ATOMIC_ACQUIRE);

	if (strata_unlikely(!state))
		return NULL;
	if (strata_unlikely(!channel))
		return NULL;
	/* ACQUIRE pairs with the RELEASE of whoever switched it on, and gave it an id before. */
	if (strata_unlikely(__atomic_load_n(&state->enabled, __ATOMIC_ACQUIRE) !=
			    channel->at_once.session_bit))
		return NULL;
	return channel;
}

/* All that a record needs is one critical section, behind what says which. Returns 0, or there is another way. */
STRATA_INLINE int strata_user_record_short(const struct strata_tracepoint *tracepoint,
					   unsigned char *payload, uint32_t payload_bytes)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	struct strata_user_channel *channel = common_channel(state);

	return strata_unlikely(!channel) ||
	       strata_unlikely(strata_user_record_at_once(channel, state, payload, payload_bytes));
}

void strata_user_record(struct strata_tracepoint *tracepoint, unsigned char *payload,
			uint32_t payload_bytes)
{
	if (strata_user_record_short(tracepoint, payload, payload_bytes))
		strata_user_record_otherwise(tracepoint, payload, payload_bytes, NULL);
}

/*
 * The word in memory, as other headers, records without their thread, and the other ways want it. A jump leads here: its
 * caller is the program.
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

/* A word that the filter of @channel's session, the only one, has selected. A jump leads here, and on from here. */
__attribute__((noinline, hot)) static void
strata_user_record_selected_word(struct strata_tracepoint *tracepoint, uint64_t word,
				 const struct strata_user_channel *channel)
{
	const struct strata_abi_user_state *state =
		__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);

	/* Nobody takes the short way where that is closed (modes.c). */
	if (strata_likely(state && !channel->contexts.nr &&
			  channel->ring.header.publish == STRATA_ABI_RING_BY_POSITION) &&
	    strata_likely(__atomic_load_n(&strata_mapped.common, __ATOMIC_RELAXED) !=
			  &strata_no_channel)) {
		if (strata_likely(!record_word_at_once(channel, state, word)))
			return;
	}
	strata_user_record_staged_word(tracepoint, word);
}

/*
 * No session takes the word by the short way. The filter of the one that there is is asked here, if one load tells: what
 * it rejects is never in memory. A jump leads here, and on from here.
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
			  channel->at_once.session_bit) &&
	    strata_likely(strata_load_relaxed(&channel->session->generation) ==
			  channel->generation)) {
		program = strata_filter_bound_program(channel->filter, state);
		if (strata_likely(!!program))
			selected = strata_filter_ask_word(program, word);
		if (strata_likely(!selected))
			return;
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
		if (strata_likely(!record_word_at_once(channel, state, word)))
			return;
		strata_user_record_staged_word(tracepoint, word);
		return;
	}
	strata_user_record_asked_word(tracepoint, word);
}

/*
 * Is there no session that wants an event of these values, of which there is one for each field? Where that does not
 * show, it is recorded as if nobody had asked; also what was filtered in a session before, which is not asked again.
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
	       strata_filter_ask_parts(strata_filter_of(channel->filter), program, parts);
}

/* What is in front of a payload, too, is counted in 32 bits. */
#define PAYLOAD_BYTES_MAX (UINT32_MAX - STRATA_USER_HEADROOM)

/*
 * A record for @sessions that its site could not assemble: counted in each as too large, where it is, and else as
 * without memory. The channel's private size decides; the session's may be another one's by now.
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
		/* Refused before anybody looks at its bytes. */
		if (channel && payload_bytes > channel->ring.header.subbuf_bytes)
			write_record(channel, &event, nothing + STRATA_USER_HEADROOM);
		else
			strata_add_relaxed(&strata_runtime.sessions[slot].discarded_unstaged, 1);
	}
}

/* No record of a session is larger than its sub-buffers: what would be is not even assembled. */
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
	int saved = errno;

	strata_munmap(payload - STRATA_USER_HEADROOM, staged_bytes(payload_bytes));
	errno = saved;
}
