/* SPDX-License-Identifier: MIT */
/*
 * scratch.bpf.h - memory of this CPU for payloads whose size is not known in advance.
 *
 * `at` lies in that memory, not in a register: the verifier then knows nothing of it but the bound that was
 * just tested, so that all ways through an argument look alike to it.
 */
#ifndef STRATA_KERNEL_SCRATCH_BPF_H
#define STRATA_KERNEL_SCRATCH_BPF_H

#include "record.bpf.h"

#define STRATA_SCRATCH_MAX (STRATA_TEXT_BEGIN_MAX + STRATA_ABI_KERNEL_ARGV_MAX)
#define STRATA_COPY_MAX	   512u

/* The arguments of a call whose memory was not present at its entry. */
struct strata_unread {
	uint32_t place; /* in `syscalls` */
	uint32_t nr_arguments;
	uint32_t argument[4]; /* no call has more than four that are read from memory */
	uint64_t address[4];
};

struct strata_scratch {
	uint64_t argument[7];
	uint32_t at;
	uint32_t has_unread; /* 1: the argument at hand could not be read */
	uint32_t is_compat;  /* 1: pointers in memory have 4 bytes */
	/* The state between two pieces of strings that are joined: */
	uint32_t nr_strings;
	uint64_t next;	     /* where the next one is, or the pointer to it */
	uint32_t is_word;    /* 1: there is one in `word`, whose end is not written yet */
	uint32_t word_bytes; /* without its NUL */
	uint32_t word_from;  /* what is not looked at yet */
	uint32_t quote_at;   /* where the next byte goes, if it is in quotes */
	uint32_t is_special; /* 1: it is to be in quotes */
	uint32_t quote_cut;  /* where it is cut at the latest, if it is in quotes */
	uint32_t cut_at;     /* where all of them end if more follow than are recorded */
	uint32_t cut_quoted; /* 1: that is within quotes, which are closed there */
	struct strata_unread unread;
	unsigned char copy[STRATA_COPY_MAX]; /* of what only parts are recorded; aligned */
	unsigned char word[STRATA_ABI_KERNEL_ARGV_MAX + 8]; /* one string of several */
	unsigned char bytes[STRATA_SCRATCH_MAX + STRATA_ABI_KERNEL_ARGV_MAX + 8];
};
/* The kernel has no larger values for each CPU. */
STRATA_ABI_ASSERT(sizeof(struct strata_scratch) <= 32768, "size of a value for each CPU");
STRATA_ABI_ASSERT(STRATA_SCRATCH_MAX + STRATA_ABI_KERNEL_CONTEXT_MAX + STRATA_CONTEXT_BYTES + 14 <=
			  2 * STRATA_ABI_KERNEL_SLACK,
		  "a record ends within a value of `rings`");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct strata_scratch);
} scratches SEC(".maps");

/* Makes the compiler test the register that is used: verifiers before 6.11 do not relate a copy less 1 to it. */
STRATA_INLINE uint64_t strata_opaque(uint64_t value)
{
	__asm__ volatile("" : "+r"(value));
	return value;
}

STRATA_INLINE struct strata_scratch *strata_scratch(void)
{
	uint32_t key = 0;

	return (struct strata_scratch *)bpf_map_lookup_elem(&scratches, &key);
}

STRATA_INLINE void strata_count_unreadable(void)
{
	__sync_fetch_and_add(&control.unreadable, 1);
}

/* Returns where the next bytes go; NULL if there is no room, which cannot happen. */
STRATA_INLINE unsigned char *strata_scratch_end(struct strata_scratch *scratch)
{
	uint32_t at = STRATA_ONCE(uint32_t, scratch->at);

	if (at > STRATA_SCRATCH_MAX)
		return NULL;
	return scratch->bytes + at;
}

STRATA_INLINE void strata_scratch_number(struct strata_scratch *scratch, uint64_t value,
					 uint32_t bytes)
{
	unsigned char *to = strata_scratch_end(scratch);

	if (!to)
		return;
	__builtin_memcpy(to, &value, 8);
	scratch->at += bytes;
}

STRATA_INLINE void strata_count_cut(void)
{
	__sync_fetch_and_add(&control.cut, 1);
}

#endif /* STRATA_KERNEL_SCRATCH_BPF_H */
