/* SPDX-License-Identifier: MIT */
/*
 * page_faults.c - page faults of the kernel that a test can count, and system calls at which a tracer has something to read.
 *
 *   page_faults
 *
 * The kernel copies from READ_PAGES pages, and compares the futexes in FUTEX_PAGES pages, which are all untouched before.
 * The second kind of fault is one that the kernel takes while it cannot wait for a page. Then the program opens CALLS files
 * whose names are in pages of their own, untouched as well, with a frame pointer that leads nowhere.
 * It prints the ranges of the first two: "read BEGIN END", "futex BEGIN END", and "name BEGIN END" of the third.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE	    4096ul
#define READ_PAGES  40
#define FUTEX_PAGES 10
#define CALLS	    200

static char *pages(const char *name, unsigned long n)
{
	char *memory =
		mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(2);
	/* No page is one of several that come together. */
	madvise(memory, n * PAGE, MADV_NOHUGEPAGE);
	printf("%s %#lx %#lx\n", name, (unsigned long)memory, (unsigned long)memory + n * PAGE);
	return memory;
}

long open_without_frame(const char *path);

/* A system call while the frame pointer is no address that can be read: what walks the stack faults. */
__attribute__((noipa)) long open_without_frame(const char *path)
{
	long result = SYS_openat;

	__asm__ volatile("push %%rbp\n\tmov $0x10, %%ebp\n\tsyscall\n\tpop %%rbp"
			 : "+a"(result)
			 : "D"((long)AT_FDCWD), "S"(path), "d"((long)O_RDONLY)
			 : "rcx", "r11", "memory");
	return result;
}

int main(void)
{
	char *read_from = pages("read", READ_PAGES), *futexes = pages("futex", FUTEX_PAGES);
	char *names = pages("name", CALLS);
	struct timespec none = { 0, 0 };
	int ends[2], i;

	if (pipe(ends))
		return 2;
	for (i = 0; i < READ_PAGES; i++)
		if (write(ends[1], read_from + (unsigned long)i * PAGE, 1) != 1)
			return 2;
	for (i = 0; i < FUTEX_PAGES; i++)
		syscall(SYS_futex, futexes + (unsigned long)i * PAGE, FUTEX_WAIT_PRIVATE, 1, &none,
			NULL, 0);
	for (i = 0; i < CALLS; i++)
		open_without_frame(names + (unsigned long)i * PAGE);
	return 0;
}
