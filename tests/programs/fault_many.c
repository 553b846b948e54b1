/* SPDX-License-Identifier: MIT */
/*
 * fault_many.c - a thousand idle instrumented processes, that record when they are told to.
 *
 *   fault_many NUMBER EVENTS FILE
 *
 * Starts itself NUMBER times; when all are idle it writes "ready" and their process ids to FILE.pids. Once
 * somebody has written to FILE (a FIFO) each records EVENTS events many:event and goes idle again; then this
 * one writes "done" to FILE.done. Once FILE is written to again all end.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strata/tracepoint.h>

/* In a memfd of its own that the children inherit. */
struct shared {
	uint32_t phase; /* 0: wait, 1: record, 2: end */
	uint32_t idle;
	uint32_t recorded;
};

static struct shared *map(int fd)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : (struct shared *)p;
}

static void wait_for_phase(struct shared *shared, uint32_t phase)
{
	uint32_t now;

	while ((now = __atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE)) < phase)
		syscall(SYS_futex, &shared->phase, FUTEX_WAIT, now, NULL, NULL, 0);
}

static int child(int fd, int events)
{
	struct shared *shared = map(fd);
	int i;

	if (!shared)
		return 1;
	__atomic_fetch_add(&shared->idle, 1, __ATOMIC_RELEASE);
	wait_for_phase(shared, 1);
	for (i = 0; i < events; i++)
		STRATA_TRACE(many, event, INFO, strata_int(number, i));
	__atomic_fetch_add(&shared->recorded, 1, __ATOMIC_RELEASE);
	wait_for_phase(shared, 2);
	return 0;
}

static void set_phase(struct shared *shared, uint32_t phase)
{
	__atomic_store_n(&shared->phase, phase, __ATOMIC_RELEASE);
	syscall(SYS_futex, &shared->phase, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void reach(const uint32_t *number, uint32_t wanted)
{
	while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < wanted)
		usleep(1000);
}

static void say(const char *file, const char *what, const char *text)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.%s", file, what);
	f = fopen(path, "w");
	if (!f)
		exit(1);
	fputs(text, f);
	fclose(f);
}

/* Waits until somebody has written to the FIFO and closed it. */
static void wait_for_writer(const char *file)
{
	char bytes[16];
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && read(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
}

int main(int argc, char **argv)
{
	char number[16], *pids;
	uint32_t n, i, failed = 0;
	struct shared *shared;
	size_t at = 0, size;
	int fd, status;
	pid_t pid;
	char *arguments[] = { argv[0], "child", number, argv[2], NULL };

	if (argc == 4 && !strcmp(argv[1], "child"))
		return child(atoi(argv[2]), atoi(argv[3]));
	if (argc != 4)
		return 99;
	n = (uint32_t)atoi(argv[1]);
	fd = memfd_create("many", 0);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared)) || !(shared = map(fd)))
		return 98;
	snprintf(number, sizeof(number), "%d", fd);
	size = n * 12 + 16;
	pids = malloc(size);
	for (i = 0; pids && i < n; i++) {
		if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ))
			return 97;
		at += (size_t)snprintf(pids + at, size - at, "%s%d", i ? "," : "", (int)pid);
	}
	reach(&shared->idle, n);
	say(argv[3], "pids", pids);
	wait_for_writer(argv[3]);
	set_phase(shared, 1);
	reach(&shared->recorded, n);
	say(argv[3], "done", "done\n");
	wait_for_writer(argv[3]);
	set_phase(shared, 2);
	for (i = 0; i < n; i++)
		if (wait(&status) > 0)
			failed += status != 0;
	return !!failed;
}
