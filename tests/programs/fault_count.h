/* SPDX-License-Identifier: MIT */
/*
 * fault_count.h - what fault_count.c, and those who kill it and check its trace, agree on.
 */
#ifndef FAULT_COUNT_H
#define FAULT_COUNT_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAULT_THREADS_MAX 8u
#define FAULT_TEXT_MAX	  60u

/* The file of one process, mapped. */
struct fault_counts {
	uint64_t pid;
	uint64_t threads;
	uint64_t reserved[6];
	struct {
		uint64_t completed; /* records whose tracepoint has returned */
		uint64_t reserved[7];
	} thread[FAULT_THREADS_MAX];
};

static inline struct fault_counts *fault_counts(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(struct fault_counts)))
		return NULL;
	p = mmap(NULL, sizeof(struct fault_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : (struct fault_counts *)p;
}

/*
 * The text of record @k: its length and its letters follow from k. Never empty: babeltrace2 2.0.4 shows
 * an empty string as that of another record.
 */
static inline void fault_text(char *text, uint64_t k)
{
	uint64_t i, n = k * 7 % FAULT_TEXT_MAX + 1;

	for (i = 0; i < n; i++)
		text[i] = (char)('a' + (k + i) % 26);
	text[n] = '\0';
}

static inline uint64_t fault_check(uint32_t pid, uint32_t thread, uint64_t k, const char *text)
{
	uint64_t x = UINT64_C(0xcbf29ce484222325) ^ pid;

	x = x * UINT64_C(0x100000001b3) ^ thread;
	x = x * UINT64_C(0x100000001b3) ^ k;
	for (; *text; text++)
		x = (x ^ (uint64_t)(unsigned char)*text) * UINT64_C(0x100000001b3);
	return x;
}

#endif /* FAULT_COUNT_H */
