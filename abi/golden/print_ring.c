/* SPDX-License-Identifier: MIT */
/* print_ring.c - print the layout of strata/abi/ring.h: abi/golden/ring.txt is its output. */
#include "layout.h"

#include <strata/abi/ring.h>

int main(void)
{
	TITLE("ring.h");
	printf("version %u\n", STRATA_ABI_RING_VERSION);
	CONSTANT(STRATA_ABI_RING_MAGIC);
	CONSTANT(STRATA_ABI_RING_PAGE);
	CONSTANT(STRATA_ABI_RING_SUBBUF_BYTES_MIN);
	CONSTANT(STRATA_ABI_RING_SUBBUF_BYTES_MAX);
	CONSTANT(STRATA_ABI_RING_NR_SUBBUFS_MIN);
	CONSTANT(STRATA_ABI_RING_NR_SUBBUFS_MAX);
	CONSTANT(STRATA_ABI_RING_NR_STREAMS_MAX);
	CONSTANT(STRATA_ABI_RING_TAIL_BYTES);
	CONSTANT(STRATA_ABI_RING_DISCARD);
	CONSTANT(STRATA_ABI_RING_OVERWRITE);
	CONSTANT(STRATA_ABI_RING_BY_COMMIT);
	CONSTANT(STRATA_ABI_RING_BY_POSITION);
	CONSTANT(STRATA_ABI_RING_ENTRY_FRAME);
	CONSTANT(STRATA_ABI_RING_ENTRY_HELD);
	CONSTANT(STRATA_ABI_RING_ENTRY_TAG_SHIFT);

	STRUCT(strata_abi_ring_channel);
	FIELD(strata_abi_ring_channel, magic);
	FIELD(strata_abi_ring_channel, version);
	FIELD(strata_abi_ring_channel, loss_mode);
	FIELD(strata_abi_ring_channel, publish);
	FIELD(strata_abi_ring_channel, nr_streams);
	FIELD(strata_abi_ring_channel, subbuf_bytes);
	FIELD(strata_abi_ring_channel, nr_subbufs);
	FIELD(strata_abi_ring_channel, header_bytes);
	FIELD(strata_abi_ring_channel, stream_stride);
	FIELD(strata_abi_ring_channel, total_bytes);
	FIELD(strata_abi_ring_channel, record_align);
	FIELD(strata_abi_ring_channel, global);
	FIELD(strata_abi_ring_channel, start_position);
	END(strata_abi_ring_channel);

	STRUCT(strata_abi_ring_stream);
	FIELD(strata_abi_ring_stream, write_count);
	FIELD(strata_abi_ring_stream, records);
	FIELD(strata_abi_ring_stream, full_timestamp);
	FIELD(strata_abi_ring_stream, last_timestamp);
	FIELD(strata_abi_ring_stream, limit);
	FIELD(strata_abi_ring_stream, frame);
	FIELD(strata_abi_ring_stream, reserved0);
	FIELD(strata_abi_ring_stream, discarded_full);
	FIELD(strata_abi_ring_stream, discarded_too_big);
	FIELD(strata_abi_ring_stream, discarded_nested);
	FIELD(strata_abi_ring_stream, overwritten_records);
	FIELD(strata_abi_ring_stream, overwritten_packets);
	FIELD(strata_abi_ring_stream, cancelled);
	FIELD(strata_abi_ring_stream, discarded_no_stream);
	FIELD(strata_abi_ring_stream, reserved1);
	FIELD(strata_abi_ring_stream, read_count);
	FIELD(strata_abi_ring_stream, waiting);
	FIELD(strata_abi_ring_stream, wake_sequence);
	FIELD(strata_abi_ring_stream, finalized);
	FIELD(strata_abi_ring_stream, reclaimed_records);
	FIELD(strata_abi_ring_stream, reclaimed_packets);
	FIELD(strata_abi_ring_stream, reserved2);
	END(strata_abi_ring_stream);

	STRUCT(strata_abi_ring_subbuf);
	FIELD(strata_abi_ring_subbuf, commit);
	FIELD(strata_abi_ring_subbuf, published);
	FIELD(strata_abi_ring_subbuf, entry);
	FIELD(strata_abi_ring_subbuf, committed);
	END(strata_abi_ring_subbuf);

	STRUCT(strata_abi_ring_frame);
	FIELD(strata_abi_ring_frame, position);
	FIELD(strata_abi_ring_frame, timestamp_begin);
	FIELD(strata_abi_ring_frame, timestamp_end);
	FIELD(strata_abi_ring_frame, content_bytes);
	FIELD(strata_abi_ring_frame, records);
	FIELD(strata_abi_ring_frame, records_before);
	FIELD(strata_abi_ring_frame, discarded);
	FIELD(strata_abi_ring_frame, reserved);
	END(strata_abi_ring_frame);

	return status;
}
