/* SPDX-License-Identifier: MIT */
/*
 * attack_modes.c - a thread takes its clock, or its system calls, away from itself.
 *
 *   attack_modes WHAT WHERE EVENTS
 *
 * WHAT: none; strict, strict-call or strict-bare: seccomp's strict mode by prctl(), syscall() or neither;
 * tsc, tsc-call, tsc-bare: PR_TSC_SIGSEGV; filter: a filter that lets through what strict mode does, and
 * kills for all else; refused: strict mode with an argument that the kernel refuses; tsc-refused: PR_TSC_SIGSEGV,
 * which a filter refuses; exec: executes itself
 * with "inherited", whose clock is gone before it begins. WHERE: main, or thread.
 *
 * together: two threads enter strict mode, one of them while the other is at an instruction of doing so, EVENTS times at
 * another one. It prints how often the process' memory did not say that there are two.
 *
 * EVENTS events; the mode; "ready"; a line is read; EVENTS events, one of them large; "done". Ends with 7,
 * by the one call that strict mode allows for it. With "thread", the main thread emits EVENTS more at last.
 */
#include <strata/tracepoint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "count.h"

STRATA_CLASS(step, (uint64_t number), strata_int(number, number));
STRATA_EVENT(modes, before, INFO, step);
STRATA_EVENT(modes, after, INFO, step);
STRATA_EVENT(modes, last, INFO, step);

static unsigned long nr_events;
static const char *what;
static const unsigned char large[3000];

/* No function of libc's: nobody hears of it. */
static long bare(long call, long a, long b, long c)
{
	register long d __asm__("r10") = 0;
	register long e __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(call), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e)
			 : "rcx", "r11", "memory");
	return result;
}

static int filter(void)
{
#define ALLOW(call)                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_read),
		ALLOW(SYS_write),
		ALLOW(SYS_exit),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* The kernel refuses PR_SET_TSC from here on, and nothing else; nobody hears of it. */
static long refuse_counter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_TSC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       bare(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
}

static void begin_mode(void)
{
	if (!strcmp(what, "strict"))
		test_must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	else if (!strcmp(what, "strict-call"))
		test_must(!syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	else if (!strcmp(what, "strict-bare"))
		test_must(!bare(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0));
	else if (!strcmp(what, "tsc"))
		test_must(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	else if (!strcmp(what, "tsc-call"))
		test_must(!syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0));
	else if (!strcmp(what, "tsc-bare"))
		test_must(!bare(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0));
	else if (!strcmp(what, "tsc-refused"))
		test_must(!refuse_counter() && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) && errno == EPERM);
	else if (!strcmp(what, "filter"))
		test_must(!filter());
	else if (!strcmp(what, "refused"))
		test_must(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) &&
			  errno == EINVAL);
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		bare(SYS_exit, 96, 0, 0);
}

static void *work(void *argument)
{
	unsigned long i;
	char line;

	for (i = 0; i < nr_events; i++)
		STRATA_TRACE_EVENT(modes, before, i);
	begin_mode();
	say("ready\n");
	if (read(STDIN_FILENO, &line, 1) < 0)
		bare(SYS_exit, 95, 0, 0);
	for (i = 1; i < nr_events; i++)
		STRATA_TRACE_EVENT(modes, after, i);
	STRATA_TRACE(modes, large, INFO, strata_array(bytes, large, sizeof(large)));
	say("done\n");
	bare(SYS_exit, argument ? 0 : 7, 0, 0);
	return NULL;
}

/* ---- together ---- */

#define STEPS_APART 40

static volatile int steps_left;
static int nr_strict, silence[2];

/* At the last of the steps: the other thread goes, all the way. No system call but the handler's end. */
static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)number, (void)info;
	if (--steps_left)
		return;
	*flags &= ~0x100;
	while (!__atomic_load_n(&nr_strict, __ATOMIC_SEQ_CST))
		;
}

static void become_strict(void)
{
	char line;

	test_must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	__atomic_fetch_add(&nr_strict, 1, __ATOMIC_SEQ_CST);
	/* There were fewer. */
	steps_left = 0;
	bare(SYS_read, silence[0], (long)&line, 1);
}

static void *in_steps(void *unused)
{
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
	become_strict();
	return unused;
}

static void *meanwhile(void *unused)
{
	while (steps_left > 0)
		;
	become_strict();
	return unused;
}

/* What the process tells its tracers: .without_clock of its control page. */
static uint32_t told(void)
{
	uint32_t nr = 0;
	char path[40], name[100];
	ssize_t n;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0 && !strncmp(name, "/memfd:strata ", 14))
			test_must(pread(fd, &nr, sizeof(nr), 140) == sizeof(nr));
	}
	return nr;
}

static int together(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	unsigned long i, wrong = 0;
	pthread_t thread;
	int state;
	pid_t pid;

	test_must(!sigaction(SIGTRAP, &action, NULL));
	for (i = 0; i < nr_events; i++) {
		pid = fork();
		test_must(pid >= 0);
		if (!pid) {
			alarm(120);
			steps_left = 1 + (int)i * STEPS_APART;
			test_must(!pipe(silence) &&
				  !pthread_create(&thread, NULL, meanwhile, NULL) &&
				  !pthread_create(&thread, NULL, in_steps, NULL));
			while (__atomic_load_n(&nr_strict, __ATOMIC_SEQ_CST) < 2)
				test_sleep_ms(1);
			_exit(told() != 2);
		}
		test_must(waitpid(pid, &state, 0) == pid && WIFEXITED(state));
		wrong += !!WEXITSTATUS(state);
	}
	printf("%lu\n", wrong);
	return 0;
}

int main(int argc, char **argv)
{
	int in_thread = argc > 2 && !strcmp(argv[2], "thread");
	pthread_t thread;
	unsigned long i;

	test_must(argc > 3);
	what = argv[1];
	nr_events = strtoul(argv[3], NULL, 0);
	if (!strcmp(what, "together"))
		return together();
	if (!strcmp(what, "exec")) {
		test_must(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
		execl(argv[0], argv[0], "inherited", argv[2], argv[3], NULL);
		test_must(0);
	}
	if (!strcmp(what, "fork")) {
		int state;

		test_must(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
		if (!fork())
			work(NULL);
		test_must(wait(&state) > 0);
		return WIFEXITED(state) ? WEXITSTATUS(state) : 200 + WTERMSIG(state);
	}
	if (!in_thread)
		work(NULL);
	test_must(!pthread_create(&thread, NULL, work, argv));
	pthread_join(thread, NULL);
	for (i = 0; i < nr_events; i++)
		STRATA_TRACE_EVENT(modes, last, i);
	/* Not exit(): the thread's end, with the call of a thread, leaves nothing for it to wait for. */
	_exit(7);
}
