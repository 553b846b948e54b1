/* SPDX-License-Identifier: MIT */
/*
 * wait.h - the reader sleeps until a packet is delivered (STRATA_RING_WAKE_BY_WRITER) or time is up.
 */
#ifndef STRATA_RING_WAIT_H
#define STRATA_RING_WAIT_H

#include <strata/ring/clock.h>
#include <strata/ring/read.h>

/**
 * strata_ring_wait() - poll, and sleep while nothing can be read.
 * @timeout_ns: at most this long; the bound on what a signal handler's delivery may be late.
 *
 * Returns what strata_ring_poll() says at the end; NOTHING after the time-out or a signal.
 * Context: the consumer, in a thread. One thread waits on a stream at a time.
 * Ordering: its fence pairs with the one in strata_ring_wake(): a delivery after the last poll
 *           wakes it.
 * Checked: stress; test: wait.
 */
STRATA_FUNC enum strata_ring_poll strata_ring_wait(struct strata_ring_reader *r,
						   uint64_t timeout_ns)
{
	struct strata_ring_stream *s = r->s;
	enum strata_ring_poll state = strata_ring_poll(r);
	uint64_t begin = strata_clock_monotonic_ns(), spent = 0, sequence;
	struct timespec left;

	/* Repeats after a wake-up without a packet: that of a packet that was read before the wake-up arrived. */
	while (state == STRATA_RING_NOTHING && spent < timeout_ns) {
		left.tv_sec = (time_t)((timeout_ns - spent) / 1000000000);
		left.tv_nsec = (long)((timeout_ns - spent) % 1000000000);
		sequence = strata_load_acquire(&s->shared->wake_sequence);
		strata_store_relaxed(&s->shared->waiting, 1);
		/* Pairs with the fence in strata_ring_wake(): one of the two sees the other's store. */
		strata_fence_seq_cst();
		state = strata_ring_poll(r);
		if (state != STRATA_RING_NOTHING)
			break;
		if (syscall(SYS_futex, strata_ring_futex(s), FUTEX_WAIT, (uint32_t)sequence, &left,
			    NULL, 0) &&
		    errno == EINTR)
			timeout_ns = 0;
		state = strata_ring_poll(r);
		spent = strata_clock_monotonic_ns() - begin;
	}
	strata_store_relaxed(&s->shared->waiting, 0);
	return state;
}

#endif /* STRATA_RING_WAIT_H */
