/* SPDX-License-Identifier: MIT */
/*
 * disk_faults.bpf.h - tells page faults that wait for a disk from those that find their page in memory.
 *
 * The kernel's event of a page fault in a mapped file comes directly before the kernel looks for the page. The program
 * looks into the same tree: a fault waits if the page is not there, or is there and its content is still being read.
 * The kernel counts a fault of the first kind as a major one. A tree that changes meanwhile leads to a record too many.
 */
#ifndef STRATA_KERNEL_DISK_FAULTS_BPF_H
#define STRATA_KERNEL_DISK_FAULTS_BPF_H

#include "core.bpf.h"

/* Entries of the kernel's struct xarray, see its include/linux/xarray.h. */
#define STRATA_XA_LEVELS 11u
#define STRATA_XA_BITS	 6u
#define STRATA_XA_SLOTS	 (1u << STRATA_XA_BITS)
#define STRATA_XA_NODE_MIN \
	4096u /* a smaller number that is marked as internal is no node's address */

/* PG_uptodate of every kernel since 2.6, in the first word of a page. */
#define STRATA_PAGE_UPTODATE (1u << 3)

STRATA_INLINE int strata_xa_is_internal(uint64_t entry)
{
	return (entry & 3) == 2;
}

/* Reads the entry of a node at @slot, which may say that another slot has it: pages of larger sizes take several. */
STRATA_INLINE uint64_t strata_xa_entry(uint64_t node, uint64_t slot)
{
	const struct xa_node *at = (const struct xa_node *)node;
	const char *slots = (const char *)__builtin_preserve_access_index(&at->slots[0]);
	uint64_t entry = 0;

	strata_read_kernel(&entry, sizeof(entry), slots + (slot & (STRATA_XA_SLOTS - 1)) * 8);
	if (strata_xa_is_internal(entry) && entry >> 2 < STRATA_XA_SLOTS - 1)
		strata_read_kernel(&entry, sizeof(entry), slots + (entry >> 2) * 8);
	return entry;
}

/*
 * Returns 1 if the content of page @index is in memory. @pages: the address of the file's tree of
 * pages. A global function: the verifier goes through it once.
 */
__attribute__((noinline)) int strata_is_in_memory(uint64_t pages, uint64_t index)
{
	const struct xarray *array = (const struct xarray *)pages;
	const struct xa_node *node;
	uint64_t entry = 0, flags = 0;
	unsigned char shift = 0;
	uint32_t level;

	strata_read_kernel(&entry, sizeof(entry), __builtin_preserve_access_index(&array->xa_head));
	/* A tree without a node has at most page 0. */
	if (!(strata_xa_is_internal(entry) && entry > STRATA_XA_NODE_MIN) && index)
		return 0;
	for (level = 0; level < STRATA_XA_LEVELS; level++) {
		if (!strata_xa_is_internal(entry) || entry <= STRATA_XA_NODE_MIN)
			break;
		node = (const struct xa_node *)(entry - 2);
		strata_read_kernel(&shift, sizeof(shift),
				   __builtin_preserve_access_index(&node->shift));
		/* The tree is no higher than its last page needs. */
		if (!level && index >> (shift & 63) >> STRATA_XA_BITS)
			return 0;
		entry = strata_xa_entry(entry - 2, index >> (shift & 63));
	}
	/* Anything but a pointer stands for a page that was evicted, or for a change that is being made. */
	if (!entry || entry & 3)
		return 0;
	strata_read_kernel(&flags, sizeof(flags), (const void *)entry);
	return !!(flags & STRATA_PAGE_UPTODATE);
}

#endif /* STRATA_KERNEL_DISK_FAULTS_BPF_H */
