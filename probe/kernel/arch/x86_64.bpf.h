/* SPDX-License-Identifier: MIT */
/*
 * x86_64.bpf.h - what the kernel's programs know of x86-64 and of its 32-bit programs, i386; see ../arch.bpf.h.
 */
#ifndef STRATA_KERNEL_ARCH_X86_64_BPF_H
#define STRATA_KERNEL_ARCH_X86_64_BPF_H

/* The registers of a task, in the kernel's order. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs, flags;
	unsigned long sp;
} STRATA_CORE;

/* What a task has of its CPU while it does not run. */
struct thread_struct {
	unsigned long fsbase;
} STRATA_CORE;

struct thread_info {
	uint32_t status;
	uint32_t cpu;
} STRATA_CORE;

/* Members of a task of which only some machines know; with the task and not with a part of it, for CO-RE. */
#define STRATA_ARCH_IS_COMPAT(task) (!!((task)->thread_info.status & 2u /* TS_COMPAT */))
/* The thread's own data, which C libraries have above the stack of a thread. */
#define STRATA_ARCH_THREAD_DATA(task) ((uint64_t)(task)->thread.fsbase)

/* System call numbers; for this compiler, asm/unistd.h has those of another machine. */
#define STRATA_ARCH_RT_SIGRETURN    15u
#define STRATA_ARCH_EXECVE	    59u
#define STRATA_ARCH_EXECVEAT	    322u
#define STRATA_ARCH_COMPAT_EXECVE   11u
#define STRATA_ARCH_COMPAT_EXECVEAT 358u

/* The interface of a call, in the order of the labels of the field `abi`. */
#define STRATA_ARCH_ABI_COMPAT 1u
#define STRATA_ARCH_ABI(nr)    ((int32_t)(nr) > 0 && (nr)&0x40000000u ? 2u : 0u)

/* The registers with which a copy of a stack begins: all above. */
#define STRATA_ARCH_COPY_REGISTERS 21u

/* struct epoll_event is packed, for programs of 64 and of 32 bits. */
#define STRATA_ARCH_EPOLL_EVENT __attribute__((packed))

/* The number of words in front of the instruction's address in a sample's registers, and behind it. */
#define STRATA_ARCH_SAMPLE_BEFORE 16
#define STRATA_ARCH_SAMPLE_BEHIND 4

#define STRATA_ARCH_KERNEL_TEXT	   0xffffffff80000000ull
#define STRATA_ARCH_FAULT_IS_WRITE 2u /* X86_PF_WRITE */

/* Returns the number of the system call that a task is in, as the kernel has it; -1: none. */
STRATA_ARCH_INLINE int64_t strata_arch_call(const struct pt_regs *regs)
{
	return (int64_t)regs->orig_ax;
}

/* Returns the result of the call that a task returns from. */
STRATA_ARCH_INLINE int64_t strata_arch_result(const struct pt_regs *regs)
{
	return (int64_t)regs->ax;
}

/*
 * Returns whether a task with these registers is in a call. What interrupts a program has a negative number, and the
 * result is ENOSYS until the call has its own.
 */
STRATA_ARCH_INLINE int strata_arch_is_in_call(const struct pt_regs *regs)
{
	return (int64_t)regs->orig_ax >= 0 && (int64_t)regs->ax == -38;
}

STRATA_ARCH_INLINE uint64_t strata_arch_ip(const struct pt_regs *regs)
{
	return regs->ip;
}

STRATA_ARCH_INLINE uint64_t strata_arch_sp(const struct pt_regs *regs)
{
	return regs->sp;
}

/* Returns whether it was a 64-bit program that entered the kernel with these registers. */
STRATA_ARCH_INLINE int strata_arch_is_user_64(const struct pt_regs *regs)
{
	return (regs->cs & 3) == 3 && regs->cs != 0x23u;
}

/* Returns argument @i of the call of a 64-bit program; @i is constant. */
STRATA_ARCH_INLINE uint64_t strata_arch_argument(const struct pt_regs *regs, uint64_t i)
{
	return i == 0 ? regs->di :
	       i == 1 ? regs->si :
	       i == 2 ? regs->dx :
	       i == 3 ? regs->r10 :
	       i == 4 ? regs->r8 :
			regs->r9;
}

/* The same of a 32-bit program, which has other registers. */
STRATA_ARCH_INLINE uint64_t strata_arch_compat_argument(const struct pt_regs *regs, uint64_t i)
{
	return (uint32_t)(i == 0 ? regs->bx :
			  i == 1 ? regs->cx :
			  i == 2 ? regs->dx :
			  i == 3 ? regs->si :
			  i == 4 ? regs->di :
				   regs->bp);
}

/*
 * Returns 1 if an execve of the other interface has just ended, whose number says nothing in this one. Never here: an execve
 * that succeeds returns with the number of the new program's interface.
 */
STRATA_ARCH_INLINE int strata_arch_has_executed(const struct pt_regs *regs, int is_compat)
{
	(void)regs;
	(void)is_compat;
	return 0;
}

/* Offsets in struct pt_regs of the instruction pointer and of the flags [byte]. */
#define STRATA_ARCH_IP_AT    128u
#define STRATA_ARCH_FLAGS_AT 144u

#define STRATA_ARCH_FLAG_CARRY	  0x001u
#define STRATA_ARCH_FLAG_PARITY	  0x004u
#define STRATA_ARCH_FLAG_ZERO	  0x040u
#define STRATA_ARCH_FLAG_SIGN	  0x080u
#define STRATA_ARCH_FLAG_OVERFLOW 0x800u

/*
 * Returns whether a conditional jump is taken; @condition: the lowest 4 bits of its code. See "Jcc" in Intel's manual, volume 2.
 */
STRATA_ARCH_INLINE int strata_arch_is_taken(uint64_t flags, uint64_t condition)
{
	uint64_t differs = !(flags & STRATA_ARCH_FLAG_SIGN) != !(flags & STRATA_ARCH_FLAG_OVERFLOW);
	uint64_t holds;

	switch (condition >> 1) {
	case 0:
		holds = flags & STRATA_ARCH_FLAG_OVERFLOW;
		break;
	case 1:
		holds = flags & STRATA_ARCH_FLAG_CARRY;
		break;
	case 2:
		holds = flags & STRATA_ARCH_FLAG_ZERO;
		break;
	case 3:
		holds = flags & (STRATA_ARCH_FLAG_CARRY | STRATA_ARCH_FLAG_ZERO);
		break;
	case 4:
		holds = flags & STRATA_ARCH_FLAG_SIGN;
		break;
	case 5:
		holds = flags & STRATA_ARCH_FLAG_PARITY;
		break;
	case 6:
		holds = differs;
		break;
	default:
		holds = differs || (flags & STRATA_ARCH_FLAG_ZERO);
	}
	return (!holds) == (condition & 1);
}

#endif /* STRATA_KERNEL_ARCH_X86_64_BPF_H */
