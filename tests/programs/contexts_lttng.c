/* SPDX-License-Identifier: MIT */
/* contexts_lttng.c - events of LTTng's headers, from a function that says who has called it. */
#include <lttng/tracef.h>

#include "count.h"

static __attribute__((noinline)) void emit(void)
{
	lttng_ust_tracef("0x%llX", (unsigned long long)(uintptr_t)__builtin_return_address(0));
	/* Not the last thing that it does: it is in the stack meanwhile. */
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	emit();
	emit();
	emit();
	return 0;
}
