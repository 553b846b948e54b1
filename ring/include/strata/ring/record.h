/* SPDX-License-Identifier: MIT */
/*
 * record.h - write one event record, whichever way the channel publishes.
 */
#ifndef STRATA_RING_RECORD_H
#define STRATA_RING_RECORD_H

#ifdef __KERNEL__
#include <strata/ring/kernel.h>
#else
#include <strata/ring/channel.h>

/* Payloads up to this size are assembled on the stack for the rseq way [byte]. */
#define STRATA_RING_STACK_BYTES 512u

/* libc's, which asks the vdso; under its own name here, since it is declared with _GNU_SOURCE only. */
extern int strata_ring_sched_getcpu(void) __asm__("sched_getcpu");

/**
 * strata_ring_current_stream() - the stream that this thread writes to by commit; any will do for
 * SMP writers.
 *
 * Returns a stream of @c, never NULL.
 * Context: any thread or signal handler. The thread may be moved to another CPU right after.
 * Ordering: none: private memory, and one plain load of the thread's rseq area, for the CPU's number.
 * Checked: stress; test: record stress.
 */
STRATA_INLINE struct strata_ring_stream *
strata_ring_current_stream(const struct strata_ring_config *config,
			   const struct strata_ring_channel *c)
{
	uint32_t cpu;

	if (config->buffers == STRATA_RING_GLOBAL)
		return &c->streams.stream[0];
	cpu = strata_rseq_available() ? strata_rseq_cpu() : (uint32_t)strata_ring_sched_getcpu();
	return &c->streams.stream[strata_likely(cpu < c->streams.nr) ? cpu : cpu % c->streams.nr];
}

/* Writes a record by write position if its payload is not in staging memory yet. */
STRATA_INLINE int strata_ring_record_publish(const struct strata_ring_config *config,
					     const struct strata_ring_channel *c,
					     const struct strata_ring_event *event,
					     const void *payload)
{
	/* 8 bytes after the payload may be read, since the section copies whole words. */
	unsigned char stack[STRATA_RING_HEADER_MAX + STRATA_RING_STACK_BYTES + 8], *heap = NULL;
	unsigned char *staging = stack + STRATA_RING_HEADER_MAX;
	uint32_t payload_bytes = event->payload_bytes;
	int error;

	/* A record that fits into no sub-buffer is refused before its bytes are read. */
	if (strata_unlikely(payload_bytes > STRATA_RING_STACK_BYTES) &&
	    payload_bytes > strata_ring_slot_max(&c->streams.stream[0]))
		return strata_ring_publish(config, &c->streams, event, staging);
	if (strata_unlikely(payload_bytes > STRATA_RING_STACK_BYTES)) {
		int saved = errno;

		/*
		 * The memory does not depend on the stack's limit. If there is none, the record is discarded and
		 * counted.
		 */
		heap = (unsigned char *)mmap(NULL,
					     STRATA_RING_HEADER_MAX + (size_t)payload_bytes + 8,
					     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
					     -1, 0);
		if (heap == MAP_FAILED) {
			errno = saved;
			strata_add_relaxed(&c->streams.stream[0].shared->discarded_too_big, 1);
			return -ENOMEM;
		}
		staging = heap + STRATA_RING_HEADER_MAX;
	}
	__builtin_memcpy(staging, payload, payload_bytes);
	/*
	 * The last word is copied as a whole, so its other bytes are set to zero: nothing else of the stack is
	 * published.
	 */
	if (payload_bytes % 8)
		memset(staging + payload_bytes, 0, 8);
	error = strata_ring_publish(config, &c->streams, event, staging);
	if (strata_unlikely(heap))
		munmap(heap, STRATA_RING_HEADER_MAX + (size_t)payload_bytes + 8);
	return error;
}

#endif

/**
 * strata_ring_record_event() - write one event record to the current CPU's stream, or the global one.
 * @event:   id (up to the client's header format), payload_bytes, in_handler.
 * @payload: copied before the call returns.
 *
 * Returns 0, or the negative errno of strata_ring_publish() or strata_ring_reserve(): not written, and
 * counted; -ENOMEM: a payload of more than STRATA_RING_STACK_BYTES could not be assembled, counted in
 * discarded_too_big of stream 0.
 * Context: as those; LOCAL writers: only on the CPU (or thread) that owns the stream. By write position,
 *          a payload of more than STRATA_RING_STACK_BYTES costs a mapping; who writes such records
 *          often keeps staging memory and calls strata_ring_publish().
 * Ordering: as those.
 * Checked: test: record memory stress client.
 */
STRATA_INLINE int strata_ring_record_event(const struct strata_ring_config *config,
					   const struct strata_ring_channel *c,
					   const struct strata_ring_event *event,
					   const void *payload)
{
	struct strata_ring_slot slot;
	int error;

#ifndef __KERNEL__
	if (config->writers == STRATA_RING_WRITERS_RSEQ &&
	    strata_likely(c->header.publish == STRATA_ABI_RING_BY_POSITION))
		return strata_ring_record_publish(config, c, event, payload);
#endif
	error = strata_ring_reserve(config, strata_ring_current_stream(config, c), event, &slot);
	if (error)
		return error;
	strata_ring_write(&slot, payload, event->payload_bytes);
	strata_ring_commit(config, &slot);
	return 0;
}

/**
 * strata_ring_record() - strata_ring_record_event() from a thread: in_handler is 0.
 *
 * Returns as strata_ring_record_event().
 * Context: as that; with WAKE_BY_WRITER not a signal handler, which must say in_handler.
 * Ordering: as that.
 * Checked: test: record stress kill client.
 */
STRATA_INLINE int strata_ring_record(const struct strata_ring_config *config,
				     const struct strata_ring_channel *c, uint32_t id,
				     const void *payload, uint32_t payload_bytes)
{
	const struct strata_ring_event event = { id, payload_bytes, 0 };

	return strata_ring_record_event(config, c, &event, payload);
}

/**
 * strata_ring_flush_current() - deliver what the current CPU (or the global buffer) is filling.
 *
 * Context: a producer of the channel; with WAKE_BY_WRITER not a signal handler.
 * Ordering: as strata_ring_record_event().
 * Checked: test: record wait client.
 */
STRATA_INLINE void strata_ring_flush_current(const struct strata_ring_config *config,
					     const struct strata_ring_channel *c)
{
	if (c->header.publish == STRATA_ABI_RING_BY_POSITION)
		strata_ring_flush_on_cpu(config, &c->streams);
	else
		strata_ring_flush(config, strata_ring_current_stream(config, c));
}

#endif /* STRATA_RING_RECORD_H */
