/* SPDX-License-Identifier: MIT */
/*
 * attack_victim.c - a program with more rights than who runs it, and with two checks that a byte turns round.
 *
 *   attack_victim sites    prints where its checks are: name, address, displacement
 *   attack_victim [FILE]
 *
 * Maps FILE, if there is one, as programs do that are given something to work on. Waits for the end of its
 * standard input, makes both checks, and prints "jump: denied test: denied" and its effective user. Both
 * checks have the shape of a tracepoint's site (strata/abi/user.h): the first is passed if its opcode E9
 * becomes A9, the second if A9 becomes E9.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const unsigned char attack_jump[], attack_test[];

static void print_site(const char *name, const unsigned char *site)
{
	int32_t displacement;

	memcpy(&displacement, site + 1, sizeof(displacement));
	printf("%s %p %d\n", name, (const void *)site, displacement);
}

int main(int argc, char **argv)
{
	int jump = 0, test = 0, fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	char byte;

	if (argc > 1 && !strcmp(argv[1], "sites")) {
		print_site("jump", attack_jump);
		print_site("test", attack_test);
		return 0;
	}
	if (argc > 1 && (fd < 0 || mmap(NULL, 4096 * 1024, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
					0) == MAP_FAILED)) {
		perror(argv[1]);
		return 2;
	}
	while (read(0, &byte, 1) > 0)
		;
	__asm__ volatile(".globl attack_jump\n"
			 "attack_jump: .byte 0xe9\n"
			 ".long 1f - . - 4\n"
			 "movl $1, %0\n"
			 "1:\n"
			 ".globl attack_test\n"
			 "attack_test: .byte 0xa9\n"
			 ".long 2f - . - 4\n"
			 "jmp 3f\n"
			 "2: movl $1, %1\n"
			 "3:\n"
			 : "+m"(jump), "+m"(test)
			 :
			 : "cc");
	printf("jump: %s test: %s user %u\n", jump ? "GRANTED" : "denied",
	       test ? "GRANTED" : "denied", (unsigned)geteuid());
	return 0;
}
