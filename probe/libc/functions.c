/* SPDX-License-Identifier: MIT */
/*
 * functions.c - the hooks that code compiled with -finstrument-functions calls at the begin and end of each function.
 */
#define STRATA_LIBC_FUNCTIONS
#include "events.h"
#include "replaced_function.h"

STRATA_LIBC_EXPORT void __cyg_profile_func_enter(void *function, void *caller);
STRATA_LIBC_EXPORT void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
	STRATA_TRACE_EVENT(functions, entry, function, caller);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	STRATA_TRACE_EVENT(functions, exit, function, caller);
}
