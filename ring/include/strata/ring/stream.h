/* SPDX-License-Identifier: MIT */
/*
 * stream.h - one ring buffer: where its parts are, and the arithmetic of positions.
 *
 * struct strata_ring_stream is private memory of whoever maps the buffer. Sizes are taken from there,
 * never from the shared memory, which another process may be able to write.
 *
 * Equations of Lockless §4.2, with 64-bit positions that are never reduced; sb is the sub-buffer's
 * size, buf = N * sb the buffer's:
 *   (1) Buffer Full          begin - read_count >= buf                 at the begin of a sub-buffer
 *   (2) Sub-buffer Ready     published[i] == begin + sb                BY_COMMIT
 *                            write_count  >= begin + sb                BY_POSITION
 *   (3) Fully Committed      bytes of commit[i] == sb
 *   (4) Sub-buffer Written   entry.held, instead of comparing counts   (overwrite mode)
 */
#ifndef STRATA_RING_STREAM_H
#define STRATA_RING_STREAM_H

#include <strata/abi/ring.h>
#include <strata/ring/atomic.h>
#include <strata/ring/config.h>

struct strata_ring_stream {
	struct strata_abi_ring_stream *shared;
	struct strata_abi_ring_subbuf *subbufs; /* [nr_subbufs] */
	struct strata_abi_ring_frame *frames;	/* [nr_subbufs + 1] */
	unsigned char *data;			/* [nr_subbufs + 1][subbuf_bytes] */
	uint64_t subbuf_bytes;
	uint64_t buffer_bytes; /* nr_subbufs * subbuf_bytes */
	uint64_t subbuf_shift; /* 64 bits: before 5.16 BPF's verifier forgets others on the stack */
	uint32_t nr_subbufs;
	uint32_t header_bytes; /* reserved at the start of each sub-buffer */
	uint32_t publish;      /* STRATA_ABI_RING_BY_COMMIT, _BY_POSITION */
	uint32_t loss_mode;    /* STRATA_ABI_RING_DISCARD, _OVERWRITE */
	uint32_t cpu;	       /* index in the channel; the CPU's number if per CPU */
	int wake_fd;	       /* eventfd to signal at delivery, or -1 */
};

STRATA_INLINE uint64_t strata_ring_offset(const struct strata_ring_stream *s, uint64_t position)
{
	return position & (s->subbuf_bytes - 1);
}

STRATA_INLINE uint64_t strata_ring_begin(const struct strata_ring_stream *s, uint64_t position)
{
	return position & ~(s->subbuf_bytes - 1);
}

STRATA_INLINE uint64_t strata_ring_packet_number(const struct strata_ring_stream *s,
						 uint64_t position)
{
	return position >> s->subbuf_shift;
}

/*
 * Returns the index of the sub-buffer in the ring; masked before it is shifted, so that a BPF verifier sees its
 * bound.
 */
STRATA_INLINE uint64_t strata_ring_index(const struct strata_ring_stream *s, uint64_t position)
{
	return (position & (s->buffer_bytes - 1)) >> s->subbuf_shift;
}

/**
 * strata_ring_subbuf() - the shared words of the sub-buffer in which @position lies.
 *
 * Returns a pointer into the stream's table, whatever @position is.
 * Context: any.
 * Ordering: none: private memory; what it points to is not looked at.
 * Checked: model: *; step: step; test: malicious.
 */
STRATA_INLINE struct strata_abi_ring_subbuf *strata_ring_subbuf(const struct strata_ring_stream *s,
								uint64_t position)
{
	return &s->subbufs[strata_ring_index(s, position)];
}

/*
 * strata_ring_fits() - may a slot of @bytes begin at @offset of a sub-buffer?
 *
 * The last STRATA_ABI_RING_TAIL_BYTES stay free. So no record ever fills a sub-buffer exactly: it is
 * always closed by a separate step that commits the padding, and there is no third way to deliver
 * (Lockless alg. 2 has END_SWITCH_CURRENT for it). And a producer may copy whole 64-bit words, up to
 * 7 bytes past its record, without touching the next sub-buffer.
 */
STRATA_INLINE int strata_ring_fits(const struct strata_ring_stream *s, uint64_t offset,
				   uint64_t bytes)
{
	return offset + bytes + STRATA_ABI_RING_TAIL_BYTES <= s->subbuf_bytes;
}

/**
 * strata_ring_slot_max() - the largest slot that fits anywhere: header, payload and alignment.
 *
 * Returns bytes.
 * Context: any.
 * Ordering: none: private memory.
 * Checked: test: config record reserve.
 */
STRATA_INLINE uint64_t strata_ring_slot_max(const struct strata_ring_stream *s)
{
	return s->subbuf_bytes - s->header_bytes - STRATA_ABI_RING_TAIL_BYTES;
}

STRATA_INLINE uint64_t strata_ring_entry(uint64_t frame, uint64_t tag)
{
	return frame | tag << STRATA_ABI_RING_ENTRY_TAG_SHIFT;
}

STRATA_INLINE uint64_t strata_ring_entry_frame(uint64_t entry)
{
	return entry & STRATA_ABI_RING_ENTRY_FRAME;
}

STRATA_INLINE uint64_t strata_ring_entry_tag(uint64_t entry)
{
	return entry >> STRATA_ABI_RING_ENTRY_TAG_SHIFT;
}

/*
 * Tags in entries: the low 46 bits of the packet's number, with STRATA_RING_UNREAD while the packet can be read. The
 * reader leaves the number when it takes the packet, so that no producer mistakes the entry for one of another lap.
 * The same tag is used again after 2^46 packets.
 */
#define STRATA_RING_UNREAD (UINT64_C(1) << 46)

STRATA_INLINE uint64_t strata_ring_tag_taken(const struct strata_ring_stream *s, uint64_t position)
{
	return strata_ring_packet_number(s, position) & (STRATA_RING_UNREAD - 1);
}

STRATA_INLINE uint64_t strata_ring_tag(const struct strata_ring_stream *s, uint64_t position)
{
	return strata_ring_tag_taken(s, position) | STRATA_RING_UNREAD;
}

/**
 * strata_ring_discarded() - all discarded records of the stream, whatever the reason.
 *
 * Returns records since the stream's creation; a record that a producer is discarding now may be
 * missing.
 * Context: any, and anybody who has the stream mapped.
 * Ordering: relaxed.
 * Invariant: I7.
 * Checked: model: *; stress; test: record reserve stress.
 */
STRATA_INLINE uint64_t strata_ring_discarded(const struct strata_ring_stream *s)
{
	return strata_load_relaxed(&s->shared->discarded_full) +
	       strata_load_relaxed(&s->shared->discarded_too_big) +
	       strata_load_relaxed(&s->shared->discarded_nested) +
	       strata_load_relaxed(&s->shared->discarded_no_stream);
}

/* Size of the shared memory that a stream needs, and offsets of its parts [byte]. */
struct strata_ring_parts {
	uint64_t subbufs_offset;
	uint64_t frames_offset;
	uint64_t data_offset;
	uint64_t stride;
};

/**
 * strata_ring_layout() - how much shared memory a stream needs, and where its parts begin.
 * @subbuf_bytes, @nr_subbufs: within the limits of strata/abi/ring.h; then nothing overflows: at
 * most 2^46.
 *
 * Returns offsets in the stream's memory and its size [byte].
 * Context: any.
 * Ordering: none: private memory.
 * Checked: test: config open malicious; bpf.
 */
STRATA_FUNC struct strata_ring_parts strata_ring_layout(uint64_t subbuf_bytes, uint32_t nr_subbufs)
{
	const uint64_t page = STRATA_ABI_RING_PAGE;
	struct strata_ring_parts l;
	uint64_t end;

	l.subbufs_offset = sizeof(struct strata_abi_ring_stream);
	l.frames_offset = l.subbufs_offset + nr_subbufs * sizeof(struct strata_abi_ring_subbuf);
	end = l.frames_offset + (nr_subbufs + UINT64_C(1)) * sizeof(struct strata_abi_ring_frame);
	l.data_offset = (end + page - 1) & ~(page - 1);
	end = l.data_offset + (nr_subbufs + UINT64_C(1)) * subbuf_bytes;
	l.stride = (end + page - 1) & ~(page - 1);
	return l;
}

/**
 * strata_ring_stream_attach() - let @s describe the stream at @memory.
 *
 * For memory that strata_ring_channel_create() does not manage, such as a BPF map or a driver's own:
 * layout.stride bytes, 64-byte aligned. The sizes must have been checked.
 *
 * Context: any; nothing is read or written at @memory.
 * Ordering: none: private memory.
 * Checked: model: *; test: malicious.
 */
STRATA_FUNC void strata_ring_stream_attach(struct strata_ring_stream *s, void *memory,
					   const struct strata_abi_ring_channel *channel,
					   uint32_t index)
{
	struct strata_ring_parts l = strata_ring_layout(channel->subbuf_bytes, channel->nr_subbufs);
	unsigned char *base = (unsigned char *)memory;

	s->shared = (struct strata_abi_ring_stream *)(void *)base;
	s->subbufs = (struct strata_abi_ring_subbuf *)(void *)(base + l.subbufs_offset);
	s->frames = (struct strata_abi_ring_frame *)(void *)(base + l.frames_offset);
	s->data = base + l.data_offset;
	s->subbuf_bytes = channel->subbuf_bytes;
	s->buffer_bytes = channel->subbuf_bytes * channel->nr_subbufs;
	s->subbuf_shift = (uint32_t)__builtin_ctzll(channel->subbuf_bytes);
	s->nr_subbufs = channel->nr_subbufs;
	s->header_bytes = channel->header_bytes;
	s->publish = channel->publish;
	s->loss_mode = channel->loss_mode;
	s->cpu = index;
	s->wake_fd = -1;
}

/**
 * strata_ring_stream_init() - make an attached, zeroed stream empty.
 * @position: where positions begin; a multiple of the buffer's size. Anything but 0 is for tests of
 *            what happens near 2^64.
 *
 * Context: any, before anybody else sees the stream.
 * Ordering: relaxed and plain stores; who hands the memory on orders them, as strata_ring_channel_format().
 * Checked: model: *; step: abort; test: memory.
 */
STRATA_FUNC void strata_ring_stream_init(struct strata_ring_stream *s, uint64_t position)
{
	struct strata_abi_ring_stream *shared = s->shared;
	uint64_t i;

	strata_init(&shared->write_count, position);
	strata_init(&shared->records, 0);
	strata_init(&shared->full_timestamp, 0);
	strata_init(&shared->last_timestamp, 0);
	/* No sub-buffer is open yet, so the first record takes the slow path. */
	strata_init(&shared->limit, position);
	strata_init(&shared->frame, 0);
	strata_init(&shared->discarded_full, 0);
	strata_init(&shared->discarded_too_big, 0);
	strata_init(&shared->discarded_nested, 0);
	strata_init(&shared->overwritten_records, 0);
	strata_init(&shared->overwritten_packets, 0);
	strata_init(&shared->cancelled, 0);
	strata_init(&shared->discarded_no_stream, 0);
	strata_init(&shared->read_count, position);
	strata_init(&shared->waiting, 0);
	strata_init(&shared->wake_sequence, 0);
	strata_init(&shared->finalized, 0);
	strata_init(&shared->reclaimed_records, 0);
	strata_init(&shared->reclaimed_packets, 0);
	for (i = 0; i < s->nr_subbufs; i++) {
		strata_init(&s->subbufs[i].commit, 0);
		strata_init(&s->subbufs[i].committed, position + i * s->subbuf_bytes);
		strata_init(&s->subbufs[i].published,
			    position + (i + 1) * s->subbuf_bytes - s->buffer_bytes);
		strata_init(&s->subbufs[i].entry,
			    strata_ring_entry(
				    i, strata_ring_tag_taken(s, position + i * s->subbuf_bytes -
									s->buffer_bytes)));
	}
	/* Seal of a frame that was never written: no packet begins one byte before a sub-buffer. */
	for (i = 0; i <= s->nr_subbufs; i++)
		s->frames[i].position = ~UINT64_C(0);
}

#endif /* STRATA_RING_STREAM_H */
