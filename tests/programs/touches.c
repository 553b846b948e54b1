/* SPDX-License-Identifier: MIT */
/*
 * touches.c - maps memory and touches each page of it, moves the end of its heap, gives memory back, sleeps 10 ms. On
 * stdout what it did: "WHAT NUMBER", in pages and bytes; of page faults as the kernel counts them.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGES = 300,
	HEAP_PAGES = 16,
	PAGE = 4096
};

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	long before = faults();
	volatile char *memory, *heap;

	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	heap = sbrk(HEAP_PAGES * PAGE);
	if (memory == MAP_FAILED || heap == (void *)-1)
		return 3;
	madvise((void *)memory, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < PAGES; i++)
		memory[i * PAGE] = 1;
	for (int i = 0; i < HEAP_PAGES; i++)
		heap[i * PAGE] = 1;
	before = faults() - before;
	munmap((void *)memory, PAGES / 2 * PAGE);
	nanosleep(&pause, NULL);
	printf("pages %d\nfaults %ld\nslack %d\nheap %d\nmapped %d\nunmapped %d\n", PAGES, before,
	       2, HEAP_PAGES * PAGE, PAGES * PAGE, PAGES / 2 * PAGE);
	return 0;
}
