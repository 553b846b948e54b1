/* SPDX-License-Identifier: MIT */
/*
 * lttng_site.h - the test at a call site of an LTTng tracepoint, as site.h has it for our own: on x86-64
 * five bytes that do nothing, "test $imm32,%eax" (A9), or "jmp rel32" (E9) to the cold code.
 *
 * The sites of each event are in a section of their own, "strata_lttng_sites_PROVIDER___NAME", because
 * they are registered together, once a provider for the event is there; see lttng_event.h. A second
 * section, "strata_lttng_uses", leads from the object to all its events.
 */
#ifndef STRATA_USER_LTTNG_SITE_H
#define STRATA_USER_LTTNG_SITE_H

#pragma GCC system_header

#include <strata/user/lttng_event.h>

/* gcc moves code after a cold label out of the way; clang has no such labels. */
#ifdef __clang__
#define STRATA_LTTNG_COLD
#else
#define STRATA_LTTNG_COLD __attribute__((cold, unused))
#endif

/* Reads through a volatile pointer, since no compiler sees that libstrata changes it. */
#define STRATA_LTTNG_SESSIONS(event) \
	__atomic_load_n(*(const uint32_t *const volatile *)&(event).point.enabled, __ATOMIC_RELAXED)

/* "?": in the section group of the function around it; the linker keeps or discards both. */
#define STRATA_LTTNG_NOTE_SITE(section, code)                                \
	".pushsection " section ", \"aR?\", %%progbits\n\t"                  \
	".balign 4\n\t"                                                      \
	".long " code "\n\t"                                                 \
	".long " STRATA_USER_SYMBOL_AT(                                      \
		0) " - .\n\t"                                                \
		   ".popsection\n\t"                                         \
		   ".pushsection strata_lttng_uses, \"aR?\", %%progbits\n\t" \
		   ".balign 4\n\t"                                           \
		   ".long " STRATA_USER_SYMBOL_AT(0) " - .\n\t"              \
						     ".popsection"

/*
 * STRATA_LTTNG_TEST(), STRATA_LTTNG_LOOK() - bodies of functions that say whether the event is on: by the
 * code, or always by a look at the memory.
 *
 * They are functions, always inlined, because clang takes each "asm goto" of a function for a jump to all
 * labels of all others, and C++ has no jumps over initialised variables.
 */
#if defined(__x86_64__) && !defined(STRATA_USER_FLAG_IN_MEMORY)
#define STRATA_LTTNG_TEST(event, section)                                                        \
	__asm__ goto("1: .byte 0xa9\n\t"                                                         \
		     ".long %l[strata_lttng_on] - (1b + 5)\n\t" STRATA_LTTNG_NOTE_SITE(section,  \
										       "1b - .") \
		     :                                                                           \
		     : STRATA_USER_SYMBOL(&(event).point)                                        \
		     : "cc"                                                                      \
		     : strata_lttng_on);                                                         \
	return 0;                                                                                \
strata_lttng_on:                                                                                 \
	STRATA_LTTNG_COLD;                                                                       \
	return (int)__builtin_expect(STRATA_LTTNG_SESSIONS(event) != 0, 0);
#else
#define STRATA_LTTNG_TEST(event, section) STRATA_LTTNG_LOOK(event, section)
#endif

#define STRATA_LTTNG_LOOK(event, section)                       \
	__asm__ volatile(STRATA_LTTNG_NOTE_SITE(section, "0")   \
			 :                                      \
			 : STRATA_USER_SYMBOL(&(event).point)); \
	return (int)__builtin_expect(STRATA_LTTNG_SESSIONS(event) != 0, 0);

#endif /* STRATA_USER_LTTNG_SITE_H */
