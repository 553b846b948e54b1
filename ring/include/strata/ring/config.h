/* SPDX-License-Identifier: MIT */
/*
 * config.h - what a client of the ring buffer chooses once, at compile time.
 *
 * A client defines one `static const struct strata_ring_config` and passes it to every inline
 * function. The functions are always inlined, so that the compiler sees the constants and leaves no
 * branch on the configuration in the fast path; slow paths take the same structure at run time and
 * are shared. Sizes, CPU count and memory are chosen at run time (channel.h).
 *
 * Source: "Generic Ring Buffer Library (v2)": constant configuration, static code selection.
 */
#ifndef STRATA_RING_CONFIG_H
#define STRATA_RING_CONFIG_H

#include <strata/ring/atomic.h>

enum strata_ring_loss_mode {
	STRATA_RING_DISCARD = 0,   /* full: the new record is discarded, and counted */
	STRATA_RING_OVERWRITE = 1, /* full: the oldest packet is overwritten, and counted */
};

enum strata_ring_writers {
	/* One CPU writes; its interrupts (or one thread's signal handlers) nest, and run to completion. */
	STRATA_RING_WRITERS_LOCAL = 0,
	/* Threads of user space, one buffer per CPU, restartable sequences; SMP where there are none. */
	STRATA_RING_WRITERS_RSEQ = 1,
	/* Any thread on any CPU. */
	STRATA_RING_WRITERS_SMP = 2,
	/*
	 * Writers as LOCAL whose stores are in order on their own CPU only:
	 * strata_ring_reader_set_barrier().
	 */
	STRATA_RING_WRITERS_UNORDERED = 3,
};

enum strata_ring_buffers {
	STRATA_RING_PER_CPU = 0,
	STRATA_RING_GLOBAL = 1,
};

enum strata_ring_wakeup {
	STRATA_RING_WAKE_NONE = 0,	/* the reader polls on a timer (Lockless alg. 8) */
	STRATA_RING_WAKE_BY_WRITER = 1, /* at delivery; never from a signal handler */
};

/* Event record that a client is about to write. */
struct strata_ring_event {
	uint32_t id; /* event record class; meaning is the client's */
	uint32_t payload_bytes;
	int in_handler; /* 1 in a signal or interrupt handler: no wake-up from here */
};

/* The largest record header, and the room that staging memory leaves for it [byte]. */
#define STRATA_RING_HEADER_MAX 16u

/* Fields of a record that a parser returns; see struct strata_ring_header.parse. */
struct strata_ring_parsed {
	uint32_t id;
	uint32_t header_bytes;
	uint32_t payload_bytes;
	uint64_t timestamp; /* in: of the record before (or of the packet's begin); out: this one's */
	int padding;	    /* 1: a cancelled slot, to be skipped */
};

/* Up to 16 bytes of a record header, as they lie in memory: by value, so that they stay in registers. */
struct strata_ring_header_bytes {
	uint64_t first;
	uint64_t second;
};

/*
 * The record header format. @full: 1 if the header must hold the whole timestamp.
 *
 * .timestamp_bits: how many low bits of the clock a short header keeps; 64: all; 0: no timestamp.
 *	A header is short while less than 2^timestamp_bits have passed since the last whole timestamp,
 *	so that a reader, which adds at most one wrap from record to record, always finds it again.
 * .bytes():  size of the header [byte], at most STRATA_RING_HEADER_MAX. NULL: no header.
 * .make():   the header of a record.
 * .pad():    a header that makes a reader skip a cancelled slot of @slot_bytes; at most as long as the
 *	      shortest of .bytes(). NULL if the format cannot say so.
 * .parse():  the opposite; @available bytes are readable. Returns 0 or -EPROTO. Hostile input.
 *	      NULL where only the client's user knows the records' lengths: then no iterators.
 * .short_bytes, .short_ids: 4 or 6 if the short header of an id below short_ids is the id with the clock's
 *	      low bits above it, as in compact and large: what one_section.h can make. 0: another format.
 */
struct strata_ring_header {
	uint32_t timestamp_bits;
	uint32_t (*bytes)(uint32_t id, int full);
	struct strata_ring_header_bytes (*make)(uint32_t id, uint32_t payload_bytes,
						uint64_t timestamp, int full);
	struct strata_ring_header_bytes (*pad)(uint32_t slot_bytes, uint64_t timestamp);
	int (*parse)(const unsigned char *src, uint64_t available, struct strata_ring_parsed *out);
	uint32_t short_bytes;
	uint32_t short_ids;
};

struct strata_ring_config {
	enum strata_ring_loss_mode loss_mode;
	enum strata_ring_writers writers;
	enum strata_ring_buffers buffers;
	enum strata_ring_wakeup wakeup;
	uint32_t record_align;	 /* of every record: 1, 2, 4 or 8 [byte] */
	uint64_t (*clock)(void); /* NULL: records carry no time. Never goes back on one CPU. */
	struct strata_ring_header header;
	/*
	 * Clock for writers SMP, and for RSEQ where it publishes by commit: .clock, but it does not go back
	 * between CPUs and is not read before the loads that precede it. NULL: .clock does.
	 */
	uint64_t (*clock_between_cpus)(void);
};

#endif /* STRATA_RING_CONFIG_H */
