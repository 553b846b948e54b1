/* SPDX-License-Identifier: MIT */
/*
 * uprobe.bpf.c - any instruction of a program or library, as its constant `event` says; see tracepoint.bpf.c.
 *
 * How long a string is, is known only when it was read, and only then a record can be reserved. And the kernel
 * may preempt this program: memory of a CPU could have two users. So strings are read into a slot that is
 * taken and given back.
 */
#include "record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Sum of what does not depend on the strings, their lengths included [byte]. */
const volatile uint32_t fixed_bytes SEC(".rodata.fixed");
const volatile uint32_t nr_strings SEC(".rodata.strings");

#define NR_SLOTS   64u
#define SLOT_TRIES 8u

struct slot {
	uint32_t is_taken;
	uint32_t reserved;
	char bytes[STRATA_ABI_KERNEL_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_SLOTS);
	__type(key, uint32_t);
	__type(value, struct slot);
} slots SEC(".maps");

STRATA_INLINE struct slot *take_slot(uint32_t cpu)
{
	struct slot *slot;
	uint32_t i, key;

	for (i = 0; i < SLOT_TRIES; i++) {
		key = (cpu + i) & (NR_SLOTS - 1);
		slot = (struct slot *)bpf_map_lookup_elem(&slots, &key);
		if (slot && !__sync_lock_test_and_set(&slot->is_taken, 1))
			return slot;
	}
	return NULL;
}

STRATA_INLINE void give_slot(struct slot *slot)
{
	if (slot)
		*(volatile uint32_t *)&slot->is_taken = 0;
}

STRATA_INLINE int is_string(uint64_t kind)
{
	return kind == STRATA_ABI_KERNEL_STRING || kind == STRATA_ABI_KERNEL_STRING_AT;
}

STRATA_INLINE uint64_t read_register(const char *registers, uint64_t offset)
{
	uint64_t value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), registers + offset);
	return value;
}

STRATA_INLINE void count_unreadable(void)
{
	__sync_fetch_and_add(&control.unreadable, 1);
}

/* Of MEMORY and STRING_AT. */
STRATA_INLINE uint64_t memory_address(const char *registers, uint32_t i)
{
	uint64_t address = (uint64_t)event.part[i].addend;

	if (event.part[i].offset != STRATA_ABI_KERNEL_NO_REGISTER)
		address += read_register(registers, event.part[i].offset);
	if (event.part[i].scale)
		address += event.part[i].scale * read_register(registers, event.part[i].index);
	return address;
}

/* Where a string is; 0: nowhere. */
STRATA_INLINE uint64_t string_address(const char *registers, uint32_t i)
{
	uint64_t address;

	if (event.part[i].kind == STRATA_ABI_KERNEL_STRING)
		return read_register(registers, event.part[i].offset);
	address = memory_address(registers, i);
	if (bpf_probe_read_user(&address, sizeof(address), (const void *)address)) {
		count_unreadable();
		return 0;
	}
	return address;
}

/* Returns its length without the NUL [byte]. */
STRATA_INLINE uint32_t read_string(struct slot *slot, uint32_t at, uint64_t address)
{
	long n;

	if (!address)
		return 0;
	if (!slot || at > STRATA_TEXT_BEGIN_MAX) {
		count_unreadable();
		return 0;
	}
	n = bpf_probe_read_user_str(slot->bytes + at, STRATA_ABI_KERNEL_TEXT_MAX,
				    (const void *)address);
	if (n <= 0) {
		count_unreadable();
		return 0;
	}
	if (n == STRATA_ABI_KERNEL_TEXT_MAX)
		__sync_fetch_and_add(&control.cut, 1);
	return (uint32_t)(n - 1) & (STRATA_ABI_KERNEL_TEXT_MAX - 1);
}

/* @i: of a part that is no string. */
STRATA_INLINE void write_value(unsigned char *to, const char *registers, uint32_t i, uint32_t n)
{
	uint64_t kind = event.part[i].kind, value;

	if (kind == STRATA_ABI_KERNEL_CONSTANT) {
		value = (uint64_t)event.part[i].addend;
		__asm__ volatile("" : : "r"(&value) : "memory");
		bpf_probe_read_kernel(to, n, &value);
		return;
	}
	if (kind == STRATA_ABI_KERNEL_REGISTER) {
		bpf_probe_read_kernel(to, n, registers + event.part[i].offset);
		return;
	}
	value = memory_address(registers, i);
	/* Zeroes if it cannot be read. */
	if (bpf_probe_read_user(to, n, (const void *)value))
		count_unreadable();
}

SEC("uprobe")
int strata_uprobe(const char *registers)
{
	/* In memory: registers are too few. */
	volatile uint16_t lengths[STRATA_ABI_KERNEL_PARTS_MAX];
	struct strata_source source;
	struct strata_record r;
	uint32_t i, bytes = 0, at = 0, from = 0, n;
	struct slot *slot = NULL;
	unsigned char *to;

	if (!strata_source_begin(&source))
		return 0;
	source.base = registers;
	source.kind = STRATA_SOURCE_CONTEXT;
	if (!strata_passes(&source, 0))
		return 0;
	if (nr_strings)
		slot = take_slot(source.cpu);
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts)
			break;
		if (!is_string(event.part[i].kind))
			continue;
		n = read_string(slot, bytes, string_address(registers, i));
		lengths[i] = (uint16_t)n;
		bytes += n;
	}
	to = strata_record_begin(&r, event.id, source.pid_tgid, fixed_bytes + bytes);
	if (!to) {
		give_slot(slot);
		return 0;
	}
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts || at > STRATA_TEXT_BEGIN_MAX)
			break;
		if (!is_string(event.part[i].kind)) {
			n = event.part[i].bytes;
			if (n > 8)
				break;
			write_value(to + at, registers, i, n);
			at += n;
			continue;
		}
		n = lengths[i];
		if (n > STRATA_ABI_KERNEL_TEXT_MAX)
			break;
		*(volatile uint16_t *)(void *)(to + at) = (uint16_t)n;
		if (slot && from <= STRATA_TEXT_BEGIN_MAX)
			bpf_probe_read_kernel(to + at + 2, n, slot->bytes + from);
		at += n + 2;
		from += n;
	}
	strata_record_end(&r);
	give_slot(slot);
	return 0;
}
