/* SPDX-License-Identifier: MIT */
/*
 * interpose.c - prctl(), syscall(), vfork(), unshare(), setns(), pthread_setname_np(), setuid() and the like in the place
 * of libc's: they do what those do, and tell modes.c before a program takes its clock or its system calls away from
 * itself, thread.c while a child has this thread's memory, context.c of other namespaces, names and ids, and thread_names.c when
 * a thread has a new name. Weak, so that a program that has functions of these names in it keeps them.
 *
 * syscall() uses no stack, and returns as often as the kernel does, as libc's: it may be a clone() or a
 * vfork(). The numbers are those of prctl, seccomp, unshare, setns, vfork and setuid() to setresgid().
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "old_glibc.h"
#include "thread.h"

#define STRATA_EXPORTED __attribute__((weak, visibility("default")))

#if defined(__x86_64__) && !defined(__ILP32__)

_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_vfork == 58 && SYS_unshare == 272 &&
		       SYS_setns == 308 && SYS_setuid == 105 && SYS_setgid == 106 &&
		       SYS_setreuid == 113 && SYS_setregid == 114 && SYS_setresuid == 117 &&
		       SYS_setresgid == 119,
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
	"cmpl $105, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $106, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $113, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $114, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $117, %edi\n\t"
	"je strata_noted_call\n\t"
	"cmpl $119, %edi\n\t"
	"je strata_noted_call\n\t"
	"jmp 1b\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall\n"
	".popsection\n");

/* Loads the offset of strata_thread from %fs; into RAX, too. */
#ifdef STRATA_TLS_DESCRIPTORS
#define THREAD_TO_RDX                                \
	"subq $8, %rsp\n\t"                          \
	".cfi_adjust_cfa_offset 8\n\t"               \
	"leaq strata_thread@tlsdesc(%rip), %rax\n\t" \
	"call *strata_thread@tlscall(%rax)\n\t"      \
	"movq %rax, %rdx\n\t"                        \
	"addq $8, %rsp\n\t"                          \
	".cfi_adjust_cfa_offset -8\n\t"
#else
#define THREAD_TO_RDX "movq strata_thread@gottpoff(%rip), %rdx\n\t"
#endif

/*
 * The child returns first, and what it does with the stack its parent finds: the return address is in a register
 * meanwhile, as libc has it. So is what was noted of the thread, which is STRATA_THREAD_VFORKED while both could be
 * meant, or one less in a child's child, with 0 below. The child leaves by a jump: its return would be taken from its
 * parent's shadow stack.
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
	"endbr64\n\t" THREAD_TO_RDX "popq %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdi\n\t"
	"movq %fs:(%rdx), %rsi\n\t"
	"movq %rsi, %rax\n\t"
	"sarq $63, %rax\n\t"
	"decq %rax\n\t"
	"shlq $32, %rax\n\t"
	"movq %rax, %fs:(%rdx)\n\t"
	"movl $58, %eax\n\t"
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	"movq %rsi, %fs:(%rdx)\n\t"
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

/* The size of a name in the kernel, with its NUL. */
#define COMM_BYTES 16u

STRATA_EXPORTED int pthread_setname_np(pthread_t thread, const char *name);

/*
 * Sets a thread's name as libc does: its own by prctl(), another one's through /proc. This is no
 * cancellation point.
 */
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
	if (STRATA_OLDER_HAS(pthread_getcpuclockid) && !pthread_getcpuclockid(thread, &clock))
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

uint32_t strata_told = 2;

/* The attribute with which libc declares these functions. */
#ifdef __THROW
#define THROWS_NOTHING __THROW
#else
#define THROWS_NOTHING
#endif

/* Addresses of our own functions, whichever functions with these names the program has. */
extern __typeof__(prctl) strata_own_prctl THROWS_NOTHING STRATA_HIDDEN
	__attribute__((alias("prctl")));

#ifdef __GLIBC__
extern __typeof__(pthread_setname_np) strata_own_setname THROWS_NOTHING STRATA_HIDDEN
	__attribute__((alias("pthread_setname_np")));

/*
 * Returns whether code that names a thread by libc's functions calls ours. That is not so if the program has
 * functions of its own, or has loaded us later.
 */
int strata_is_told_of_names(void)
{
	return &prctl == &strata_own_prctl && &pthread_setname_np == &strata_own_setname;
}
#else
int strata_is_told_of_names(void)
{
	return 0;
}
#endif

#if defined(__GLIBC__) && !defined(STRATA_RUNTIME_ARCHIVE)

/* libc's, which change the ids of all threads: there is no system call for that. Found as the process begins. */
static int (*next_setuid)(uid_t);
static int (*next_setgid)(gid_t);
static int (*next_seteuid)(uid_t);
static int (*next_setegid)(gid_t);
static int (*next_setreuid)(uid_t, uid_t);
static int (*next_setregid)(gid_t, gid_t);
static int (*next_setresuid)(uid_t, uid_t, uid_t);
static int (*next_setresgid)(gid_t, gid_t, gid_t);

static void *next_of(const char *name)
{
	int saved = errno;
	void *found = STRATA_OLDER_HAS(dlsym) ?
			      dlsym(RTLD_NEXT, name) :
			      strata_older_next((const void *)(uintptr_t)next_of, name);

	errno = saved;
	return found;
}

/*
 * Defines a function of ours: calls libc's, and tells of the change. A caller before the runtime
 * has begun looks the function up by itself.
 */
#define AS_LIBC(name, parameters, arguments)                                             \
	STRATA_EXPORTED int name parameters;                                             \
	extern __typeof__(name) strata_own_##name THROWS_NOTHING STRATA_HIDDEN           \
		__attribute__((alias(#name)));                                           \
	int name parameters                                                              \
	{                                                                                \
		int(*next) parameters = __atomic_load_n(&next_##name, __ATOMIC_RELAXED); \
		int result;                                                              \
                                                                                         \
		if (!next)                                                               \
			next = (int(*) parameters)next_of(#name);                        \
		if (!next) {                                                             \
			errno = ENOSYS;                                                  \
			return -1;                                                       \
		}                                                                        \
		result = next arguments;                                                 \
		strata_tell();                                                           \
		return result;                                                           \
	}

AS_LIBC(setuid, (uid_t id), (id))
AS_LIBC(setgid, (gid_t id), (id))
AS_LIBC(seteuid, (uid_t id), (id))
AS_LIBC(setegid, (gid_t id), (id))
AS_LIBC(setreuid, (uid_t real, uid_t effective), (real, effective))
AS_LIBC(setregid, (gid_t real, gid_t effective), (real, effective))
AS_LIBC(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
AS_LIBC(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))

#define FIND(name) \
	__atomic_store_n(&next_##name, (__typeof__(next_##name))next_of(#name), __ATOMIC_RELAXED)
#define IS_OURS(name) (&name == &strata_own_##name)

/*
 * Finds libc's functions once: a search takes the loader's lock, and a caller that holds another lock may not wait
 * for it.
 */
void strata_interpose_begin(void)
{
	static int have_been_found;

	if (__atomic_load_n(&have_been_found, __ATOMIC_ACQUIRE))
		return;
	FIND(setuid);
	FIND(setgid);
	FIND(seteuid);
	FIND(setegid);
	FIND(setreuid);
	FIND(setregid);
	FIND(setresuid);
	FIND(setresgid);
	__atomic_store_n(&have_been_found, 1, __ATOMIC_RELEASE);
}

int strata_is_told_of_ids(void)
{
	return IS_OURS(setuid) && IS_OURS(setgid) && IS_OURS(seteuid) && IS_OURS(setegid) &&
	       IS_OURS(setreuid) && IS_OURS(setregid) && IS_OURS(setresuid) && IS_OURS(setresgid);
}

#else

void strata_interpose_begin(void)
{
}

int strata_is_told_of_ids(void)
{
	return 0;
}

#endif
