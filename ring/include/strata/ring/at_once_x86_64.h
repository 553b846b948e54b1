/* SPDX-License-Identifier: MIT */
/*
 * at_once_x86_64.h - the critical section of at_once.h for x86-64. Included by at_once.h only.
 *
 * Registers: rsi the stream's line, rcx write_count and then where the next byte goes, rax and rdx the
 * rest. The frame of a section is the one of rseq_x86_64.h; the descriptor is taken away at its end.
 */
#ifndef STRATA_RING_AT_ONCE_X86_64_H
#define STRATA_RING_AT_ONCE_X86_64_H

#define STRATA_RSEQ_HAS_AT_ONCE 1

/* In the encoding of the code around it: mixing the two costs on some CPUs. */
#ifdef __AVX__
#define STRATA_AT_ONCE_MOVE(from, to) "vmovdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT                 \
	"vmovdqa (%%rsi), %%xmm0\n\t"         \
	"vpaddq %[delta], %%xmm0, %%xmm0\n\t" \
	"vmovdqa %%xmm0, (%%rsi)\n"
#else
#define STRATA_AT_ONCE_MOVE(from, to) "movdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT        \
	"movdqa (%%rsi), %%xmm0\n\t" \
	"paddq %[delta], %%xmm0\n\t" \
	"movdqa %%xmm0, (%%rsi)\n"
#endif

/* This CPU's line. Open, room and size are one comparison; signed, for positions around 2^64. */
#define STRATA_AT_ONCE_BEGIN                  \
	".pushsection __rseq_cs, \"aw?\"\n\t" \
	".balign 32\n"                        \
	"3:\n\t"                              \
	".long 0, 0\n\t"                      \
	".quad 1f, 2f - 1f, 4f\n\t"           \
	".popsection\n\t"                     \
	"leaq 3b(%%rip), %%rax\n\t"           \
	"movq %%rax, %%fs:8(%[rseq])\n"       \
	"1:\n\t"                              \
	"movl %%fs:4(%[rseq]), %%esi\n\t"     \
	"cmpl %[nr], %%esi\n\t"               \
	"jae %l[failed]\n\t"                  \
	"imulq %[stride], %%rsi\n\t"          \
	"addq %[first], %%rsi\n\t"            \
	"movq %c[write_at](%%rsi), %%rcx\n\t" \
	"movq %c[limit_at](%%rsi), %%rdx\n\t" \
	"subq %%rcx, %%rdx\n\t"               \
	"cmpq %[bytes], %%rdx\n\t"            \
	"jl %l[failed]\n\t"                   \
	"movq %[epoch], %%rdx\n\t"            \
	"cmpq %[while_epoch], %%rdx\n\t"      \
	"jne %l[failed]\n\t"

/* The time, to rax. The slot was good if the index still is the one that it was chosen by. */
#define STRATA_AT_ONCE_CLOCK(time_bits)      \
	"rdtsc\n\t"                          \
	"shlq $32, %%rdx\n\t"                \
	"orq %%rdx, %%rax\n\t"               \
	"subq %[base_cycles], %%rax\n\t"     \
	"jb %l[failed]\n\t"                  \
	"mulq %[multiplier]\n\t"             \
	"shrdq $32, %%rdx, %%rax\n\t"        \
	"addq %[base_ns], %%rax\n\t"         \
	"movq %[index], %%rdx\n\t"           \
	"cmpq %[while_index], %%rdx\n\t"     \
	"jne %l[failed]\n\t"                 \
	"cmpq $0, %[multiplier]\n\t"         \
	"je %l[failed]\n\t"                  \
	"movq %%rax, %%rdx\n\t"              \
	"subq %c[full_at](%%rsi), %%rdx\n\t" \
	"shrq $" time_bits ", %%rdx\n\t"     \
	"jne %l[failed]\n\t"                 \
	"movq %%rax, %c[last_at](%%rsi)\n\t"

/* What is stored beyond the header is written again by the context, and beyond that by the payload. */
#define STRATA_AT_ONCE_HEADER(id_bits, header_bytes)    \
	"addq %c[frame_at](%%rsi), %%rcx\n\t"           \
	"addq %[first], %%rcx\n\t"                      \
	"shlq $" id_bits ", %%rax\n\t"                  \
	"orq %[id], %%rax\n\t"                          \
	"movq %%rax, (%%rcx)\n\t"                       \
	"movl %k[context], " header_bytes "(%%rcx)\n\t" \
	"addq %[prefix_bytes], %%rcx\n\t"

#define STRATA_AT_ONCE_COPY_8      \
	"movq (%[src]), %%rax\n\t" \
	"movq %%rax, (%%rcx)\n\t"

/* Up to 32 bytes without a loop; more by 32, and the last 32 over what is there. */
#define STRATA_AT_ONCE_COPY                                                                                                                  \
	"cmpq $16, %[n]\n\t"                                                                                                                 \
	"jae 6f\n\t"                                                                                                                         \
	"movq (%[src]), %%rax\n\t"                                                                                                           \
	"cmpq $8, %[n]\n\t"                                                                                                                  \
	"jbe 5f\n\t"                                                                                                                         \
	"movq -8(%[src], %[n]), %%rdx\n\t"                                                                                                   \
	"movq %%rdx, -8(%%rcx, %[n])\n"                                                                                                      \
	"5:\n\t"                                                                                                                             \
	"movq %%rax, (%%rcx)\n\t"                                                                                                            \
	"jmp 9f\n"                                                                                                                           \
	"6:\n\t" STRATA_AT_ONCE_MOVE(                                                                                                        \
		"(%[src])",                                                                                                                  \
		"%%xmm0") "cmpq $32, %[n]\n\t"                                                                                               \
			  "jbe 8f\n\t"                                                                                                       \
			  "xorl %%eax, %%eax\n"                                                                                              \
			  "7:\n\t" STRATA_AT_ONCE_MOVE(                                                                                      \
				  "(%[src], %%rax)",                                                                                         \
				  "%%xmm0") STRATA_AT_ONCE_MOVE("16(%[src], %%rax)", "%%xmm1")                                               \
				  STRATA_AT_ONCE_MOVE("%%xmm0", "(%%rcx, %%rax)") STRATA_AT_ONCE_MOVE(                                       \
					  "%%xmm1",                                                                                          \
					  "16(%%rcx, %%rax)") "addq $32, %%rax\n\t"                                                          \
							      "leaq 32(%%rax), %%rdx\n\t"                                                    \
							      "cmpq %[n], %%rdx\n\t"                                                         \
							      "jb 7b\n\t" STRATA_AT_ONCE_MOVE(                                               \
								      "-32(%[src], %[n])",                                                   \
								      "%%xmm0") STRATA_AT_ONCE_MOVE("-16(%[src], %[n])",                     \
												    "%%xmm1")                                \
								      STRATA_AT_ONCE_MOVE("%%xmm0", "-32(%%rcx, %[n])") STRATA_AT_ONCE_MOVE( \
									      "%%xmm1",                                                      \
									      "-16(%%rcx, %[n])") "jmp 9f\n"                                 \
												  "8:\n\t" STRATA_AT_ONCE_MOVE(              \
													  "-16(%[src], %[n])",               \
													  "%%xmm1")                          \
													  STRATA_AT_ONCE_MOVE(               \
														  "%%xmm0",                  \
														  "(%%rcx)")                 \
														  STRATA_AT_ONCE_MOVE(       \
															  "%%xmm1",          \
															  "-16(%%rcx, %[n])") "9:\n\t"

#define STRATA_AT_ONCE_SECTION(name, id_bits, time_bits, header_bytes, copy)                        \
	STRATA_INLINE int name(const struct strata_ring_streams *streams,                           \
			       const struct strata_rseq_at_once *a)                                 \
	{                                                                                           \
		const strata_v2di delta = { (long long)a->bytes, 1 };                               \
                                                                                                    \
		__asm__ goto(                                                                       \
			STRATA_AT_ONCE_BEGIN STRATA_AT_ONCE_CLOCK(time_bits)                        \
				STRATA_AT_ONCE_HEADER(id_bits, header_bytes)                        \
					copy STRATA_AT_ONCE_COMMIT STRATA_RSEQ_END                  \
			:                                                                           \
			: [rseq] "r"(STRATA_RSEQ_OFFSET), [nr] "m"(streams->nr),                    \
			  [stride] "m"(streams->stride), [first] "m"(streams->first),               \
			  [bytes] "g"(a->bytes), [epoch] "m"(*a->epoch),                            \
			  [while_epoch] "g"(a->while_epoch),                                        \
			  [base_cycles] "m"(a->clock->base_cycles),                                 \
			  [multiplier] "m"(a->clock->multiplier), [base_ns] "m"(a->clock->base_ns), \
			  [index] "m"(*a->index), [while_index] "g"(a->while_index),                \
			  [id] "r"((uint64_t)a->id), [context] "r"((uint64_t)a->context),           \
			  [prefix_bytes] "g"(a->prefix_bytes), [src] "r"(a->payload),               \
			  [n] "r"(a->payload_bytes), [delta] "x"(delta),                            \
			  [write_at] "i"(offsetof(struct strata_abi_ring_stream, write_count)),     \
			  [limit_at] "i"(offsetof(struct strata_abi_ring_stream, limit)),           \
			  [full_at] "i"(offsetof(struct strata_abi_ring_stream, full_timestamp)),   \
			  [last_at] "i"(offsetof(struct strata_abi_ring_stream, last_timestamp)),   \
			  [frame_at] "i"(offsetof(struct strata_abi_ring_stream, frame))            \
			: "rax", "rcx", "rdx", "rsi", "xmm0", "xmm1", "memory", "cc"                \
			: failed);                                                                  \
		return 1;                                                                           \
failed:                                                                                             \
		strata_rseq_leave();                                                                \
		return 0;                                                                           \
	}

STRATA_AT_ONCE_SECTION(strata_rseq_compact_8, "5", "27", "4", STRATA_AT_ONCE_COPY_8)
STRATA_AT_ONCE_SECTION(strata_rseq_compact, "5", "27", "4", STRATA_AT_ONCE_COPY)
STRATA_AT_ONCE_SECTION(strata_rseq_large, "16", "32", "6", STRATA_AT_ONCE_COPY)

STRATA_INLINE int strata_rseq_publish_at_once(const struct strata_ring_config *config,
					      const struct strata_ring_streams *streams,
					      const struct strata_rseq_at_once *a)
{
	if (config->header.short_bytes == 6)
		return strata_rseq_large(streams, a);
	/* The commonest size; the loops of the other one are far from it. */
	return a->payload_bytes == 8 ? strata_rseq_compact_8(streams, a) :
				       strata_rseq_compact(streams, a);
}

#endif /* STRATA_RING_AT_ONCE_X86_64_H */
