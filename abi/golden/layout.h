/* SPDX-License-Identifier: MIT */
/*
 * layout.h - print the layout of a header of strata/abi, one fact a line: what print_ring.c,
 * print_user.c and print_kernel.c are made of.
 *
 * A program exits 1 when the fields that it lists do not fill a struct from its first byte to its last:
 * then the header has one that the list has not, or the compiler put padding where another might not.
 */
#ifndef STRATA_ABI_GOLDEN_LAYOUT_H
#define STRATA_ABI_GOLDEN_LAYOUT_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static size_t next_offset;
static int status;

static void account(const char *what, size_t offset, size_t size)
{
	if (offset != next_offset) {
		fprintf(stderr,
			"print: %s begins at %zu, the field before it ends at %zu. List each field in "
			"abi/golden, and name padding.\n",
			what, offset, next_offset);
		status = 1;
	}
	next_offset = offset + size;
}

#define STRUCT(s)                                                              \
	do {                                                                   \
		printf("struct %s size %zu align %zu\n", #s, sizeof(struct s), \
		       _Alignof(struct s));                                    \
		next_offset = 0;                                               \
	} while (0)

#define FIELD(s, f)                                                                \
	do {                                                                       \
		const size_t offset = offsetof(struct s, f);                       \
		const size_t size = sizeof(((struct s *)0)->f);                    \
                                                                                   \
		printf("field %s.%s offset %zu size %zu\n", #s, #f, offset, size); \
		account(#s "." #f, offset, size);                                  \
	} while (0)

#define END(s) account("the end of " #s, sizeof(struct s), 0)

#define CONSTANT(c) printf("constant %s %" PRIu64 "\n", #c, (uint64_t)(c))

#define TEXT(t) printf("text %s %s\n", #t, (t))

#define TITLE(header)                                                                                 \
	printf("# Layout of strata/abi/%s. Written by tools/gate/golden --write, read by it and by\n" \
	       "# crates/strata-abi. Offsets and sizes in bytes.\n",                                  \
	       header)

#endif /* STRATA_ABI_GOLDEN_LAYOUT_H */
