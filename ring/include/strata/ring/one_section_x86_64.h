/* SPDX-License-Identifier: MIT */
/*
 * one_section_x86_64.h - the critical section of one_section.h for x86-64. Included by one_section.h only.
 *
 * Registers: r8 the stream's line, rcx the conversion's index and then where the next byte goes, rax and rdx the rest:
 * none that a function's first two arguments come in. The frame of a section is the one of rseq_x86_64.h.
 *
 * On some CPUs nothing is executed beside the counter's instruction: there each of the others counts, as do stores
 * (docs/decisions/0033).
 */
#ifndef STRATA_RING_AT_ONCE_X86_64_H
#define STRATA_RING_AT_ONCE_X86_64_H

#define STRATA_RSEQ_HAS_AT_ONCE 1

/*
 * Adds the bytes of the record (those of prefix and payload, or 16) and 1 to {write_count,
 * records}, by one store. In the encoding of the code around it: mixing the two costs on some CPUs.
 */
#ifdef __AVX__
#define STRATA_AT_ONCE_MOVE(from, to) "vmovdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT                           \
	"vmovdqa (%%r8), %%xmm0\n\t"                    \
	"vpaddq %c[delta](%[once]), %%xmm0, %%xmm0\n\t" \
	"vmovq %[n], %%xmm1\n\t"                        \
	"vpaddq %%xmm1, %%xmm0, %%xmm0\n\t"             \
	"vmovdqa %%xmm0, (%%r8)\n"
#define STRATA_AT_ONCE_COMMIT_16                           \
	"vmovdqa (%%r8), %%xmm0\n\t"                       \
	"vpaddq %c[bytes_16](%[once]), %%xmm0, %%xmm0\n\t" \
	"vmovdqa %%xmm0, (%%r8)\n"
#else
#define STRATA_AT_ONCE_MOVE(from, to) "movdqu " from ", " to "\n\t"
#define STRATA_AT_ONCE_COMMIT                  \
	"movdqa (%%r8), %%xmm0\n\t"            \
	"paddq %c[delta](%[once]), %%xmm0\n\t" \
	"movq %[n], %%xmm1\n\t"                \
	"paddq %%xmm1, %%xmm0\n\t"             \
	"movdqa %%xmm0, (%%r8)\n"
#define STRATA_AT_ONCE_COMMIT_16                  \
	"movdqa (%%r8), %%xmm0\n\t"               \
	"paddq %c[bytes_16](%[once]), %%xmm0\n\t" \
	"movdqa %%xmm0, (%%r8)\n"
#endif

/*
 * Ends the section. The kernel takes away the descriptor of a section that is not being executed by
 * itself, when it next looks; only where the descriptor's memory may go, with a library that is
 * unloaded, it is taken away here. Clients that stay define STRATA_RSEQ_STAYS.
 */
#ifdef STRATA_RSEQ_STAYS
#define STRATA_AT_ONCE_LEAVE
#else
#define STRATA_AT_ONCE_LEAVE      \
	"movq %[rseq], %%rax\n\t" \
	"movq $0, %%fs:8(%%rax)\n\t"
#endif
#define STRATA_AT_ONCE_END                                                       \
	"2:\n\t" STRATA_AT_ONCE_LEAVE ".pushsection __rseq_failure, \"ax?\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                             \
	".long 0x53053053\n"                                                     \
	"4:\n\t"                                                                 \
	"jmp %l[failed]\n\t"                                                     \
	".popsection\n\t"

/* Begins the section, which is aborted if the thread is interrupted or leaves its CPU. */
#define STRATA_AT_ONCE_BEGIN                  \
	".pushsection __rseq_cs, \"aw?\"\n\t" \
	".balign 32\n"                        \
	"3:\n\t"                              \
	".long 0, 0\n\t"                      \
	".quad 1f, 2f - 1f, 4f\n\t"           \
	".popsection\n\t"                     \
	"leaq 3b(%%rip), %%rax\n\t"           \
	"movq %[rseq], %%rdx\n\t"             \
	"movq %%rax, %%fs:8(%%rdx)\n"         \
	"1:\n\t"                              \
	"movl %%fs:4(%%rdx), %%r8d\n\t"       \
	"cmpl %c[nr](%[once]), %%r8d\n\t"     \
	"jae %l[failed]\n\t"

/*
 * The time, to rax, and the CPU's line. The conversion was good if the index still is its own. Open, room and size are
 * one comparison; signed, for positions around 2^64. @less: what takes the prefix' bytes from rdx; @n: of what is
 * left. rdtsc waits for what is in front of it, and what is in front of the next one waits for nothing: where it stands,
 * as much is before it as behind it.
 */
#define STRATA_AT_ONCE_TIME(time_bits, less, n)                           \
	"movq 24(%[clock]), %%rcx\n\t"                                    \
	"rdtsc\n\t"                                                       \
	"imulq %c[stride](%[once]), %%r8\n\t"                             \
	"addq %c[first](%[once]), %%r8\n\t"                               \
	"shlq $32, %%rdx\n\t"                                             \
	"orq %%rdx, %%rax\n\t"                                            \
	"subq (%[clock]), %%rax\n\t"                                      \
	"jb %l[failed]\n\t"                                               \
	"mulq 8(%[clock])\n\t"                                            \
	"shrdq $32, %%rdx, %%rax\n\t"                                     \
	"addq 16(%[clock]), %%rax\n\t"                                    \
	"movq %c[index](%[once]), %%rdx\n\t"                              \
	"cmpq %%rcx, (%%rdx)\n\t"                                         \
	"jne %l[failed]\n\t"                                              \
	"movq %c[limit_at](%%r8), %%rdx\n\t"                              \
	"subq %c[write_at](%%r8), %%rdx\n\t" less "cmpq " n ", %%rdx\n\t" \
	"jl %l[failed]\n\t"                                               \
	"movq %%rax, %%rdx\n\t"                                           \
	"subq %c[full_at](%%r8), %%rdx\n\t"                               \
	"shrq $" time_bits ", %%rdx\n\t"                                  \
	"jne %l[failed]\n\t"                                              \
	"cmpq %c[last_at](%%r8), %%rax\n\t"                               \
	"jb %l[failed]\n\t"                                               \
	"movq %c[epoch](%[once]), %%rdx\n\t"                              \
	"movq %c[while_epoch](%[once]), %%rcx\n\t"                        \
	"cmpq %%rcx, (%%rdx)\n\t"                                         \
	"jne %l[failed]\n\t"                                              \
	"movq %%rax, %c[last_at](%%r8)\n\t"

/*
 * Prefetches the line that records will be written to soon: half a kibibyte ahead, whatever is there.
 * Without it the stores of each line's first record wait for the line; the hardware sees them coming late.
 */
#define STRATA_AT_ONCE_AHEAD "prefetchw 512(%%rcx)\n\t"

/*
 * The computed place is inside the channel, whatever the shared memory contains. What is stored beyond the header is
 * written again by the context, and beyond that by the payload.
 */
#define STRATA_AT_ONCE_PLACE(n)              \
	"movq %c[write_at](%%r8), %%rcx\n\t" \
	"addq %c[frame_at](%%r8), %%rcx\n\t" \
	"movq %c[room](%[once]), %%rdx\n\t"  \
	"subq %%rcx, %%rdx\n\t"              \
	"jb %l[failed]\n\t"                  \
	"cmpq " n ", %%rdx\n\t"              \
	"jb %l[failed]\n\t"                  \
	"addq %c[first](%[once]), %%rcx\n\t" STRATA_AT_ONCE_AHEAD
#define STRATA_AT_ONCE_COMPACT(n) \
	STRATA_AT_ONCE_PLACE(n)   \
	"shll $5, %%eax\n\t"      \
	"orq %[id], %%rax\n\t"    \
	"movq %%rax, (%%rcx)\n\t" \
	"addq %c[delta](%[once]), %%rcx\n\t"
/* Writes a record of 16 bytes, with its payload. */
#define STRATA_AT_ONCE_WORD                                                            \
	"movq %c[write_at](%%r8), %%rcx\n\t"                                           \
	"addq %c[frame_at](%%r8), %%rcx\n\t"                                           \
	"cmpq %c[room_16](%[once]), %%rcx\n\t"                                         \
	"ja %l[failed]\n\t"                                                            \
	"addq %c[first](%[once]), %%rcx\n\t" STRATA_AT_ONCE_AHEAD "shll $5, %%eax\n\t" \
	"orq %[id], %%rax\n\t"                                                         \
	"movq %%rax, (%%rcx)\n\t"                                                      \
	"movq %[word], 8(%%rcx)\n\t"
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

/* clang-format off */
#define STRATA_AT_ONCE_LOAD(at, to)   STRATA_AT_ONCE_MOVE(at, to)
#define STRATA_AT_ONCE_STORE(from, at) STRATA_AT_ONCE_MOVE(from, at)

/* Copies up to 32 bytes without a loop; more in steps of 32, the last of which overlaps with the one before. */
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

/* @payload and the following arguments: the bytes to publish, as parameters and as operands. */
#define STRATA_AT_ONCE_SECTION(name, text, payload, ...)                                          \
	STRATA_INLINE int name(const struct strata_ring_once *once, uint64_t id,                  \
			       const struct strata_ring_conversion *clock, payload)               \
	{                                                                                         \
		__asm__ goto(                                                                     \
			STRATA_AT_ONCE_BEGIN text STRATA_AT_ONCE_END                              \
			:                                                                         \
			: [rseq] "m"(STRATA_RSEQ_OFFSET), [once] "r"(once), [clock] "r"(clock),   \
			  [id] "r"(id),                                                           \
			  __VA_ARGS__, [first] "i"(offsetof(struct strata_ring_once, first)),     \
			  [stride] "i"(offsetof(struct strata_ring_once, stride)),                \
			  [nr] "i"(offsetof(struct strata_ring_once, nr)),                        \
			  [delta] "i"(offsetof(struct strata_ring_once, prefix_bytes)),           \
			  [bytes_16] "i"(offsetof(struct strata_ring_once, bytes_16)),            \
			  [room] "i"(offsetof(struct strata_ring_once, room)),                    \
			  [room_16] "i"(offsetof(struct strata_ring_once, room_16)),              \
			  [epoch] "i"(offsetof(struct strata_ring_once, epoch)),                  \
			  [while_epoch] "i"(offsetof(struct strata_ring_once, while_epoch)),      \
			  [index] "i"(offsetof(struct strata_ring_once, index)),                  \
			  [write_at] "i"(offsetof(struct strata_abi_ring_stream, write_count)),   \
			  [limit_at] "i"(offsetof(struct strata_abi_ring_stream, limit)),         \
			  [full_at] "i"(offsetof(struct strata_abi_ring_stream, full_timestamp)), \
			  [last_at] "i"(offsetof(struct strata_abi_ring_stream, last_timestamp)), \
			  [frame_at] "i"(offsetof(struct strata_abi_ring_stream, frame))          \
			: "rax", "rcx", "rdx", "r8", "xmm0", "xmm1", "memory", "cc"               \
			: failed);                                                                \
		return 1;                                                                         \
failed:                                                                                           \
		strata_rseq_leave();                                                              \
		return 0;                                                                         \
	}

#define STRATA_AT_ONCE_BYTES const unsigned char *payload, uint64_t n
#define STRATA_AT_ONCE_TIME_N(time_bits) \
	STRATA_AT_ONCE_TIME(time_bits, "subq %c[delta](%[once]), %%rdx\n\t", "%[n]")

STRATA_AT_ONCE_SECTION(strata_rseq_compact,
		       STRATA_AT_ONCE_TIME_N("27") STRATA_AT_ONCE_COMPACT("%[n]")
			       STRATA_AT_ONCE_COPY STRATA_AT_ONCE_COMMIT,
		       STRATA_AT_ONCE_BYTES, [src] "r"(payload), [n] "r"(n))
STRATA_AT_ONCE_SECTION(strata_rseq_large,
		       STRATA_AT_ONCE_TIME_N("32") STRATA_AT_ONCE_LARGE("%[n]")
			       STRATA_AT_ONCE_COPY STRATA_AT_ONCE_COMMIT,
		       STRATA_AT_ONCE_BYTES, [src] "r"(payload), [n] "r"(n))
/* A record of 16 bytes: compact header and context, which are 8, and @word. What depends on its size is constant. */
STRATA_AT_ONCE_SECTION(strata_rseq_compact_16,
		       STRATA_AT_ONCE_TIME("27", "", "$16")
			       STRATA_AT_ONCE_WORD STRATA_AT_ONCE_COMMIT_16,
		       uint64_t word, [word] "r"(word))

#endif /* STRATA_RING_AT_ONCE_X86_64_H */
