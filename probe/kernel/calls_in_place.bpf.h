/* SPDX-License-Identifier: MIT */
/*
 * calls_in_place.bpf.h - records of calls with one argument in memory, written in place as those of numbers are.
 *
 * Here is what servers call most: epoll_ctl(), futex(), nanosleep(), sockets without an address at the entry; epoll_wait()
 * and sockets at the exit. The memory is read before a slot is reserved. A function that returns 0 has recorded nothing,
 * and counted nothing: the record is then assembled (assemble_entry(), assemble_exit()), which knows all cases: memory that
 * is not present, an address, many events, records with contexts, a sub-buffer that is full.
 */
#ifndef STRATA_KERNEL_CALLS_IN_PLACE_BPF_H
#define STRATA_KERNEL_CALLS_IN_PLACE_BPF_H

#define AT_ONCE_WORDS  (STRATA_ABI_KERNEL_READS_MAX / 4)
#define AT_ONCE_EVENTS 4u
#define EVENT_WORDS    (sizeof(struct strata_epoll_event) / 4)
#define EVENT_DATA     (__builtin_offsetof(struct strata_epoll_event, data) / 4)
#define EMPTY_ADDRESS  5u /* bytes of SOCKADDR without an address */

/* The one argument of a call that points to memory, and where its @bytes go in the payload. */
struct read_argument {
	uint64_t address;
	uint32_t place, bytes;
};

/* Looks at argument @i for record_entry_in_place(). Returns 0 if that cannot record it. */
STRATA_INLINE int is_in_place(struct read_argument *read,
			      const volatile struct strata_abi_kernel_syscall *s, uint32_t i,
			      uint64_t argument, uint64_t command)
{
	uint32_t kind = s->kind[i];

	if (kind <= STRATA_ABI_KERNEL_ARG_U64)
		return 1;
	if (kind == STRATA_ABI_KERNEL_ARG_SOCKADDR) {
		read->place = s->offset[i];
		read->bytes = EMPTY_ADDRESS;
		return !argument;
	}
	read->address = argument;
	read->place = s->offset[i];
	read->bytes = kind & (STRATA_ABI_KERNEL_ARG_MEMORY - 1);
	if (kind == STRATA_ABI_KERNEL_ARG_TIMEOUT) {
		if (!strata_futex_waits(command))
			read->address = 0;
		read->place += 8;
		read->bytes = 16;
	}
	return 1;
}

/* Writes the register of a timeout, which write_number() leaves out. */
STRATA_INLINE void write_timeout(unsigned char *to,
				 const volatile struct strata_abi_kernel_syscall *s, uint32_t i,
				 uint64_t argument)
{
	if (s->kind[i] == STRATA_ABI_KERNEL_ARG_TIMEOUT)
		*(volatile uint64_t *)(void *)(to + s->offset[i]) = argument;
}

/* Records the entry of a call that has CALL_READS. Returns 1 if that is done, or its record discarded. */
static __attribute__((noinline)) int
record_entry_in_place(const struct pt_regs *regs,
		      const volatile struct strata_abi_kernel_syscall *s, uint64_t pid_tgid)
{
	struct read_argument read = { 0, 0, 0 };
	uint32_t word[AT_ONCE_WORDS] = { 0 };
	uint64_t bytes, i;
	struct strata_record r;
	unsigned char *to;
	int error;

	/* Marks of arguments that were not present are forgotten by remember_unread(); a task with one has storage. */
	if (event.contexts ||
	    (STRATA_ONCE(uint64_t, control.unread) && strata_current()->bpf_storage))
		return 0;
	if (!is_in_place(&read, s, 0, strata_arch_argument(regs, 0), 0) ||
	    !is_in_place(&read, s, 1, strata_arch_argument(regs, 1), 0) ||
	    !is_in_place(&read, s, 2, strata_arch_argument(regs, 2), 0) ||
	    !is_in_place(&read, s, 3, strata_arch_argument(regs, 3),
			 strata_arch_argument(regs, 1)) ||
	    !is_in_place(&read, s, 4, strata_arch_argument(regs, 4), 0) ||
	    !is_in_place(&read, s, 5, strata_arch_argument(regs, 5), 0))
		return 0;
	bytes = strata_opaque(read.bytes);
	if (bytes > sizeof(word))
		return 0;
	if (read.address && bpf_probe_read_user(word, (uint32_t)bytes, (const void *)read.address))
		return 0;
	error = strata_record_begin_part(&r, STRATA_RECORD_FAST, s->entry_id, pid_tgid,
					 s->fixed_bytes);
	if (error)
		return error != -EAGAIN;
	write_numbers(r.slot.cursor, s, regs);
	write_timeout(r.slot.cursor, s, 3, strata_arch_argument(regs, 3));
	to = r.slot.cursor + (uint8_t)read.place;
	for (i = 0; i < AT_ONCE_WORDS; i++) {
		if (4 * i + 4 > bytes)
			break;
		*(volatile uint32_t *)(void *)(to + 4 * i) = word[i];
	}
	if (bytes == EMPTY_ADDRESS)
		*(volatile unsigned char *)(to + 4) = 0;
	strata_record_end(&r);
	return 1;
}

/* Writes the two lists of ARG_EVENTS: @n times bits, then @n times data. */
STRATA_INLINE void write_events(unsigned char *to, const uint32_t *word, uint64_t n)
{
	uint32_t i;

	*(volatile unsigned char *)to++ = (unsigned char)n;
	for (i = 0; i < AT_ONCE_EVENTS; i++) {
		if (i >= n)
			break;
		*(volatile uint32_t *)(void *)(to + 4 * i) = word[EVENT_WORDS * i];
	}
	to += 4 * n;
	*(volatile unsigned char *)to++ = (unsigned char)n;
	for (i = 0; i < AT_ONCE_EVENTS; i++) {
		if (i >= n)
			break;
		*(volatile uint32_t *)(void *)(to + 8 * i) = word[EVENT_WORDS * i + EVENT_DATA];
		*(volatile uint32_t *)(void *)(to + 8 * i + 4) =
			word[EVENT_WORDS * i + EVENT_DATA + 1];
	}
}

/* Records the exit of a call that has CALL_GIVES. Returns 1 if that is done, or its record discarded. */
static __attribute__((noinline)) int
record_exit_in_place(const unsigned long long *context,
		     const volatile struct strata_abi_kernel_syscall *s, uint64_t pid_tgid)
{
	uint32_t which = s->flags / STRATA_ABI_KERNEL_CALL_GIVES_AT & 7,
		 word[EVENT_WORDS * AT_ONCE_EVENTS] = { 0 };
	uint64_t address = 0, n = 0;
	uint32_t is_events, bytes;
	struct strata_record r;
	int error;

	if (event.contexts || which > 5)
		return 0;
	is_events = s->exit_kind[which] == STRATA_ABI_KERNEL_ARG_EVENTS;
	if (has_outputs(s->flags, (int64_t)context[1]))
		address = entry_argument(context, which);
	if (is_events) {
		if (address)
			n = strata_opaque(context[1]);
		if (n > AT_ONCE_EVENTS ||
		    (n && bpf_probe_read_user(word, (uint32_t)n * EVENT_WORDS * 4,
					      (const void *)address)))
			return 0;
		bytes = 2 + 12 * (uint32_t)n;
	} else {
		if (address)
			return 0;
		bytes = EMPTY_ADDRESS;
	}
	error = strata_record_begin_part(&r, STRATA_RECORD_FAST, s->exit_id, pid_tgid,
					 (uint32_t)sizeof(int64_t) + bytes);
	if (error)
		return error != -EAGAIN;
	*(volatile int64_t *)(void *)r.slot.cursor = (int64_t)context[1];
	if (is_events) {
		write_events(r.slot.cursor + sizeof(int64_t), word, n);
	} else {
		*(volatile uint32_t *)(void *)(r.slot.cursor + 8) = 0;
		*(volatile unsigned char *)(r.slot.cursor + 12) = 0;
	}
	strata_record_end(&r);
	return 1;
}

#endif /* STRATA_KERNEL_CALLS_IN_PLACE_BPF_H */
