/* SPDX-License-Identifier: MIT */
/*
 * wakeup.h - tell a sleeping reader that a packet was delivered.
 *
 * By default the reader is not woken: it polls on a timer (Lockless alg. 8), and producers make no system call. With
 * STRATA_RING_WAKE_BY_WRITER the producer that delivers a packet wakes a reader that sleeps in strata_ring_wait(),
 * through a futex in the shared memory and, if the stream has one, an eventfd that fits into the reader's own poll
 * loop.
 *
 * From a signal handler nothing is called; the reader then finds the packet at its next time-out or
 * the next delivery from a thread.
 */
#ifndef STRATA_RING_WAKEUP_H
#define STRATA_RING_WAKEUP_H

#include <strata/ring/stream.h>

#if defined(__linux__) && !defined(__bpf__) && !defined(__KERNEL__)

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns the futex word, which is the low half of wake_sequence on either byte order. */
STRATA_INLINE uint32_t *strata_ring_futex(struct strata_ring_stream *s)
{
	uint32_t *halves = (uint32_t *)(void *)&s->shared->wake_sequence;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return &halves[1];
#else
	return &halves[0];
#endif
}

/* Wakes the consumer, and keeps errno. */
STRATA_SLOW void strata_ring_wake(struct strata_ring_stream *s, int in_handler)
{
	const uint64_t one = 1;
	int saved = errno;

	strata_add_acq_rel(&s->shared->wake_sequence, 1);
	if (in_handler)
		return;
	/* Pairs with the fence in strata_ring_wait(): one of the two sees the other's store. */
	strata_fence_seq_cst();
	if (strata_load_relaxed(&s->shared->waiting))
		syscall(SYS_futex, strata_ring_futex(s), FUTEX_WAKE, 1, NULL, NULL, 0);
	if (s->wake_fd >= 0 && write(s->wake_fd, &one, sizeof(one)) < 0)
		errno = saved; /* counter at its maximum: the reader has not looked yet */
	errno = saved;
}

#else

STRATA_INLINE void strata_ring_wake(struct strata_ring_stream *s, int in_handler)
{
	(void)s;
	(void)in_handler;
}

#endif

#endif /* STRATA_RING_WAKEUP_H */
