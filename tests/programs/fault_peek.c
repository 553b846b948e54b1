/* SPDX-License-Identifier: MIT */
/*
 * fault_peek.c - what the shared memory of a process says, read from outside.
 *
 *   fault_peek PID
 *
 *   claimed N          slots that may be in use
 *   self_stopped N     slots that the process has left because their tracer was dead
 *   enabled N          tracepoints that are on
 *   size N, blocks N   of the memfd; blocks of 512 bytes that have memory
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <strata/abi/user.h>

/* The process' memory, opened; -1: it has none. */
static int memory_of(const char *pid)
{
	char folder[64], path[512], link[256];
	struct dirent *entry;
	ssize_t n;
	DIR *dir;
	int fd = -1;

	snprintf(folder, sizeof(folder), "/proc/%s/fd", pid);
	dir = opendir(folder);
	while (dir && fd < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, "/memfd:" STRATA_ABI_USER_MEMFD " (deleted)"))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (dir)
		closedir(dir);
	return fd;
}

int main(int argc, char **argv)
{
	const struct strata_abi_user_control *control;
	const struct strata_abi_user_session *sessions;
	const struct strata_abi_user_state *states;
	unsigned stopped = 0, enabled = 0, i;
	const unsigned char *memory;
	struct stat status;
	int fd = argc == 2 ? memory_of(argv[1]) : -1;

	if (fd < 0 || fstat(fd, &status))
		return 1;
	memory = mmap(NULL, STRATA_ABI_USER_CHANNELS_OFFSET, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return 1;
	control = (const void *)memory;
	sessions = (const void *)(memory + STRATA_ABI_USER_SESSIONS_OFFSET);
	states = (const void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	for (i = 0; i < STRATA_ABI_USER_NR_SESSIONS; i++)
		stopped += control->claimed_sessions >> i & 1 && sessions[i].self_stopped;
	for (i = 0; i < control->nr_states && i < STRATA_ABI_USER_NR_STATES; i++)
		enabled += states[i].enabled != 0;
	printf("claimed %d\nself_stopped %u\nenabled %u\nsize %lld\nblocks %lld\n",
	       __builtin_popcount(control->claimed_sessions), stopped, enabled,
	       (long long)status.st_size, (long long)status.st_blocks);
	return 0;
}
