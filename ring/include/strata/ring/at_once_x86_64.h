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

/* In the encoding of the code around it: mixing the two costs on some CPUs. @bytes: the payload's, in xmm1. */
#ifdef __AVX__
#define STRATA_AT_ONCE_MOVE(from, to) "vmovdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT(bytes)                    \
	"vmovdqa (%%rsi), %%xmm0\n\t"                   \
	"vpaddq %c[delta](%[once]), %%xmm0, %%xmm0\n\t" \
	"vmovq " bytes ", %%xmm1\n\t"                   \
	"vpaddq %%xmm1, %%xmm0, %%xmm0\n\t"             \
	"vmovdqa %%xmm0, (%%rsi)\n"
#else
#define STRATA_AT_ONCE_MOVE(from, to) "movdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT(bytes)           \
	"movdqa (%%rsi), %%xmm0\n\t"           \
	"paddq %c[delta](%[once]), %%xmm0\n\t" \
	"movq " bytes ", %%xmm1\n\t"           \
	"paddq %%xmm1, %%xmm0\n\t"             \
	"movdqa %%xmm0, (%%rsi)\n"
#endif

/* Takes the descriptor away, as STRATA_RSEQ_END; rseq's place is loaded again. */
#define STRATA_AT_ONCE_END                         \
	"2:\n\t"                                   \
	"movq %[rseq], %%rax\n\t"                  \
	"movq $0, %%fs:8(%%rax)\n\t"               \
	".pushsection __rseq_failure, \"ax?\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t"               \
	".long 0x53053053\n"                       \
	"4:\n\t"                                   \
	"jmp %l[failed]\n\t"                       \
	".popsection\n\t"

/*
 * This CPU's line. Open, room and size are one comparison; signed, for positions around 2^64. @n: of the payload's
 * bytes.
 */
#define STRATA_AT_ONCE_BEGIN(n)                    \
	".pushsection __rseq_cs, \"aw?\"\n\t"      \
	".balign 32\n"                             \
	"3:\n\t"                                   \
	".long 0, 0\n\t"                           \
	".quad 1f, 2f - 1f, 4f\n\t"                \
	".popsection\n\t"                          \
	"leaq 3b(%%rip), %%rax\n\t"                \
	"movq %[rseq], %%rdx\n\t"                  \
	"movq %%rax, %%fs:8(%%rdx)\n"              \
	"1:\n\t"                                   \
	"movl %%fs:4(%%rdx), %%esi\n\t"            \
	"cmpl %c[nr](%[once]), %%esi\n\t"          \
	"jae %l[failed]\n\t"                       \
	"imulq %c[stride](%[once]), %%rsi\n\t"     \
	"addq %c[first](%[once]), %%rsi\n\t"       \
	"movq %c[write_at](%%rsi), %%rcx\n\t"      \
	"movq %c[limit_at](%%rsi), %%rdx\n\t"      \
	"subq %%rcx, %%rdx\n\t"                    \
	"subq %c[delta](%[once]), %%rdx\n\t"       \
	"cmpq " n ", %%rdx\n\t"                    \
	"jl %l[failed]\n\t"                        \
	"movq %c[epoch](%[once]), %%rdx\n\t"       \
	"movq (%%rdx), %%rdx\n\t"                  \
	"cmpq %c[while_epoch](%[once]), %%rdx\n\t" \
	"jne %l[failed]\n\t"

/* The time, to rax. The slot was good if the index still is the one that it was chosen by. */
#define STRATA_AT_ONCE_CLOCK(time_bits)      \
	"rdtsc\n\t"                          \
	"shlq $32, %%rdx\n\t"                \
	"orq %%rdx, %%rax\n\t"               \
	"subq (%[clock]), %%rax\n\t"         \
	"jb %l[failed]\n\t"                  \
	"mulq 8(%[clock])\n\t"               \
	"shrdq $32, %%rdx, %%rax\n\t"        \
	"addq 16(%[clock]), %%rax\n\t"       \
	"cmpq $0, 8(%[clock])\n\t"           \
	"je %l[failed]\n\t"                  \
	"movq %c[index](%[once]), %%rdx\n\t" \
	"cmpq %[while_index], (%%rdx)\n\t"   \
	"jne %l[failed]\n\t"                 \
	"movq %%rax, %%rdx\n\t"              \
	"subq %c[full_at](%%rsi), %%rdx\n\t" \
	"shrq $" time_bits ", %%rdx\n\t"     \
	"jne %l[failed]\n\t"                 \
	"cmpq %c[last_at](%%rsi), %%rax\n\t" \
	"jb %l[failed]\n\t"                  \
	"movq %%rax, %c[last_at](%%rsi)\n\t"

/*
 * The place is inside of the channel, whatever the shared memory says. What is stored beyond the header is written again by the context, and beyond that by the
 * payload.
 */
#define STRATA_AT_ONCE_PLACE(n)               \
	"addq %c[frame_at](%%rsi), %%rcx\n\t" \
	"movq %c[room](%[once]), %%rdx\n\t"   \
	"subq %%rcx, %%rdx\n\t"               \
	"jb %l[failed]\n\t"                   \
	"cmpq " n ", %%rdx\n\t"               \
	"jb %l[failed]\n\t"                   \
	"addq %c[first](%[once]), %%rcx\n\t"
#define STRATA_AT_ONCE_COMPACT(n) \
	STRATA_AT_ONCE_PLACE(n)   \
	"shll $5, %%eax\n\t"      \
	"orq %[id], %%rax\n\t"    \
	"movq %%rax, (%%rcx)\n\t" \
	"addq %c[delta](%[once]), %%rcx\n\t"
#define STRATA_AT_ONCE_LARGE(n)    \
	STRATA_AT_ONCE_PLACE(n)    \
	"shlq $16, %%rax\n\t"      \
	"movzwl %w[id], %%edx\n\t" \
	"orq %%rdx, %%rax\n\t"     \
	"movq %%rax, (%%rcx)\n\t"  \
	"movq %[id], %%rdx\n\t"    \
	"shrq $32, %%rdx\n\t"      \
	"movl %%edx, 6(%%rcx)\n\t" \
	"addq %c[delta](%[once]), %%rcx\n\t"

#define STRATA_AT_ONCE_COPY_8      \
	"movq (%[src]), %%rax\n\t" \
	"movq %%rax, (%%rcx)\n\t"  \
	"movl $8, %%eax\n\t"

/* clang-format off */
#define STRATA_AT_ONCE_LOAD(at, to)   STRATA_AT_ONCE_MOVE(at, to)
#define STRATA_AT_ONCE_STORE(from, at) STRATA_AT_ONCE_MOVE(from, at)

/* Up to 32 bytes without a loop; more by 32, and the last 32 over what is there. */
#define STRATA_AT_ONCE_COPY                                   \
	"cmpq $16, %[n]\n\t"                                  \
	"jae 6f\n\t"                                          \
	"movq (%[src]), %%rax\n\t"                            \
	"cmpq $8, %[n]\n\t"                                   \
	"jbe 5f\n\t"                                          \
	"movq -8(%[src], %[n]), %%rdx\n\t"                    \
	"movq %%rdx, -8(%%rcx, %[n])\n"                       \
	"5:\n\t"                                              \
	"movq %%rax, (%%rcx)\n\t"                             \
	"jmp 9f\n"                                            \
	"6:\n\t"                                              \
	STRATA_AT_ONCE_LOAD("(%[src])", "%%xmm0")             \
	"cmpq $32, %[n]\n\t"                                  \
	"jbe 8f\n\t"                                          \
	"xorl %%eax, %%eax\n"                                 \
	"7:\n\t"                                              \
	STRATA_AT_ONCE_LOAD("(%[src], %%rax)", "%%xmm0")      \
	STRATA_AT_ONCE_LOAD("16(%[src], %%rax)", "%%xmm1")    \
	STRATA_AT_ONCE_STORE("%%xmm0", "(%%rcx, %%rax)")      \
	STRATA_AT_ONCE_STORE("%%xmm1", "16(%%rcx, %%rax)")    \
	"addq $32, %%rax\n\t"                                 \
	"leaq 32(%%rax), %%rdx\n\t"                           \
	"cmpq %[n], %%rdx\n\t"                                \
	"jb 7b\n\t"                                           \
	STRATA_AT_ONCE_LOAD("-32(%[src], %[n])", "%%xmm0")    \
	STRATA_AT_ONCE_STORE("%%xmm0", "-32(%%rcx, %[n])")    \
	STRATA_AT_ONCE_LOAD("-16(%[src], %[n])", "%%xmm1")    \
	STRATA_AT_ONCE_STORE("%%xmm1", "-16(%%rcx, %[n])")    \
	"jmp 9f\n"                                            \
	"8:\n\t"                                              \
	STRATA_AT_ONCE_LOAD("-16(%[src], %[n])", "%%xmm1")    \
	STRATA_AT_ONCE_STORE("%%xmm0", "(%%rcx)")             \
	STRATA_AT_ONCE_STORE("%%xmm1", "-16(%%rcx, %[n])")    \
	"9:\n\t"
/* clang-format on */

#define STRATA_AT_ONCE_SECTION(name, time_bits, header, copy, n_bytes, bytes_of_payload)          \
	STRATA_INLINE int name(const struct strata_ring_once *once, uint64_t id,                  \
			       const struct strata_ring_conversion *clock, uint64_t while_index,  \
			       const unsigned char *payload, uint64_t n)                          \
	{                                                                                         \
		(void)n;                                                                          \
		__asm__ goto(                                                                     \
			STRATA_AT_ONCE_BEGIN(n_bytes) STRATA_AT_ONCE_CLOCK(time_bits)             \
				header(n_bytes) copy STRATA_AT_ONCE_COMMIT(bytes_of_payload)      \
					STRATA_AT_ONCE_END                                        \
			:                                                                         \
			: [rseq] "m"(STRATA_RSEQ_OFFSET), [once] "r"(once), [clock] "r"(clock),   \
			  [while_index] "r"(while_index), [id] "r"(id), [src] "r"(payload),       \
			  STRATA_AT_ONCE_SIZE(n)[first] "i"(                                      \
				  offsetof(struct strata_ring_once, first)),                      \
			  [stride] "i"(offsetof(struct strata_ring_once, stride)),                \
			  [nr] "i"(offsetof(struct strata_ring_once, nr)),                        \
			  [delta] "i"(offsetof(struct strata_ring_once, prefix_bytes)),           \
			  [room] "i"(offsetof(struct strata_ring_once, room)),                    \
			  [epoch] "i"(offsetof(struct strata_ring_once, epoch)),                  \
			  [while_epoch] "i"(offsetof(struct strata_ring_once, while_epoch)),      \
			  [index] "i"(offsetof(struct strata_ring_once, index)),                  \
			  [write_at] "i"(offsetof(struct strata_abi_ring_stream, write_count)),   \
			  [limit_at] "i"(offsetof(struct strata_abi_ring_stream, limit)),         \
			  [full_at] "i"(offsetof(struct strata_abi_ring_stream, full_timestamp)), \
			  [last_at] "i"(offsetof(struct strata_abi_ring_stream, last_timestamp)), \
			  [frame_at] "i"(offsetof(struct strata_abi_ring_stream, frame))          \
			: "rax", "rcx", "rdx", "rsi", "xmm0", "xmm1", "memory", "cc"              \
			: failed);                                                                \
		return 1;                                                                         \
failed:                                                                                           \
		strata_rseq_leave();                                                              \
		return 0;                                                                         \
	}

/* A payload of 8 bytes needs no register for its size. */
#define STRATA_AT_ONCE_SIZE(n)
STRATA_AT_ONCE_SECTION(strata_rseq_compact_8, "27", STRATA_AT_ONCE_COMPACT, STRATA_AT_ONCE_COPY_8,
		       "$8", "%%rax")
#undef STRATA_AT_ONCE_SIZE
#define STRATA_AT_ONCE_SIZE(n) [n] "r"(n),
STRATA_AT_ONCE_SECTION(strata_rseq_compact, "27", STRATA_AT_ONCE_COMPACT, STRATA_AT_ONCE_COPY,
		       "%[n]", "%[n]")
STRATA_AT_ONCE_SECTION(strata_rseq_large, "32", STRATA_AT_ONCE_LARGE, STRATA_AT_ONCE_COPY, "%[n]",
		       "%[n]")
#undef STRATA_AT_ONCE_SIZE

#endif /* STRATA_RING_AT_ONCE_X86_64_H */
