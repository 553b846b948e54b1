/* SPDX-License-Identifier: MIT */
/*
 * callstack.c - the call stack, by frame pointers. A program that is compiled without them has anything in their
 * place: what they lead to is read by the kernel (process_vm_readv()), so that no address is a fault, in no stack.
 */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "context.h"

/* End of the main thread's stack. */
extern void *__libc_stack_end __attribute__((weak));

/*
 * The greatest size of a stack [byte]. A mapping that is larger holds something else above the
 * stack.
 */
#define STACK_BYTES_MAX (UINT64_C(1) << 30)
/*
 * The assumed size of a stack that is neither main()'s nor one that libc has made for a thread
 * [byte].
 */
#define OTHER_STACK_BYTES (UINT64_C(1) << 20)
/* The size of one read, which never crosses a page [byte]. */
#define WINDOW_BYTES 512u
#define PAGE_BYTES   4096u

struct window {
	uint64_t begin;
	uint64_t bytes;
	uint64_t word[WINDOW_BYTES / 8];
};

/* Above it nothing is of the stack that @at is in. libc has what it knows of a thread at the top of its stack. */
static uint64_t end_of_stack(uint64_t at)
{
	const uint64_t of_thread = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	uint64_t of_main = 0;

	if (&__libc_stack_end)
		of_main = (uint64_t)(uintptr_t)__libc_stack_end;
	if (of_thread > at && of_thread - at < STACK_BYTES_MAX)
		return of_thread;
	if (of_main > at && of_main - at < STACK_BYTES_MAX)
		return of_main;
	return at + OTHER_STACK_BYTES;
}

/*
 * Reads the two words at @frame, a multiple of 8: the caller's frame and return address. Returns 0 if they cannot be
 * read.
 */
static int read_frame(struct window *window, uint64_t frame, uint64_t words[2])
{
	uint64_t bytes = PAGE_BYTES - frame % PAGE_BYTES, at;
	struct iovec to, from;
	int saved = errno;
	long n;

	if (frame < window->begin || frame - window->begin + 16 > window->bytes) {
		if (bytes < 16)
			bytes = 16;
		if (bytes > WINDOW_BYTES)
			bytes = WINDOW_BYTES;
		to.iov_base = window->word;
		from.iov_base = (void *)(uintptr_t)frame;
		to.iov_len = from.iov_len = bytes;
		n = strata_syscall(SYS_process_vm_readv, (long)strata_thread_id(), &to, 1, &from, 1,
				   0);
		errno = saved;
		window->begin = frame;
		window->bytes = n > 0 ? (uint64_t)n : 0;
		if (window->bytes < 16)
			return 0;
	}
	at = (frame - window->begin) / 8;
	words[0] = window->word[at];
	words[1] = window->word[at + 1];
	return 1;
}

/*
 * Returns the number of return addresses on @caller's stack, and writes them. Each frame lies above
 * the one before.
 */
uint32_t strata_callstack(uint64_t addresses[STRATA_ABI_USER_CALLSTACK_MAX],
			  const struct strata_caller *caller)
{
	/* Below the caller's frame. */
	uint64_t low = (uint64_t)(uintptr_t)caller, frame = caller->frame, words[2];
	const uint64_t end = end_of_stack(low);
	struct window window;
	uint32_t nr = 0;

	window.begin = window.bytes = 0;
	if (__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		return 0;
	while (nr < STRATA_ABI_USER_CALLSTACK_MAX && frame > low && frame % 8 == 0 && frame < end &&
	       end - frame >= 16 && read_frame(&window, frame, words) && words[1]) {
		addresses[nr++] = words[1];
		low = frame;
		frame = words[0];
	}
	return nr;
}
