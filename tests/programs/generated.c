/* SPDX-License-Identifier: MIT */
/*
 * generated.c - generates code as a just-in-time compiler does, names it in /tmp/perf-PID.map, and burns CPU time in it.
 *
 *	generated	waits for a byte of stdin twice: before the code at an address gets another name, and at the end
 *
 * The code at one address is called `before` and, after the first byte, `behind`. Other code has no name.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* push rbp; mov rbp, rsp; 1: dec rdi; jnz 1b; pop rbp; ret */
static const unsigned char CODE[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xff,
				      0xcf, 0x75, 0xfb, 0x5d, 0xc3 };

typedef void spin(uint64_t turns);

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static spin *generate(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union {
		void *at;
		spin *code;
	} both = { at };

	if (at == MAP_FAILED)
		return NULL;
	memcpy(at, CODE, sizeof(CODE));
	return mprotect(at, 4096, PROT_READ | PROT_EXEC) ? NULL : both.code;
}

static void burn(spin *code)
{
	for (double end = cpu_time() + 0.3; cpu_time() < end;)
		code(100000);
}

static void name(FILE *map, spin *code, const char *text)
{
	fprintf(map, "%lx %zx %s\n", (unsigned long)(uintptr_t)code, sizeof(CODE), text);
	fflush(map);
}

int main(void)
{
	spin *named = generate(), *other = generate(), *unnamed = generate();
	char path[64], byte;
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "we");
	if (!map || !named || !other || !unnamed)
		return 1;
	name(map, named, "before");
	burn(named);
	burn(unnamed);
	/* Who reads this name has read the others, too. */
	name(map, other, "first mark");
	if (read(0, &byte, 1) != 1)
		return 1;
	name(map, named, "behind");
	burn(named);
	/* What is written last is in a file that has no name any more. */
	name(map, other, "second mark");
	if (read(0, &byte, 1) != 1)
		return 1;
	unlink(path);
	burn(other);
	name(map, other, "last");
	return 0;
}
