/* SPDX-License-Identifier: MIT */
/*
 * coroutine.c - one stack for each thread of the model, and the switch between them.
 *
 * x86-64 has its own switch: ucontext saves the signal mask with a system call, which costs more
 * than all the rest of an event. Elsewhere, and with -DMC_UCONTEXT, ucontext does the same.
 *
 * A stack is reused from its top in the next execution; what was on it is abandoned, so the code
 * under test must not own anything that only its return would free.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Written at the end of each stack, where only an overflow reaches. */
#define STACK_CANARY 0x5374726174614d43u

struct coroutines coroutines;

static void prepare_canary(unsigned context)
{
	const uint64_t canary = STACK_CANARY;

	memcpy(coroutines.stacks[context], &canary, sizeof(canary));
}

bool coroutine_overflowed(unsigned context)
{
	uint64_t found;

	memcpy(&found, coroutines.stacks[context], sizeof(found));
	return found != STACK_CANARY;
}

#if defined(__x86_64__) && !defined(MC_UCONTEXT)

/* Push the callee-saved registers, keep the stack pointer in *save, and continue at @to. */
void mc_coroutine_switch(void **save, void *to);
__asm__(".text\n"
	".globl mc_coroutine_switch\n"
	".type mc_coroutine_switch, @function\n"
	"mc_coroutine_switch:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size mc_coroutine_switch, . - mc_coroutine_switch\n");

void coroutine_start(unsigned context, void (*entry)(void))
{
	void **sp = (void **)(void *)(coroutines.stacks[context] + MC_STACK_BYTES - 64);

	/* entry never returns; the ABI wants rsp = 8 (mod 16) on entry, as after a call. */
	*--sp = NULL;
	*--sp = (void *)(uintptr_t)entry;
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	coroutines.top[context] = sp;
	prepare_canary(context);
}

void coroutine_resume(unsigned context)
{
	coroutines.running = context;
	mc_coroutine_switch(&coroutines.scheduler, coroutines.top[context]);
}

void coroutine_yield(void)
{
	mc_coroutine_switch(&coroutines.top[coroutines.running], coroutines.scheduler);
}

bool coroutine_in_use(unsigned context, struct mc_memory *stack)
{
	if (stack)
		*stack = (struct mc_memory){
			.at = coroutines.top[context],
			.bytes = (size_t)(coroutines.stacks[context] + MC_STACK_BYTES -
					  (char *)coroutines.top[context]),
		};
	return true;
}

void coroutine_set_in_use(unsigned context, size_t bytes)
{
	coroutines.top[context] = (void *)(coroutines.stacks[context] + MC_STACK_BYTES - bytes);
}

#else

#include <ucontext.h>

static ucontext_t saved[CONTEXTS], scheduler;

void coroutine_start(unsigned context, void (*entry)(void))
{
	if (getcontext(&saved[context]))
		abort();
	saved[context].uc_stack.ss_sp = coroutines.stacks[context];
	saved[context].uc_stack.ss_size = MC_STACK_BYTES;
	saved[context].uc_link = NULL;
	makecontext(&saved[context], entry, 0);
	prepare_canary(context);
}

void coroutine_resume(unsigned context)
{
	coroutines.running = context;
	if (swapcontext(&scheduler, &saved[context]))
		abort();
}

void coroutine_yield(void)
{
	if (swapcontext(&saved[coroutines.running], &scheduler))
		abort();
}

/* Returns false: with ucontext, only the context itself knows how much of its stack is in use. */
bool coroutine_in_use(unsigned context, struct mc_memory *stack)
{
	(void)context;
	(void)stack;
	return false;
}

void coroutine_set_in_use(unsigned context, size_t bytes)
{
	(void)context;
	(void)bytes;
}

#endif
