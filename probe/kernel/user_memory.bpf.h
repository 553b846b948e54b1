/* SPDX-License-Identifier: MIT */
/*
 * user_memory.bpf.h - arguments that point to user memory, put together in memory of this CPU.
 *
 * One argument, one string and the like are global functions, which the verifier goes through once; see ring_client.bpf.h.
 */
#ifndef STRATA_KERNEL_USER_MEMORY_BPF_H
#define STRATA_KERNEL_USER_MEMORY_BPF_H

#include "argument_arrays.bpf.h"
#include "strings.bpf.h"

#define STRATA_ADDRESS_MAX 126u
#define STRATA_AF_UNIX	   1u
#define STRATA_AF_INET	   2u
#define STRATA_AF_INET6	   10u

/* The memory of one argument: its address, and the number that gives its length. */
struct strata_user_memory {
	uint32_t kind;
	uint64_t address;
	uint64_t size;
};

/* The beginning of a struct msghdr, and of a 32-bit program's. */
struct strata_message {
	uint64_t name;
	uint32_t name_bytes;
};

struct strata_message_compat {
	uint32_t name;
	uint32_t name_bytes;
};

/* Returns the size of the string without its NUL, or @most if the string is longer. */
STRATA_INLINE uint64_t strata_read_string(struct strata_scratch *scratch, unsigned char *to,
					  uint64_t address, uint32_t most)
{
	long n = bpf_probe_read_user_str(to, most + 1, (const void *)address);

	if (n <= 0)
		return strata_write_address(scratch, to, address);
	return (uint64_t)n - 1;
}

/* A text of less than @most bytes and a NUL; only a NUL if there is none. Longer ones are cut, and counted. */
STRATA_GLOBAL int strata_scratch_path(uint64_t address, uint64_t most)
{
	struct strata_scratch *scratch = strata_scratch();
	unsigned char *to;
	uint64_t n = 0;

	if (!scratch || most > STRATA_ABI_KERNEL_TEXT_MAX)
		return 0;
	to = strata_scratch_end(scratch);
	if (!to)
		return 0;
	if (address)
		n = strata_opaque(strata_read_string(scratch, to, address, (uint32_t)most));
	if (n >= most) {
		strata_count_cut();
		n = most - 1;
	}
	if (n >= STRATA_ABI_KERNEL_TEXT_MAX)
		return 0;
	to[n] = 0;
	scratch->at += (uint32_t)n + 1;
	return 0;
}

/*
 * Copies @bytes that the kernel has written to the program's memory, up to the first NUL if there is one, and adds a
 * NUL.
 */
STRATA_GLOBAL int strata_scratch_output(uint64_t address, uint64_t bytes)
{
	struct strata_scratch *scratch = strata_scratch();
	unsigned char *to, *copy;
	long n = 0;

	if (!scratch)
		return 0;
	to = strata_scratch_end(scratch);
	if (!to)
		return 0;
	if (address && bytes >= STRATA_ABI_KERNEL_TEXT_MAX) {
		strata_count_cut();
		bytes = STRATA_ABI_KERNEL_TEXT_MAX - 1;
	}
	/* The program may write to this memory too, so the copy ends where its own first NUL was found. */
	copy = to + STRATA_ABI_KERNEL_TEXT_MAX;
	if (address && bytes < STRATA_ABI_KERNEL_TEXT_MAX) {
		scratch->has_unread =
			!!bpf_probe_read_user(copy, (uint32_t)bytes, (const void *)address);
		copy[bytes] = 0;
		n = bpf_probe_read_kernel_str(to, STRATA_ABI_KERNEL_TEXT_MAX, copy);
	}
	n = (long)strata_opaque((uint64_t)n - 1);
	if ((uint64_t)n >= STRATA_ABI_KERNEL_TEXT_MAX)
		n = 0;
	to[n] = 0;
	scratch->at += (uint32_t)n + 1;
	return 0;
}

/* The strings of an array of pointers, and how long they are together. */
STRATA_INLINE void strata_scratch_strings(struct strata_scratch *scratch, uint64_t address)
{
	uint32_t begin = scratch->at;
	unsigned char *to;

	if (begin > STRATA_SCRATCH_MAX)
		return;
	scratch->at += 2;
	if (address)
		strata_scratch_join(address, 0);
	to = scratch->bytes + begin;
	*(uint16_t *)(void *)to = (uint16_t)(scratch->at - begin - 2);
}

/* Returns the size of a socket's name. It ends at a NUL; an abstract name begins with one. */
STRATA_INLINE uint32_t strata_socket_path(unsigned char *path, uint32_t n)
{
	long bytes;

	if (!path[0])
		return n;
	path[n] = 0;
	bytes = bpf_probe_read_kernel_str(path + STRATA_ADDRESS_MAX + 2, STRATA_ADDRESS_MAX + 1,
					  path);
	return bytes > 0 && bytes <= STRATA_ADDRESS_MAX + 1 ? (uint32_t)bytes - 1 : n;
}

STRATA_GLOBAL int strata_scratch_address(uint64_t address, uint64_t size)
{
	struct strata_scratch *scratch = strata_scratch();
	uint16_t family = 0, port = 0;
	uint32_t n = 0, from = 2;
	unsigned char *to;

	if (!scratch)
		return 0;
	to = strata_scratch_end(scratch);
	if (!to)
		return 0;
	size &= 0xffffffff;
	if (address && size >= 2 && bpf_probe_read_user(&family, 2, (const void *)address)) {
		scratch->has_unread = 1;
		size = 0;
	}
	if (address && size > 2) {
		n = (uint32_t)size - 2;
		if (family == STRATA_AF_INET && size >= 8) {
			n = 4;
			from = 4;
		} else if (family == STRATA_AF_INET6 && size >= 24) {
			n = 16;
			from = 8;
		}
		if (from > 2)
			bpf_probe_read_user(&port, 2, (const void *)(address + 2));
		if (n > STRATA_ADDRESS_MAX)
			n = STRATA_ADDRESS_MAX;
		if (bpf_probe_read_user(to + 5, n, (const void *)(address + from))) {
			scratch->has_unread = 1;
			n = 0;
		}
		if (family == STRATA_AF_UNIX && n)
			n = strata_socket_path(to + 5, n);
	}
	__builtin_memcpy(to, &family, 2);
	__builtin_memcpy(to + 2, &port, 2);
	to[4] = (unsigned char)n;
	scratch->at += 5 + n;
	return 0;
}

/* Finds the address and the length of a message's name: the argument of the call is the message. */
STRATA_INLINE void strata_find_name(struct strata_scratch *scratch,
				    struct strata_user_memory *memory)
{
	const void *at = (const void *)memory->address;
	struct strata_message message = { 0, 0 };
	struct strata_message_compat compat = { 0, 0 };

	if (!at)
		return;
	if (scratch->is_compat) {
		scratch->has_unread = !!bpf_probe_read_user(&compat, sizeof(compat), at);
		message.name = compat.name;
		message.name_bytes = compat.name_bytes;
	} else {
		/* Reads the members only: the padding behind them may be elsewhere. */
		scratch->has_unread = !!bpf_probe_read_user(&message, 12, at);
	}
	memory->address = message.name;
	memory->size = message.name_bytes;
}

/* @bytes of user memory as they are; zeroes if there is none. */
STRATA_GLOBAL int strata_scratch_memory(uint64_t address, uint32_t bytes)
{
	struct strata_scratch *scratch = strata_scratch();
	unsigned char *to;
	uint32_t i;

	if (!scratch)
		return 0;
	to = strata_scratch_end(scratch);
	if (!to || bytes > STRATA_ABI_KERNEL_MEMORY_MAX)
		return 0;
	for (i = 0; i < STRATA_ABI_KERNEL_MEMORY_MAX / 8; i++)
		*(volatile uint64_t *)(void *)(to + 8 * i) = 0;
	if (address && bpf_probe_read_user(to, bytes, (const void *)address))
		scratch->has_unread = 1;
	scratch->at += bytes;
	return 0;
}

/* Returns the offset in struct mmsghdr of the length of the first message [byte]. */
STRATA_INLINE uint64_t strata_message_length_at(const struct strata_scratch *scratch)
{
	return scratch->is_compat ? 28 : 56;
}

STRATA_GLOBAL int strata_scratch_messages(uint64_t address)
{
	struct strata_user_memory memory = { 0, address, 0 };
	struct strata_scratch *scratch = strata_scratch();
	uint32_t bytes = 0;

	if (!scratch)
		return 0;
	strata_find_name(scratch, &memory);
	strata_scratch_address(memory.address, memory.size);
	if (address)
		bpf_probe_read_user(&bytes, sizeof(bytes),
				    (const void *)(address + strata_message_length_at(scratch)));
	strata_scratch_number(scratch, bytes, sizeof(bytes));
	return 0;
}

/* Returns whether this operation of futex() has a timeout in memory: FUTEX_WAIT, LOCK_PI, WAIT_BITSET,
 * WAIT_REQUEUE_PI and LOCK_PI2 have. The same argument of others is a number, or unused. */
STRATA_INLINE int strata_futex_waits(uint64_t op)
{
	return 1u << (op & 31) & (1u << 0 | 1u << 6 | 1u << 9 | 1u << 11 | 1u << 13) &&
	       !(op & 0x60);
}

STRATA_INLINE void strata_scratch_timeout(struct strata_scratch *scratch, uint64_t argument,
					  uint32_t bytes)
{
	strata_scratch_number(scratch, argument, 8);
	strata_scratch_memory(strata_futex_waits(scratch->argument[1]) ? argument : 0, bytes);
}

/* Appends an argument to the payload. @size: the number that gives its length. */
STRATA_GLOBAL int strata_scratch_argument(uint32_t kind, uint64_t address, uint64_t size)
{
	struct strata_user_memory memory = { kind, address, size };
	struct strata_scratch *scratch = strata_scratch();

	if (!scratch)
		return 0;
	switch (kind) {
	case STRATA_ABI_KERNEL_ARG_NONE:
		break;
	case STRATA_ABI_KERNEL_ARG_U32:
		strata_scratch_number(scratch, address, 4);
		break;
	case STRATA_ABI_KERNEL_ARG_U64:
		strata_scratch_number(scratch, address, 8);
		break;
	case STRATA_ABI_KERNEL_ARG_PATH:
		strata_scratch_path(address, STRATA_ABI_KERNEL_TEXT_MAX);
		break;
	case STRATA_ABI_KERNEL_ARG_NAME:
		strata_scratch_path(address, STRATA_ABI_KERNEL_NAME_MAX);
		break;
	case STRATA_ABI_KERNEL_ARG_STRINGS:
		strata_scratch_strings(scratch, address);
		break;
	case STRATA_ABI_KERNEL_ARG_MESSAGE:
		strata_find_name(scratch, &memory);
		strata_scratch_address(memory.address, memory.size);
		break;
	case STRATA_ABI_KERNEL_ARG_SOCKADDR:
		strata_scratch_address(address, size);
		break;
	case STRATA_ABI_KERNEL_ARG_TIMEOUT:
		strata_scratch_timeout(scratch, address, 16);
		break;
	case STRATA_ABI_KERNEL_ARG_TIMEOUT_NARROW:
		strata_scratch_timeout(scratch, address, 8);
		break;
	case STRATA_ABI_KERNEL_ARG_OPTION:
		strata_scratch_option(address, size);
		break;
	case STRATA_ABI_KERNEL_ARG_POLL:
		strata_scratch_poll(address, size, 0);
		break;
	case STRATA_ABI_KERNEL_ARG_SET:
		strata_scratch_set(address, scratch->argument[0]);
		break;
	case STRATA_ABI_KERNEL_ARG_MESSAGES:
		strata_scratch_messages(address);
		break;
	default:
		if (kind & STRATA_ABI_KERNEL_ARG_MEMORY)
			strata_scratch_memory(address, kind & (STRATA_ABI_KERNEL_ARG_MEMORY - 1));
		else if (kind & STRATA_ABI_KERNEL_ARG_LAYOUT)
			strata_scratch_pieces(scratch, address, kind);
		break;
	}
	return 0;
}

#endif /* STRATA_KERNEL_USER_MEMORY_BPF_H */
