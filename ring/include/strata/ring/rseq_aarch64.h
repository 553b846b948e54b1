/* SPDX-License-Identifier: MIT */
/*
 * rseq_aarch64.h - the critical sections of rseq.h for AArch64. Included by rseq.h only.
 *
 * The frame is that of rseq_x86_64.h. The last store is a release (stlr, stlxp): stores of other
 * CPUs' view are otherwise unordered here. write_count and records are stored by one stlxp, which is
 * a single 16-byte store or nothing; it is the last instruction of its section, so that a section is
 * never restarted after it succeeded.
 */
#ifndef STRATA_RING_RSEQ_AARCH64_H
#define STRATA_RING_RSEQ_AARCH64_H

/* x16 is the only register that the frame needs for itself. */
#define STRATA_RSEQ_BEGIN                     \
	".pushsection __rseq_cs, \"aw?\"\n\t" \
	".balign 32\n"                        \
	"3:\n\t"                              \
	".long 0, 0\n\t"                      \
	".quad 1f, 2f - 1f, 4f\n\t"           \
	".popsection\n"                       \
	"9:\n\t"                              \
	"adrp x16, 3b\n\t"                    \
	"add x16, x16, :lo12:3b\n\t"          \
	"str x16, [%[rseq], #8]\n"            \
	"1:\n\t"                              \
	"ldr w16, [%[rseq], #4]\n\t"          \
	"cmp w16, %w[cpu]\n\t"                \
	"b.ne %l[failed]\n\t"                 \
	"ldr x16, [%[guard]]\n\t"             \
	"cmp x16, %[expect]\n\t"              \
	"b.ne %l[failed]\n\t"

/* Same macro as in rseq_x86_64.h, for this machine. */
#define STRATA_RSEQ_NOT_BEFORE_LAST \
	"ldr x16, [%[last]]\n\t"    \
	"cmp %[now], x16\n\t"       \
	"b.lo %l[failed]\n\t"

/* The signature is a permanently trapping instruction, in front of the abort address. */
#define STRATA_RSEQ_END                            \
	".pushsection __rseq_failure, \"ax?\"\n\t" \
	".inst 0xd428bc00\n"                       \
	"4:\n\t"                                   \
	"b %l[failed]\n\t"                         \
	".popsection\n\t"

STRATA_INLINE unsigned char *strata_rseq_area(void)
{
	unsigned char *thread;

	__asm__("mrs %0, tpidr_el0" : "=r"(thread));
	return thread + STRATA_RSEQ_OFFSET;
}

STRATA_INLINE uint32_t strata_rseq_cpu(void)
{
	uint32_t cpu;

	__asm__ volatile("ldr %w[cpu], [%[rseq], #4]"
			 : [cpu] "=r"(cpu)
			 : [rseq] "r"(strata_rseq_area()));
	return cpu;
}

STRATA_INLINE void strata_rseq_leave(void)
{
	__asm__ volatile("str xzr, [%[rseq], #8]" : : [rseq] "r"(strata_rseq_area()) : "memory");
}

STRATA_INLINE int strata_rseq_store_plain(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					  uint64_t *dst, uint64_t value)
{
	__asm__ goto(STRATA_RSEQ_BEGIN "stlr %[value], [%[dst]]\n"
				       "2:\n\t" STRATA_RSEQ_END
		     :
		     : [rseq] "r"(strata_rseq_area()), [cpu] "r"(cpu), [guard] "r"(guard),
		       [expect] "r"(expect), [dst] "r"(dst), [value] "r"(value)
		     : "x16", "memory", "cc"
		     : failed);
	strata_rseq_leave();
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

STRATA_INLINE int strata_rseq_publish(uint32_t cpu, struct strata_abi_ring_stream *shared,
				      uint64_t expect, uint64_t bytes, uint64_t records,
				      uint64_t now, const struct strata_rseq_copy *copy)
{
	__asm__ goto(
		STRATA_RSEQ_BEGIN STRATA_RSEQ_NOT_BEFORE_LAST
		"str %[header], [%[start]]\n\t"
		"mov x16, #0\n\t"
		"b 6f\n"
		"5:\n\t"
		"ldr x17, [%[src], x16]\n\t"
		"str x17, [%[dst], x16]\n\t"
		"add x16, x16, #8\n"
		"6:\n\t"
		"cmp x16, %[bytes]\n\t"
		"b.lo 5b\n\t"
		"str %[now], [%[last]]\n\t"
		"ldxp x16, x17, [%[guard]]\n\t"
		"add x16, x16, %[size]\n\t"
		"add x17, x17, %[records]\n\t"
		"stlxp w15, x16, x17, [%[guard]]\n"
		"2:\n\t"
		/* An exclusive store may fail for no reason: arm the section and do it again. */
		"cbnz w15, 9b\n\t" STRATA_RSEQ_END
		:
		: [rseq] "r"(strata_rseq_area()), [cpu] "r"(cpu), [guard] "r"(&shared->write_count),
		  [expect] "r"(expect), [start] "r"(copy->dst), [header] "r"(copy->header),
		  [dst] "r"(copy->dst + copy->header_bytes), [src] "r"(copy->payload),
		  [bytes] "r"(copy->payload_bytes), [size] "r"(bytes), [records] "r"(records),
		  [now] "r"(now), [last] "r"(&shared->last_timestamp)
		: "x15", "x16", "x17", "memory", "cc"
		: failed);
	strata_rseq_leave();
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

STRATA_INLINE int strata_rseq_publish_first(uint32_t cpu, struct strata_abi_ring_stream *shared,
					    uint64_t expect, uint64_t bytes, uint64_t now,
					    const struct strata_rseq_first *first)
{
	__asm__ goto(
		STRATA_RSEQ_BEGIN STRATA_RSEQ_NOT_BEFORE_LAST
		"mov x16, #0\n\t"
		"b 6f\n"
		"5:\n\t"
		"ldr x17, [%[src], x16]\n\t"
		"str x17, [%[dst], x16]\n\t"
		"add x16, x16, #8\n"
		"6:\n\t"
		"cmp x16, %[bytes]\n\t"
		"b.lo 5b\n\t"
		"str %[now], [%[begin]]\n\t"
		"str %[now], [%[full]]\n\t"
		"str %[now], [%[last]]\n\t"
		"ldxp x16, x17, [%[guard]]\n\t"
		"add x16, x16, %[size]\n\t"
		"add x17, x17, %[records]\n\t"
		"stlxp w15, x16, x17, [%[guard]]\n"
		"2:\n\t"
		/* An exclusive store may fail for no reason: arm the section and do it again. */
		"cbnz w15, 9b\n\t" STRATA_RSEQ_END
		:
		: [rseq] "r"(strata_rseq_area()), [cpu] "r"(cpu), [guard] "r"(&shared->write_count),
		  [expect] "r"(expect), [dst] "r"(first->dst), [src] "r"(first->src),
		  [bytes] "r"(first->src_bytes), [size] "r"(bytes), [records] "r"(UINT64_C(1)),
		  [begin] "r"(first->begin), [full] "r"(&shared->full_timestamp), [now] "r"(now),
		  [last] "r"(&shared->last_timestamp)
		: "x15", "x16", "x17", "memory", "cc"
		: failed);
	strata_rseq_leave();
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

#endif /* STRATA_RING_RSEQ_AARCH64_H */
