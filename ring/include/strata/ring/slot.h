/* SPDX-License-Identifier: MIT */
/*
 * slot.h - a reserved slot: its description for the producer, its place, and how its bytes are written. Used by
 * reserve.h.
 */
#ifndef STRATA_RING_SLOT_H
#define STRATA_RING_SLOT_H

#include <strata/ring/switch.h>

/* Reserved slot, from strata_ring_reserve() to commit or cancel, on the producer's stack. */
struct strata_ring_slot {
	struct strata_ring_stream *stream;
	struct strata_abi_ring_subbuf *sub; /* where it is committed */
	uint64_t begin;	       /* position of the header [byte since stream creation] */
	uint64_t timestamp;    /* [clock unit] */
	unsigned char *cursor; /* where strata_ring_write() goes on */
	uint32_t bytes;	       /* header, payload and alignment */
	uint32_t header_bytes;
	uint32_t payload_bytes;
	int full_timestamp; /* 1: the header holds the whole timestamp */
	int opened;	    /* 1: this record opened its sub-buffer */
	int in_handler;
};

/*
 * Writes the header to @dst. Sizes are constants: a store or two instead of a call, and bounds that a BPF verifier
 * sees.
 */
STRATA_INLINE unsigned char *strata_ring_write_header(unsigned char *dst,
						      const struct strata_ring_header_bytes *header,
						      uint32_t bytes)
{
#ifdef STRATA_RING_MODEL
	strata_plain_write(dst, header, bytes);
	return dst + bytes;
#else
	switch (bytes) {
	case 4:
		strata_plain_write(dst, header, 4);
		return dst + 4;
	case 6:
#ifdef __bpf__
		/* Stores from registers, without a copy on the stack; little-endian, as all that run it. */
		*(volatile uint32_t *)(void *)dst = (uint32_t)header->first;
		*(volatile uint16_t *)(void *)(dst + 4) = (uint16_t)(header->first >> 32);
#else
		strata_plain_write(dst, header, 6);
#endif
		return dst + 6;
	case 13:
		strata_plain_write(dst, header, 13);
		return dst + 13;
	case 14:
		strata_plain_write(dst, header, 14);
		return dst + 14;
	case STRATA_RING_HEADER_MAX:
		strata_plain_write(dst, header, STRATA_RING_HEADER_MAX);
		return dst + STRATA_RING_HEADER_MAX;
	default:
#ifdef __bpf__
		bytes = 0; /* there is no such header in a kernel client */
#endif
		strata_plain_write(dst, header, bytes);
		return dst + bytes;
	}
#endif
}

/* Writes the slot's header at slot->cursor. In the common case its size is a constant. */
STRATA_INLINE void strata_ring_reserve_header(const struct strata_ring_config *config,
					      const struct strata_ring_event *event,
					      struct strata_ring_slot *slot)
{
	struct strata_ring_header_bytes header;

	if (config->header.make) {
		header = config->header.make(event->id, event->payload_bytes, slot->timestamp,
					     slot->full_timestamp);
		slot->cursor = strata_ring_write_header(slot->cursor, &header, slot->header_bytes);
	}
}

/* Computes the addresses of the reserved slot at slot->begin. */
STRATA_INLINE void strata_ring_reserve_place(const struct strata_ring_config *config,
					     struct strata_ring_stream *s,
					     struct strata_ring_slot *slot)
{
	uint64_t index = strata_ring_frame_of(config, s, slot->begin);

	slot->sub = strata_ring_subbuf(s, slot->begin);
	slot->cursor = strata_ring_address(config, s, index, slot->begin);
}

/*
 * Computes the addresses that the slot at slot->begin will have, in an open sub-buffer, if the CAS on write_count
 * succeeds. Returns 0 if the frame has to be held first, which strata_ring_hold() does after the reservation.
 *
 * Overwrite mode: what is held here is held of this lap, and stays so until who has the CAS succeed has committed.
 * The lap before was let go before it was published, and published before this one was opened; and it cannot have
 * been closed since, or the CAS fails.
 */
STRATA_INLINE int strata_ring_reserve_ahead(const struct strata_ring_config *config,
					    struct strata_ring_stream *s,
					    struct strata_ring_slot *slot)
{
	uint64_t index = 0, entry;

	slot->sub = strata_ring_subbuf(s, slot->begin);
	if (config->loss_mode == STRATA_RING_OVERWRITE) {
		/* ACQUIRE, and RELEASE behind it: as in strata_ring_hold(). */
		entry = strata_load_acquire(&slot->sub->entry);
		if (strata_unlikely(!(entry & STRATA_ABI_RING_ENTRY_HELD)))
			return 0;
		if (config->writers != STRATA_RING_WRITERS_UNORDERED)
			strata_fence_release();
		index = strata_ring_frame_bound(s, entry);
	}
	slot->cursor = strata_ring_address(config, s, index, slot->begin);
	STRATA_HERE(slot->sub);
	STRATA_HERE(slot->cursor);
	return 1;
}

/**
 * strata_ring_write() - append to the payload of a reserved slot.
 * @src, @n: at most slot->payload_bytes in all calls together [byte]; not checked here.
 *
 * Context: as strata_ring_reserve(): between it and strata_ring_commit(), by who reserved.
 * Ordering: plain stores, which strata_ring_commit() publishes.
 * Checked: model: discard-*; step: step; stress; test: reserve record.
 */
STRATA_INLINE void strata_ring_write(struct strata_ring_slot *slot, const void *src, size_t n)
{
	strata_plain_write(slot->cursor, src, n);
	slot->cursor += n;
}

#endif /* STRATA_RING_SLOT_H */
