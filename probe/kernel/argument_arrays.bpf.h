/* SPDX-License-Identifier: MIT */
/*
 * argument_arrays.bpf.h - arguments that point to several things alike: file descriptors with what is asked of them,
 * sets of descriptors, events; and to those parts of a large structure that are wanted.
 *
 * Of a list at most STRATA_ABI_KERNEL_ELEMENTS_MAX elements are recorded. How many there are so far is in the
 * list's first byte, in memory: the verifier then has one state for each round of a loop, not one for each
 * number of elements as well.
 */
#ifndef STRATA_KERNEL_ARGUMENT_ARRAYS_BPF_H
#define STRATA_KERNEL_ARGUMENT_ARRAYS_BPF_H

#include "scratch.bpf.h"

#define STRATA_ELEMENTS_MAX STRATA_ABI_KERNEL_ELEMENTS_MAX
#define STRATA_SET_BITS	    32u
#define STRATA_SET_WORDS    32u /* an fd_set has no more */
#define STRATA_SOL_SOCKET   1u

const volatile struct strata_abi_kernel_layout
	layouts[STRATA_ABI_KERNEL_LAYOUTS] SEC(".rodata.layouts");

struct strata_pollfd {
	int32_t fd;
	uint16_t events, revents;
};
_Static_assert(sizeof(struct strata_pollfd) * STRATA_ABI_KERNEL_POLL_MAX <= STRATA_COPY_MAX,
	       "poll");

/* The layout of struct epoll_event, for programs of 64 and of 32 bits. */
struct strata_epoll_event {
	uint32_t events;
	uint64_t data;
} STRATA_ARCH_EPOLL_EVENT;

/* Begins a list in the scratch memory, and returns its place. */
STRATA_INLINE uint32_t strata_list_begin(struct strata_scratch *scratch)
{
	uint32_t begin = STRATA_ONCE(uint32_t, scratch->at);

	if (begin > STRATA_SCRATCH_MAX)
		return STRATA_SCRATCH_MAX;
	scratch->bytes[begin] = 0;
	scratch->at = begin + 1;
	return begin;
}

/* Adds one element of @bytes to the list. Returns 0 if the list is full. */
STRATA_INLINE int strata_list_put(struct strata_scratch *scratch, uint64_t begin, uint64_t value,
				  uint32_t bytes)
{
	uint8_t n;

	begin = strata_opaque(begin);
	if (begin > STRATA_SCRATCH_MAX)
		return 0;
	n = STRATA_ONCE(uint8_t, scratch->bytes[begin]);
	if (n >= STRATA_ELEMENTS_MAX)
		return 0;
	scratch->bytes[begin] = n + 1;
	strata_scratch_number(scratch, value, bytes);
	return 1;
}

/*
 * Adds an element, for callers in a loop. A global function of its own: a chain of calls has at
 * most 8 frames, and those that end in this one have room for it. Returns 0 if the list is full.
 */
STRATA_GLOBAL int strata_list_add(uint64_t begin, uint64_t value, uint64_t bytes)
{
	struct strata_scratch *scratch = strata_scratch();

	return scratch ? strata_list_put(scratch, begin, value, (uint32_t)bytes) : 0;
}

/*
 * Adds number @i of what strata_scratch_poll() has copied to one of its lists. Returns 0 if that is
 * full.
 */
STRATA_GLOBAL int strata_scratch_polled(uint64_t begin, uint64_t i, uint32_t is_exit,
					uint32_t is_events)
{
	struct strata_scratch *scratch = strata_scratch();
	const volatile struct strata_pollfd *one;

	if (!scratch || i >= STRATA_ABI_KERNEL_POLL_MAX)
		return 0;
	one = (const struct strata_pollfd *)(void *)scratch->copy + i;
	if (is_exit && !one->revents)
		return 1;
	if (!is_events)
		return strata_list_put(scratch, begin, (uint32_t)one->fd, 4);
	return strata_list_put(scratch, begin, is_exit ? one->revents : one->events, 2);
}

STRATA_GLOBAL int strata_scratch_polls(uint64_t n, uint32_t is_exit, uint32_t is_events)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t i, begin;

	if (!scratch)
		return 0;
	begin = strata_list_begin(scratch);
	for (i = 0; i < STRATA_ABI_KERNEL_POLL_MAX; i++)
		if (i >= n || !strata_scratch_polled(begin, i, is_exit, is_events))
			break;
	return 0;
}

/* Makes the lists of poll()'s descriptors; at the call's exit, only of those that are ready. */
STRATA_GLOBAL int strata_scratch_poll(uint64_t address, uint64_t n, uint32_t is_exit)
{
	struct strata_scratch *scratch = strata_scratch();

	if (!scratch)
		return 0;
	n &= 0xffffffff;
	if (!address)
		n = 0;
	if (n > STRATA_ABI_KERNEL_POLL_MAX)
		n = STRATA_ABI_KERNEL_POLL_MAX;
	if (n && bpf_probe_read_user(scratch->copy, (uint32_t)n * sizeof(struct strata_pollfd),
				     (const void *)address)) {
		strata_count_unreadable();
		n = 0;
	}
	strata_scratch_polls(n, is_exit, 0);
	strata_scratch_polls(n, is_exit, 1);
	return 0;
}

/* Lists the descriptors in word @i of a set, up to @nr_fds. */
STRATA_GLOBAL int strata_scratch_bits(uint64_t begin, uint64_t i, uint64_t nr_fds)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t bit, word, first = i * STRATA_SET_BITS;

	if (!scratch || i >= STRATA_SET_WORDS || first >= nr_fds)
		return 0;
	word = STRATA_ONCE(uint32_t, scratch->copy[4 * i]);
	if (nr_fds - first < STRATA_SET_BITS)
		word &= ((uint64_t)1 << (nr_fds - first)) - 1;
	for (bit = 0; bit < STRATA_SET_BITS; bit++) {
		if (!(word >> bit))
			break;
		if (word >> bit & 1 && !strata_list_add(begin, first + bit, 2))
			break;
	}
	return 0;
}

/* The descriptors in a set of which @nr_fds may be in it. */
STRATA_GLOBAL int strata_scratch_set(uint64_t address, uint64_t nr_fds)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t i, n;
	uint32_t begin;

	if (!scratch)
		return 0;
	begin = strata_list_begin(scratch);
	nr_fds &= 0xffffffff;
	if (!address || !nr_fds || (int32_t)nr_fds < 0)
		return 0;
	if (nr_fds > STRATA_SET_WORDS * STRATA_SET_BITS)
		nr_fds = STRATA_SET_WORDS * STRATA_SET_BITS;
	n = (nr_fds + STRATA_SET_BITS - 1) / STRATA_SET_BITS;
	if (bpf_probe_read_user(scratch->copy, (uint32_t)n * 4, (const void *)address)) {
		strata_count_unreadable();
		return 0;
	}
	/*
	 * Hides the value from the compiler, which would otherwise drop the bound SET_WORDS that the verifier needs
	 * to see.
	 */
	n = strata_opaque(n);
	for (i = 0; i < STRATA_SET_WORDS; i++) {
		if (i >= n)
			break;
		if (STRATA_ONCE(uint32_t, scratch->copy[4 * i]))
			strata_scratch_bits(begin, i, nr_fds);
	}
	return 0;
}

/* Adds number @i of what strata_scratch_events() has copied to one of its lists. */
STRATA_GLOBAL int strata_scratch_event(uint64_t begin, uint64_t i, uint32_t is_data)
{
	struct strata_scratch *scratch = strata_scratch();
	const volatile struct strata_epoll_event *one;

	if (!scratch || i >= STRATA_ELEMENTS_MAX)
		return 0;
	one = (const struct strata_epoll_event *)(void *)scratch->copy + i;
	return is_data ? strata_list_put(scratch, begin, one->data, 8) :
			 strata_list_put(scratch, begin, one->events, 4);
}

/* Makes one list of @n events: their descriptors, or their bits. */
STRATA_GLOBAL int strata_scratch_event_list(uint64_t n, uint32_t is_data)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t i, begin;

	if (!scratch)
		return 0;
	begin = strata_list_begin(scratch);
	for (i = 0; i < STRATA_ELEMENTS_MAX; i++)
		if (i >= n || !strata_scratch_event(begin, i, is_data))
			break;
	return 0;
}

/* Reads the events that epoll_wait() has given, as two lists. */
STRATA_GLOBAL int strata_scratch_events(uint64_t address, uint64_t n)
{
	struct strata_scratch *scratch = strata_scratch();

	if (!scratch)
		return 0;
	if (!address)
		n = 0;
	if (n > STRATA_ELEMENTS_MAX)
		n = STRATA_ELEMENTS_MAX;
	if (n && bpf_probe_read_user(scratch->copy, (uint32_t)n * sizeof(struct strata_epoll_event),
				     (const void *)address)) {
		strata_count_unreadable();
		n = 0;
	}
	strata_scratch_event_list(n, 0);
	strata_scratch_event_list(n, 1);
	return 0;
}

/*
 * Copies the value of a socket option as words of 4 bytes. Longer values are recorded only of level SOL_SOCKET, such
 * as times. Those of other levels may be keys (SOL_ALG, SOL_TLS).
 */
STRATA_GLOBAL int strata_scratch_option(uint64_t address, uint64_t bytes)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t most = 4, n;
	unsigned char *to;

	if (!scratch)
		return 0;
	to = strata_scratch_end(scratch);
	if (!to)
		return 0;
	bytes &= 0xffffffff;
	if ((uint32_t)scratch->argument[1] == STRATA_SOL_SOCKET)
		most = STRATA_ABI_KERNEL_OPTION_MAX;
	n = address && bytes <= most ? bytes / 4 * 4 : 0;
	if (n != bytes)
		n = 0;
	n = strata_opaque(n);
	if (n > STRATA_ABI_KERNEL_OPTION_MAX)
		return 0;
	if (n && bpf_probe_read_user(to + 1, (uint32_t)n, (const void *)address)) {
		strata_count_unreadable();
		n = 0;
	}
	to[0] = (unsigned char)(n / 4);
	scratch->at += 1 + (uint32_t)n;
	return 0;
}

#define STRATA_PIECE_FROM_MAX (STRATA_COPY_MAX - STRATA_ABI_KERNEL_PIECE_MAX)
#define STRATA_PIECE_SMALL    24u

/* Copies the bytes of a word that @mask selects. Neither pointer is aligned. */
STRATA_INLINE void strata_copy_word(unsigned char *to, const unsigned char *from, uint64_t mask)
{
	*(volatile uint64_t *)(void *)to = *(const volatile uint64_t *)(const void *)from & mask;
}

/* The pieces of a structure that is copied already, or zeroes. */
STRATA_GLOBAL int strata_scratch_put_pieces(uint64_t number, uint64_t is_there)
{
	const volatile struct strata_abi_kernel_layout *layout =
		&layouts[number & (STRATA_ABI_KERNEL_LAYOUTS - 1)];
	struct strata_scratch *scratch = strata_scratch();
	const unsigned char *from;
	uint64_t i, k, offset;
	unsigned char *to;

	if (!scratch)
		return 0;
	is_there = -(uint64_t) !!is_there;
	for (i = 0; i < STRATA_ABI_KERNEL_PIECES_MAX; i++) {
		if (i >= layout->nr_pieces)
			break;
		offset = strata_opaque(layout->piece[i].offset);
		to = strata_scratch_end(scratch);
		if (!to || offset > STRATA_PIECE_FROM_MAX)
			return 0;
		from = scratch->copy + offset;
		/* Bytes beyond the piece are after the end of the structure, or the next piece overwrites them. */
		for (k = 0; k < STRATA_PIECE_SMALL; k += 8)
			strata_copy_word(to + k, from + k, is_there);
		if (layout->piece[i].bytes > STRATA_PIECE_SMALL)
			for (; k < STRATA_ABI_KERNEL_PIECE_MAX; k += 8)
				strata_copy_word(to + k, from + k, is_there);
		scratch->at += layout->piece[i].bytes;
	}
	return 0;
}

/*
 * Copies the pieces of a structure one after the other, or zeroes if there is no structure. One copy is cheaper than
 * several.
 */
STRATA_INLINE void strata_scratch_pieces(struct strata_scratch *scratch, uint64_t address,
					 uint64_t number)
{
	const volatile struct strata_abi_kernel_layout *layout =
		&layouts[number & (STRATA_ABI_KERNEL_LAYOUTS - 1)];
	uint64_t bytes = strata_opaque(layout->bytes);

	if (address &&
	    (bytes > STRATA_COPY_MAX ||
	     bpf_probe_read_user(scratch->copy, (uint32_t)bytes, (const void *)address))) {
		strata_count_unreadable();
		address = 0;
	}
	strata_scratch_put_pieces(number, !!address);
}

#endif /* STRATA_KERNEL_ARGUMENT_ARRAYS_BPF_H */
