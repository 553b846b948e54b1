/* SPDX-License-Identifier: MIT */
/*
 * filter.bpf.c - probe/kernel/filter.bpf.h with events that the test makes up: the twelve arguments of a
 * raw tracepoint, 96 bytes, are the source. The verdict is what the program returns.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../../probe/kernel/filter.bpf.h"

#ifndef NULL
#define NULL ((void *)0)
#endif

char LICENSE[] SEC("license") = "GPL";

const volatile struct strata_abi_kernel_event event;

/* Tests a filter that has the fields as a type tp program: behind a pointer that a helper reads. */
SEC("raw_tp/sys_enter")
int from_context(const void *context)
{
	struct strata_source source = {
		.base = context,
		.kind = STRATA_SOURCE_CONTEXT,
		.pid_tgid = bpf_get_current_pid_tgid(),
		.cpu = bpf_get_smp_processor_id(),
	};

	if (!strata_filter_early(&event.filter[0], NULL, NULL))
		return 0;
	return strata_filter(&event.filter[0], &source);
}

/*
 * Assembly instead of C: clang would compute the address first, which the verifier refuses for a
 * context.
 */
#define RETURN_ARGUMENT(n)                                    \
	do {                                                  \
		uint64_t value;                               \
                                                              \
		__asm__ volatile("%0 = *(u64 *)(%1 + %2)"     \
				 : "=r"(value)                \
				 : "r"(context), "i"((n)*8)); \
		return value;                                 \
	} while (0)

static inline __attribute__((always_inline)) uint64_t argument(const unsigned long long *context,
							       uint64_t index)
{
	if (index == 0)
		RETURN_ARGUMENT(0);
	if (index == 1)
		RETURN_ARGUMENT(1);
	if (index == 2)
		RETURN_ARGUMENT(2);
	if (index == 3)
		RETURN_ARGUMENT(3);
	if (index == 4)
		RETURN_ARGUMENT(4);
	RETURN_ARGUMENT(5);
}

/*
 * Tests a filter that has the fields as a tp_btf program: it has put the payload on its stack.
 * @early: of what an early test may ask.
 */
static inline __attribute__((always_inline)) int
on_stack(const struct bpf_raw_tracepoint_args *context, strata_filter_argument *early)
{
	uint64_t words[12];
	struct strata_source source = {
		.base = words,
		.pid_tgid = bpf_get_current_pid_tgid(),
		.cpu = bpf_get_smp_processor_id(),
		.kind = STRATA_SOURCE_DIRECT,
	};
	int i;

#pragma clang loop unroll(full)
	for (i = 0; i < 12; i++)
		words[i] = context->args[i];
	if (!strata_filter_early(&event.filter[0], early, (const unsigned long long *)context))
		return 0;
	return strata_filter(&event.filter[0], &source);
}

SEC("raw_tp/sys_enter")
int from_stack(const struct bpf_raw_tracepoint_args *context)
{
	return on_stack(context, NULL);
}

SEC("raw_tp/sys_enter")
int from_call(const struct bpf_raw_tracepoint_args *context)
{
	return on_stack(context, argument);
}
