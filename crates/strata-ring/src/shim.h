/* SPDX-License-Identifier: MIT */
/*
 * shim.h - what crates/strata-ring calls: the consumer side of the ring library as plain functions.
 *
 * Everything that is asked of a channel goes through struct strata_shim, whose sizes are checked copies.
 * An int result is 0 or a negative errno. Mirrored in ffi.rs.
 */
#ifndef STRATA_RING_SHIM_H
#define STRATA_RING_SHIM_H

#include <strata/ring/ring.h>

/*
 * Memory behind a mapping that is writable and belongs to nobody. A flush by commit (overwrite mode) takes
 * the index of a frame from shared memory, and that may be any value of 16 bits: the frame of the last
 * stream still lies in here.
 */
#define STRATA_SHIM_GUARD_BYTES \
	((STRATA_ABI_RING_ENTRY_FRAME + UINT64_C(1)) * sizeof(struct strata_abi_ring_frame))

/* A flush ends its packet this much later than now [ns]. */
#define STRATA_SHIM_AHEAD_NS UINT64_C(1000000)

struct strata_shim;

struct strata_shim_attr {
	uint64_t subbuf_bytes;
	uint64_t nr_subbufs;
	uint64_t start_position;
	uint32_t loss_mode;
	uint32_t publish;
	uint32_t nr_cpus;
	uint32_t reserved;
};
STRATA_ABI_ASSERT(sizeof(struct strata_shim_attr) == 40, "mirrored in ffi.rs");

/* strata_shim_packet.known */
#define STRATA_SHIM_RECORDS 1u /* .records is exact */
#define STRATA_SHIM_END	    2u /* .timestamp_end was written by the producer */

struct strata_shim_packet {
	const unsigned char *data;
	uint64_t position;
	uint64_t header_bytes;
	uint64_t content_bytes;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t records;
	uint64_t discarded;
	uint64_t unpublished_bytes;
	uint64_t known;
};
STRATA_ABI_ASSERT(sizeof(struct strata_shim_packet) == 80, "mirrored in ffi.rs");

/*
 * Counts of packets and records that precede a packet copied by a scan, as the producers counted
 * them.
 */
struct strata_shim_before {
	uint64_t packets;	      /* all that were before it, read ones too */
	uint64_t overwritten_packets; /* fewer: some were read, or are being counted */
	uint64_t overwritten_records; /* of these packets at least */
	uint64_t records;	      /* all that were before it; by position only, else 0 */
};
STRATA_ABI_ASSERT(sizeof(struct strata_shim_before) == 32, "mirrored in ffi.rs");

/* Streams whose memory is the client's, such as the values of a BPF map. */
struct strata_shim_layout {
	uint64_t stride_bytes;
	uint64_t frames_offset;
	uint64_t data_offset;
	uint64_t nr_streams;
};
STRATA_ABI_ASSERT(sizeof(struct strata_shim_layout) == 32, "mirrored in ffi.rs");

int strata_shim_map(int fd, uint64_t offset, uint64_t bytes, void **memory);
int strata_shim_map_streams(int fd, const struct strata_shim_layout *layout, uint64_t value_bytes,
			    void **memory);
void strata_shim_unmap(void *memory, uint64_t bytes);

int strata_shim_channel_bytes(const struct strata_shim_attr *attr, uint64_t *bytes,
			      struct strata_ring_error *error);
int strata_shim_layout_of(const struct strata_shim_attr *attr, struct strata_shim_layout *layout,
			  struct strata_ring_error *error);
int strata_shim_format(const struct strata_shim_attr *attr, void *memory, uint64_t bytes,
		       struct strata_shim **out, struct strata_ring_error *error);
int strata_shim_adopt(const struct strata_shim_attr *attr, void *memory, uint64_t bytes,
		      struct strata_shim **out, struct strata_ring_error *error);
int strata_shim_open(void *memory, uint64_t bytes, struct strata_shim **out,
		     struct strata_ring_error *error);
int strata_shim_again(const struct strata_shim *shim, struct strata_shim **out,
		      struct strata_ring_error *error);
void strata_shim_close(struct strata_shim *shim);
void strata_shim_header(const struct strata_shim *shim, struct strata_abi_ring_channel *header);

/*
 * @stream is below header.nr_streams in all of these; strata_shim_begin() comes before the others, or strata_shim_view()
 * before those that write nothing.
 */
/*
 * Sets ioctl(@fd, @request, stream) as the barrier for UNORDERED writers, see
 * strata_ring_reader_set_barrier(). Before begin.
 */
void strata_shim_set_barrier(struct strata_shim *shim, int fd, uint64_t request);
int strata_shim_begin(struct strata_shim *shim, uint32_t stream);
void strata_shim_view(struct strata_shim *shim, uint32_t stream);
int strata_shim_poll(const struct strata_shim *shim, uint32_t stream);
uint64_t strata_shim_backlog(const struct strata_shim *shim, uint32_t stream);
int strata_shim_next(struct strata_shim *shim, uint32_t stream, struct strata_shim_packet *packet);
void strata_shim_put(struct strata_shim *shim, uint32_t stream);
void strata_shim_put_back(struct strata_shim *shim, uint32_t stream);
int strata_shim_partial(struct strata_shim *shim, uint32_t stream, unsigned char *dst,
			uint64_t bytes, struct strata_shim_packet *packet);
int strata_shim_flush(struct strata_shim *shim, uint32_t stream, int64_t clock_adds);
int strata_shim_rest(struct strata_shim *shim, uint32_t stream, struct strata_shim_packet *packet);
void strata_shim_scan(struct strata_shim *shim, uint32_t stream, int newest_first);
int strata_shim_scan_copy(struct strata_shim *shim, unsigned char *dst, uint64_t bytes,
			  struct strata_shim_packet *packet, struct strata_shim_before *before);
int strata_shim_scan_look(struct strata_shim *shim, struct strata_shim_packet *packet);
int strata_shim_scan_holds(const struct strata_shim *shim);
void strata_shim_scan_pass(struct strata_shim *shim);
void strata_shim_counters(const struct strata_shim *shim, uint32_t stream,
			  struct strata_ring_counters *counters);

void strata_shim_copy(unsigned char *dst, const unsigned char *src, uint64_t bytes);
int strata_shim_write(int fd, uint64_t at, const unsigned char *header, uint64_t header_bytes,
		      const unsigned char *body, uint64_t body_bytes);

/* pin.c */
int strata_shim_pins(uint32_t slots);
int strata_shim_pin(int fd, uint32_t slot, void *address, uint64_t bytes);
void strata_shim_pins_close(int fd);

#endif /* STRATA_RING_SHIM_H */
