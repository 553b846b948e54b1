/* SPDX-License-Identifier: MIT */
/*
 * libc_next.c - what stands in front of libc and asks for what is behind it, as people's own wrappers do: compiled as two
 * libraries (-DNR=1, 2), which each wrap next_of() and read(), the second one fprintf(), too, and, with -DNR=0, as the program
 * with both behind it.
 *
 * RTLD_NEXT counts from the object that asks: a wrapper that is answered for another object calls itself for ever.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int next_of(int depth);

#if NR
/* Looked up at each call, by which each is an event where `dl` is recorded. */
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

int next_of(int depth)
{
	__typeof__(next_of) *next = NEXT(next_of);

	/* Behind the second one there is none. */
	return depth > 9 ? -1 : next ? 10 * next(depth + 1) + NR : NR;
}

ssize_t read(int fd, void *to, size_t size)
{
	static _Thread_local int is_inside;
	ssize_t result;

	if (is_inside)
		return -2;
	is_inside = 1;
	result = NEXT(read)(fd, to, size);
	is_inside = 0;
	return result;
}

#if NR == 2
int fprintf(FILE *file, const char *format, ...)
{
	va_list list;
	int bytes;

	va_start(list, format);
	bytes = vfprintf(file, format, list);
	va_end(list);
	return bytes + 100;
}
#endif
#else
int main(void)
{
	char bytes[4];
	int ends[2];

	if (pipe(ends) || write(ends[1], "abc", 4) != 4)
		return 1;
	/* The first call of one that may not have been looked up yet: what dlerror() has is the program's. */
	dlopen("/nowhere/at all.so", RTLD_NOW);
	if (pread(ends[0], bytes, 4, 0) >= 0)
		return 2;
	printf("error %s", dlerror() ? "kept" : "gone");
	printf(", read %zd", read(ends[0], bytes, 4));
	printf(" %s, next %d", bytes, next_of(0));
	printf(", fprintf %d\n", fprintf(stdout, "%s", ""));
	return 0;
}
#endif
