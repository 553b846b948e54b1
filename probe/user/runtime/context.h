/* SPDX-License-Identifier: MIT */
/*
 * context.h - what records of a session say of their moment, besides their thread (STRATA_ABI_USER_CTX_*). Names, ids and
 * namespaces are asked of the kernel once, and again when libstrata is told that a program may have changed them;
 * counters and call stacks for each record; of its control group a process hears from the tracer. A session without
 * contexts pays nothing.
 */
#ifndef STRATA_RUNTIME_CONTEXT_H
#define STRATA_RUNTIME_CONTEXT_H

#include "thread.h"

/*
 * The place in the program that makes a record: the first words of a function's frame, by the conventions of both
 * machines.
 */
struct strata_caller {
	uint64_t frame;	  /* the caller's frame pointer, if it has one: anything else otherwise */
	uint64_t address; /* where it goes on; 0: not known */
};

/* Gives the place that has called the function which uses this macro. */
#if (defined(__x86_64__) && !defined(__ILP32__)) || defined(__aarch64__)
#define STRATA_CALLER ((const struct strata_caller *)__builtin_frame_address(0))
#else
#define STRATA_CALLER (&(const struct strata_caller){ 0, 0 })
#endif

/* Functions of context.c */
STRATA_HIDDEN int strata_contexts_map(const struct strata_abi_user_session *session,
				      struct strata_user_contexts *contexts);
STRATA_HIDDEN unsigned char *strata_contexts_put(const struct strata_user_contexts *contexts,
						 unsigned char *to,
						 const struct strata_abi_user_state *state,
						 const struct strata_caller *caller);

STRATA_HIDDEN uint64_t strata_contexts_ask(const struct strata_user_contexts *contexts,
					   uint32_t kind, char *text);

/* Returns the contexts as bits, by their kinds. */
STRATA_INLINE uint32_t strata_contexts_bits(const struct strata_user_contexts *contexts)
{
	uint32_t bits = 0, i;

	for (i = 0; i < contexts->nr; i++)
		bits |= UINT32_C(1) << contexts->kind[i];
	return bits;
}

/* Functions of callstack.c */
STRATA_HIDDEN uint32_t strata_callstack(uint64_t addresses[STRATA_ABI_USER_CALLSTACK_MAX],
					const struct strata_caller *caller);

#endif /* STRATA_RUNTIME_CONTEXT_H */
