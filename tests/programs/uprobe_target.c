// SPDX-License-Identifier: MIT
/*
 * uprobe_target.c - functions and USDT probes with arguments that a test knows.
 *
 *   uprobe_target COUNT
 *
 * Calls each COUNT times, i from 0 on; then says on standard output where its functions are.
 *
 * The notes are written here, as systemtap's sys/sdt.h would, so that the test needs no more than a
 * compiler, and has operands of every form.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline, used))
#else
#define NOINLINE __attribute__((noipa, used))
#endif

/* @arguments: operands in the assembler's words; what is behind them is asm's list of inputs. */
#define PROBE(name, semaphore, arguments, ...)                                                   \
	__asm__ volatile("990: nop\n"                                                            \
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
			 ".balign 4\n"                                                           \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                      \
			 "991: .asciz \"stapsdt\"\n"                                             \
			 "992: .balign 4\n"                                                      \
			 "993: .8byte 990b\n"                                                    \
			 ".8byte _.stapsdt.base\n"                                               \
			 ".8byte " semaphore "\n"                                                \
			 ".asciz \"target\"\n"                                                   \
			 ".asciz \"" name "\"\n"                                                 \
			 ".asciz \"" arguments "\"\n"                                            \
			 "994: .balign 4\n"                                                      \
			 ".popsection\n"                                                         \
			 ".ifndef _.stapsdt.base\n"                                              \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n"                                                \
			 ".hidden _.stapsdt.base\n"                                              \
			 "_.stapsdt.base: .space 1\n"                                            \
			 ".size _.stapsdt.base, 1\n"                                             \
			 ".popsection\n"                                                         \
			 ".endif\n" ::__VA_ARGS__)

/* Not 0 while somebody wants the probe. */
uint16_t wanted_semaphore __attribute__((section(".probes"), used));

int64_t global;
int32_t table[4];
double numbers[4];
char words[2][8] = { "even", "odd" };
const char *word_list[2] = { words[0], words[1] };

NOINLINE int64_t target_add(uint32_t a, int64_t b, const char *text, int8_t c, uint16_t d, void *e)
{
	__asm__ volatile("" ::"r"(text), "r"((int)c), "r"((int)d), "r"(e) : "memory");
	return (int64_t)a + b;
}

NOINLINE int32_t target_negative(int32_t i)
{
	return -i - 1;
}

/* Each number in a place of another form. */
NOINLINE void target_values(int64_t i)
{
	struct {
		int64_t before;
		int16_t small;
		const char *text;
	} memory = { i, (int16_t)(-i), "text" };

	global = i * 3;
	table[2] = (int32_t)-i;
	PROBE("values", "0",
	      "-4@%0 8@%1 -1@$-5 -2@%2 8@global(%%rip) -4@table+8(%%rip) 8@$4294967296 4@%3",
	      "r"((int32_t)-i), "r"(i + (INT64_C(1) << 40)), "m"(memory.small),
	      "r"((uint32_t)(i * 7)));
	/* The first ends up in %ah; %xmm0 and %fs are not recorded. */
	PROBE("odd", "0", "1@%%ah 8f@%%xmm0 -4@4(%%rbx,%%rcx,4) 8@%%fs:16 4@%%edi",
	      "a"((uint32_t)((i & 0xff) << 8)), "b"(table), "c"(INT64_C(1)), "m"(table),
	      "D"((uint32_t)i));
}

/* Addresses of two registers, or of one that counts several times. */
NOINLINE void target_index(int64_t i)
{
	register int64_t three __asm__("r8") = 3;
	int64_t odd = i & 1;

	table[1] = (int32_t)(i * 5);
	table[3] = (int32_t)(i * -7);
	numbers[2] = (double)(i % 1000) + 0.75;
	PROBE("index", "0",
	      "-4@4(%%rbx,%%rcx,8) 4@(%%rdi,%%rsi) 4@-4(,%%rdx,4) 8f@-8(%%rax,%%r8,8)", "b"(table),
	      "c"(odd), "D"(table), "S"(8 * odd + 4), "d"((uintptr_t)&table[2 * odd + 2] / 4),
	      "a"(numbers), "r"(three), "m"(table), "m"(numbers));
	PROBE("words", "0", "8@(%%rbx,%%rcx,8)", "b"(word_list), "c"(odd), "m"(word_list));
}

/* As compilers hand over floating-point numbers: in memory, and in registers for whole numbers. */
NOINLINE void target_floats(int64_t i)
{
	volatile double wide = (double)(i % 1000) + 0.25;
	volatile float narrow = (float)(-i % 1000) - 0.5f;
	union {
		double number;
		int64_t bits;
	} in_register = { (double)(i % 1000) + 0.125 };
	union {
		float number;
		int32_t bits;
	} small = { (float)(i % 1000) * 2 };

	PROBE("floats", "0", "8f@%0 4f@%1 -8f@%2 -4f@%k3 8f@%%xmm1", "m"(wide), "m"(narrow),
	      "r"(in_register.bits), "r"(small.bits));
}

NOINLINE void target_places(int64_t i)
{
	if (i % 2)
		PROBE("places", "0", "8@%0", "D"(i));
	else
		PROBE("places", "0", "8@%0", "S"(i));
}

NOINLINE void target_wanted(int64_t i)
{
	if (*(volatile uint16_t *)&wanted_semaphore)
		PROBE("wanted", "wanted_semaphore", "8@%0", "r"(i));
}

int main(int argc, char **argv)
{
	int64_t count = argc > 1 ? atoll(argv[1]) : 1, i, sum = 0;
	uint32_t semaphore = wanted_semaphore;
	char text[32];

	for (i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "text %" PRId64, i);
		sum += target_add((uint32_t)i, -2 * i, text, (int8_t)i, (uint16_t)i, &global);
		sum += target_negative((int32_t)i);
		target_values(i);
		target_index(i);
		target_floats(i);
		target_places(i);
		target_wanted(i);
	}
	printf("target_add %p\n", (void *)(uintptr_t)target_add);
	printf("target_negative %p\n", (void *)(uintptr_t)target_negative);
	printf("main %p\n", (void *)(uintptr_t)main);
	printf("global %p\n", (void *)&global);
	printf("words %p\n", (void *)words);
	printf("semaphore %" PRIu32 "\n", semaphore);
	printf("sum %" PRId64 "\n", sum);
	return 0;
}
