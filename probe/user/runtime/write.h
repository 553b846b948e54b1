/* SPDX-License-Identifier: MIT */
/*
 * write.h - write a record into a channel of any kind. Compiled twice: in record.c with libc's registration of
 * restartable sequences, in vfork.c with another one.
 */
#ifndef STRATA_RUNTIME_WRITE_H
#define STRATA_RUNTIME_WRITE_H

#include "clock.h"

#define STRATA_USER_CONFIG(loss_mode, header)                                                    \
	{                                                                                        \
		loss_mode, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, \
			1, strata_user_clock, header, strata_user_clock_ordered                  \
	}

static const struct strata_ring_config discard_compact =
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_COMPACT);
static const struct strata_ring_config discard_large =
	STRATA_USER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_LARGE);
static const struct strata_ring_config overwrite_compact =
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_COMPACT);
static const struct strata_ring_config overwrite_large =
	STRATA_USER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_LARGE);

STRATA_INLINE int strata_user_write_with(const struct strata_ring_config *config,
					 const struct strata_ring_channel *c,
					 const struct strata_ring_event *event,
					 unsigned char *payload)
{
	struct strata_ring_slot slot;
	int code;

	if (c->header.publish == STRATA_ABI_RING_BY_POSITION)
		return strata_ring_publish(config, &c->streams, event, payload);
	code = strata_ring_reserve(config, strata_ring_current_stream(config, c), event, &slot);
	if (code)
		return code;
	strata_ring_write(&slot, payload, event->payload_bytes);
	strata_ring_commit(config, &slot);
	return 0;
}

STRATA_INLINE int strata_user_write(const struct strata_user_channel *channel,
				    const struct strata_ring_event *event, unsigned char *payload)
{
	const struct strata_ring_channel *c = &channel->ring;

	if (c->header.loss_mode == STRATA_ABI_RING_DISCARD)
		return channel->large_header ?
			       strata_user_write_with(&discard_large, c, event, payload) :
			       strata_user_write_with(&discard_compact, c, event, payload);
	return channel->large_header ?
		       strata_user_write_with(&overwrite_large, c, event, payload) :
		       strata_user_write_with(&overwrite_compact, c, event, payload);
}

#endif /* STRATA_RUNTIME_WRITE_H */
