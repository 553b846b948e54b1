/* SPDX-License-Identifier: MIT */
/*
 * contexts.c - events whose fields say what the kernel says of their moment, for what records say of it themselves.
 * Compiled with frame pointers, so that each function knows who has called it.
 *
 *   contexts          threads with names, children of every kind, handlers of signals on a stack of their own, the program
 *                     once more, other users and namespaces where that is allowed
 *   contexts exec     what it then is
 *   contexts stacks   call stacks of which the end is anything but a stack
 *   contexts shut-in  an event, then a seccomp filter that ends the process for almost every system call, then another
 *   contexts wait     an event each millisecond until SIGTERM; prints "ready"
 */
#include <strata/tracepoint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "count.h"

#define NR_CALLERS 5

/* What the kernel says. */
struct said {
	int32_t pid, tid;
	uint32_t ids[6];
	uint64_t uts, mnt;
	char process[17], thread[17];
};

struct callers {
	uint64_t at[NR_CALLERS];
	uint32_t nr;
};

/* Sites are in this section: between these two. */
extern const char __start_sites[], __stop_sites[];

#define IN_SITES __attribute__((noinline, section("sites")))

/* A tracepoint of one site. */
#define OWN(event, s, c, where_, more_)                                                     \
	STRATA_TRACE(contexts, event, INFO, strata_string(where, where_),                   \
		     strata_int(pid, (s)->pid), strata_int(tid, (s)->tid),                  \
		     strata_array(ids, (s)->ids, 6), strata_int(uts, (s)->uts),             \
		     strata_int(mnt, (s)->mnt), strata_text(process, (s)->process, 17),     \
		     strata_text(thread, (s)->thread, 17),                                  \
		     strata_sequence_hex(callers, (c)->at, (c)->nr),                        \
		     strata_pointer(from, __start_sites), strata_pointer(to, __stop_sites), \
		     strata_string(more, more_))

static void read_name(const char *path, char name[17])
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, name, 16);

	if (n > 0)
		name[n - 1] = '\0';
	if (fd >= 0)
		close(fd);
}

static void ask(struct said *said)
{
	struct stat status;

	memset(said, 0, sizeof(*said));
	said->pid = (int32_t)syscall(SYS_getpid);
	said->tid = (int32_t)syscall(SYS_gettid);
	test_must(!syscall(SYS_getresuid, &said->ids[0], &said->ids[1], &said->ids[2]));
	test_must(!syscall(SYS_getresgid, &said->ids[3], &said->ids[4], &said->ids[5]));
	test_must(!stat("/proc/thread-self/ns/uts", &status));
	said->uts = status.st_ino;
	test_must(!stat("/proc/thread-self/ns/mnt", &status));
	said->mnt = status.st_ino;
	read_name("/proc/self/comm", said->process);
	read_name("/proc/thread-self/comm", said->thread);
}

/* An event of few bytes, and one that is put together in memory of its own. */
static IN_SITES void emit_said(const struct said *said, const struct callers *callers,
			       const char *where)
{
	char text[3900];

	memset(text, '.', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	errno = 77;
	/* One site; it puts the payload together by itself, in memory of its own the second time. */
	OWN(one, said, callers, where, "");
	OWN(other, said, callers, where, text);
	test_must(errno == 77);
	/* Not the last thing that it does: it is in the stack meanwhile. */
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void calls(struct callers *callers, const char *where,
					    unsigned depth)
{
	struct said said;

	/* The innermost caller is the first one. */
	callers->at[depth - 1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	if (depth > 1) {
		calls(callers, where, depth - 1);
	} else {
		ask(&said);
		emit_said(&said, callers, where);
	}
	__asm__ volatile("" ::: "memory");
}

static void emit(const char *where)
{
	struct callers callers = { .nr = NR_CALLERS };

	calls(&callers, where, NR_CALLERS);
}

static void on_signal(int number)
{
	int saved = errno;

	(void)number;
	emit("handler");
	errno = saved;
}

static void *thread(void *where)
{
	emit(where);
	test_must(!pthread_setname_np(pthread_self(), "has a name"));
	emit(where);
	raise(SIGUSR1);
	return NULL;
}

static void with_thread(const char *where, void *(*function)(void *))
{
	pthread_t one;

	test_must(!pthread_create(&one, NULL, function, (void *)where));
	test_must(!pthread_join(one, NULL));
}

static void wait_for_child(pid_t pid)
{
	int state;

	test_must(pid > 0 && waitpid(pid, &state, 0) == pid && !state);
}

/* A thread that has emitted before another one names it and changes the ids of all. */
static pthread_barrier_t both;

static void *is_changed(void *where)
{
	emit(where);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	emit(where);
	return NULL;
}

static int other_namespace;

static void *is_elsewhere(void *where)
{
	if (!unshare(CLONE_NEWUTS | CLONE_NEWNS | CLONE_FS)) {
		emit(where);
		test_must(!syscall(SYS_setns, other_namespace, CLONE_NEWUTS));
		emit(where);
	}
	return NULL;
}

static __attribute__((noinline)) void by_vfork(void)
{
	pid_t pid = vfork();

	if (!pid) {
		emit("vfork");
		test_must(!prctl(PR_SET_NAME, "of vfork", 0, 0, 0));
		emit("vfork");
		_exit(0);
	}
	emit("behind vfork");
	wait_for_child(pid);
}

static int of_clone(void *unused)
{
	(void)unused;
	emit("clone in the same memory");
	return 0;
}

static char memory[1 << 16];

static void handle_signals(void)
{
	stack_t other = { .ss_sp = memory, .ss_size = sizeof(memory) };
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK;
	test_must(!sigaltstack(&other, NULL) && !sigaction(SIGUSR1, &action, NULL));
}

static void moments(char *program)
{
	pthread_t one;
	pid_t pid;

	handle_signals();
	emit("main");
	raise(SIGUSR1);
	with_thread("thread", thread);
	emit("main");
	test_must(!prctl(PR_SET_NAME, "main's own name", 0, 0, 0));
	with_thread("thread of another name", thread);
	by_vfork();
	pid = fork();
	if (!pid) {
		emit("fork");
		with_thread("thread of fork", thread);
		other_namespace = open("/proc/self/ns/uts", O_RDONLY);
		with_thread("elsewhere", is_elsewhere);
		emit("fork");
		test_must(!pthread_barrier_init(&both, NULL, 2));
		test_must(!pthread_create(&one, NULL, is_changed, (void *)"known thread"));
		pthread_barrier_wait(&both);
		test_must(!pthread_setname_np(one, "by another"));
		if (!geteuid()) {
			test_must(!setresgid(11, 12, 13) && !setresuid(1, 2, 3));
			emit("other ids");
		}
		pthread_barrier_wait(&both);
		test_must(!pthread_join(one, NULL));
		_exit(0);
	}
	wait_for_child(pid);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		emit("clone");
		raise(SIGUSR1);
		_exit(0);
	}
	wait_for_child(pid);
	/* No thread, and its memory is its parent's, who goes on meanwhile. */
	pid = clone(of_clone, memory + sizeof(memory) / 2, CLONE_VM | SIGCHLD, NULL);
	wait_for_child(pid);
	execl(program, program, "exec", NULL);
	test_must(0);
}

/* ---- stacks whose end is anything ---- */

/* Call f() from a function whose frame pointer is @frame. */
void with_frame(uint64_t frame, void (*f)(void));

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl with_frame\n"
	"with_frame:\n\t"
	"pushq %rbp\n\t"
	"movq %rdi, %rbp\n\t"
	"call *%rsi\n\t"
	"popq %rbp\n\t"
	"ret\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl with_frame\n"
	"with_frame:\n\t"
	"stp x29, x30, [sp, #-16]!\n\t"
	"mov x29, x0\n\t"
	"blr x1\n\t"
	"ldp x29, x30, [sp], #16\n\t"
	"ret\n"
	".popsection\n");
#endif

static const char *where_now;

static void emit_here(void)
{
	struct callers callers = { .nr = 0 };
	struct said said;

	ask(&said);
	emit_said(&said, &callers, where_now);
	__asm__ volatile("" ::: "memory");
}

#define STACK_BYTES (64u << 10)

static ucontext_t ours, theirs;
static unsigned char
	*hole; /* behind the stack that is used: a page that nobody may read, and more stack */

static void all_frames(void)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0),
		 page = (uint64_t)(uintptr_t)hole;
	/* A frame of itself; two that lead to each other. */
	uint64_t self[2], first[2], second[2];
	const uint64_t frames[] = { 0,
				    1,
				    8,
				    ~UINT64_C(0),
				    ~UINT64_C(7),
				    UINT64_C(0xffff800000000000),
				    UINT64_C(0x4141414141414140),
				    here + 1,
				    here - 65536,
				    here + 100000,
				    page,
				    page - 8,
				    page - 16,
				    page + 4096,
				    page + 4096 - 8,
				    (uint64_t)(uintptr_t)self,
				    (uint64_t)(uintptr_t)first,
				    (uint64_t)(uintptr_t)second };
	size_t i;

	self[0] = (uint64_t)(uintptr_t)self;
	first[0] = (uint64_t)(uintptr_t)second;
	second[0] = (uint64_t)(uintptr_t)first;
	self[1] = first[1] = second[1] = 0x1234;
	for (i = 0; i < sizeof(frames) / sizeof(*frames); i++)
		with_frame(frames[i], emit_here);
}

static void *on_other_stack(void *unused)
{
	(void)unused;
	test_must(!getcontext(&theirs));
	theirs.uc_stack.ss_sp = hole - STACK_BYTES;
	theirs.uc_stack.ss_size = STACK_BYTES;
	theirs.uc_link = &ours;
	makecontext(&theirs, all_frames, 0);
	test_must(!swapcontext(&ours, &theirs));
	return NULL;
}

static void many_calls(unsigned depth)
{
	if (depth)
		many_calls(depth - 1);
	else
		emit_here();
	__asm__ volatile("" ::: "memory");
}

static void small(int number)
{
	(void)number;
	emit_here();
}

/* A signal handler has so little stack that a page more than what is needed would not do. */
static void *on_small_stack(void *unused)
{
	const size_t least = (size_t)sysconf(_SC_MINSIGSTKSZ) + (12u << 10), page = 4096;
	const size_t bytes = (least + page - 1) & ~(page - 1);
	struct sigaction action;
	unsigned char *memory;
	stack_t stack = { .ss_size = bytes };

	(void)unused;
	memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	test_must(memory != MAP_FAILED && !mprotect(memory, page, PROT_NONE));
	stack.ss_sp = memory + page;
	memset(&action, 0, sizeof(action));
	action.sa_handler = small;
	action.sa_flags = SA_ONSTACK;
	test_must(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR2, &action, NULL));
	raise(SIGUSR2);
	return NULL;
}

static int stacks(void)
{
	hole = mmap(NULL, STACK_BYTES + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	test_must(hole != MAP_FAILED);
	hole += STACK_BYTES;
	test_must(!mprotect(hole, 4096, PROT_NONE));
	where_now = "frames";
	all_frames();
	with_thread("", (void *(*)(void *))(void (*)(void))all_frames);
	where_now = "another stack";
	on_other_stack(NULL);
	with_thread("", on_other_stack);
	where_now = "deep";
	many_calls(100);
	where_now = "small stack";
	with_thread("", on_small_stack);
	return 0;
}

/* ---- */

static IN_SITES int shut_in(void)
{
	struct sock_filter tests[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(tests) / sizeof(*tests), tests };
	struct callers callers = { .nr = 0 };
	struct said said;

	ask(&said);
	OWN(before, &said, &callers, "before", "");
	test_must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	test_must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
	OWN(behind, &said, &callers, "shut in", "");
	return 0;
}

static volatile sig_atomic_t is_over;

static void on_term(int number)
{
	(void)number;
	is_over = 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "exec")) {
		handle_signals();
		emit("exec");
		with_thread("thread of exec", thread);
		return 0;
	}
	if (!strcmp(what, "stacks"))
		return stacks();
	if (!strcmp(what, "shut-in")) {
		shut_in();
		syscall(SYS_exit_group, 0);
	}
	if (strcmp(what, "wait") != 0) {
		moments(argv[0]);
		return 1;
	}
	signal(SIGTERM, on_term);
	puts("ready");
	fflush(stdout);
	while (!is_over) {
		emit("wait");
		test_sleep_ms(1);
	}
	return 0;
}
