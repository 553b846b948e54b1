/* SPDX-License-Identifier: MIT */
/*
 * attack_child.c - a child that cannot make memory of its own: what of its parent's can it reach?
 *
 *   attack_child LIMIT WAY EVENTS
 *
 * LIMIT: none, as, data, fsize, nofile (resource limits), filter (seccomp: memfd_create() is refused).
 * WAY: fork, or clone: the system call, of which nobody is told until the child's first event.
 * The parent emits EVENTS events, its child and its child's child too; those are counted in the trace only
 * if they found memory. It says what the child still has of its parent's.
 */
#include <strata/tracepoint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "count.h"

static unsigned long nr_events;
static ino_t parents; /* inode of its memory */

static void emit(uint64_t generation)
{
	unsigned long i;

	for (i = 0; i < nr_events; i++)
		STRATA_TRACE(child, step, INFO, strata_int(generation, generation),
			     strata_int(number, i));
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(96);
}

/* The memory's descriptor: of the memfd that libstrata has named so. */
static int memory_fd(void)
{
	char path[40], name[100];
	ssize_t n;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0 && !strncmp(name, "/memfd:strata ", 14))
			return fd;
	}
	return -1;
}

/* Opened before the limits. */
static int open_maps(void)
{
	return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

static int is_mapped(int maps, ino_t inode)
{
	static char text[1 << 20];
	size_t used = 0;
	ssize_t n;
	char wanted[40];

	/* Of the process that opened it: a child needs one of its own. */
	while ((n = read(maps, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	test_must(strstr(text, "attack_child"));
	snprintf(wanted, sizeof(wanted), " %lu ", (unsigned long)inode);
	return strstr(text, wanted) != NULL;
}

static int is_open(ino_t inode)
{
	struct stat status;
	int fd;

	for (fd = 3; fd < 1024; fd++)
		if (!fstat(fd, &status) && status.st_ino == inode)
			return 1;
	return 0;
}

static void limit(int resource, rlim_t value)
{
	struct rlimit limits;

	test_must(!getrlimit(resource, &limits));
	limits.rlim_cur = value;
	test_must(!setrlimit(resource, &limits));
}

static void forbid_memory(const char *what)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	int lowest;

	if (!strcmp(what, "as"))
		limit(RLIMIT_AS, 4096);
	else if (!strcmp(what, "data"))
		limit(RLIMIT_DATA, 4096);
	else if (!strcmp(what, "fsize"))
		limit(RLIMIT_FSIZE, 100000);
	else if (!strcmp(what, "nofile")) {
		test_must((lowest = dup(0)) >= 0);
		test_must(!close(lowest));
		limit(RLIMIT_NOFILE, (rlim_t)lowest);
	} else if (!strcmp(what, "filter")) {
		test_must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		test_must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	}
}

static pid_t have_child(const char *way)
{
	return strcmp(way, "clone") ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int ended(pid_t pid)
{
	int state;

	test_must(pid > 0 && waitpid(pid, &state, 0) == pid);
	return WIFEXITED(state) ? WEXITSTATUS(state) : 200 + WTERMSIG(state);
}

/* The parent reads the child's maps, which the child may not open. */
static int parent_of(pid_t pid)
{
	char path[40];
	int maps, state, mapped;

	test_must(waitpid(pid, &state, WUNTRACED) == pid);
	if (!WIFSTOPPED(state))
		return WIFEXITED(state) ? WEXITSTATUS(state) : 200 + WTERMSIG(state);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = open(path, O_RDONLY);
	mapped = maps < 0 ? -1 : is_mapped(maps, parents);
	if (maps >= 0)
		close(maps);
	if (mapped > 0)
		say("the child maps its parent's memory\n");
	test_must(!kill(pid, SIGCONT));
	return ended(pid) | (mapped > 0);
}

static int child(const char *way, int generation)
{
	int bad;
	pid_t pid;

	emit((uint64_t)generation);
	bad = is_open(parents);
	if (bad)
		say("the child has its parent's descriptor\n");
	if (generation > 1)
		return bad;
	pid = have_child(way);
	if (!pid)
		_exit(child(way, 2));
	return ended(pid) || bad;
}

int main(int argc, char **argv)
{
	struct stat status;
	pid_t pid;
	int bad, lowest;

	test_must(argc > 3);
	nr_events = strtoul(argv[3], NULL, 0);
	emit(0);
	test_must(!fstat(memory_fd(), &status));
	parents = status.st_ino;
	/* Read once by the parent, for which one descriptor is left. */
	lowest = open_maps();
	test_must(lowest >= 0 && is_mapped(lowest, parents));
	close(lowest);
	forbid_memory(argv[1]);
	pid = have_child(argv[2]);
	if (!pid) {
		bad = child(argv[2], 1);
		raise(SIGSTOP);
		_exit(bad);
	}
	if (!strcmp(argv[1], "nofile"))
		limit(RLIMIT_NOFILE, 1024);
	bad = parent_of(pid);
	emit(0);
	if (!bad)
		say("nothing\n");
	_exit(bad);
}
