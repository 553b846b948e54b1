/* SPDX-License-Identifier: MIT */
/*
 * stack_copy.h - the copy of a program's registers and stack in records of the kernel, from which a reader unwinds calls.
 *
 * A copy is the last of an event's own contexts, and never one of all events:
 *   u32 n, n times u64: the registers in the kernel's order (struct pt_regs)
 *   u32 n, n times u64: the stack, from the stack pointer on
 * Both are empty if there is no program of 64 bits.
 */
#ifndef STRATA_ABI_STACK_COPY_H
#define STRATA_ABI_STACK_COPY_H

/* First of three bits, n, of the contexts: 0 for no copy, else the largest size of the stack's is COPY_UNIT << n bytes. */
#define STRATA_ABI_KERNEL_CONTEXT_STACK_COPY 28u

#define STRATA_ABI_KERNEL_COPY_UNIT 512u
#define STRATA_ABI_KERNEL_COPY_MAX  65536u

/* Number of registers, and the room for both in a value of `rings` besides SLACK [byte]. */
#define STRATA_ABI_KERNEL_COPY_REGISTERS 21u
#define STRATA_ABI_KERNEL_COPY_SLACK	 69632u

#endif /* STRATA_ABI_STACK_COPY_H */
