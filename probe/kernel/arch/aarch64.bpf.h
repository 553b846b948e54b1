/* SPDX-License-Identifier: MIT */
/*
 * aarch64.bpf.h - what the kernel's programs know of AArch64 and of its 32-bit programs, AArch32 with the EABI; see
 * ../arch.bpf.h.
 */
#ifndef STRATA_KERNEL_ARCH_AARCH64_BPF_H
#define STRATA_KERNEL_ARCH_AARCH64_BPF_H

/* The registers of a task: x0 to x30, and what a program's own are followed by. */
struct pt_regs {
	unsigned long regs[31];
	unsigned long sp;
	unsigned long pc;
	unsigned long pstate;
	unsigned long orig_x0; /* x0 when a call began, which its result replaces */
	int syscallno;
} STRATA_CORE;

/* What a task has of its CPU while it does not run. */
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} STRATA_CORE;

struct thread_info {
	unsigned long flags;
	uint32_t cpu;
} STRATA_CORE;

/* Members of a task of which only some machines know; with the task and not with a part of it, for CO-RE. */
#define STRATA_ARCH_IS_COMPAT(task) (!!((task)->thread_info.flags & 1ul << 22 /* TIF_32BIT */))
/* The thread's own data, which C libraries have above the stack of a thread. */
#define STRATA_ARCH_THREAD_DATA(task) ((uint64_t)(task)->thread.uw.tp_value)

/* System call numbers. */
#define STRATA_ARCH_RT_SIGRETURN    139u
#define STRATA_ARCH_EXECVE	    221u
#define STRATA_ARCH_EXECVEAT	    281u
#define STRATA_ARCH_COMPAT_EXECVE   11u
#define STRATA_ARCH_COMPAT_EXECVEAT 387u

/* The interface of a call, in the order of the labels of the field `abi`. */
#define STRATA_ARCH_ABI_COMPAT 1u
#define STRATA_ARCH_ABI(nr)    0u

/* The registers with which a copy of a stack begins: x0 to x30, sp, pc and pstate. */
#define STRATA_ARCH_COPY_REGISTERS 34u

/* struct epoll_event has 4 bytes of padding, for programs of 64 and of 32 bits. */
#define STRATA_ARCH_EPOLL_EVENT

/* The number of words in front of the instruction's address in a sample's registers, and behind it. */
#define STRATA_ARCH_SAMPLE_BEFORE 32
#define STRATA_ARCH_SAMPLE_BEHIND 1

#define STRATA_ARCH_KERNEL_TEXT	   0xffff800000000000ull
#define STRATA_ARCH_FAULT_IS_WRITE 0x40u /* WnR of ESR_ELx, for faults of data */

/* Returns the number of the system call that a task is in, as the kernel has it; -1: none. */
STRATA_ARCH_INLINE int64_t strata_arch_call(const struct pt_regs *regs)
{
	return regs->syscallno;
}

/* Returns the result of the call that a task returns from. */
STRATA_ARCH_INLINE int64_t strata_arch_result(const struct pt_regs *regs)
{
	return (int64_t)regs->regs[0];
}

/*
 * Returns whether a task with these registers is in a call. What interrupts a program has a negative number. A call that
 * has got its result looks as one that has not, so that a task which is preempted on its way to the program counts, too.
 */
STRATA_ARCH_INLINE int strata_arch_is_in_call(const struct pt_regs *regs)
{
	return regs->syscallno >= 0;
}

STRATA_ARCH_INLINE uint64_t strata_arch_ip(const struct pt_regs *regs)
{
	return regs->pc;
}

STRATA_ARCH_INLINE uint64_t strata_arch_sp(const struct pt_regs *regs)
{
	return regs->sp;
}

/* Returns whether it was a 64-bit program that entered the kernel with these registers: EL0, by PSTATE. */
STRATA_ARCH_INLINE int strata_arch_is_user_64(const struct pt_regs *regs)
{
	return !(regs->pstate & 0x1f);
}

/* Returns argument @i of the call of a 64-bit program; @i is constant. */
STRATA_ARCH_INLINE uint64_t strata_arch_argument(const struct pt_regs *regs, uint64_t i)
{
	return i == 0 ? regs->orig_x0 :
	       i == 1 ? regs->regs[1] :
	       i == 2 ? regs->regs[2] :
	       i == 3 ? regs->regs[3] :
	       i == 4 ? regs->regs[4] :
			regs->regs[5];
}

/* The same of a 32-bit program, whose r0 to r5 are the lower halves of these registers. */
STRATA_ARCH_INLINE uint64_t strata_arch_compat_argument(const struct pt_regs *regs, uint64_t i)
{
	return (uint32_t)strata_arch_argument(regs, i);
}

/*
 * Returns 1 if an execve has just ended that has replaced a program of the other interface: the number is still that of the
 * old one. The kernel has cleared all registers, which no call of such a number could return with.
 */
STRATA_ARCH_INLINE int strata_arch_has_executed(const struct pt_regs *regs, int is_compat)
{
	int nr = regs->syscallno;

	if (is_compat ? nr != STRATA_ARCH_EXECVE && nr != STRATA_ARCH_EXECVEAT :
			nr != STRATA_ARCH_COMPAT_EXECVE && nr != STRATA_ARCH_COMPAT_EXECVEAT)
		return 0;
	return !(regs->orig_x0 | regs->regs[0] | regs->regs[1] | regs->regs[2] | regs->regs[7] |
		 regs->regs[8]);
}

/* Offsets in struct pt_regs of the instruction pointer and of the flags [byte]. */
#define STRATA_ARCH_IP_AT    256u
#define STRATA_ARCH_FLAGS_AT 264u

#define STRATA_ARCH_FLAG_NEGATIVE 0x80000000u
#define STRATA_ARCH_FLAG_ZERO	  0x40000000u
#define STRATA_ARCH_FLAG_CARRY	  0x20000000u
#define STRATA_ARCH_FLAG_OVERFLOW 0x10000000u

/*
 * Returns whether a conditional branch is taken; @condition: its lowest 4 bits. See "ConditionHolds" in Arm's manual.
 */
STRATA_ARCH_INLINE int strata_arch_is_taken(uint64_t flags, uint64_t condition)
{
	uint64_t differs = !(flags & STRATA_ARCH_FLAG_NEGATIVE) !=
			   !(flags & STRATA_ARCH_FLAG_OVERFLOW);
	uint64_t holds;

	switch (condition >> 1) {
	case 0:
		holds = flags & STRATA_ARCH_FLAG_ZERO;
		break;
	case 1:
		holds = flags & STRATA_ARCH_FLAG_CARRY;
		break;
	case 2:
		holds = flags & STRATA_ARCH_FLAG_NEGATIVE;
		break;
	case 3:
		holds = flags & STRATA_ARCH_FLAG_OVERFLOW;
		break;
	case 4:
		holds = flags & STRATA_ARCH_FLAG_CARRY && !(flags & STRATA_ARCH_FLAG_ZERO);
		break;
	case 5:
		holds = !differs;
		break;
	case 6:
		holds = !differs && !(flags & STRATA_ARCH_FLAG_ZERO);
		break;
	default:
		return 1;
	}
	return (!holds) == (condition & 1);
}

#endif /* STRATA_KERNEL_ARCH_AARCH64_BPF_H */
