/* SPDX-License-Identifier: MIT */
/*
 * filter.bpf.c - probe/kernel/filter.bpf.h with events that the test makes up: the twelve arguments of a
 * raw tracepoint, 96 bytes, are the source. The verdict is what the program returns.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../../probe/kernel/filter.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct strata_abi_kernel_event event;

/* As a type tp program has its fields: behind a pointer that is read by a helper. */
SEC("raw_tp/sys_enter")
int from_context(const void *context)
{
	struct strata_source source = {
		.base = context,
		.kind = STRATA_SOURCE_CONTEXT,
		.pid_tgid = bpf_get_current_pid_tgid(),
		.cpu = bpf_get_smp_processor_id(),
	};

	return strata_filter(&event.filter[0], &source);
}

/* As a tp_btf program has them: it has put the payload on its stack. */
SEC("raw_tp/sys_enter")
int from_stack(const struct bpf_raw_tracepoint_args *context)
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
	return strata_filter(&event.filter[0], &source);
}
