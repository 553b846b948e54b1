/* SPDX-License-Identifier: MIT */
/*
 * fake_rseq.h - restartable sequences for one thread where the kernel has none: under qemu-user, so that the
 * instructions of AArch64's sections are run there at all. Nobody is preempted between them for the other threads
 * that there are not; the CPU is what fake_rseq_move() says.
 *
 * Included before anything has asked strata_rseq_available(). With a kernel that registers threads it does
 * nothing.
 */
#ifndef STRATA_RING_EMULATION_FAKE_RSEQ_H
#define STRATA_RING_EMULATION_FAKE_RSEQ_H

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <strata/ring/ring.h>
#include <sys/mman.h>
#include <unistd.h>

/* Set to 1 if the struct rseq of the only thread is ours. */
__attribute__((unused)) static int fake_rseq;

/* Moves the thread to @cpu from the next section on. */
__attribute__((unused)) static void fake_rseq_move(uint32_t cpu)
{
#if defined(STRATA_RSEQ_NATIVE)
	memcpy((char *)__builtin_thread_pointer() + __rseq_offset + STRATA_RSEQ_CPU_ID, &cpu,
	       sizeof(cpu));
#endif
	(void)cpu;
}

/* Call it first of all, and no thread may be made after it. */
__attribute__((unused)) static void fake_rseq_begin(void)
{
#if defined(STRATA_RSEQ_NATIVE) && defined(__aarch64__)
	/*
	 * These constants of libc are volatile, because the compiler knows that they never change.
	 */
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const unsigned int size = 32;
	cpu_set_t allowed;
	uint32_t cpu = 0;

	if (!&__rseq_size || !&__rseq_offset || *(const volatile unsigned int *)&__rseq_size ||
	    sched_getaffinity(0, sizeof(allowed), &allowed) ||
	    mprotect((void *)((uintptr_t)&__rseq_size & ~(page - 1)), page, PROT_READ | PROT_WRITE))
		return;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	fake_rseq_move(cpu);
	*(volatile unsigned int *)(uintptr_t)&__rseq_size = size;
	fake_rseq = 1;
#endif
}

#endif /* STRATA_RING_EMULATION_FAKE_RSEQ_H */
