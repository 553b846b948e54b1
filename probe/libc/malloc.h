/* SPDX-License-Identifier: MIT */
/* malloc.h - malloc.c records calls, or has them counted by malloc_sums.c. */
#ifndef STRATA_LIBC_MALLOC_H
#define STRATA_LIBC_MALLOC_H

#include <stddef.h>

#define STRATA_LIBC_HIDDEN __attribute__((visibility("hidden")))

/* The functions, by the numbers of the event's labels. */
enum strata_libc_function {
	STRATA_LIBC_MALLOC_,
	STRATA_LIBC_CALLOC_,
	STRATA_LIBC_REALLOC_,
	STRATA_LIBC_MEMALIGN_,
	STRATA_LIBC_FREE_,
};

/*
 * strata_libc_sum() - Count a call. Allocates nothing by malloc(); errno stays.
 */
STRATA_LIBC_HIDDEN void strata_libc_sum(const void *caller, enum strata_libc_function function,
					size_t size, int failed);

#endif /* STRATA_LIBC_MALLOC_H */
