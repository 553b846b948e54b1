// SPDX-License-Identifier: MIT
/*
 * probe_texts.c - texts that probes read: with and without a length, of every length, and where nothing can be read.
 *
 * Each call of take() has numbers at the text's address, which may not be there to be read, a text, its length as an unsigned and as a signed number, and a text that ends with a NUL. The
 * test knows the arguments of each call. The first two texts are in pages of the file that are not in the process' memory.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

struct slice {
	const char *text;
	uint64_t bytes;
};

int take(const char *text, uint64_t bytes, int32_t is, const char *name);
struct slice give(const char *text, uint64_t bytes);

/* As systemtap's sys/sdt.h has it: a text in memory, and its length in a register. */
#define MARK(text, bytes)                                              \
	__asm__ volatile("990: nop\n"                                  \
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n" \
			 ".balign 4\n"                                 \
			 ".4byte 992f-991f, 994f-993f, 3\n"            \
			 "991: .asciz \"stapsdt\"\n"                   \
			 "992: .balign 4\n"                            \
			 "993: .8byte 990b, 0, 0\n"                    \
			 ".asciz \"texts\"\n"                          \
			 ".asciz \"mark\"\n"                           \
			 ".asciz \"8@%0 -4@%1 8@$6\"\n"                \
			 "994: .balign 4\n"                            \
			 ".popsection\n" ::"m"(text),                  \
			 "r"((int32_t)(bytes)))

/* Numbers at a text's address: of 4 bytes, and of 8 bytes behind the first 8; and one in a register. */
#define NUMBERS(text, is)                                              \
	__asm__ volatile("990: nop\n"                                  \
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n" \
			 ".balign 4\n"                                 \
			 ".4byte 992f-991f, 994f-993f, 3\n"            \
			 "991: .asciz \"stapsdt\"\n"                   \
			 "992: .balign 4\n"                            \
			 "993: .8byte 990b, 0, 0\n"                    \
			 ".asciz \"texts\"\n"                          \
			 ".asciz \"numbers\"\n"                        \
			 ".asciz \"4@(%0) 8@8(%0) -4@%1\"\n"           \
			 "994: .balign 4\n"                            \
			 ".popsection\n" ::"r"(text),                  \
			 "r"((int32_t)(is)))

__attribute__((noipa)) int take(const char *text, uint64_t bytes, int32_t is, const char *name)
{
	const char *volatile marked = text;

	__asm__ volatile("" ::"r"(name) : "memory");
	MARK(marked, is);
	NUMBERS(text, is);
	return (int)bytes;
}

__attribute__((noipa)) struct slice give(const char *text, uint64_t bytes)
{
	return (struct slice){ text, bytes };
}

__attribute__((aligned(PAGE))) static const char cold[2][2 * PAGE] = { "not in memory yet",
								       "nor this one" };

/* Memory whose reader waits until this program fills it, which it never does; or cannot read where there is no such. */
static char *held(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	all.range.start = (uintptr_t)memory;
	all.range.len = PAGE;
	if (memory != MAP_FAILED &&
	    (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all)))
		mprotect(memory, PAGE, PROT_NONE);
	return memory;
}

int main(void)
{
	static char large[4 * PAGE];
	char *end =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (end == MAP_FAILED || munmap(end + PAGE, PAGE))
		return 2;
	end += PAGE;
	/* The other texts are in memory, whether or not their pages are neighbours. */
	(void)*(const volatile char *)"abcdefgh";
	(void)*(const volatile char *)"until the end";
	madvise((void *)(uintptr_t)cold, sizeof(cold), MADV_DONTNEED);
	memset(large, 'x', sizeof(large) - 1);
	memcpy(end - 6, "sixsix", 6);
	take(cold[0], 6, 6, cold[1]);
	take("abcdefgh", 3, 3, "z");
	take("abcdefgh", 0, 0, "");
	take(NULL, 0, 0, NULL);
	take((const char *)1, 5, 5, (const char *)16);
	take(large, sizeof(large) - 1, sizeof(large) - 1, large);
	take(large, UINT64_MAX, -5, "negative");
	take(end - 6, 6, 6, "until the end");
	take(end - 6, 7, 7, "beyond the end");
	take(held(), 4, 4, "held");
	give("hello world", 5);
	return 0;
}
