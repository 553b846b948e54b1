/* SPDX-License-Identifier: MIT */
/*
 * fault.bpf.h - tells page faults of tracers' reads of user memory from page faults of the program.
 *
 * A BPF program that copies user memory or walks the user's stack faults where the page is absent. The fault is a
 * kernel fault of the current task, although the task has not touched the page. Such a fault has two marks:
 *
 * - The task is where the kernel cannot wait for a page, or in a sleepable BPF program. The kernel counts both in the task.
 * - A function of the kernel that reads for tracers is the faulting function or one of its nearest callers. The callers
 *   are addresses on the kernel's stack; old ones may lie between them, so that the names alone do not tell.
 *
 * The test sees reads of every session, and of perf and bpftrace, and needs no memory that sessions share.
 */
#ifndef STRATA_KERNEL_FAULT_BPF_H
#define STRATA_KERNEL_FAULT_BPF_H

#include "core.bpf.h"
#include "record.bpf.h"

#define STRATA_FAULT_WORDS   16u /* of the kernel's stack that are searched for callers */
#define STRATA_FAULT_READERS 9u
#define STRATA_FAULT_NAME    32u /* [byte] */
#define STRATA_FAULT_SITES   64u /* a power of two */

/* A name, padded with zeroes to whole words. */
union strata_fault_name {
	char text[STRATA_FAULT_NAME];
	uint64_t word[STRATA_FAULT_NAME / 8];
};

/* The kernel's functions that read user memory for tracers only. The first four cannot wait for a page. */
const volatile union strata_fault_name
	fault_readers[STRATA_FAULT_READERS] SEC(".rodata.readers") = {
		{ "copy_from_user_nofault" },
		{ "strncpy_from_user_nofault" },
		{ "copy_from_user_nmi" },
		{ "perf_callchain_user" },
		/* Callers of the functions above, for kernels whose compiler has inlined these. */
		{ "bpf_probe_read_user" },
		{ "bpf_probe_read_user_str" },
		/* Functions that sleepable programs call: */
		{ "bpf_copy_from_user" },
		{ "bpf_copy_from_user_str" },
		{ "bpf_copy_from_user_task" },
	};

const char fault_name_format[] SEC(".rodata.symbol") = "%ps";

/*
 * Addresses whose function was looked up: the lowest 32 bits of the address, and in bit 32 whether the function is a
 * reader. Looking up a name takes the kernel about a microsecond.
 */
uint64_t fault_sites[STRATA_FAULT_SITES] SEC(".data.sites");

/* Returns 1 if the function at @address reads for tracers. A global function: the verifier goes through it once. */
__attribute__((noinline)) int strata_is_reader(uint64_t address)
{
	uint64_t *site = &fault_sites[(address ^ address >> 6) & (STRATA_FAULT_SITES - 1)];
	uint64_t known = STRATA_ONCE(uint64_t, *site);
	union strata_fault_name name;
	uint32_t i, is_reader = 0;
	__u64 data = address;

	if ((uint32_t)known == (uint32_t)address)
		return (int)(known >> 32);
	for (i = 0; i < STRATA_FAULT_NAME / 8; i++)
		name.word[i] = 0;
	if (bpf_snprintf(name.text, STRATA_FAULT_NAME, fault_name_format, &data, sizeof(data)) < 0)
		return 0;
	for (i = 0; i < STRATA_FAULT_READERS; i++)
		if (name.word[0] == fault_readers[i].word[0] &&
		    name.word[1] == fault_readers[i].word[1] &&
		    name.word[2] == fault_readers[i].word[2] &&
		    name.word[3] == fault_readers[i].word[3])
			is_reader = 1;
	*(volatile uint64_t *)site = (uint64_t)is_reader << 32 | (uint32_t)address;
	return (int)is_reader;
}

/*
 * Returns how many callers of the faulting function may be a reader; 0 if the task is in no code
 * that reads for tracers.
 */
STRATA_INLINE uint64_t strata_fault_callers(void)
{
	const struct task_struct *task = strata_current();
	const struct task_struct___trace_rcu *traced = (const void *)task;

	if (task->pagefault_disabled)
		return 2;
	/* Sleepable programs copy by a function that others use, too. */
	if (bpf_core_field_exists(traced->trc_reader_nesting) && traced->trc_reader_nesting)
		return 4;
	return 0;
}

/* Returns 1 if a tracer has read user memory at this kernel fault. Tracers do not write. */
static __attribute__((noinline)) int strata_is_tracer_fault(uint64_t ip, uint64_t sp,
							    uint64_t error_code)
{
	uint64_t stack[STRATA_FAULT_WORDS], word, left = strata_fault_callers();
	uint32_t i;

	if (!left || error_code & STRATA_ARCH_FAULT_IS_WRITE)
		return 0;
	if (strata_is_reader(ip))
		return 1;
	if (bpf_probe_read_kernel(stack, sizeof(stack), (const void *)sp))
		return 0;
	/* The function has no frame of its own, so the word after its return address is not its caller's. */
	if (left == 2 && stack[0] >= STRATA_ARCH_KERNEL_TEXT)
		return strata_is_reader(stack[0]);
	for (i = 0; i < STRATA_FAULT_WORDS && left; i++) {
		word = *(volatile uint64_t *)&stack[i];
		/* The stack also holds values that are no return addresses, such as addresses of variables. */
		if (word < STRATA_ARCH_KERNEL_TEXT)
			continue;
		if (strata_is_reader(word))
			return 1;
		left--;
	}
	return 0;
}

#endif /* STRATA_KERNEL_FAULT_BPF_H */
