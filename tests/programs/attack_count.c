/* SPDX-License-Identifier: MIT */
/*
 * attack_count.c - a traced program that claims to have discarded as many records as there are numbers, so that what
 * others do is not seen among them. It says so in all its streams, again and again, and prints "claimed" when it first
 * has; until it is told to end (SIGTERM), at most two minutes.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <strata/tracepoint.h>

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

/* Its own shared memory. */
static int own_memory(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	char path[300], link[128];
	int memfd = -1;
	ssize_t n;

	while (dir && memfd < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.200s", entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, "/memfd:" STRATA_ABI_USER_MEMFD " (deleted)"))
			memfd = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return memfd;
}

/* All of it: it grows with the sessions. */
static unsigned char *map(int memfd, uint64_t *bytes)
{
	struct stat status;
	void *memory;

	if (fstat(memfd, &status))
		return NULL;
	*bytes = (uint64_t)status.st_size;
	memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* Returns how many streams now say so. */
static unsigned claim(unsigned char *memory, uint64_t bytes)
{
	struct strata_abi_user_session *session;
	struct strata_abi_ring_channel *channel;
	struct strata_abi_ring_stream *stream;
	unsigned slot, number, claimed = 0;
	uint64_t at;

	for (slot = 0; slot < STRATA_ABI_USER_NR_SESSIONS; slot++) {
		session = (void *)(memory + STRATA_ABI_USER_SESSIONS_OFFSET + slot * 4096);
		at = session->channel_offset;
		if (!at || at + sizeof(*channel) > bytes)
			continue;
		channel = (void *)(memory + at);
		if (channel->magic != STRATA_ABI_RING_MAGIC)
			continue;
		for (number = 0; number < channel->nr_streams; number++) {
			stream = (void *)(memory + at + STRATA_ABI_RING_PAGE +
					  number * channel->stream_stride);
			stream->discarded_too_big = UINT64_MAX;
			claimed++;
		}
	}
	return claimed;
}

int main(void)
{
	unsigned char *memory;
	int i, memfd, has_claimed = 0;
	uint64_t bytes;

	signal(SIGTERM, on_term);
	memfd = own_memory();
	if (memfd < 0)
		return 1;
	for (i = 0; i < 60000 && !asked; i++) {
		STRATA_TRACE(ticker, tick, INFO, strata_int(number, i + 1000000));
		memory = map(memfd, &bytes);
		if (memory && claim(memory, bytes) && !has_claimed) {
			has_claimed = 1;
			puts("claimed");
			fflush(stdout);
		}
		if (memory)
			munmap(memory, bytes);
		usleep(2000);
	}
	return 0;
}
