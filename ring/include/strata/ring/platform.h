/* SPDX-License-Identifier: MIT */
/*
 * platform.h - what the library needs of its surroundings: user space, a BPF program, a kernel module.
 *
 * In a kernel the standard names of integers, of which the library uses a few, are made of the kernel's own. A module's
 * makefile has <stddef.h> and <stdint.h>, which abi/ includes, lead to here.
 */
#ifndef STRATA_RING_PLATFORM_H
#define STRATA_RING_PLATFORM_H

#ifdef __KERNEL__

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/vmalloc.h>

#ifndef UINT64_C
#define UINT32_C(c) c##U
#define UINT64_C(c) c##ULL
#define UINT32_MAX  U32_MAX
#define UINT64_MAX  U64_MAX
#endif

#define STRATA_RING_CALLOC(n, size) kvcalloc((n), (size), GFP_KERNEL)
#define STRATA_RING_FREE(p)	    kvfree(p)

#else

#include <stddef.h>
#include <stdint.h>
#ifdef __bpf__
#include <linux/errno.h>
#else
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define STRATA_RING_CALLOC(n, size) calloc((n), (size))
#define STRATA_RING_FREE(p)	    free(p)
#endif

#endif

#endif /* STRATA_RING_PLATFORM_H */
