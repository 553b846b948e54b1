/* SPDX-License-Identifier: MIT */
/*
 * rseq_x86_64.h - the critical sections of rseq.h for x86-64. Included by rseq.h only.
 *
 * Stores are not reordered with each other on x86, so the last one is a release.
 *
 * Frame of a section, inside one asm statement:
 *   STRATA_RSEQ_BEGIN   descriptor {start, length, abort} to its section, its address to struct rseq
 *   1:                  start: the thread is on @cpu? the guard holds @expect?
 *   2:                  just after the last store: done
 *   STRATA_RSEQ_END     takes the descriptor away; the abort address, out of line, behind the
 *                       signature that the kernel demands in front of it
 * Section flag '?' puts both into the group of the surrounding function, so that a linker that drops
 * a duplicate inline function drops them too.
 */
#ifndef STRATA_RING_RSEQ_X86_64_H
#define STRATA_RING_RSEQ_X86_64_H

#define STRATA_RSEQ_BEGIN                     \
	".pushsection __rseq_cs, \"aw?\"\n\t" \
	".balign 32\n"                        \
	"3:\n\t"                              \
	".long 0, 0\n\t"                      \
	".quad 1f, 2f - 1f, 4f\n\t"           \
	".popsection\n\t"                     \
	"leaq 3b(%%rip), %%rax\n\t"           \
	"movq %%rax, %%fs:8(%[rseq])\n"       \
	"1:\n\t"                              \
	"cmpl %[cpu], %%fs:4(%[rseq])\n\t"    \
	"jne %l[failed]\n\t"                  \
	"cmpq %[expect], %[guard]\n\t"        \
	"jne %l[failed]\n\t"

/*
 * A section that was aborted may have left a later time in last_timestamp than ours: read the clock
 * anew. So it is never later than any record that is still to come (rseq.h).
 */
#define STRATA_RSEQ_NOT_BEFORE_LAST \
	"cmpq %[last], %[now]\n\t"  \
	"jb %l[failed]\n\t"

#define STRATA_RSEQ_END                            \
	"2:\n\t"                                   \
	"movq $0, %%fs:8(%[rseq])\n\t"             \
	".pushsection __rseq_failure, \"ax?\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t"               \
	".long 0x53053053\n"                       \
	"4:\n\t"                                   \
	"jmp %l[failed]\n\t"                       \
	".popsection\n\t"

/* One 16-byte store, in the encoding of the code around it: mixing the two costs on some CPUs. */
#ifdef __AVX__
#define STRATA_RSEQ_ADD_PAIR                  \
	"vmovdqa %[guard], %%xmm0\n\t"        \
	"vpaddq %[delta], %%xmm0, %%xmm0\n\t" \
	"vmovdqa %%xmm0, %[guard]\n"
#define STRATA_RSEQ_COPY_32                     \
	"vmovdqu (%[src], %%rcx), %%xmm0\n\t"   \
	"vmovdqu 16(%[src], %%rcx), %%xmm1\n\t" \
	"vmovdqu %%xmm0, (%[dst], %%rcx)\n\t"   \
	"vmovdqu %%xmm1, 16(%[dst], %%rcx)\n\t"
#else
#define STRATA_RSEQ_ADD_PAIR          \
	"movdqa %[guard], %%xmm0\n\t" \
	"paddq %[delta], %%xmm0\n\t"  \
	"movdqa %%xmm0, %[guard]\n"
#define STRATA_RSEQ_COPY_32                    \
	"movdqu (%[src], %%rcx), %%xmm0\n\t"   \
	"movdqu 16(%[src], %%rcx), %%xmm1\n\t" \
	"movdqu %%xmm0, (%[dst], %%rcx)\n\t"   \
	"movdqu %%xmm1, 16(%[dst], %%rcx)\n\t"
#endif

typedef long long strata_v2di __attribute__((vector_size(16)));

STRATA_INLINE uint32_t strata_rseq_cpu(void)
{
	uint32_t cpu;

	__asm__ volatile("movl %%fs:4(%[rseq]), %[cpu]"
			 : [cpu] "=r"(cpu)
			 : [rseq] "r"(STRATA_RSEQ_OFFSET));
	return cpu;
}

STRATA_INLINE void strata_rseq_leave(void)
{
	__asm__ volatile("movq $0, %%fs:8(%[rseq])" : : [rseq] "r"(STRATA_RSEQ_OFFSET) : "memory");
}

STRATA_INLINE int strata_rseq_store_plain(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					  uint64_t *dst, uint64_t value)
{
	__asm__ goto(STRATA_RSEQ_BEGIN "movq %[value], %[dst]\n" STRATA_RSEQ_END
		     :
		     : [rseq] "r"(STRATA_RSEQ_OFFSET), [cpu] "r"(cpu), [guard] "m"(*guard),
		       [expect] "r"(expect), [dst] "m"(*dst), [value] "r"(value)
		     : "rax", "memory", "cc"
		     : failed);
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

/* Payload of any size: 32 bytes at a time, then 8. */
STRATA_INLINE int strata_rseq_publish_loop(uint32_t cpu, struct strata_abi_ring_stream *shared,
					   uint64_t expect, strata_v2di delta, uint64_t now,
					   const struct strata_rseq_copy *copy)
{
	__asm__ goto(
		STRATA_RSEQ_BEGIN STRATA_RSEQ_NOT_BEFORE_LAST
		"movq %[header], (%[start])\n\t"
		"xorl %%ecx, %%ecx\n\t"
		"jmp 6f\n"
		"5:\n\t" STRATA_RSEQ_COPY_32 "addq $32, %%rcx\n"
		"6:\n\t"
		"leaq 32(%%rcx), %%rax\n\t"
		"cmpq %[bytes], %%rax\n\t"
		"jbe 5b\n\t"
		"jmp 8f\n"
		"7:\n\t"
		"movq (%[src], %%rcx), %%rax\n\t"
		"movq %%rax, (%[dst], %%rcx)\n\t"
		"addq $8, %%rcx\n"
		"8:\n\t"
		"cmpq %[bytes], %%rcx\n\t"
		"jb 7b\n\t"
		"movq %[now], %[last]\n\t" STRATA_RSEQ_ADD_PAIR STRATA_RSEQ_END
		:
		: [rseq] "r"(STRATA_RSEQ_OFFSET), [cpu] "r"(cpu), [guard] "m"(shared->write_count),
		  [expect] "r"(expect), [start] "r"(copy->dst), [header] "r"(copy->header),
		  [dst] "r"(copy->dst + copy->header_bytes), [src] "r"(copy->payload),
		  [bytes] "r"(copy->payload_bytes), [delta] "x"(delta), [now] "r"(now),
		  [last] "m"(shared->last_timestamp)
		: "rax", "rcx", "xmm0", "xmm1", "memory", "cc"
		: failed);
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

#ifdef __OPTIMIZE__

#define STRATA_RSEQ_UNROLLED_BYTES 64

#define STRATA_RSEQ_WORD(at)                                \
	".if %c[bytes] > " at "\n\t"                        \
	"movq " at "(%[src]), %%rax\n\t"                    \
	"movq %%rax, " at " + %c[header_bytes](%[dst])\n\t" \
	".endif\n\t"

/* Sizes known to the compiler, up to STRATA_RSEQ_UNROLLED_BYTES of payload: no loop. */
STRATA_INLINE int strata_rseq_publish_unrolled(uint32_t cpu, struct strata_abi_ring_stream *shared,
					       uint64_t expect, strata_v2di delta, uint64_t now,
					       const struct strata_rseq_copy *copy)
{
	__asm__ goto(
		STRATA_RSEQ_BEGIN STRATA_RSEQ_NOT_BEFORE_LAST
		".if %c[header_bytes]\n\t"
		"movq %[header], (%[dst])\n\t"
		".endif\n\t" STRATA_RSEQ_WORD("0") STRATA_RSEQ_WORD("8") STRATA_RSEQ_WORD(
			"16") STRATA_RSEQ_WORD("24") STRATA_RSEQ_WORD("32") STRATA_RSEQ_WORD("40")
			STRATA_RSEQ_WORD("48") STRATA_RSEQ_WORD(
				"56") "movq %[now], %[last]\n\t" STRATA_RSEQ_ADD_PAIR STRATA_RSEQ_END
		:
		: [rseq] "r"(STRATA_RSEQ_OFFSET), [cpu] "r"(cpu), [guard] "m"(shared->write_count),
		  [expect] "r"(expect), [dst] "r"(copy->dst), [header] "r"(copy->header),
		  [header_bytes] "i"(copy->header_bytes), [src] "r"(copy->payload),
		  [bytes] "i"(copy->payload_bytes), [delta] "x"(delta), [now] "r"(now),
		  [last] "m"(shared->last_timestamp)
		: "rax", "xmm0", "memory", "cc"
		: failed);
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

#endif

STRATA_INLINE int strata_rseq_publish(uint32_t cpu, struct strata_abi_ring_stream *shared,
				      uint64_t expect, uint64_t bytes, uint64_t records,
				      uint64_t now, const struct strata_rseq_copy *copy)
{
	const strata_v2di delta = { (long long)bytes, (long long)records };

#ifdef __OPTIMIZE__
	if (__builtin_constant_p(copy->payload_bytes) && __builtin_constant_p(copy->header_bytes) &&
	    copy->payload_bytes <= STRATA_RSEQ_UNROLLED_BYTES)
		return strata_rseq_publish_unrolled(cpu, shared, expect, delta, now, copy);
#endif
	return strata_rseq_publish_loop(cpu, shared, expect, delta, now, copy);
}

STRATA_INLINE int strata_rseq_publish_first(uint32_t cpu, struct strata_abi_ring_stream *shared,
					    uint64_t expect, uint64_t bytes, uint64_t now,
					    const struct strata_rseq_first *first)
{
	const strata_v2di delta = { (long long)bytes, 1 };

	__asm__ goto(STRATA_RSEQ_BEGIN STRATA_RSEQ_NOT_BEFORE_LAST
		     "xorl %%ecx, %%ecx\n\t"
		     "jmp 6f\n"
		     "5:\n\t"
		     "movq (%[src], %%rcx), %%rax\n\t"
		     "movq %%rax, (%[dst], %%rcx)\n\t"
		     "addq $8, %%rcx\n"
		     "6:\n\t"
		     "cmpq %[bytes], %%rcx\n\t"
		     "jb 5b\n\t"
		     "movq %[now], (%[begin])\n\t"
		     "movq %[now], %[full]\n\t"
		     "movq %[now], %[last]\n\t" STRATA_RSEQ_ADD_PAIR STRATA_RSEQ_END
		     :
		     : [rseq] "r"(STRATA_RSEQ_OFFSET), [cpu] "r"(cpu),
		       [guard] "m"(shared->write_count), [expect] "r"(expect),
		       [dst] "r"(first->dst), [src] "r"(first->src), [bytes] "r"(first->src_bytes),
		       [begin] "r"(first->begin), [delta] "x"(delta), [now] "r"(now),
		       [full] "m"(shared->full_timestamp), [last] "m"(shared->last_timestamp)
		     : "rax", "rcx", "xmm0", "memory", "cc"
		     : failed);
	return 1;
failed:
	strata_rseq_leave();
	return 0;
}

#endif /* STRATA_RING_RSEQ_X86_64_H */
