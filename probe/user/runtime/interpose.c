/* SPDX-License-Identifier: MIT */
/*
 * interpose.c - prctl(), syscall(), vfork(), unshare(), setns() and pthread_setname_np() in the place of libc's: they do
 * what those do, and tell modes.c before a program takes its clock or its system calls away from itself, thread.c while
 * a child has this thread's memory, context.c of other namespaces, and names.c when a thread has a new name. Weak, so that a program that has functions of these names in it keeps them.
 *
 * syscall() uses no stack, and returns as often as the kernel does, as libc's: it may be a clone() or a
 * vfork(). The numbers are those of prctl, seccomp, unshare, setns and vfork.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "thread.h"

#define STRATA_EXPORTED __attribute__((weak, visibility("default")))

#if defined(__x86_64__) && !defined(__ILP32__)

_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_vfork == 58 && SYS_unshare == 272 &&
		       SYS_setns == 308,
	       "the numbers below");

__attribute__((used)) STRATA_HIDDEN long strata_syscall_failed(long result)
{
	errno = (int)-result;
	return -1;
}

__asm__(".pushsection .text\n"
	".hidden strata_syscall_failed\n"
	".hidden strata_noted_call\n"
	".globl strata_syscall\n"
	".hidden strata_syscall\n"
	".type strata_syscall, @function\n"
	"strata_syscall:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n"
	"1:\n\t"
	"movq %rdi, %rax\n\t"
	"movq %rsi, %rdi\n\t"
	"movq %rdx, %rsi\n\t"
	"movq %rcx, %rdx\n\t"
	"movq %r8, %r10\n\t"
	"movq %r9, %r8\n\t"
	"movq 8(%rsp), %r9\n\t"
	"syscall\n\t"
	"cmpq $-4095, %rax\n\t"
	"jae 2f\n\t"
	"ret\n"
	"2:\n\t"
	"movq %rax, %rdi\n\t"
	"jmp strata_syscall_failed\n\t"
	".cfi_endproc\n\t"
	".size strata_syscall, . - strata_syscall\n"
	".weak syscall\n"
	".type syscall, @function\n"
	"syscall:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"cmpl $157, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $317, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $272, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $308, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $58, %edi\n\t"
	"je strata_vfork\n\t"
	"jmp 1b\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall\n"
	".popsection\n");

/*
 * The child returns first, and what it does with the stack its parent finds: the return address is in a register
 * meanwhile, as libc has it. So is what was noted of the thread, which is STRATA_THREAD_VFORKED while both could be
 * meant, or one less in a child's child. The child leaves by a jump: its return would be taken from its parent's shadow
 * stack.
 */
__asm__(".pushsection .text\n"
	".globl strata_vfork\n"
	".hidden strata_vfork\n"
	".type strata_vfork, @function\n"
	".weak vfork\n"
	".type vfork, @function\n"
	"strata_vfork:\n"
	"vfork:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"popq %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdi\n\t"
	"movq strata_thread@gottpoff(%rip), %rdx\n\t"
	"movl %fs:(%rdx), %esi\n\t"
	"movl %esi, %eax\n\t"
	"sarl $31, %eax\n\t"
	"decl %eax\n\t"
	"movl %eax, %fs:(%rdx)\n\t"
	"movl $58, %eax\n\t"
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	"movl %esi, %fs:(%rdx)\n\t"
	"pushq %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_rel_offset %rip, 0\n\t"
	"cmpq $-4095, %rax\n\t"
	"jae 2f\n\t"
	"ret\n"
	"1:\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdi\n\t"
	"notrack jmp *%rdi\n"
	"2:\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_rel_offset %rip, 0\n\t"
	"movq %rax, %rdi\n\t"
	"jmp strata_syscall_failed\n\t"
	".cfi_endproc\n\t"
	".size strata_vfork, . - strata_vfork\n\t"
	".size vfork, . - vfork\n"
	".popsection\n");

#endif

STRATA_EXPORTED int prctl(int option, ...);

int prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list arguments;

	va_start(arguments, option);
	a = va_arg(arguments, unsigned long);
	b = va_arg(arguments, unsigned long);
	c = va_arg(arguments, unsigned long);
	d = va_arg(arguments, unsigned long);
	va_end(arguments);
	return (int)strata_noted_call(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d);
}

STRATA_EXPORTED int unshare(int flags);
STRATA_EXPORTED int setns(int fd, int type);

int unshare(int flags)
{
	return (int)strata_noted_call(SYS_unshare, flags, 0, 0, 0, 0);
}

int setns(int fd, int type)
{
	return (int)strata_noted_call(SYS_setns, fd, type, 0, 0, 0);
}

#ifdef __GLIBC__

/* What the kernel has for a name, with its NUL. */
#define COMM_BYTES 16u

STRATA_EXPORTED int pthread_setname_np(pthread_t thread, const char *name);

/* As libc's: a thread names itself by prctl(), another one through /proc. That is no cancellation point. */
int pthread_setname_np(pthread_t thread, const char *name)
{
	size_t bytes = strlen(name);
	int32_t id = 0;
	clockid_t clock;
	char path[40];
	long fd, written;
	int code = 0;

	if (bytes >= COMM_BYTES)
		return ERANGE;
	if (thread == pthread_self())
		return strata_noted_call(SYS_prctl, PR_SET_NAME, (long)name, 0, 0, 0) ? errno : 0;
	/* The clock of a thread is its id, in the kernel's spelling: the complement, above three bits. */
	if (!pthread_getcpuclockid(thread, &clock))
		id = ~(clock >> 3);
	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", (unsigned)id);
	fd = strata_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR, 0, 0);
	if (fd < 0)
		return errno;
	do {
		written = strata_syscall(SYS_write, fd, (long)name, (long)bytes);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		code = errno;
	else if ((size_t)written != bytes)
		code = EIO;
	strata_syscall(SYS_close, fd);
	if (!code)
		strata_thread_named(id, name);
	return code;
}

#endif
