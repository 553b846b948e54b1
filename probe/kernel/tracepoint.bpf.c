/* SPDX-License-Identifier: MIT */
/*
 * tracepoint.bpf.c - any tracepoint, as its constant `event` says.
 *
 * The loops are unrolled: the verifier knows each part, and leaves only what that one needs.
 */
#include "record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Sum of what does not depend on the event's data: COPY, and the lengths of texts [byte]. */
const volatile uint32_t fixed_bytes SEC(".rodata.fixed");

/* Room for texts altogether [byte]. */
#define STRATA_TEXTS_MAX 3000u

struct text {
	uint16_t offset; /* in the context [byte] */
	uint16_t bytes;
};

/* Decodes a __data_loc or __rel_loc word: u16 offset, u16 length. A text's NUL is counted. */
STRATA_INLINE struct text locate(const char *context, uint32_t kind, uint32_t offset)
{
	struct text text = { 0, 0 };
	uint32_t word = 0, at, bytes;
	char last = 0;

	if (bpf_probe_read_kernel(&word, sizeof(word), context + offset))
		return text;
	at = word & 0xffff;
	bytes = word >> 16;
	if (kind == STRATA_ABI_KERNEL_TEXT_REL || kind == STRATA_ABI_KERNEL_BYTES_REL)
		at += offset + (uint32_t)sizeof(word);
	if ((kind == STRATA_ABI_KERNEL_TEXT || kind == STRATA_ABI_KERNEL_TEXT_REL) && bytes) {
		bpf_probe_read_kernel(&last, 1, context + ((at + bytes - 1) & 0xffff));
		bytes -= !last;
	}
	if (bytes > STRATA_ABI_KERNEL_TEXT_MAX) {
		bytes = STRATA_ABI_KERNEL_TEXT_MAX;
		__sync_fetch_and_add(&control.cut, 1);
	}
	text.offset = (uint16_t)at;
	text.bytes = (uint16_t)bytes;
	return text;
}

STRATA_BODY int record(const char *context)
{
	/* Kept in memory, since there are too few registers. */
	volatile struct text texts[STRATA_ABI_KERNEL_PARTS_MAX];
	struct text text;
	struct strata_source source;
	struct strata_record r;
	uint32_t i, bytes = 0, at = 0, n;
	unsigned char *to;

	if (!strata_source_begin(&source))
		return 0;
	source.base = context;
	source.kind = STRATA_SOURCE_CONTEXT;
	if (!strata_passes(&source, 0))
		return 0;
	if (STRATA_COUNTS)
		return strata_count(context, STRATA_SOURCE_CONTEXT, event.id, 0, 0);
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts)
			break;
		if (event.part[i].kind == STRATA_ABI_KERNEL_COPY)
			continue;
		text = locate(context, event.part[i].kind, event.part[i].offset);
		if (text.bytes > STRATA_TEXTS_MAX - bytes) {
			text.bytes = (uint16_t)(STRATA_TEXTS_MAX - bytes);
			__sync_fetch_and_add(&control.cut, 1);
		}
		texts[i].offset = text.offset;
		texts[i].bytes = text.bytes;
		bytes += text.bytes;
	}
	to = strata_record_begin(&r, event.id, source.pid_tgid, fixed_bytes + bytes);
	if (!to)
		return 0;
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts || at > STRATA_TEXT_BEGIN_MAX)
			break;
		if (event.part[i].kind == STRATA_ABI_KERNEL_COPY) {
			n = event.part[i].bytes;
			if (n > STRATA_ABI_KERNEL_TEXT_MAX)
				break;
			bpf_probe_read_kernel(to + at, n, context + event.part[i].offset);
			at += n;
			continue;
		}
		n = texts[i].bytes;
		if (n > STRATA_ABI_KERNEL_TEXT_MAX)
			break;
		*(volatile uint16_t *)(void *)(to + at) = (uint16_t)n;
		bpf_probe_read_kernel(to + at + 2, n, context + texts[i].offset);
		at += n + 2;
	}
	strata_record_end(&r);
	return 0;
}

SEC("tp")
int strata_tracepoint(const char *context)
{
	if (strata_passes_early(0, NULL, NULL))
		record(context);
	else
		strata_rejected();
	return 0;
}
