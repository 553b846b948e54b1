/* SPDX-License-Identifier: MIT */
/*
 * recover.h - read everything that was published in a stream whose producers are dead.
 *
 * For a file-backed or shared buffer after SIGKILL or a crash. A producer may have stopped between any
 * two instructions; memory then shows its stores up to there, in order. So for each packet between
 * read_count and write_count:
 *
 *   delivered                                       complete
 *   sealed: frame.position is this packet's         complete; killed before the store of published
 *   commit word has all bytes                       complete; killed before the seal
 *   commit word has all that was reserved           prefix up to write_count
 *   committed or write_count lies in it             prefix up to there
 *   nothing of these                                no record is known to be whole
 *
 * Overwrite mode: a producer killed while it reclaims the oldest packet may leave that one neither
 * readable nor counted.
 *
 * A slot that was reserved and never committed hides the records that other threads committed behind
 * it in the same packet: by commit, nothing says where it ends. By write position there are no holes.
 */
#ifndef STRATA_RING_RECOVER_H
#define STRATA_RING_RECOVER_H

#include <strata/ring/live.h>

/*
 * Returns how many bytes of the packet at @position are known to be whole. @complete, @records: out, set if all are.
 */
STRATA_INLINE uint64_t strata_ring_whole_bytes(const struct strata_ring_stream *s,
					       uint64_t position, uint64_t index, int *complete,
					       uint64_t *records)
{
	const struct strata_abi_ring_frame *frame = &s->frames[index];
	uint64_t commit = strata_load_acquire(&strata_ring_subbuf(s, position)->commit);
	uint64_t reserved = strata_load_acquire(&s->shared->write_count) - position;
	int sealed = strata_plain_read_u64(&frame->position) == position;

	*complete = 0;
	*records = 0;
	/* The packet was delivered, but lacks its seal: the table names another frame. */
	if (!sealed && strata_ring_ready(s, position))
		return UINT64_MAX;
	/* The seal precedes the store of write_count that makes it true, when publishing by position. */
	if (s->publish == STRATA_ABI_RING_BY_POSITION)
		sealed = reserved >= s->subbuf_bytes;
	if (sealed ||
	    (s->publish == STRATA_ABI_RING_BY_COMMIT && (uint32_t)commit == s->subbuf_bytes)) {
		*complete = 1;
		*records = sealed ? strata_plain_read_u64(&frame->records) : commit >> 32;
		return strata_plain_read_u64(&frame->content_bytes);
	}
	if (s->publish == STRATA_ABI_RING_BY_COMMIT && reserved < s->subbuf_bytes &&
	    (uint32_t)commit == reserved)
		return reserved;
	return strata_ring_available(s, position);
}

/**
 * strata_ring_get_rest() - take the next packet that dead producers left, whole or not.
 * @packet: out, on 0: content_bytes is what can be read, unpublished_bytes what was reserved behind it
 *          and is not known to be whole.
 *
 * To be called from strata_ring_reader_init() on until -ENODATA; nothing is consumed, and there is
 * nothing to put.
 *
 * Returns 0, -ENODATA at the end, -EPROTO: damaged, this packet is skipped and its content empty.
 * Context: no producer of the stream is alive; one consumer, any CPU.
 * Ordering: ACQUIRE of the commit word and of write_count pairs with the producers' RELEASE: what
 *           they cover is there.
 * Invariant: I12 what was published is found again, and nothing torn.
 * Checked: test: recover kill malicious.
 */
STRATA_FUNC int strata_ring_get_rest(struct strata_ring_reader *r,
				     struct strata_ring_packet *packet)
{
	struct strata_ring_stream *s = r->s;
	uint64_t write, oldest, position, reserved, index, whole;
	int complete;

	/* Done once, so that a producer that is alive after all cannot keep the reader for ever. */
	if (!r->rest_begun) {
		r->rest = strata_ring_read_position(r);
		r->rest_end = strata_load_acquire(&s->shared->write_count);
	}
	r->rest_begun = 1;
	write = r->rest_end;
	oldest = strata_ring_begin(s, write + s->subbuf_bytes - 1) - s->buffer_bytes;
	/* A writer that was killed before it pushed the reader; or a damaged read_count. */
	if ((int64_t)(write - r->rest) > (int64_t)s->buffer_bytes)
		r->rest = oldest;
	position = r->rest;
	if ((int64_t)(write - position) <= 0)
		return -ENODATA;
	reserved = write - position < s->subbuf_bytes ? write - position : s->subbuf_bytes;
	r->rest += s->subbuf_bytes;

	index = s->loss_mode == STRATA_ABI_RING_OVERWRITE ?
			strata_ring_entry_frame(
				strata_load_acquire(&strata_ring_subbuf(s, position)->entry)) :
			strata_ring_index(s, position);
	memset(packet, 0, sizeof(*packet));
	packet->position = position;
	packet->header_bytes = s->header_bytes;
	packet->content_bytes = s->header_bytes;
	packet->unpublished_bytes = reserved;
	if (index > s->nr_subbufs)
		return -EPROTO;
	packet->data = s->data + (index << s->subbuf_shift);
	packet->timestamp_begin = strata_plain_read_u64(&s->frames[index].timestamp_begin);
	packet->timestamp_end = strata_plain_read_u64(&s->frames[index].timestamp_end);
	packet->discarded = strata_ring_discarded(s);
	whole = strata_ring_whole_bytes(s, position, index, &complete, &packet->records);
	if (whole > s->subbuf_bytes - STRATA_ABI_RING_TAIL_BYTES)
		return -EPROTO;
	if (whole > s->header_bytes)
		packet->content_bytes = whole;
	/* A bound and not a size: the padding of a closed packet is reserved as well. */
	packet->unpublished_bytes = complete || packet->content_bytes >= reserved ?
					    0 :
					    reserved - packet->content_bytes;
	return 0;
}

#endif /* STRATA_RING_RECOVER_H */
