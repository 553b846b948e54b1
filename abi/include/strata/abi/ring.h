/* SPDX-License-Identifier: MIT */
/*
 * ring.h - memory layout of a ring buffer channel, as producers and consumers share it.
 *
 * Stability: one version number for the whole layout. A consumer refuses any other version; a field
 * is never reused. The offsets below are asserted here and kept in abi/golden/ring.txt.
 *
 *   0                      struct strata_abi_ring_channel          written once by the creator
 *   4096                   stream 0 ┐
 *   4096 + stream_stride   stream 1 │ one stream for each CPU, or a single global one
 *   ...                            ┘
 *
 * and inside a stream:
 *
 *   0                      struct strata_abi_ring_stream           positions and counters
 *   subbufs_offset         struct strata_abi_ring_subbuf [N]       one for each sub-buffer position
 *   frames_offset          struct strata_abi_ring_frame  [N + 1]   one for each piece of memory
 *   data_offset            unsigned char [N + 1][subbuf_bytes]     page aligned
 *
 * A *frame* is the memory of one sub-buffer. In discard mode, sub-buffer i always is frame i. In overwrite mode there
 * is one frame more than sub-buffers: it belongs to the reader, which exchanges it for the frame that it wants to
 * read (subbuf.entry; Lockless §4.3.2).
 *
 * Every 64-bit field marked "atomic" is accessed only through strata/ring/atomic.h. All values are in the byte order
 * of the machine; strata_abi_ring_channel.magic shows if that is another one.
 */
#ifndef STRATA_ABI_RING_H
#define STRATA_ABI_RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define STRATA_ABI_ASSERT(cond, text) static_assert(cond, text)
#define STRATA_ABI_ALIGNED(n)	      alignas(n)
#else
#define STRATA_ABI_ASSERT(cond, text) _Static_assert(cond, text)
#define STRATA_ABI_ALIGNED(n)	      _Alignas(n)
#endif

#define STRATA_ABI_RING_MAGIC	UINT64_C(0x53545241544152ff) /* "STRATAR", 0xff */
#define STRATA_ABI_RING_VERSION 1u

/* Size of the channel header, and alignment of each stream and of its data [byte]. */
#define STRATA_ABI_RING_PAGE 4096u

/* Limits of a channel; a configuration outside them is refused by creator and consumer alike. */
#define STRATA_ABI_RING_SUBBUF_BYTES_MIN 32u
#define STRATA_ABI_RING_SUBBUF_BYTES_MAX (UINT64_C(1) << 30)
#define STRATA_ABI_RING_NR_SUBBUFS_MIN	 2u
#define STRATA_ABI_RING_NR_SUBBUFS_MAX	 32768u
#define STRATA_ABI_RING_NR_STREAMS_MAX	 8192u

/* Bytes at the end of a sub-buffer that no record ever uses; see strata_ring_fits(). */
#define STRATA_ABI_RING_TAIL_BYTES 8u

/* Values of strata_abi_ring_channel.loss_mode */
#define STRATA_ABI_RING_DISCARD	  0u
#define STRATA_ABI_RING_OVERWRITE 1u

/* Values of strata_abi_ring_channel.publish: the position by which a reader knows that records are complete. */
#define STRATA_ABI_RING_BY_COMMIT   0u /* subbuf.published, subbuf.committed */
#define STRATA_ABI_RING_BY_POSITION 1u /* stream.write_count (rseq) */

/*
 * offset  size  field            unit   written by
 *      0     8  magic                   creator, last
 *      8     4  version                 creator
 *     12     4  loss_mode               creator
 *     16     4  publish                 creator
 *     20     4  nr_streams              creator
 *     24     8  subbuf_bytes     byte   creator
 *     32     4  nr_subbufs              creator
 *     36     4  header_bytes     byte   creator; reserved at the start of each sub-buffer
 *     40     8  stream_stride    byte   creator
 *     48     8  total_bytes      byte   creator; whole mapping
 *     56     4  record_align     byte   creator
 *     60     4  global                  creator; 1: one buffer for all CPUs
 *     64     8  start_position   byte   creator; where positions began
 */
struct strata_abi_ring_channel {
	uint64_t magic;
	uint32_t version;
	uint32_t loss_mode;
	uint32_t publish;
	uint32_t nr_streams;
	uint64_t subbuf_bytes;
	uint32_t nr_subbufs;
	uint32_t header_bytes;
	uint64_t stream_stride;
	uint64_t total_bytes;
	uint32_t record_align;
	uint32_t global;
	uint64_t start_position;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_ring_channel) == 72, "channel header size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_channel, subbuf_bytes) == 24, "subbuf_bytes");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_channel, stream_stride) == 40, "stream_stride");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_channel, start_position) == 64, "start");

/*
 * Positions count bytes since the stream was created and are never reduced modulo the buffer size.
 *
 * offset  size  field                unit    written by   order
 *      0     8  write_count          byte    producers    atomic; BY_POSITION: release is the commit
 *      8     8  records              record   producers    atomic; BY_POSITION: stored with write_count
 *     16     8  full_timestamp       clock   producers    atomic; relaxed
 *     24     8  last_timestamp       clock   producers    atomic; BY_POSITION: stored just before
 *                                                         write_count, so of the last record or the next
 *     32     8  limit                byte    producers    atomic; relaxed; BY_POSITION: where records of
 *                                                         the open sub-buffer must end, or less
 *     40     8  frame                byte    producers    atomic; relaxed; BY_POSITION, good while limit
 *                                                         is: stream 0 + frame + position is the address
 *     64     8  discarded_full       record   producers    atomic; relaxed
 *     72     8  discarded_too_big    record   producers    atomic; relaxed
 *     80     8  discarded_nested     record   producers    atomic; relaxed
 *     88     8  overwritten_records  record   producers    atomic; relaxed
 *     96     8  overwritten_packets  packet   producers    atomic; relaxed
 *    104     8  cancelled            record   producers    atomic; relaxed; slots that became padding
 *    112     8  discarded_no_stream  record   producers    atomic; relaxed; stream 0: CPU without a stream
 *    128     8  read_count           byte    consumer     atomic; release gives space back
 *                                            (overwrite: producers too, when they push the reader)
 *    136     8  waiting                      consumer     atomic; 1 while it sleeps
 *    144     8  wake_sequence                producers    atomic; low half is the futex word
 *    152     8  finalized                    creator      atomic; 1: no more records will come
 *    160     8  reclaimed_records    record   consumer     atomic; overwritten while it held the packet
 *    168     8  reclaimed_packets    packet   consumer     atomic; the same
 *
 * .records counts written records: BY_POSITION each record, BY_COMMIT those of delivered packets; there, the records
 * of packets still open are in the high halves of subbuf.commit. Both sums are exact.
 */
struct strata_abi_ring_stream {
	STRATA_ABI_ALIGNED(64) uint64_t write_count;
	uint64_t records;
	uint64_t full_timestamp;
	uint64_t last_timestamp;
	uint64_t limit;
	uint64_t frame;
	uint64_t reserved0[2];

	uint64_t discarded_full;
	uint64_t discarded_too_big;
	uint64_t discarded_nested;
	uint64_t overwritten_records;
	uint64_t overwritten_packets;
	uint64_t cancelled;
	uint64_t discarded_no_stream;
	uint64_t reserved1[1];

	uint64_t read_count;
	uint64_t waiting;
	uint64_t wake_sequence;
	uint64_t finalized;
	uint64_t reclaimed_records;
	uint64_t reclaimed_packets;
	uint64_t reserved2[2];
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_ring_stream) == 192, "stream size");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_stream, records) == 8, "beside write_count");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_stream, limit) == 32, "limit");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_stream, discarded_full) == 64, "discarded_full");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_stream, read_count) == 128, "read_count");

/*
 * offset  size  field      unit  written by              order
 *      0     8  commit           producers               atomic; {records:32 | bytes:32} of this lap,
 *                                                        0 again before the sub-buffer is published
 *      8     8  published  byte  the delivering producer atomic; release; end position of the last
 *                                                        lap that was delivered
 *     16     8  entry            producers and consumer  atomic; see STRATA_ABI_RING_ENTRY_*
 *     24     8  committed  byte  producers               atomic; release; BY_COMMIT: everything in the
 *                                                        sub-buffer below it is committed, if it lies
 *                                                        in this lap
 */
struct strata_abi_ring_subbuf {
	uint64_t commit;
	uint64_t published;
	uint64_t entry;
	uint64_t committed;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_ring_subbuf) == 32, "subbuf size");

/*
 * subbuf.entry, overwrite mode (Lockless §4.3.2: index, writer-holds-it flag, tag in one word):
 *   bits 0..15  frame index
 *   bit  16     held: writers are using the frame, the reader may not take it
 *   bits 17..62 low bits of the number (position / subbuf_bytes) of the last packet delivered here
 *   bit  63     unread: the frame holds that packet; clear after the reader has taken it
 *
 *            writer opens (cas)                 last commit (release store)
 *   {f, -, t} ────────────────────▶ {f, held, t} ────────────────────▶ {f, -, t'}
 *       ▲                                                                  │
 *       └────────── reader exchanges its own frame g for f (cas) ─────────┘   gives {g, -, t'} without the unread bit
 */
#define STRATA_ABI_RING_ENTRY_FRAME	0xffffu
#define STRATA_ABI_RING_ENTRY_HELD	0x10000u
#define STRATA_ABI_RING_ENTRY_TAG_SHIFT 17

/*
 * Metadata of the packet in a frame. Plain memory: written by the producer that opens or closes the sub-buffer, read
 * by the consumer after an acquire load that shows that the packet is delivered.
 *
 * offset  size  field            unit    written at
 *      0     8  position         byte    close, last: begin position; the seal of a complete packet
 *      8     8  timestamp_begin  clock   open
 *     16     8  timestamp_end    clock   close
 *     24     8  content_bytes    byte    close; header_bytes included, end padding not
 *     32     8  records          record   close (BY_COMMIT: delivery)
 *     40     8  records_before   record   open, BY_POSITION: stream.records when it was opened
 *     48     8  discarded        record   close: all reasons, since the stream was created
 *     56     8  reserved
 */
struct strata_abi_ring_frame {
	uint64_t position;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t content_bytes;
	uint64_t records;
	uint64_t records_before;
	uint64_t discarded;
	uint64_t reserved;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_ring_frame) == 64, "frame size");

#endif /* STRATA_ABI_RING_H */
