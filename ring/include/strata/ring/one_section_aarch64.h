/* SPDX-License-Identifier: MIT */
/*
 * one_section_aarch64.h - the critical section of one_section.h for AArch64. Included by one_section.h only.
 *
 * Registers: x9 the stream's line, x10 the channel's first byte, x12 write_count and then where the next byte
 * goes, x13 the size of header and context; x11, x14 to x17 the rest. No vector registers.
 *
 * What is ordered, and by what:
 * - The last store is stlxp, a release, and the 16 bytes of {write_count, records} at once or not at all.
 *   stp would not do: an interrupt may come between its two words. An exclusive store may fail for no
 *   reason; then the section is done again from its begin, with the time of then.
 * - The counter is read without isb. mrs may be executed early, but one CPU's readings of a register are in
 *   program order, between two threads of the CPU there is an exception, and a time before last_timestamp
 *   is refused. So records of one stream are in order. Those of two CPUs are by some nanoseconds less than what
 *   the threads have said to each other, as with rdtsc; an isb costs as much as the rest of the section.
 * - The clock's index is loaded behind what its slot says: its address depends on the time.
 */
#ifndef STRATA_RING_AT_ONCE_AARCH64_H
#define STRATA_RING_AT_ONCE_AARCH64_H

#define STRATA_RSEQ_HAS_AT_ONCE 1

/*
 * Begins the section with this CPU's line. Open, room and size are one comparison; signed, for positions
 * around 2^64. @n: of the payload's bytes.
 */
#define STRATA_AT_ONCE_BEGIN(n)                   \
	".pushsection __rseq_cs, \"aw?\"\n\t"     \
	".balign 32\n"                            \
	"3:\n\t"                                  \
	".long 0, 0\n\t"                          \
	".quad 1f, 2f - 1f, 4f\n\t"               \
	".popsection\n"                           \
	"10:\n\t"                                 \
	"adrp x16, 3b\n\t"                        \
	"add x16, x16, :lo12:3b\n\t"              \
	"str x16, [%[rseq], #8]\n"                \
	"1:\n\t"                                  \
	"ldr w9, [%[rseq], #4]\n\t"               \
	"ldr w11, [%[once], #%c[nr]]\n\t"         \
	"cmp w9, w11\n\t"                         \
	"b.hs %l[failed]\n\t"                     \
	"ldp x10, x11, [%[once], #%c[first]]\n\t" \
	"madd x9, x9, x11, x10\n\t"               \
	"ldr x12, [x9, #%c[write_at]]\n\t"        \
	"ldr x11, [x9, #%c[limit_at]]\n\t"        \
	"ldr x13, [%[once], #%c[delta]]\n\t"      \
	"sub x11, x11, x12\n\t"                   \
	"sub x11, x11, x13\n\t"                   \
	"cmp x11, " n "\n\t"                      \
	"b.lt %l[failed]\n\t"                     \
	"ldp x11, x14, [%[once], #%c[epoch]]\n\t" \
	"ldr x11, [x11]\n\t"                      \
	"cmp x11, x14\n\t"                        \
	"b.ne %l[failed]\n\t"

/* The time, to x17. The slot was good if the index still is the one that it was chosen by. */
#define STRATA_AT_ONCE_CLOCK(time_bits)        \
	"ldp x11, x14, [%[clock]]\n\t"         \
	"ldr x15, [%[clock], #16]\n\t"         \
	"mrs x17, cntvct_el0\n\t"              \
	"subs x17, x17, x11\n\t"               \
	"b.lo %l[failed]\n\t"                  \
	"umulh x11, x17, x14\n\t"              \
	"mul x17, x17, x14\n\t"                \
	"extr x17, x11, x17, #32\n\t"          \
	"add x17, x17, x15\n\t"                \
	"ldr x11, [%[once], #%c[index]]\n\t"   \
	"eor x14, x17, x17\n\t"                \
	"ldr x11, [x11, x14]\n\t"              \
	"cmp x11, %[while_index]\n\t"          \
	"b.ne %l[failed]\n\t"                  \
	"ldp x11, x14, [x9, #%c[full_at]]\n\t" \
	"sub x11, x17, x11\n\t"                \
	"lsr x11, x11, #" time_bits "\n\t"     \
	"cbnz x11, %l[failed]\n\t"             \
	"cmp x17, x14\n\t"                     \
	"b.lo %l[failed]\n\t"                  \
	"str x17, [x9, #%c[last_at]]\n\t"

/*
 * The computed place is inside the channel, whatever the shared memory contains. What is stored beyond the header is
 * written again by the context, and beyond that by the payload.
 */
#define STRATA_AT_ONCE_PLACE(n)             \
	"ldr x11, [x9, #%c[frame_at]]\n\t"  \
	"ldr x14, [%[once], #%c[room]]\n\t" \
	"add x12, x12, x11\n\t"             \
	"subs x14, x14, x12\n\t"            \
	"b.lo %l[failed]\n\t"               \
	"cmp x14, " n "\n\t"                \
	"b.lo %l[failed]\n\t"               \
	"add x12, x12, x10\n\t"
#define STRATA_AT_ONCE_COMPACT(n) \
	STRATA_AT_ONCE_PLACE(n)   \
	"lsl w17, w17, #5\n\t"    \
	"orr x17, x17, %[id]\n\t" \
	"str x17, [x12]\n\t"      \
	"add x12, x12, x13\n\t"
#define STRATA_AT_ONCE_LARGE(n)         \
	STRATA_AT_ONCE_PLACE(n)         \
	"lsl x17, x17, #16\n\t"         \
	"bfxil x17, %[id], #0, #16\n\t" \
	"lsr x11, %[id], #32\n\t"       \
	"str x17, [x12]\n\t"            \
	"stur w11, [x12, #6]\n\t"       \
	"add x12, x12, x13\n\t"

#define STRATA_AT_ONCE_COPY_8   \
	"ldr x11, [%[src]]\n\t" \
	"str x11, [x12]\n"

/* Copies up to 32 bytes without a loop; more in steps of 32, the last of which overlaps with the one before. */
#define STRATA_AT_ONCE_COPY             \
	"add x16, %[src], %[n]\n\t"     \
	"add x17, x12, %[n]\n\t"        \
	"cmp %[n], #16\n\t"             \
	"b.hs 6f\n\t"                   \
	"ldr x11, [%[src]]\n\t"         \
	"cmp %[n], #8\n\t"              \
	"b.ls 5f\n\t"                   \
	"ldur x14, [x16, #-8]\n\t"      \
	"stur x14, [x17, #-8]\n"        \
	"5:\n\t"                        \
	"str x11, [x12]\n\t"            \
	"b 9f\n"                        \
	"6:\n\t"                        \
	"cmp %[n], #32\n\t"             \
	"b.ls 8f\n\t"                   \
	"mov x10, %[src]\n\t"           \
	"sub x16, x16, #32\n"           \
	"7:\n\t"                        \
	"ldp x11, x14, [x10]\n\t"       \
	"stp x11, x14, [x12]\n\t"       \
	"ldp x11, x14, [x10, #16]\n\t"  \
	"stp x11, x14, [x12, #16]\n\t"  \
	"add x10, x10, #32\n\t"         \
	"add x12, x12, #32\n\t"         \
	"cmp x10, x16\n\t"              \
	"b.lo 7b\n\t"                   \
	"mov x10, x16\n\t"              \
	"sub x12, x17, #32\n\t"         \
	"add x16, x16, #32\n\t"         \
	"b 11f\n"                       \
	"8:\n\t"                        \
	"mov x10, %[src]\n"             \
	"11:\n\t"                       \
	"ldp x11, x14, [x10]\n\t"       \
	"stp x11, x14, [x12]\n\t"       \
	"ldp x11, x14, [x16, #-16]\n\t" \
	"stp x11, x14, [x17, #-16]\n"   \
	"9:\n\t"

/* The thread's descriptor is cleared after the section, as rseq_x86_64.h does. */
#define STRATA_AT_ONCE_COMMIT(n)      \
	"ldxp x14, x15, [x9]\n\t"     \
	"add x14, x14, x13\n\t"       \
	"add x14, x14, " n "\n\t"     \
	"add x15, x15, #1\n\t"        \
	"stlxp w11, x14, x15, [x9]\n" \
	"2:\n\t"                      \
	"cbnz w11, 10b\n\t" STRATA_RSEQ_END "str xzr, [%[rseq], #8]\n\t"

#define STRATA_AT_ONCE_SECTION(name, time_bits, header, copy, n_bytes)                            \
	STRATA_INLINE int name(const struct strata_ring_once *once, uint64_t id,                  \
			       const struct strata_ring_conversion *clock,                        \
			       const unsigned char *payload, uint64_t n)                          \
	{                                                                                         \
		/* ACQUIRE: the slot's other words are loaded behind it. */                       \
		const uint64_t while_index = __atomic_load_n(&clock->index, __ATOMIC_ACQUIRE);    \
                                                                                                  \
		(void)n;                                                                          \
		__asm__ goto(                                                                     \
			STRATA_AT_ONCE_BEGIN(n_bytes) STRATA_AT_ONCE_CLOCK(time_bits)             \
				header(n_bytes) copy STRATA_AT_ONCE_COMMIT(n_bytes)               \
			:                                                                         \
			: [rseq] "r"(strata_rseq_area()), [once] "r"(once), [clock] "r"(clock),   \
			  [while_index] "r"(while_index), [id] "r"(id), [src] "r"(payload),       \
			  STRATA_AT_ONCE_SIZE(n)[first] "i"(                                      \
				  offsetof(struct strata_ring_once, first)),                      \
			  [nr] "i"(offsetof(struct strata_ring_once, nr)),                        \
			  [delta] "i"(offsetof(struct strata_ring_once, prefix_bytes)),           \
			  [room] "i"(offsetof(struct strata_ring_once, room)),                    \
			  [epoch] "i"(offsetof(struct strata_ring_once, epoch)),                  \
			  [index] "i"(offsetof(struct strata_ring_once, index)),                  \
			  [write_at] "i"(offsetof(struct strata_abi_ring_stream, write_count)),   \
			  [limit_at] "i"(offsetof(struct strata_abi_ring_stream, limit)),         \
			  [full_at] "i"(offsetof(struct strata_abi_ring_stream, full_timestamp)), \
			  [last_at] "i"(offsetof(struct strata_abi_ring_stream, last_timestamp)), \
			  [frame_at] "i"(offsetof(struct strata_abi_ring_stream, frame))          \
			: "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "memory", \
			  "cc"                                                                    \
			: failed);                                                                \
		return 1;                                                                         \
failed:                                                                                           \
		strata_rseq_leave();                                                              \
		return 0;                                                                         \
	}

/* Asserts the offsets of fields that are loaded in pairs. */
STRATA_ABI_ASSERT(offsetof(struct strata_ring_once, stride) ==
			  offsetof(struct strata_ring_once, first) + 8,
		  "stride behind first");
STRATA_ABI_ASSERT(offsetof(struct strata_ring_once, while_epoch) ==
			  offsetof(struct strata_ring_once, epoch) + 8,
		  "while_epoch behind epoch");
STRATA_ABI_ASSERT(offsetof(struct strata_abi_ring_stream, last_timestamp) ==
			  offsetof(struct strata_abi_ring_stream, full_timestamp) + 8,
		  "last_timestamp behind full_timestamp");

/* A payload of 8 bytes needs no register for its size. */
#define STRATA_AT_ONCE_SIZE(n)
STRATA_AT_ONCE_SECTION(strata_rseq_compact_8, "27", STRATA_AT_ONCE_COMPACT, STRATA_AT_ONCE_COPY_8,
		       "#8")
#undef STRATA_AT_ONCE_SIZE
#define STRATA_AT_ONCE_SIZE(n) [n] "r"(n),
STRATA_AT_ONCE_SECTION(strata_rseq_compact, "27", STRATA_AT_ONCE_COMPACT, STRATA_AT_ONCE_COPY,
		       "%[n]")
STRATA_AT_ONCE_SECTION(strata_rseq_large, "32", STRATA_AT_ONCE_LARGE, STRATA_AT_ONCE_COPY, "%[n]")
#undef STRATA_AT_ONCE_SIZE

/* A record of 16 bytes: compact header and context, which are 8, and @word. */
STRATA_INLINE int strata_rseq_compact_16(const struct strata_ring_once *once, uint64_t id,
					 const struct strata_ring_conversion *clock, uint64_t word)
{
	return strata_rseq_compact_8(once, id, clock, (const unsigned char *)&word, 8);
}

#endif /* STRATA_RING_AT_ONCE_AARCH64_H */
