/* SPDX-License-Identifier: MIT */
/*
 * limits.h - which channels are possible. Creator and opener refuse the same ones, with the value found
 * and the limit; the opener's header may come from anybody.
 */
#ifndef STRATA_RING_LIMITS_H
#define STRATA_RING_LIMITS_H

#include <strata/ring/stream.h>

/* Reason of a refusal: which value was refused, what was found, and the limit. */
struct strata_ring_error {
	char text[256];
};

#define STRATA_RING_REFUSE(error, code, ...)                                                    \
	((error) ? (void)snprintf((error)->text, sizeof((error)->text), __VA_ARGS__) : (void)0, \
	 -(code))

STRATA_INLINE int strata_ring_power_of_two(uint64_t x)
{
	return x && !(x & (x - 1));
}

/**
 * strata_ring_header_check() - check whether a channel with this header is possible. Creator and opener ask it.
 * @h: a private copy; the header may come from anybody.
 *
 * Returns 0; -EINVAL: a value outside its limits; -ENOMEM: more than the address space; with @error
 * filled.
 * Context: any; a signal handler with @error NULL.
 * Ordering: none: private memory.
 * Invariant: I13 sizes that pass lead to no place outside of total_bytes.
 * Checked: test: config open.
 */
STRATA_FUNC int strata_ring_header_check(const struct strata_abi_ring_channel *h,
					 struct strata_ring_error *error)
{
	struct strata_ring_parts l;

	if (!strata_ring_power_of_two(h->subbuf_bytes) ||
	    h->subbuf_bytes < STRATA_ABI_RING_SUBBUF_BYTES_MIN ||
	    h->subbuf_bytes > STRATA_ABI_RING_SUBBUF_BYTES_MAX)
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"sub-buffer size: %llu bytes is not a power of two from %u to %llu",
			(unsigned long long)h->subbuf_bytes, STRATA_ABI_RING_SUBBUF_BYTES_MIN,
			(unsigned long long)STRATA_ABI_RING_SUBBUF_BYTES_MAX);
	if (!strata_ring_power_of_two(h->nr_subbufs) ||
	    h->nr_subbufs < STRATA_ABI_RING_NR_SUBBUFS_MIN ||
	    h->nr_subbufs > STRATA_ABI_RING_NR_SUBBUFS_MAX)
		return STRATA_RING_REFUSE(
			error, EINVAL, "sub-buffer count: %u is not a power of two from %u to %u",
			h->nr_subbufs, STRATA_ABI_RING_NR_SUBBUFS_MIN,
			STRATA_ABI_RING_NR_SUBBUFS_MAX);
	if (h->header_bytes % 8 ||
	    (uint64_t)h->header_bytes + 8 + STRATA_ABI_RING_TAIL_BYTES > h->subbuf_bytes)
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"packet header: %u bytes is not a multiple of 8 that leaves room in a sub-buffer of %llu",
			h->header_bytes, (unsigned long long)h->subbuf_bytes);
	if (!h->nr_streams || h->nr_streams > STRATA_ABI_RING_NR_STREAMS_MAX)
		return STRATA_RING_REFUSE(error, EINVAL,
					  "number of streams: %u is not from 1 to %u",
					  h->nr_streams, STRATA_ABI_RING_NR_STREAMS_MAX);
	if (h->loss_mode > STRATA_ABI_RING_OVERWRITE)
		return STRATA_RING_REFUSE(error, EINVAL,
					  "loss mode: %u is neither discard (0) nor overwrite (1)",
					  h->loss_mode);
	if (h->publish > STRATA_ABI_RING_BY_POSITION)
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"publication: %u is neither by commit (0) nor by position (1)", h->publish);
	if (!strata_ring_power_of_two(h->record_align) || h->record_align > 8)
		return STRATA_RING_REFUSE(error, EINVAL, "record alignment: %u is not 1, 2, 4 or 8",
					  h->record_align);
	if (h->start_position % (h->subbuf_bytes * h->nr_subbufs))
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"start position: %llu is not a multiple of the buffer's %llu bytes",
			(unsigned long long)h->start_position,
			(unsigned long long)(h->subbuf_bytes * h->nr_subbufs));
	l = strata_ring_layout(h->subbuf_bytes, h->nr_subbufs);
	if (h->stream_stride != l.stride ||
	    h->total_bytes != STRATA_ABI_RING_PAGE + h->nr_streams * l.stride)
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"layout: %u streams of %llu bytes in %llu do not follow from the sizes",
			h->nr_streams, (unsigned long long)h->stream_stride,
			(unsigned long long)h->total_bytes);
	if (h->total_bytes > SIZE_MAX / 2)
		return STRATA_RING_REFUSE(error, ENOMEM,
					  "channel: %llu bytes exceed the address space",
					  (unsigned long long)h->total_bytes);
	return 0;
}

#endif /* STRATA_RING_LIMITS_H */
