/* SPDX-License-Identifier: MIT */
/*
 * site.h - the test at a call site, and how an object tells libstrata of its sites.
 *
 * x86-64: five bytes that do nothing, "test $imm32,%eax" (A9). Switched on they are "jmp rel32" (E9):
 * the immediate value is the displacement, so only the opcode changes. Behind the jump lies the cold
 * code, which looks at the tracepoint's session bits. Other machines look at the bits right away.
 *
 * Source: "Tracing across execution layers", immediate values; ../../../../docs/design/user.md.
 */
#ifndef STRATA_USER_SITE_H
#define STRATA_USER_SITE_H

#include <strata/user/object.h>

/* gcc moves code after a cold label out of the way; clang has no such labels. */
#ifdef __clang__
#define STRATA_USER_COLD
#else
#define STRATA_USER_COLD __attribute__((cold, unused))
#endif

/* Reads through a volatile pointer, since no compiler sees that libstrata changes it. */
#define STRATA_USER_ENABLED(tp) (*(const uint32_t *const volatile *)&(tp).enabled)

/*
 * strata_user_sessions(tp) - the sessions in which the tracepoint is on, as bits; 0: it is off.
 *
 * tp is an lvalue of static storage duration that the linker binds inside the object. "?" puts the
 * site's entry into the section group of the function around it: the linker keeps or discards both.
 */
#if defined(__x86_64__) && !defined(STRATA_USER_FLAG_IN_MEMORY)
#define strata_user_sessions(tp)                                                            \
	__extension__({                                                                     \
		__label__ strata_user_on;                                                   \
		uint32_t strata_user_bits = 0;                                              \
		__asm__ goto("1: .byte 0xa9\n\t"                                            \
			     ".long %l[strata_user_on] - (1b + 5)\n\t"                      \
			     ".pushsection strata_sites, \"aR?\", @progbits\n\t"            \
			     ".balign 4\n\t"                                                \
			     ".long 1b - .\n\t"                                             \
			     ".long " STRATA_USER_SYMBOL_AT(0) " - .\n\t"                   \
							       ".popsection"                \
			     :                                                              \
			     : STRATA_USER_SYMBOL(&(tp))                                    \
			     : "cc"                                                         \
			     : strata_user_on);                                             \
		if (0) {                                                                    \
strata_user_on:                                                                             \
			STRATA_USER_COLD;                                                   \
			strata_user_bits =                                                  \
				__atomic_load_n(STRATA_USER_ENABLED(tp), __ATOMIC_RELAXED); \
		}                                                                           \
		__builtin_expect(strata_user_bits, 0);                                      \
	})
#else
#define strata_user_sessions(tp)                                                                 \
	__extension__({                                                                          \
		__asm__ volatile(".pushsection strata_sites, \"aR?\", %%progbits\n\t"            \
				 ".balign 4\n\t"                                                 \
				 ".long 0\n\t"                                                   \
				 ".long " STRATA_USER_SYMBOL_AT(0) " - .\n\t"                    \
								   ".popsection"                 \
				 :                                                               \
				 : STRATA_USER_SYMBOL(&(tp)));                                   \
		__builtin_expect(__atomic_load_n(STRATA_USER_ENABLED(tp), __ATOMIC_RELAXED), 0); \
	})
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The target of .enabled in a tracepoint that is not registered. */
static const uint32_t strata_user_off __attribute__((unused)) = 0;

/* Made by the linker for each executable and shared object that has the section. */
extern const struct strata_site __start_strata_sites[] __attribute__((weak, visibility("hidden")));
extern const struct strata_site __stop_strata_sites[] __attribute__((weak, visibility("hidden")));

__attribute__((weak, visibility("hidden"))) struct strata_object strata_this_object = {
	STRATA_USER_OBJECT_VERSION, 0, __start_strata_sites, __stop_strata_sites, 0, 0, 0
};

/* Before the constructors of the program, whose events are recorded too; after its destructors. */
__attribute__((constructor(101), unused)) static void strata_user_load_unit(void)
{
	if (!strata_this_object.registered++)
		strata_object_register(&strata_this_object);
}

__attribute__((destructor(101), unused)) static void strata_user_unload_unit(void)
{
	if (!--strata_this_object.registered)
		strata_object_unregister(&strata_this_object);
}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_USER_SITE_H */
