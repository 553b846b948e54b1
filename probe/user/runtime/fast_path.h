/* SPDX-License-Identifier: MIT */
/*
 * fast_path.h - the fast path of a record: one session, whose channel is strata_mapped.common, and one critical section. For
 * record.c, of tracepoints that are compiled, and values.c, of classes made at run time.
 */
#ifndef STRATA_RUNTIME_FAST_PATH_H
#define STRATA_RUNTIME_FAST_PATH_H

#include "clock.h"
#include "context.h"

/* Writes a record that the fast path could not write; in record.c. */
STRATA_HIDDEN void strata_user_record_otherwise(struct strata_tracepoint *tracepoint,
						unsigned char *payload, uint32_t payload_bytes,
						const struct strata_caller *caller);

/* The clock's conversion, a hint: the critical section finds out whether it is the right one. */
STRATA_INLINE const struct strata_ring_conversion *conversion(void)
{
	return (const struct strata_ring_conversion *)(const void *)__atomic_load_n(
		&strata_clock_slot, __ATOMIC_ACQUIRE);
}

/*
 * Returns the record's header and its thread: see strata_thread_with(). The id was given to the
 * event before it was switched on.
 */
STRATA_INLINE uint64_t header_and_thread(const struct strata_user_channel *channel,
					 const struct strata_abi_user_state *state)
{
	const uint16_t *id =
		(const uint16_t *)(const void *)((const char *)state + channel->one_section.id_at);

	return strata_thread_with(__atomic_load_n(id, __ATOMIC_RELAXED));
}

/* All that a record of @channel's session needs is one critical section. Returns 0, or it has to take the slow path. */
STRATA_INLINE int strata_user_record_in_one_section(struct strata_user_channel *channel,
						    const struct strata_abi_user_state *state,
						    unsigned char *payload, uint32_t payload_bytes)
{
	const uint64_t both = header_and_thread(channel, state);

	return strata_ring_publish_in_one_section(channel->config, &channel->one_section.once,
						  (uint32_t)both, (uint32_t)(both >> 32),
						  conversion(), payload, payload_bytes);
}

/* Writes a record whose payload of 8 bytes is in a register. */
STRATA_INLINE int record_word_in_one_section(const struct strata_user_channel *channel,
					     const struct strata_abi_user_state *state,
					     uint64_t word)
{
	const uint64_t both = header_and_thread(channel, state);

	return strata_ring_publish_word_in_one_section(&channel->one_section.once, (uint32_t)both,
						       (uint32_t)(both >> 32), conversion(), word);
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
			    channel->one_section.session_bit))
		return NULL;
	return channel;
}

/* Writes a record in one critical section that does everything. Returns 0, or there is another way. */
STRATA_INLINE int strata_user_record_short(const struct strata_tracepoint *tracepoint,
					   unsigned char *payload, uint32_t payload_bytes)
{
	struct strata_abi_user_state *state = __atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED);
	struct strata_user_channel *channel = common_channel(state);

	return strata_unlikely(!channel) || strata_unlikely(strata_user_record_in_one_section(
						    channel, state, payload, payload_bytes));
}

#endif /* STRATA_RUNTIME_FAST_PATH_H */
