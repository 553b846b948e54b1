/* SPDX-License-Identifier: MIT */
/*
 * attack_clone.c - children of every kind that clone() can make, each of which emits.
 *
 *   attack_clone KIND EVENTS
 *
 * KIND: vm, vm-files (they share the memory and are no threads; their parent waits), files, files-full (the
 * same, with no room for another descriptor), fs-sighand, vfork, clone3, clone3-vm, parent, unshare, nested, storm (1,000 children, many at once). Those with memory
 * of their own are processes of their own. interrupted: made by a signal handler at each instruction of a record of the
 * parent's, which they go on with. It prints the sum of what the children computed.
 */
#include <strata/tracepoint.h>

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "count.h"

#define STACK_BYTES 65536

static unsigned long nr_events;
static uint64_t *shared_sum; /* shared by all children */

STRATA_CLASS(step, (uint64_t number), strata_int(number, number));
STRATA_EVENT(clones, parent, INFO, step);
STRATA_EVENT(clones, child, INFO, step);

static int child(void *argument)
{
	unsigned long i;
	uint64_t sum = 7;

	(void)argument;
	for (i = 0; i < nr_events; i++) {
		STRATA_TRACE_EVENT(clones, child, i);
		sum = sum * 31 + i;
	}
	__atomic_fetch_add(shared_sum, sum, __ATOMIC_RELAXED);
	return 0;
}

static int nested(void *argument)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		_exit(child(argument));
	test_must(waitpid(pid, NULL, 0) == pid);
	return child(argument);
}

static void must_end_well(pid_t pid)
{
	int state;

	test_must(pid > 0 && waitpid(pid, &state, __WALL) == pid);
	if (!WIFEXITED(state) || WEXITSTATUS(state)) {
		printf("child ended with %x\n", (unsigned)state);
		exit(1);
	}
}

static void by_clone(int (*function)(void *), int flags)
{
	static unsigned char stack[STACK_BYTES] __attribute__((aligned(16)));

	must_end_well(clone(function, stack + sizeof(stack), flags | SIGCHLD, NULL));
}

/* A child that can have no memory of its own, and shares its parent's descriptors. */
static void without_room(void)
{
	struct rlimit before, none;

	test_must(!getrlimit(RLIMIT_NOFILE, &before));
	none = before;
	none.rlim_cur = 3;
	test_must(!setrlimit(RLIMIT_NOFILE, &none));
	by_clone(child, CLONE_FILES);
	test_must(!setrlimit(RLIMIT_NOFILE, &before));
}

static void by_clone3(uint64_t flags)
{
	struct clone_args arguments = { .flags = flags, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (!pid)
		_exit(child(NULL));
	must_end_well(pid);
}

static void one_ends_well(int *alive)
{
	int state;

	test_must(wait(&state) > 0 && WIFEXITED(state) && !WEXITSTATUS(state));
	(*alive)--;
}

static void storm(void)
{
	int alive = 0, i;

	for (i = 0; i < 1000; i++) {
		pid_t pid = fork();

		test_must(pid >= 0);
		if (!pid)
			_exit(child(NULL));
		if (++alive == 50)
			one_ends_well(&alive);
	}
	while (alive)
		one_ends_well(&alive);
}

#ifdef __x86_64__

/* Fewer instructions than there are to the end of the short way, and more than to where it has its channel. */
#define STEPS 50

static volatile int steps_left;
static volatile pid_t own, made;

/* At the last of the steps: a child, which goes on where this one was interrupted. */
static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)number, (void)info;
	if (--steps_left)
		return;
	*flags &= ~0x100;
	made = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void interrupted(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	int i;

	test_must(!sigaction(SIGTRAP, &action, NULL));
	own = getpid();
	for (i = 1; i <= STEPS; i++) {
		steps_left = i;
		made = -1;
		__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
		STRATA_TRACE_EVENT(clones, parent, (uint64_t)i);
		__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
		if (!made)
			_exit(0);
		test_must(made > 0);
		must_end_well(made);
	}
}

#else

static void interrupted(void)
{
}

#endif

/* The memory that a tracer finds, by its inode: the first one of libstrata's name. */
static ino_t memory(void)
{
	struct stat status;
	char path[40], name[100];
	ssize_t n;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0 && !strncmp(name, "/memfd:strata ", 14) && !fstat(fd, &status))
			return status.st_ino;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	ino_t before = memory();
	unsigned long i;

	nr_events = test_number(argc, argv, 2, 100);
	shared_sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test_must(shared_sum != MAP_FAILED);
	for (i = 0; i < nr_events; i++)
		STRATA_TRACE_EVENT(clones, parent, i);
	if (!strcmp(kind, "vm"))
		by_clone(child, CLONE_VM);
	else if (!strcmp(kind, "vm-files"))
		by_clone(child, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND);
	else if (!strcmp(kind, "vfork"))
		by_clone(child, CLONE_VM | CLONE_VFORK);
	else if (!strcmp(kind, "files"))
		by_clone(child, CLONE_FILES);
	else if (!strcmp(kind, "files-full"))
		without_room();
	else if (!strcmp(kind, "fs-sighand"))
		by_clone(child, CLONE_FS | CLONE_SYSVSEM | CLONE_IO);
	else if (!strcmp(kind, "clone3"))
		by_clone3(CLONE_CLEAR_SIGHAND);
	else if (!strcmp(kind, "clone3-files"))
		by_clone3(CLONE_FILES);
	else if (!strcmp(kind, "nested"))
		by_clone(nested, 0);
	else if (!strcmp(kind, "unshare")) {
		test_must(!unshare(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM));
		must_end_well(fork() ?: (_exit(child(NULL)), 0));
	} else if (!strcmp(kind, "storm"))
		storm();
	else if (!strcmp(kind, "interrupted"))
		interrupted();
	else
		test_must(!*kind);
	for (i = 0; i < nr_events; i++)
		STRATA_TRACE_EVENT(clones, parent, i);
	if (memory() != before)
		puts("another memory than before");
	printf("%llx\n", (unsigned long long)*shared_sum);
	return 0;
}
