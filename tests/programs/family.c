/* SPDX-License-Identifier: MIT */
/*
 * family.c - a process that becomes several, or another one, in the way that its argument says. Each emits
 * numbered events in stages and says how many.
 */
#include <strata/tracepoint.h>

#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "count.h"

#define NOBODY 65534

extern char **environ;
static char *self;
static uint64_t number;

static void emit(const char *who, unsigned n)
{
	/* Counted whether anybody records it or not. */
	for (; n; n--, number++)
		STRATA_TRACE(family, step, INFO, strata_string(who, who),
			     strata_int(number, number));
}

static void join(pid_t child)
{
	int status;

	test_must(child > 0 && waitpid(child, &status, 0) == child);
	if (status)
		_exit(96);
}

static void fork_once(const char *who, void (*then)(void))
{
	pid_t child = fork();

	if (child) {
		join(child);
		return;
	}
	number = 0;
	emit(who, 50);
	if (then)
		then();
	test_count(who, number);
	_exit(0);
}

static void grandchild(void)
{
	fork_once("grandchild", NULL);
	emit("child", 50);
}

static void by_fork(void)
{
	emit("parent", 50);
	fork_once("child", grandchild);
	emit("parent", 50);
}

/* Many at once, each gone after its last event. */
static void by_many_forks(void)
{
	unsigned i;
	int status, bad = 0;

	emit("parent", 5);
	for (i = 0; i < 40; i++) {
		if (fork())
			continue;
		number = 0;
		emit("child", 25);
		test_count("child", number);
		_exit(0);
	}
	while (wait(&status) > 0)
		bad |= status;
	test_must(!bad);
	emit("parent", 5);
}

/* The bare system call: no handler of pthread_atfork() runs. */
static void by_clone(void)
{
	pid_t child;

	emit("parent", 50);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child) {
		number = 0;
		emit("clone", 100);
		test_count("clone", number);
		_exit(0);
	}
	emit("parent", 50);
	join(child);
}

static void by_vfork(void)
{
	pid_t child;

	emit("parent", 50);
	child = vfork();
	if (!child) {
		/* Still the parent's memory: these are its events. */
		emit("vfork", 10);
		execl(self, self, "plain", NULL);
		_exit(95);
	}
	emit("parent", 50);
	join(child);
}

static void by_spawn(void)
{
	char *arguments[] = { self, (char *)"plain", NULL };
	pid_t child;

	emit("parent", 50);
	test_must(!posix_spawn(&child, self, NULL, NULL, arguments, environ));
	emit("parent", 50);
	join(child);
}

static void by_exec(const char *left)
{
	const unsigned long n = strtoul(left, NULL, 0);
	char next[24];

	emit("exec", 20);
	if (!n)
		return;
	test_count("exec", number);
	snprintf(next, sizeof(next), "%lu", n - 1);
	execl(self, self, "exec", next, NULL);
	test_must(!"execl");
}

/* As a daemon of old: nothing inherited, everything closed. */
static void by_daemon(void)
{
	emit("foreground", 10);
	if (fork()) {
		test_count("foreground", number);
		_exit(0);
	}
	number = 0;
	emit("first", 10);
	test_must(setsid() > 0);
	if (fork()) {
		test_count("first", number);
		_exit(0);
	}
	number = 0;
	emit("daemon", 10);
	test_must(!chdir("/"));
	test_must(!syscall(SYS_close_range, 0u, ~0u, 0u));
	emit("daemon", 10);
	test_must(open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2);
	/* Long enough for the tracer to look again. */
	test_sleep_ms(300);
	emit("daemon", 10);
	fork_once("worker", NULL);
	emit("daemon", 10);
	test_count("daemon", number);
	_exit(0);
}

/* All descriptors are closed before the first event; nothing else happens. */
static void by_close(void)
{
	test_must(!syscall(SYS_close_range, 0u, ~0u, 0u));
	emit("closed", 100);
	fork_once("child", NULL);
	emit("closed", 100);
}

static void by_setuid(void)
{
	emit("root", 20);
	test_must(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	emit("nobody", 20);
	fork_once("child", NULL);
	test_count("nobody", number);
	execl(self, self, "plain", NULL);
	test_must(!"execl");
}

static void by_chroot(const char *folder, const char *program)
{
	test_counts_kept = test_counts_open();
	emit("outside", 20);
	test_must(!chroot(folder) && !chdir("/"));
	emit("inside", 20);
	fork_once("child", NULL);
	test_count("inside", number);
	execl(program, program, "plain", NULL);
	test_must(!"execl");
}

static void first_in_namespace(void)
{
	grandchild();
	by_spawn();
}

static void by_unshare(const char *kinds)
{
	const struct {
		const char *name;
		int flag;
	} all[] = { { "mount", CLONE_NEWNS },
		    { "pid", CLONE_NEWPID },
		    { "user", CLONE_NEWUSER },
		    { "net", CLONE_NEWNET },
		    { "ipc", CLONE_NEWIPC } };
	int flags = 0;
	unsigned i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strstr(kinds, all[i].name))
			flags |= all[i].flag;
	emit("before", 20);
	if (unshare(flags)) {
		fprintf(stderr, "unshare %s: %s\n", kinds, strerror(errno));
		_exit(77);
	}
	if (flags & CLONE_NEWNS) {
		test_must(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
		/* Nothing of the tracer can be reached by its path any more. */
		test_must(!mount("none", "/run", "tmpfs", 0, NULL));
	}
	emit("after", 20);
	/* The first child is process 1 of a new PID namespace, which ends with it. */
	fork_once("child", first_in_namespace);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "plain";

	self = realpath("/proc/self/exe", NULL);
	if (!self)
		self = argv[0];
	if (!strcmp(way, "plain"))
		emit("plain", 30);
	else if (!strcmp(way, "fork"))
		by_fork();
	else if (!strcmp(way, "forks"))
		by_many_forks();
	else if (!strcmp(way, "clone"))
		by_clone();
	else if (!strcmp(way, "vfork"))
		by_vfork();
	else if (!strcmp(way, "spawn"))
		by_spawn();
	else if (!strcmp(way, "exec") && argc > 2)
		by_exec(argv[2]);
	else if (!strcmp(way, "daemon"))
		by_daemon();
	else if (!strcmp(way, "close"))
		by_close();
	else if (!strcmp(way, "setuid"))
		by_setuid();
	else if (!strcmp(way, "chroot") && argc > 3)
		by_chroot(argv[2], argv[3]);
	else if (!strcmp(way, "unshare") && argc > 2)
		by_unshare(argv[2]);
	else
		return 94;
	test_count(way, number);
	return 0;
}
