/* SPDX-License-Identifier: MIT */
/* strings.bpf.h - join several strings of user memory, such as the arguments of a program, to one text. */
#ifndef STRATA_KERNEL_STRINGS_BPF_H
#define STRATA_KERNEL_STRINGS_BPF_H

#include "scratch.bpf.h"

/*
 * The greatest number of strings of an argv; the second one if more than TEXT_MAX of their bytes
 * are recorded.
 */
#define STRATA_STRINGS_MAX  64u
#define STRATA_STRINGS_MANY 1024u
#define STRATA_ADDRESS_TEXT 20u /* "0x", 16 digits, NUL */
#define STRATA_CUT_BYTES    4u	/* " ..." */

/* The format of an address that replaces a text which cannot be read, as in strace. */
const char strata_address_format[] SEC(".rodata.format") = "0x%llx";

/* Writes the address of a text that cannot be read, in place of the text. Returns the number of bytes. */
STRATA_INLINE uint64_t strata_write_address(struct strata_scratch *scratch, unsigned char *to,
					    uint64_t address)
{
	__u64 data = address;
	long n = bpf_snprintf((char *)to, STRATA_ADDRESS_TEXT, strata_address_format, &data,
			      sizeof(data));

	scratch->has_unread = 1;
	n = (long)strata_opaque((uint64_t)n - 1);
	return (uint64_t)n < STRATA_ADDRESS_TEXT ? (uint64_t)n : 0;
}

/* Bytes that a shell takes as they are: letters, digits, %+,-./:=@_ and what is beyond ASCII. */
#define STRATA_PLAIN_LOW  0x27fff82000000000ull
#define STRATA_PLAIN_HIGH 0x07fffffe87ffffffull

/* Returns 1 if both bytes are the same, without a branch. */
STRATA_INLINE uint64_t strata_is_same(uint64_t byte, uint64_t other)
{
	return ((strata_opaque(byte) ^ other) - 1) >> 63;
}

/* 1 or 0, without a branch. */
STRATA_INLINE uint64_t strata_is_plain(uint64_t byte)
{
	uint64_t low = STRATA_PLAIN_LOW >> (byte & 63), high = STRATA_PLAIN_HIGH >> (byte & 63);
	uint64_t row = byte >> 6;

	return ((strata_is_same(row, 0) & low) | (strata_is_same(row, 1) & high) | row >> 1) & 1;
}

/* Bytes of a string that are examined in one step, since the verifier follows at most 8,192 branches at a time. */
#define STRATA_QUOTE_BYTES 64u
/* Number of steps for a number of strings and bytes: each string is read, ended, and examined in pieces. */
#define STRATA_STEPS(strings, bytes) (3 * ((strings) + 1) + 2 * (bytes) / STRATA_QUOTE_BYTES)

/* Returns 1 if a number is greater than another, without a branch. Both are far below 2^63. */
STRATA_INLINE uint64_t strata_is_more(uint64_t number, uint64_t other)
{
	return (other - strata_opaque(number)) >> 63;
}

/*
 * Notes where a quoted string can be cut: at @limit, or where it ends before. @from and @to: where @bytes of its
 * bytes begin and end. If there are more, quotes are among them, which are not cut within: in front of all of them then.
 */
STRATA_INLINE void strata_quote_cut(struct strata_scratch *scratch, uint64_t from, uint64_t to,
				    uint64_t bytes, uint64_t limit)
{
	uint64_t cut = STRATA_ONCE(uint32_t, scratch->quote_cut);
	uint64_t end = from + bytes * strata_is_same(to - from, bytes);

	end -= (end - limit) * strata_is_more(end, limit);
	cut += (end - cut) * (1 ^ strata_is_more(from, limit));
	scratch->quote_cut = (uint32_t)cut;
}

/*
 * The next bytes of `word` go to `quote_at` of `bytes`, as they are in quotes. @limit: the last place
 * at which the quotes can be closed.
 */
STRATA_INLINE void strata_quote_some(struct strata_scratch *scratch, uint64_t from, uint64_t limit)
{
	uint64_t to = STRATA_ONCE(uint32_t, scratch->quote_at), bytes = scratch->word_bytes, i;
	uint64_t is_special = 0, begin = to, rest;
	unsigned char *place;

	/* A verifier follows both sides of each branch, for each byte anew: there is none but for the end. */
	for (i = 0; i < STRATA_QUOTE_BYTES; i++) {
		uint64_t byte = scratch->word[from + i];

		if (from + i >= bytes || to > STRATA_SCRATCH_MAX)
			break;
		place = scratch->bytes + to;
		place[0] = (unsigned char)byte;
		place[1] = '\\';
		place[2] = '\'';
		place[3] = '\'';
		to += 1 + 3 * strata_is_same(byte, '\'');
		is_special |= strata_is_plain(byte) ^ 1;
	}
	to = strata_opaque(to);
	rest = strata_opaque(bytes - from);
	rest -= (rest - STRATA_QUOTE_BYTES) * strata_is_more(rest, STRATA_QUOTE_BYTES);
	strata_quote_cut(scratch, begin, to, rest, limit);
	scratch->quote_at = (uint32_t)to;
	scratch->is_special |= (uint32_t)is_special;
	scratch->word_from = (uint32_t)from + STRATA_QUOTE_BYTES;
}

/*
 * Completes the string at @at, behind which all of `word` lies as it is in quotes: puts the quotes
 * around it if it needs them, and writes `word` over it as it is otherwise. Returns its end.
 */
STRATA_INLINE uint64_t strata_quote_end(struct strata_scratch *scratch, uint64_t at)
{
	uint64_t to = STRATA_ONCE(uint32_t, scratch->quote_at);
	uint64_t bytes = STRATA_ONCE(uint32_t, scratch->word_bytes);
	unsigned char *place = scratch->bytes + at;

	if (bytes > STRATA_ABI_KERNEL_ARGV_MAX || to > STRATA_SCRATCH_MAX + 4)
		return at;
	if (!STRATA_ONCE(uint32_t, scratch->is_special)) {
		bpf_probe_read_kernel(place, (uint32_t)bytes, scratch->word);
		return at + bytes;
	}
	*place = '\'';
	scratch->bytes[to] = '\'';
	return to + 1;
}

/* Notes that the strings can end at @at, behind a whole one, if there is room for the mark behind it. Returns 1 if so. */
STRATA_INLINE int strata_note_whole(struct strata_scratch *scratch, uint64_t begin, uint64_t at,
				    uint64_t most)
{
	if (at > begin + most - STRATA_CUT_BYTES - 1)
		return 0;
	scratch->cut_at = (uint32_t)at;
	scratch->cut_quoted = 0;
	return 1;
}

/*
 * Notes where the strings end if more follow than are recorded. The last one is from @word to @at: if the mark has no room
 * behind it, they end within it, and its quotes are closed there. Where nothing of it has room, what was noted before stays.
 */
STRATA_INLINE void strata_note_cut(struct strata_scratch *scratch, uint64_t begin, uint64_t word,
				   uint64_t at, uint64_t most)
{
	uint64_t cut = strata_opaque(STRATA_ONCE(uint32_t, scratch->quote_cut));
	uint64_t limit = begin + most - STRATA_CUT_BYTES - 1;

	if (strata_note_whole(scratch, begin, at, most))
		return;
	if (!STRATA_ONCE(uint32_t, scratch->is_special)) {
		if (word > limit)
			return;
		scratch->cut_at = (uint32_t)limit;
		scratch->cut_quoted = 0;
	} else if (cut > word + 1) {
		scratch->cut_at = (uint32_t)cut;
		scratch->cut_quoted = 1;
	}
}

/* Counts that the strings are more than is recorded, and marks that where they end: see strata_note_cut(). */
STRATA_INLINE void strata_scratch_cut(struct strata_scratch *scratch)
{
	uint64_t end = strata_opaque(STRATA_ONCE(uint32_t, scratch->cut_at));
	unsigned char *to;

	if (end > STRATA_SCRATCH_MAX)
		return;
	to = scratch->bytes + end;
	if (STRATA_ONCE(uint32_t, scratch->cut_quoted)) {
		*to++ = '\'';
		end++;
	}
	to[0] = ' ';
	to[1] = '.';
	to[2] = '.';
	to[3] = '.';
	scratch->at = (uint32_t)end + STRATA_CUT_BYTES;
	strata_count_cut();
}

/*
 * Makes one step of strata_scratch_join(): reads a string, or copies a piece of it, or ends it. One function, since
 * there may be no more than eight frames. Returns 0 when the strings are at their end.
 */
STRATA_GLOBAL int strata_scratch_step(uint64_t end, uint32_t begin)
{
	struct strata_scratch *scratch = strata_scratch();
	uint64_t most = strata_sizes()->argv_bytes, at, n, from, address, string;
	uint32_t is_gone = 0, pointer = sizeof(uint64_t), strings = STRATA_STRINGS_MAX;
	unsigned char *to;

	if (!scratch || most > STRATA_ABI_KERNEL_ARGV_MAX)
		return 0;
	at = STRATA_ONCE(uint32_t, scratch->at);
	if (at > STRATA_SCRATCH_MAX)
		return 0;
	if (scratch->is_word) {
		from = STRATA_ONCE(uint32_t, scratch->word_from);
		if (from < scratch->word_bytes &&
		    from <= STRATA_ABI_KERNEL_ARGV_MAX - STRATA_QUOTE_BYTES &&
		    scratch->quote_at - begin <= most) {
			strata_quote_some(scratch, from, begin + most - STRATA_CUT_BYTES - 2);
			return 1;
		}
		n = scratch->word_bytes;
		from = at;
		at = strata_quote_end(scratch, at);
		scratch->is_word = 0;
		strata_note_cut(scratch, begin, from, at, most);
		if (at - begin >= most || n == most - 1) {
			strata_scratch_cut(scratch);
			return 0;
		}
		scratch->at = (uint32_t)at;
		return 1;
	}
	if (most > STRATA_ABI_KERNEL_TEXT_MAX)
		strings = STRATA_STRINGS_MANY;
	if (scratch->is_compat)
		pointer = sizeof(uint32_t);
	address = string = scratch->next;
	if (!end) {
		string = 0;
		is_gone = !!bpf_probe_read_user(&string, pointer, (void *)address);
	}
	if (end ? string >= end : !is_gone && !string)
		return 0;
	if (scratch->nr_strings == strings) {
		strata_scratch_cut(scratch);
		return 0;
	}
	to = scratch->bytes + at;
	if (scratch->nr_strings++) {
		*to++ = ' ';
		at++;
	}
	n = is_gone ? 0 :
		      (uint64_t)bpf_probe_read_user_str(scratch->word, (uint32_t)most,
							(const void *)string);
	scratch->next = address + (end ? n : pointer);
	n = strata_opaque(n - 1);
	if (n >= STRATA_ABI_KERNEL_ARGV_MAX) {
		at += strata_write_address(scratch, to, is_gone ? address : string);
		strata_note_whole(scratch, begin, at, most);
		if (at - begin >= most) {
			strata_scratch_cut(scratch);
			return 0;
		}
		scratch->at = (uint32_t)at;
		return !is_gone && !end;
	}
	scratch->at = (uint32_t)at;
	scratch->is_word = 1;
	scratch->word_from = 0;
	scratch->word_bytes = (uint32_t)n;
	scratch->quote_at = (uint32_t)at + 1;
	scratch->quote_cut = (uint32_t)at;
	/* A word of three dots is quoted, since three dots mark strings that were left out. */
	scratch->is_special = !n || n == 3 && scratch->word[0] == '.' && scratch->word[1] == '.' &&
					    scratch->word[2] == '.';
	return 1;
}

/*
 * Several strings with a space between, each in quotes if it is not plain or is empty. @end: 0, and at @address is an array
 * of pointers to them; or they are one behind the other from @address to @end.
 */
STRATA_GLOBAL int strata_scratch_join(uint64_t address, uint64_t end)
{
	struct strata_scratch *scratch = strata_scratch();
	/*
	 * A number of 64 bits: of shorter ones that are on the stack meanwhile, verifiers before
	 * 5.16 forget the bounds, so that the loop would have no end.
	 */
	uint64_t i, steps = STRATA_STEPS(STRATA_STRINGS_MAX, STRATA_ABI_KERNEL_TEXT_MAX);
	uint32_t begin;

	if (!scratch)
		return 0;
	if (strata_sizes()->argv_bytes > STRATA_ABI_KERNEL_TEXT_MAX)
		steps = STRATA_STEPS(STRATA_STRINGS_MANY, STRATA_ABI_KERNEL_ARGV_MAX);
	begin = scratch->at;
	scratch->cut_at = begin;
	scratch->cut_quoted = 0;
	scratch->next = address;
	scratch->nr_strings = 0;
	scratch->is_word = 0;
	for (i = 0; i < steps; i++) {
		if (!strata_scratch_step(end, begin))
			break;
	}
	return 0;
}

#endif /* STRATA_KERNEL_STRINGS_BPF_H */
