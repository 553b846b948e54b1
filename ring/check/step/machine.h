/* SPDX-License-Identifier: MIT */
/*
 * machine.h - what abort.c needs of a machine: breakpoints, and how it finds the instructions that an operation
 * runs.
 *
 * x86-64: by the trap flag, all of them. AArch64 has none for itself: breakpoints are planted in all sections at
 * once, each of which is taken away when it is hit. None on stlxp, which would then always fail: whoever comes to
 * the instruction in front of it comes there, too. What is between sections, but for what arms them, is not found
 * there, and not tried.
 *
 * Under qemu-user (ring/emulation/fake_rseq.h) the signal's handler does what the kernel would: rseq(2).
 */
#ifndef STRATA_RING_CHECK_MACHINE_H
#define STRATA_RING_CHECK_MACHINE_H

#include "../../emulation/fake_rseq.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* struct rseq_cs of <linux/rseq.h>. */
struct descriptor {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t length;
	uint64_t abort;
};

extern const struct descriptor __start___rseq_cs[], __stop___rseq_cs[];
extern const char __executable_start[], etext[];

static void trace_step(uint64_t address);

static void *rseq_area(void)
{
	return (char *)__builtin_thread_pointer() + __rseq_offset;
}

static uint64_t rseq_descriptor(void)
{
	uint64_t pointer;

	memcpy(&pointer, (char *)rseq_area() + STRATA_RSEQ_RSEQ_CS, sizeof(pointer));
	return pointer;
}

#if defined(__x86_64__)

typedef unsigned char code_t;

#define BREAKPOINT     0xcc
#define RSEQ_SIGNATURE 0x53053053

static int memory_fd;

static int machine_begin(void)
{
	memory_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	return memory_fd < 0;
}

static void poke(uint64_t address, code_t code)
{
	if (pwrite(memory_fd, &code, 1, (off_t)address) != 1) {
		perror("abort: cannot write to the program's own code");
		_exit(2);
	}
}

/* Returns the address of the next instruction. */
static uint64_t machine_next(const ucontext_t *uc)
{
	return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
}

static void machine_go_on_at(ucontext_t *uc, uint64_t address)
{
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)address;
}

/* Returns the address after a breakpoint that aborted nothing. */
static uint64_t machine_behind(uint64_t breakpoint)
{
	return breakpoint + 1;
}

static inline uint64_t machine_add(uint64_t *p, uint64_t step)
{
	__asm__ volatile("xaddq %0, %1" : "+r"(step), "+m"(*p) : : "memory", "cc");
	return step;
}

static void trace_begin(void)
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
}

static void trace_end(void)
{
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
}

static void trace_trap(ucontext_t *uc)
{
	trace_step(machine_next(uc));
}

static const char *publish_kind(const struct descriptor *d)
{
	const unsigned char *code = (const unsigned char *)(uintptr_t)d->start;
	uint64_t i;

	for (i = 0; i + 1 < d->length; i++)
		if (code[i] == 0x0f && code[i + 1] == 0x31) /* rdtsc */
			return "publish, in one section";
	for (i = 0; i + 1 < d->length; i++)
		if (code[i] == 0x31 && code[i + 1] == 0xc9) /* xorl %ecx, %ecx */
			return "publish, loop";
	return "publish, unrolled";
}

#else

typedef uint32_t code_t;

/* adrp, add, str in front of a section. */
#define ARMING	       12
#define BREAKPOINT     UINT32_C(0xd4200000) /* brk #0 */
#define CBNZ	       0x35
#define RSEQ_SIGNATURE 0xd428bc00

static uint64_t code_begin;
static code_t
	*under; /* of each word from code_begin on, what belongs there; 0: nothing was planted */

static int machine_begin(void)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t end = ((uintptr_t)etext + page - 1) & ~(page - 1);

	code_begin = (uintptr_t)__executable_start & ~(page - 1);
	under = calloc((end - code_begin) / 4, sizeof(*under));
	return !under || mprotect((void *)(uintptr_t)code_begin, end - code_begin,
				  PROT_READ | PROT_WRITE | PROT_EXEC);
}

static code_t *code_at(uint64_t address)
{
	return (code_t *)(uintptr_t)address;
}

static void poke(uint64_t address, code_t code)
{
	*(volatile code_t *)code_at(address) = code;
	__builtin___clear_cache((char *)code_at(address), (char *)code_at(address + 4));
}

static uint64_t machine_next(const ucontext_t *uc)
{
	return uc->uc_mcontext.pc;
}

static void machine_go_on_at(ucontext_t *uc, uint64_t address)
{
	uc->uc_mcontext.pc = address;
}

static uint64_t machine_behind(uint64_t breakpoint)
{
	return breakpoint;
}

/* Adds outside of a section, where nobody can interfere. */
static inline uint64_t machine_add(uint64_t *p, uint64_t step)
{
	*(volatile uint64_t *)p += step;
	return *p - step;
}

static int is_exclusive_store(uint64_t address)
{
	return (*code_at(address) & 0xffe08000) == 0xc8208000;
}

static void trace_begin(void)
{
	const struct descriptor *d;
	uint64_t at;

	for (d = __start___rseq_cs; d < __stop___rseq_cs; d++)
		for (at = d->start - ARMING; at <= d->start + d->length; at += 4)
			if (!is_exclusive_store(at) && *code_at(at) != BREAKPOINT) {
				under[(at - code_begin) / 4] = *code_at(at);
				poke(at, BREAKPOINT);
			}
}

static void untrace(uint64_t address)
{
	code_t *code = &under[(address - code_begin) / 4];

	if (*code)
		poke(address, *code);
	*code = 0;
}

static void trace_end(void)
{
	const struct descriptor *d;
	uint64_t at;

	for (d = __start___rseq_cs; d < __stop___rseq_cs; d++)
		for (at = d->start - ARMING; at <= d->start + d->length; at += 4)
			untrace(at);
}

/* The breakpoints in front of an exclusive store make it fail: cbnz at post-commit leads back, and is met once more. */
static int store_has_failed(const ucontext_t *uc, uint64_t address)
{
	const code_t store = *code_at(address - 4);

	return is_exclusive_store(address - 4) && uc->uc_mcontext.regs[store >> 16 & 31] & 1;
}

static void trace_trap(ucontext_t *uc)
{
	const uint64_t address = machine_next(uc);
	const code_t code = under[(address - code_begin) / 4];

	if (code >> 24 == CBNZ && store_has_failed(uc, address)) {
		/* Its offset is in bits 5 to 23, signed, in words. */
		machine_go_on_at(uc,
				 address + (uint64_t)((int64_t)((uint64_t)code << 40) >> 45) * 4);
		return;
	}
	untrace(address);
	trace_step(address);
	if (is_exclusive_store(address + 4))
		trace_step(address + 4);
}

static const char *publish_kind(const struct descriptor *d)
{
	uint64_t i;

	for (i = 0; i < d->length; i += 4)
		if ((*code_at(d->start + i) & ~UINT32_C(31)) == 0xd53be040) /* mrs cntvct_el0 */
			return "publish, in one section";
	return "publish, loop";
}

#endif

/* Aborts the section as the kernel would, on machines without a kernel that does it. */
static void machine_abort(ucontext_t *uc)
{
	const struct descriptor *d = (const struct descriptor *)(uintptr_t)rseq_descriptor();
	uint64_t none = 0;

	if (!fake_rseq || !d)
		return;
	if (machine_next(uc) - d->start < d->length)
		machine_go_on_at(uc, d->abort);
	memcpy((char *)rseq_area() + STRATA_RSEQ_RSEQ_CS, &none, sizeof(none));
}

#endif /* STRATA_RING_CHECK_MACHINE_H */
